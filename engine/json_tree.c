#include "engine/json_tree.h"

#include "config/json_scan.h"

#include <cjson/cJSON.h>
#include <string.h>

roco_status roco_tree_open(const char *what, roco_text text, uint32_t max_values, roco_tree **out, roco_error *error)
{
    if (roco_json_scan(what, text.data, text.size, max_values, error))
        return ROCO_FORMAT;
    const char *end = NULL;
    cJSON *tree = cJSON_ParseWithLengthOpts(text.data, text.size, &end, false);
    if (!tree)
        return roco_fail(error, ROCO_FORMAT, NULL, "%s is not valid JSON: see byte %zu", what,
                         end ? (size_t)(end - text.data) : 0);
    while (end < text.data + text.size && strchr(" \t\r\n", *end))
        end++;
    if (end < text.data + text.size) {
        cJSON_Delete(tree);
        return roco_fail(error, ROCO_FORMAT, NULL, "%s goes on after its JSON value, at byte %zu", what,
                         (size_t)(end - text.data));
    }
    *out = tree;
    return ROCO_OK;
}

void roco_tree_close(roco_tree *tree)
{
    cJSON_Delete(tree);
}

bool roco_tree_is_object(const roco_tree *tree)
{
    return cJSON_IsObject(tree);
}

bool roco_tree_is_array(const roco_tree *tree)
{
    return cJSON_IsArray(tree);
}

bool roco_tree_is_null(const roco_tree *tree)
{
    return !tree || cJSON_IsNull(tree);
}

const roco_tree *roco_tree_member(const roco_tree *tree, const char *name)
{
    return cJSON_IsObject(tree) ? cJSON_GetObjectItemCaseSensitive(tree, name) : NULL;
}

const roco_tree *roco_tree_first(const roco_tree *tree)
{
    return cJSON_IsObject(tree) || cJSON_IsArray(tree) ? tree->child : NULL;
}

const roco_tree *roco_tree_next(const roco_tree *tree)
{
    return tree ? tree->next : NULL;
}

roco_text roco_tree_name(const roco_tree *tree)
{
    return tree && tree->string ? (roco_text){tree->string, strlen(tree->string)} : (roco_text){"", 0};
}

bool roco_tree_text(const roco_tree *tree, roco_text *out)
{
    if (!cJSON_IsString(tree))
        return false;
    *out = (roco_text){tree->valuestring, strlen(tree->valuestring)};
    return true;
}

bool roco_tree_number(const roco_tree *tree, double *out)
{
    if (!cJSON_IsNumber(tree))
        return false;
    *out = tree->valuedouble;
    return true;
}

bool roco_tree_uint(const roco_tree *tree, uint64_t *out)
{
    double value;
    if (!roco_tree_number(tree, &value) || !(value >= 0 && value <= (double)ROCO_JSON_MAX_INTEGER) ||
        (double)(uint64_t)value != value)
        return false;
    *out = (uint64_t)value;
    return true;
}

bool roco_tree_bool(const roco_tree *tree, bool *out)
{
    if (!cJSON_IsBool(tree))
        return false;
    *out = cJSON_IsTrue(tree);
    return true;
}

bool roco_tree_says(const roco_tree *tree, const char *word)
{
    roco_text text;
    return roco_tree_text(tree, &text) && roco_text_is(text, word);
}
