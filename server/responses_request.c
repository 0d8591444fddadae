/* From the items and tools of /v1/responses to messages and tools of a chat. Any thread. */
#include "server/responses_request.h"

#include "server/translate.h"

#include <stdio.h>
#include <string.h>

static const char *const text_types[] = {"input_text", "output_text", "text"};
enum { N_TEXT_TYPES = sizeof text_types / sizeof *text_types };

static roco_status fail(roco_translation *t, unsigned index, const char *member, const char *words)
{
    char path[64];
    snprintf(path, sizeof path, "input[%u]%s", index, member);
    return roco_translate_fail(t, path, words);
}

static roco_status read_message(roco_translation *t, const cJSON *item, unsigned index)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    const char *role = roco_text_of(item, "role");
    char path[64];
    snprintf(path, sizeof path, "input[%u].content", index);
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(role, roles[i]) != 0)
            continue;
        /* What the assistant said and what it called are several items of one turn. */
        bool same_turn = strcmp(role, "assistant") == 0;
        cJSON *message = same_turn ? roco_translate_last(t, role) : roco_translate_message(t, role);
        return roco_translate_content(t, message, cJSON_GetObjectItemCaseSensitive(item, "content"), path, text_types,
                                      N_TEXT_TYPES);
    }
    return fail(t, index, ".role", "must be one of: system, developer, user, assistant");
}

static roco_status read_call(roco_translation *t, const cJSON *item, unsigned index)
{
    const char *id = roco_text_of(item, "call_id"), *name = roco_text_of(item, "name");
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(item, "arguments");
    if (!id || !name || !cJSON_IsString(arguments))
        return fail(t, index, "", "must have call_id, name and arguments as strings");
    roco_translate_call(t, roco_translate_last(t, "assistant"), id, name, arguments);
    return ROCO_OK;
}

static roco_status read_output(roco_translation *t, const cJSON *item, unsigned index)
{
    const char *id = roco_text_of(item, "call_id");
    char path[64];
    if (!id)
        return fail(t, index, ".call_id", "must be a string");
    snprintf(path, sizeof path, "input[%u].output", index);
    cJSON *result = roco_translate_message(t, "tool");
    roco_translate_member(t, result, "tool_call_id", id);
    return roco_translate_content(t, result, cJSON_GetObjectItemCaseSensitive(item, "output"), path, text_types,
                                  N_TEXT_TYPES);
}

/* Its text, if it has any, goes to the message it led to. */
static roco_status read_reasoning(roco_translation *t, const cJSON *item)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    const char *text = roco_text_of(content ? content->child : NULL, "text");
    if (text)
        roco_translate_member(t, roco_translate_message(t, "assistant"), "reasoning_content", text);
    return ROCO_OK;
}

static roco_status read_item(roco_translation *t, const cJSON *item, unsigned index)
{
    const char *type = roco_text_of(item, "type");
    if (!cJSON_IsObject(item))
        return fail(t, index, "", "must be an object");
    if (!type || strcmp(type, "message") == 0)
        return read_message(t, item, index);
    if (strcmp(type, "function_call") == 0)
        return read_call(t, item, index);
    if (strcmp(type, "function_call_output") == 0)
        return read_output(t, item, index);
    if (strcmp(type, "reasoning") == 0)
        return read_reasoning(t, item);
    return fail(t, index, ".type", "must be message, function_call, function_call_output or reasoning");
}

static roco_status read_tools(roco_translation *t, const cJSON *tools)
{
    unsigned index = 0;
    for (const cJSON *tool = tools ? tools->child : NULL; tool; tool = tool->next, index++) {
        const char *type = roco_text_of(tool, "type");
        char path[64];
        snprintf(path, sizeof path, "tools[%u].type", index);
        if (!type || strcmp(type, "function") != 0)
            return roco_translate_fail(t, path, "must be \"function\": this server has no tools of its own");
        roco_translate_tool(
            t, cJSON_GetObjectItemCaseSensitive(tool, "name"), cJSON_GetObjectItemCaseSensitive(tool, "description"),
            cJSON_GetObjectItemCaseSensitive(tool, "parameters"), cJSON_GetObjectItemCaseSensitive(tool, "strict"));
    }
    return ROCO_OK;
}

static roco_status read_all(roco_translation *t, const roco_completion_params *params)
{
    const cJSON *input = params->messages;
    roco_status status = read_tools(t, params->tools);
    if (params->system)
        roco_translate_text(t, roco_translate_message(t, "system"), params->system->valuestring);
    if (cJSON_IsString(input))
        roco_translate_text(t, roco_translate_message(t, "user"), input->valuestring);
    unsigned index = 0;
    for (const cJSON *item = cJSON_IsArray(input) ? input->child : NULL; item && !status; item = item->next, index++)
        status = read_item(t, item, index);
    return status;
}

roco_status roco_responses_params_read(const cJSON *object, roco_completion_params *out, roco_error *error)
{
    roco_status status = roco_params_read(roco_responses_fields, object, out, error);
    if (status)
        return status;
    if (!out->messages)
        return roco_fail(error, ROCO_INVALID, "input", "input is missing");
    roco_translation t;
    roco_translation_open(&t, (roco_tool_places){".name", ".parameters"}, error);
    return roco_translation_close(&t, read_all(&t, out), out);
}

/* --- what the reply repeats --- */

roco_status roco_responses_repeat(const cJSON *object, const roco_completion_params *params, roco_buffer *out,
                                  roco_error *error)
{
    static const struct {
        const char *name, *absent;
    } members[] = {{"instructions", "null"},
                   {"metadata", "{}"},
                   {"text", "{\"format\":{\"type\":\"text\"}}"},
                   {"tool_choice", "\"auto\""},
                   {"tools", "[]"},
                   {"max_output_tokens", "null"},
                   {"reasoning", "{\"effort\":null,\"summary\":null}"},
                   {"user", "null"}};
    roco_status status = ROCO_OK;
    for (size_t i = 0; i < sizeof members / sizeof *members && !status; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, members[i].name);
        char *text = value && !cJSON_IsNull(value) ? cJSON_PrintUnformatted(value) : NULL;
        status = roco_buffer_append_format(out, ",\"%s\":", members[i].name);
        status = status ? status : roco_buffer_append_text(out, text ? text : members[i].absent);
        cJSON_free(text);
    }
    status = status ? status
                    : roco_buffer_append_format(out,
                                                ",\"parallel_tool_calls\":%s,\"temperature\":%.15g,\"top_p\":%.15g,"
                                                "\"background\":false,\"previous_response_id\":null,\"store\":false,"
                                                "\"truncation\":\"disabled\",\"service_tier\":\"default\"",
                                                params->parallel_tool_calls ? "true" : "false", params->temperature,
                                                params->top_p);
    return status ? roco_fail(error, status, NULL, "out of memory") : ROCO_OK;
}
