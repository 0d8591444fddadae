/* From Anthropic's messages and tools to those of a chat. Any thread. */
#include "server/translate.h"

#include <stdio.h>
#include <string.h>

static const char *const text_types[] = {"text"};

static roco_status fail(roco_translation *t, unsigned message, unsigned block, const char *words)
{
    char path[64];
    snprintf(path, sizeof path, "messages[%u].content[%u]", message, block);
    return roco_translate_fail(t, path, words);
}

/* A result is a message of its own in a chat. */
static roco_status read_result(roco_translation *t, const cJSON *block, unsigned message, unsigned index)
{
    const char *id = roco_text_of(block, "tool_use_id");
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(block, "content");
    if (!id)
        return fail(t, message, index, "must have a tool_use_id");
    cJSON *result = roco_translate_message(t, "tool");
    roco_translate_member(t, result, "tool_call_id", id);
    if (!content || cJSON_IsNull(content))
        return ROCO_OK;
    char path[64];
    snprintf(path, sizeof path, "messages[%u].content[%u].content", message, index);
    return roco_translate_content(t, result, content, path, text_types, 1);
}

static roco_status read_use(roco_translation *t, cJSON *assistant, const cJSON *block, unsigned message, unsigned index)
{
    const char *id = roco_text_of(block, "id"), *name = roco_text_of(block, "name");
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(block, "input");
    if (!id || !name || !cJSON_IsObject(input))
        return fail(t, message, index, "must have id, name and input, an object");
    roco_translate_call(t, assistant, id, name, input);
    return ROCO_OK;
}

static roco_status read_block(roco_translation *t, const char *role, const cJSON *block, unsigned message,
                              unsigned index)
{
    const char *type = roco_text_of(block, "type"), *text = roco_text_of(block, "text");
    bool assistant = strcmp(role, "assistant") == 0;
    type = type ? type : "";
    if (strcmp(type, "text") == 0 && text) {
        roco_translate_text(t, roco_translate_last(t, role), text);
        return ROCO_OK;
    }
    if (strcmp(type, "tool_result") == 0 && !assistant)
        return read_result(t, block, message, index);
    if (strcmp(type, "tool_use") == 0 && assistant)
        return read_use(t, roco_translate_last(t, role), block, message, index);
    if (strcmp(type, "thinking") == 0 && assistant && roco_text_of(block, "thinking")) {
        cJSON *last = roco_translate_last(t, role);
        if (!cJSON_HasObjectItem(last, "reasoning_content"))
            roco_translate_member(t, last, "reasoning_content", roco_text_of(block, "thinking"));
        return ROCO_OK;
    }
    if (strcmp(type, "redacted_thinking") == 0 && assistant)
        return ROCO_OK;
    return fail(t, message, index,
                assistant ? "must be a block of type text, tool_use or thinking"
                          : "must be a block of type text or tool_result: this server reads no images or documents");
}

static roco_status read_message(roco_translation *t, const cJSON *message, unsigned index)
{
    const char *role = roco_text_of(message, "role");
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    char path[64];
    snprintf(path, sizeof path, "messages[%u].role", index);
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return roco_translate_fail(t, path, "must be user or assistant");
    /* Two messages of one role in a row are one turn. */
    if (cJSON_IsString(content)) {
        roco_translate_text(t, roco_translate_last(t, role), content->valuestring);
        return ROCO_OK;
    }
    snprintf(path, sizeof path, "messages[%u].content", index);
    if (!cJSON_IsArray(content))
        return roco_translate_fail(t, path, "must be a string or an array of blocks");
    unsigned n = 0;
    for (const cJSON *block = content->child; block; block = block->next, n++) {
        roco_status status = read_block(t, role, block, index, n);
        if (status)
            return status;
    }
    return ROCO_OK;
}

static roco_status read_tools(roco_translation *t, const cJSON *tools)
{
    unsigned index = 0;
    for (const cJSON *tool = tools ? tools->child : NULL; tool; tool = tool->next, index++) {
        const char *type = roco_text_of(tool, "type");
        char path[64];
        snprintf(path, sizeof path, "tools[%u]", index);
        if (!cJSON_IsObject(tool) || (type && strcmp(type, "custom") != 0))
            return roco_translate_fail(t, path, "must be a tool of type custom: this server has no tools of its own");
        roco_translate_tool(
            t, cJSON_GetObjectItemCaseSensitive(tool, "name"), cJSON_GetObjectItemCaseSensitive(tool, "description"),
            cJSON_GetObjectItemCaseSensitive(tool, "input_schema"), cJSON_GetObjectItemCaseSensitive(tool, "strict"));
    }
    return ROCO_OK;
}

static roco_status read_all(roco_translation *t, const roco_completion_params *params)
{
    roco_status status = read_tools(t, params->tools);
    if (!status && params->system)
        status =
            roco_translate_content(t, roco_translate_message(t, "system"), params->system, "system", text_types, 1);
    unsigned index = 0;
    for (const cJSON *message = params->messages->child; message && !status; message = message->next, index++)
        status = read_message(t, message, index);
    return status;
}

roco_status roco_messages_params_read(const cJSON *object, roco_completion_params *out, roco_error *error)
{
    roco_status status = roco_params_read(roco_messages_fields, object, out, error);
    if (status)
        return status;
    if (!cJSON_HasObjectItem(object, "thinking") && !cJSON_HasObjectItem(object, "include_reasoning"))
        out->include_reasoning = false;
    if (!out->messages)
        return roco_fail(error, ROCO_INVALID, "messages", "messages is missing");
    const char *last = roco_text_of(cJSON_GetArrayItem(out->messages, cJSON_GetArraySize(out->messages) - 1), "role");
    out->continue_final_message = last && strcmp(last, "assistant") == 0;
    roco_translation t;
    roco_translation_open(&t, (roco_tool_places){".name", ".input_schema"}, error);
    return roco_translation_close(&t, read_all(&t, out), out);
}
