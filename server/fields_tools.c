/* The tools of a request: functions with a name, and whether one of them must be called. */
#include "server/fields_completion.h"

#include <string.h>

#define MAX_TOOLS     128
#define MAX_TOOL_NAME 64

static roco_status fail(roco_error *error, int index, const char *member, const char *words)
{
    char path[64];
    snprintf(path, sizeof path, "tools[%d]%s", index, member);
    return roco_fail(error, ROCO_INVALID, path, "%s %s", path, words);
}

/* Such a name can hold no mark of a template, so it is safe wherever a template puts it. */
static bool is_name(const cJSON *value)
{
    size_t size = cJSON_IsString(value) ? strlen(value->valuestring) : 0;
    return size > 0 && size <= MAX_TOOL_NAME &&
           strspn(value->valuestring, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == size;
}

static const cJSON *name_of(const cJSON *tool)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tool, "function"), "name");
}

static roco_status check_tool(const cJSON *tool, int index, const roco_tool_places *places, roco_error *error)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(tool, "type");
    const cJSON *function = cJSON_GetObjectItemCaseSensitive(tool, "function");
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(function, "parameters");
    if (!cJSON_IsObject(tool) || !cJSON_IsString(type) || strcmp(type->valuestring, "function") != 0)
        return fail(error, index, ".type", "must be \"function\": this server has no tools of its own");
    if (!cJSON_IsObject(function))
        return fail(error, index, ".function", "must be an object");
    if (!is_name(name_of(tool)))
        return fail(error, index, places->name, "must have 1 to 64 letters, digits, '_', '-' or '.'");
    if (parameters && !cJSON_IsNull(parameters) && !cJSON_IsObject(parameters))
        return fail(error, index, places->parameters, "must be a JSON Schema, an object");
    return ROCO_OK;
}

roco_status roco_tools_keep(const cJSON *value, const roco_tool_places *places, void *out, roco_error *error)
{
    if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) > MAX_TOOLS)
        return roco_fail(error, ROCO_INVALID, "tools", "tools must be an array of at most %d functions", MAX_TOOLS);
    int index = 0;
    for (const cJSON *tool = value->child; tool; tool = tool->next, index++) {
        roco_status status = check_tool(tool, index, places, error);
        if (status)
            return status;
        for (const cJSON *other = value->child; other != tool; other = other->next)
            if (strcmp(name_of(other)->valuestring, name_of(tool)->valuestring) == 0)
                return fail(error, index, places->name, "is taken by another tool");
    }
    /* The tree is the request's own. */
    ((roco_completion_params *)out)->tools = value->child ? (cJSON *)value : NULL;
    return ROCO_OK;
}

roco_status roco_tools_read(const cJSON *value, void *out, roco_error *error)
{
    static const roco_tool_places places = {".function.name", ".function.parameters"};
    return roco_tools_keep(value, &places, out, error);
}

roco_status roco_tool_choice_read(const cJSON *value, void *out, roco_error *error)
{
    static const char *const words[] = {
        [ROCO_TOOLS_AUTO] = "auto", [ROCO_TOOLS_NONE] = "none", [ROCO_TOOLS_REQUIRED] = "required"};
    roco_completion_params *params = out;
    for (int i = 0; cJSON_IsString(value) && i < 3; i++)
        if (strcmp(value->valuestring, words[i]) == 0) {
            params->tool_choice = (roco_tool_choice)i;
            return ROCO_OK;
        }
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(value, "type"), *name = name_of(value);
    if (!cJSON_IsObject(value) || !cJSON_IsString(type) || strcmp(type->valuestring, "function") != 0 || !is_name(name))
        return roco_fail(
            error, ROCO_INVALID, "tool_choice",
            "tool_choice must be \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": "
            "{\"name\": ...}}");
    params->tool_choice = ROCO_TOOLS_REQUIRED;
    params->tool_name = name->valuestring;
    return ROCO_OK;
}

roco_status roco_tools_check(const roco_completion_params *params, roco_error *error)
{
    if (params->tool_choice != ROCO_TOOLS_REQUIRED)
        return ROCO_OK;
    if (!params->tools)
        return roco_fail(error, ROCO_INVALID, "tool_choice", "tool_choice wants a call, but there are no tools");
    if (params->continue_final_message)
        return roco_fail(error, ROCO_INVALID, "tool_choice",
                         "tool_choice wants a call, but the answer goes on with a message");
    for (const cJSON *tool = params->tools->child; params->tool_name; tool = tool->next) {
        if (!tool)
            return roco_fail(error, ROCO_INVALID, "tool_choice", "tool_choice names a function that is not in tools");
        if (strcmp(name_of(tool)->valuestring, params->tool_name) == 0)
            break;
    }
    return ROCO_OK;
}

const cJSON *roco_tools_shown(const roco_completion_params *params)
{
    return params->tool_choice == ROCO_TOOLS_NONE ? NULL : params->tools;
}

bool roco_tools_several(const roco_completion_params *params)
{
    bool forced = params->tool_choice == ROCO_TOOLS_REQUIRED;
    return params->parallel_tool_calls && (!forced || (params->several_asked && !params->tool_name));
}

const char *roco_tools_forced(const roco_completion_params *params)
{
    if (params->tool_choice != ROCO_TOOLS_REQUIRED)
        return NULL;
    if (params->tool_name)
        return params->tool_name;
    return params->tools->child->next ? "" : name_of(params->tools->child)->valuestring;
}
