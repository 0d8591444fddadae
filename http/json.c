/* Reading request bodies: the scan, then cJSON, then nothing may follow. */
#include "http/json.h"

#include <string.h>

roco_status roco_json_parse(const char *text, size_t size, cJSON **out, roco_error *error)
{
    roco_status status = roco_json_scan("the body", text, size, ROCO_JSON_MAX_VALUES, error);
    if (status)
        return status;
    const char *end = NULL;
    cJSON *value = cJSON_ParseWithLengthOpts(text, size, &end, false);
    if (!value)
        return roco_fail(error, ROCO_INVALID, NULL, "the body is not valid JSON: see byte %zu",
                         end ? (size_t)(end - text) : 0);
    while (end < text + size && strchr(" \t\r\n", *end))
        end++;
    if (end < text + size) {
        cJSON_Delete(value);
        return roco_fail(error, ROCO_INVALID, NULL, "the body goes on after its JSON value, at byte %zu",
                         (size_t)(end - text));
    }
    *out = value;
    return ROCO_OK;
}

bool roco_json_integer(const cJSON *value, int64_t *out)
{
    if (!cJSON_IsNumber(value))
        return false;
    double number = value->valuedouble;
    if (!(number >= -(double)ROCO_JSON_MAX_INTEGER && number <= (double)ROCO_JSON_MAX_INTEGER))
        return false;
    int64_t integer = (int64_t)number;
    if ((double)integer != number)
        return false;
    *out = integer;
    return true;
}

bool roco_json_lists(const cJSON *array, const char *text)
{
    for (const cJSON *item = cJSON_IsArray(array) ? array->child : NULL; item; item = item->next)
        if (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0)
            return true;
    return false;
}
