#include "server/translate.h"

#include <stdio.h>
#include <string.h>

void roco_translation_open(roco_translation *t, roco_tool_places places, roco_error *error)
{
    *t = (roco_translation){.root = cJSON_CreateObject(), .places = places, .error = error};
    t->messages = cJSON_AddArrayToObject(t->root, "messages");
    t->tools = cJSON_AddArrayToObject(t->root, "tools");
    t->failed = !t->messages || !t->tools;
}

roco_status roco_translation_close(roco_translation *t, roco_status status, roco_completion_params *params)
{
    params->tools = NULL;
    if (!status && t->failed)
        status = roco_fail(t->error, ROCO_NO_MEMORY, NULL, "out of memory");
    if (!status && t->tools->child)
        status = roco_tools_keep(t->tools, &t->places, params, t->error);
    if (!status)
        status = roco_tools_check(params, t->error);
    if (status) {
        cJSON_Delete(t->root);
        return status;
    }
    params->made = t->root;
    params->messages = t->messages;
    return ROCO_OK;
}

static cJSON *add(roco_translation *t, cJSON *array, cJSON *item)
{
    if (item && array && cJSON_AddItemToArray(array, item))
        return item;
    cJSON_Delete(item);
    t->failed = true;
    return NULL;
}

static cJSON *put(roco_translation *t, cJSON *object, const char *name, cJSON *item)
{
    if (item && object && cJSON_AddItemToObject(object, name, item))
        return item;
    cJSON_Delete(item);
    t->failed = true;
    return NULL;
}

void roco_translate_member(roco_translation *t, cJSON *object, const char *name, const char *text)
{
    put(t, object, name, cJSON_CreateString(text));
}

cJSON *roco_translate_message(roco_translation *t, const char *role)
{
    cJSON *message = t->last = add(t, t->messages, cJSON_CreateObject());
    roco_translate_member(t, message, "role", role);
    put(t, message, "content", cJSON_CreateArray());
    return message;
}

cJSON *roco_translate_last(roco_translation *t, const char *role)
{
    const char *of = roco_text_of(t->last, "role");
    return of && strcmp(of, role) == 0 ? t->last : roco_translate_message(t, role);
}

void roco_translate_text(roco_translation *t, cJSON *message, const char *text)
{
    cJSON *part = add(t, cJSON_GetObjectItemCaseSensitive(message, "content"), cJSON_CreateObject());
    roco_translate_member(t, part, "type", "text");
    roco_translate_member(t, part, "text", text);
}

void roco_translate_call(roco_translation *t, cJSON *message, const char *id, const char *name, const cJSON *arguments)
{
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    calls = calls ? calls : put(t, message, "tool_calls", cJSON_CreateArray());
    cJSON *call = add(t, calls, cJSON_CreateObject()), *function;
    roco_translate_member(t, call, "id", id);
    roco_translate_member(t, call, "type", "function");
    function = put(t, call, "function", cJSON_CreateObject());
    roco_translate_member(t, function, "name", name);
    put(t, function, "arguments", cJSON_Duplicate(arguments, true));
}

static void copy(roco_translation *t, cJSON *object, const char *name, const cJSON *value)
{
    if (value && !cJSON_IsNull(value))
        put(t, object, name, cJSON_Duplicate(value, true));
}

void roco_translate_tool(roco_translation *t, const cJSON *name, const cJSON *description, const cJSON *parameters,
                         const cJSON *strict)
{
    cJSON *tool = add(t, t->tools, cJSON_CreateObject());
    roco_translate_member(t, tool, "type", "function");
    cJSON *function = put(t, tool, "function", cJSON_CreateObject());
    copy(t, function, "name", name);
    copy(t, function, "description", description);
    copy(t, function, "parameters", parameters);
    copy(t, function, "strict", strict);
}

roco_status roco_translate_fail(roco_translation *t, const char *path, const char *words)
{
    return roco_fail(t->error, ROCO_INVALID, path, "%s %s", path, words);
}

const char *roco_text_of(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(value) ? value->valuestring : NULL;
}

static bool is_one_of(const char *type, const char *const *types, size_t n)
{
    for (size_t i = 0; type && i < n; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

roco_status roco_translate_content(roco_translation *t, cJSON *message, const cJSON *content, const char *path,
                                   const char *const *types, size_t n)
{
    if (cJSON_IsString(content)) {
        roco_translate_text(t, message, content->valuestring);
        return ROCO_OK;
    }
    if (!cJSON_IsArray(content))
        return roco_translate_fail(t, path, "must be a string or an array of text parts");
    unsigned index = 0;
    for (const cJSON *part = content->child; part; part = part->next, index++) {
        const char *text = roco_text_of(part, "text");
        char place[96];
        snprintf(place, sizeof place, "%s[%u]", path, index);
        if (!is_one_of(roco_text_of(part, "type"), types, n))
            return roco_translate_fail(t, place, "must be a part of text: this server reads no images, sound or files");
        if (!text)
            return roco_translate_fail(t, place, "must have its text as a string");
        roco_translate_text(t, message, text);
    }
    return ROCO_OK;
}
