#include "server/chat_turn.h"

#include "http/json.h"
#include "server/tool_grammar.h"

#include <string.h>

/* --- what the tools say --- */

static bool offers(const void *context, const char *name, size_t size)
{
    const roco_buffer *offered = &((const roco_chat_turn *)context)->offered;
    for (const char *at = offered->data; at < offered->data + offered->size; at += strlen(at) + 1)
        if (strlen(at) == size && memcmp(at, name, size) == 0)
            return true;
    return false;
}

static bool all_strings(const cJSON *values)
{
    for (const cJSON *value = values->child; value; value = value->next)
        if (!cJSON_IsString(value))
            return false;
    return values->child != NULL;
}

static bool has_type(const cJSON *types, const char *name)
{
    return cJSON_IsString(types) ? strcmp(types->valuestring, name) == 0 : roco_json_lists(types, name);
}

roco_argument_kind roco_argument_kind_of(const cJSON *schema)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(schema, "type");
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(schema, "enum");
    if (!types && cJSON_IsArray(values) && all_strings(values))
        return ROCO_ARGUMENT_TEXT;
    int n = cJSON_IsArray(types) ? cJSON_GetArraySize(types) : 1;
    if (!has_type(types, "string") || n > 2 || (n == 2 && !has_type(types, "null")))
        return ROCO_ARGUMENT_JSON;
    return n == 2 ? ROCO_ARGUMENT_TEXT_OR_NULL : ROCO_ARGUMENT_TEXT;
}

static roco_status list_texts(const char *name, const cJSON *schema, roco_buffer *out)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    roco_status status = ROCO_OK;
    for (const cJSON *item = properties ? properties->child : NULL; item && !status; item = item->next) {
        const char kind = (char)('0' + roco_argument_kind_of(item));
        if (kind == '0' + ROCO_ARGUMENT_JSON)
            continue;
        status = roco_buffer_append(out, &kind, 1);
        status = status ? status : roco_buffer_append(out, name, strlen(name) + 1);
        status = status ? status : roco_buffer_append(out, item->string, strlen(item->string) + 1);
    }
    return status;
}

static roco_status list_tools(const cJSON *tools, roco_chat_turn *out)
{
    roco_status status = ROCO_OK;
    for (const cJSON *tool = tools->child; tool && !status; tool = tool->next) {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(tool, "function");
        const char *name = cJSON_GetObjectItemCaseSensitive(function, "name")->valuestring;
        status = roco_buffer_append(&out->offered, name, strlen(name) + 1);
        if (!status && out->form.calls && out->form.calls->shape == ROCO_CALLS_TAGGED)
            status = list_texts(name, cJSON_GetObjectItemCaseSensitive(function, "parameters"), &out->texts);
    }
    return status;
}

/* --- arguments that are texts --- */

static bool is_text(const char *known, const char *data, size_t size)
{
    return strlen(known) == size && memcmp(known, data, size) == 0;
}

static roco_argument_kind find_kind(const roco_buffer *texts, const char *name, size_t name_size, const char *key,
                                    size_t key_size)
{
    const char *end = texts->size ? texts->data + texts->size : NULL;
    for (const char *at = texts->data; at < end;) {
        const char *function = at + 1, *argument = function + strlen(function) + 1;
        if (is_text(function, name, name_size) && is_text(argument, key, key_size))
            return (roco_argument_kind)(*at - '0');
        at = argument + strlen(argument) + 1;
    }
    return ROCO_ARGUMENT_JSON;
}

/* Templates write these as Python does, so models do too. */
static const char *python_word(const char *value, size_t size)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_text(words[i][0], value, size))
            return words[i][1];
    return NULL;
}

static void write_value(roco_json_out *json, roco_argument_kind kind, const char *value, size_t size)
{
    const char *word = python_word(value, size);
    bool null = is_text("null", value, size) || (word && strcmp(word, "null") == 0);
    cJSON *parsed = NULL;
    if (kind == ROCO_ARGUMENT_TEXT_OR_NULL && null)
        roco_json_raw(json, "null");
    else if (kind != ROCO_ARGUMENT_JSON)
        roco_json_string(json, value, size);
    else if (word)
        roco_json_raw(json, word);
    else if (roco_json_parse(value, size, &parsed, NULL) == ROCO_OK)
        json->failed = roco_buffer_append(&json->buffer, value, size) != ROCO_OK || json->failed;
    else
        roco_json_string(json, value, size);
    cJSON_Delete(parsed);
}

static roco_status write_argument(const void *context, const char *name, size_t name_size, const char *key,
                                  size_t key_size, const char *value, size_t size, roco_buffer *out)
{
    const roco_chat_turn *chat = context;
    roco_json_out json = {.buffer = *out};
    roco_json_string(&json, key, key_size);
    roco_json_raw(&json, ": ");
    write_value(&json, find_kind(&chat->texts, name, name_size, key, key_size), value, size);
    *out = json.buffer;
    return json.failed ? ROCO_NO_MEMORY : ROCO_OK;
}

/* --- turns --- */

roco_status roco_chat_turn_open(const roco_chat_template *chat, const roco_completion_params *params,
                                roco_chat_turn *out, roco_error *error)
{
    const cJSON *tools = roco_tools_shown(params);
    roco_constraint_field content;
    out->form = (roco_turn_form){
        .calls = tools ? chat->calls : NULL,
        .single = tools && !roco_tools_several(params),
        .first =
            params->constraint.kind == ROCO_CONSTRAINT_TOOLS && roco_tools_content(params->constraint.source, &content),
        .think = params->split_reasoning ? chat->think : NULL,
        .answer = params->split_reasoning ? chat->answer : NULL,
        .offers = offers,
        .write_argument = write_argument,
        .context = out,
    };
    if (tools && list_tools(tools, out))
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    out->include_reasoning = params->include_reasoning;
    if (out->form.calls || out->form.answer) {
        out->shown = chat->shown;
        out->n_shown = chat->n_shown;
    }
    return ROCO_OK;
}

void roco_chat_turn_free(roco_chat_turn *turn)
{
    roco_buffer_free(&turn->begun);
    roco_buffer_free(&turn->offered);
    roco_buffer_free(&turn->texts);
}

roco_status roco_chat_turn_begin(const roco_chat_turn *chat, roco_turn *turn)
{
    roco_turn_init(turn, &chat->form);
    return chat->begun.size ? roco_turn_prime(turn, chat->begun.data, chat->begun.size) : ROCO_OK;
}
