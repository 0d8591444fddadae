/* One block for the whole tree, its root first. */
#include "server/schema_value.h"

#include <stdlib.h>

static size_t count(const cJSON *json)
{
    size_t n = 1;
    for (const cJSON *child = json->child; child; child = child->next)
        n += count(child);
    return n;
}

static roco_json_kind kind_of(const cJSON *json)
{
    switch (json->type & 0xFF) {
    case cJSON_False: return ROCO_JSON_FALSE;
    case cJSON_True: return ROCO_JSON_TRUE;
    case cJSON_Number: return ROCO_JSON_NUMBER;
    case cJSON_String: return ROCO_JSON_STRING;
    case cJSON_Array: return ROCO_JSON_ARRAY;
    case cJSON_Object: return ROCO_JSON_OBJECT;
    default: return ROCO_JSON_NULL;
    }
}

/* Fills values[*n] and, behind it, its children: request bodies are at most ROCO_JSON_MAX_DEPTH deep. */
static roco_json_value *fill(const cJSON *json, roco_json_value *values, size_t *n)
{
    roco_json_value *value = &values[(*n)++];
    *value = (roco_json_value){
        .kind = kind_of(json), .name = json->string, .text = json->valuestring, .number = json->valuedouble};
    roco_json_value *last = NULL;
    for (const cJSON *child = json->child; child; child = child->next) {
        roco_json_value *next = fill(child, values, n);
        *(last ? &last->next : &value->child) = next;
        last = next;
    }
    return value;
}

const roco_json_value *roco_schema_value(const cJSON *json)
{
    size_t n = 0;
    roco_json_value *values = malloc(count(json) * sizeof *values);
    return values ? fill(json, values, &n) : NULL;
}

void roco_schema_value_free(const roco_json_value *value)
{
    free((void *)value);
}
