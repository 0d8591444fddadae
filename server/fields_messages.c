/* The fields of POST /v1/messages, Anthropic's form of a chat, in front of those of chats. */
#include "server/fields_completion.h"

#include <stddef.h>
#include <string.h>

/* What needs translating is only looked at here; messages_request.c does it. */
static roco_status read_messages(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsArray(value) || !value->child)
        return roco_fail(error, ROCO_INVALID, "messages", "messages must be an array of at least one message");
    ((roco_completion_params *)out)->messages = (cJSON *)value;
    return ROCO_OK;
}

static roco_status read_system(const cJSON *value, void *out, roco_error *error)
{
    ((roco_completion_params *)out)->system = value;
    return ROCO_OK;
}

static roco_status read_tools(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsArray(value))
        return roco_fail(error, ROCO_INVALID, "tools", "tools must be an array");
    ((roco_completion_params *)out)->tools = (cJSON *)value;
    return ROCO_OK;
}

static roco_status read_tool_choice(const cJSON *value, void *out, roco_error *error)
{
    static const struct {
        const char *type;
        roco_tool_choice choice;
    } choices[] = {{"auto", ROCO_TOOLS_AUTO},
                   {"none", ROCO_TOOLS_NONE},
                   {"any", ROCO_TOOLS_REQUIRED},
                   {"tool", ROCO_TOOLS_REQUIRED}};
    roco_completion_params *params = out;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(value, "type");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(value, "name");
    for (size_t i = 0; cJSON_IsString(type) && i < sizeof choices / sizeof *choices; i++) {
        bool named = strcmp(type->valuestring, "tool") == 0;
        if (strcmp(type->valuestring, choices[i].type) != 0 || (named && !cJSON_IsString(name)))
            continue;
        params->tool_choice = choices[i].choice;
        params->tool_name = named ? name->valuestring : NULL;
        const cJSON *single = cJSON_GetObjectItemCaseSensitive(value, "disable_parallel_tool_use");
        params->parallel_tool_calls = !cJSON_IsTrue(single);
        params->several_asked = cJSON_IsFalse(single);
        return ROCO_OK;
    }
    return roco_fail(error, ROCO_INVALID, "tool_choice",
                     "tool_choice must be an object of type \"auto\", \"any\", \"none\", or \"tool\" with a name");
}

/* Only who asks for reasoning gets it. */
static roco_status read_thinking(const cJSON *value, void *out, roco_error *error)
{
    roco_completion_params *params = out;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(value, "type");
    const char *name = cJSON_IsString(type) ? type->valuestring : "";
    bool on = strcmp(name, "enabled") == 0 || strcmp(name, "adaptive") == 0;
    if (!on && strcmp(name, "disabled") != 0)
        return roco_fail(error, ROCO_INVALID, "thinking",
                         "thinking must be an object of type \"enabled\", \"adaptive\" or \"disabled\"");
    params->include_reasoning = on;
    params->thinking = on ? ROCO_THINKING_ON : ROCO_THINKING_OFF;
    return ROCO_OK;
}

/* {"type": "json_schema", "schema": {...}}. `field` and `schema_field` are constant texts. */
static roco_status read_format(const cJSON *value, const char *field, const char *schema_field, void *out,
                               roco_error *error)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(value, "type");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(value, "schema");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "json_schema") != 0 || !cJSON_IsObject(schema))
        return roco_fail(error, ROCO_INVALID, field, "%s must be of type \"json_schema\", with a schema", field);
    return roco_constraint_set(out, ROCO_CONSTRAINT_SCHEMA, schema, schema_field, error);
}

static roco_status read_output(const cJSON *value, void *out, roco_error *error)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(value, "format");
    if (!cJSON_IsObject(value))
        return roco_fail(error, ROCO_INVALID, "output_config", "output_config must be an object");
    return format && !cJSON_IsNull(format)
               ? read_format(format, "output_config.format", "output_config.format.schema", out, error)
               : ROCO_OK;
}

static roco_status read_output_format(const cJSON *value, void *out, roco_error *error)
{
    return read_format(value, "output_format", "output_format.schema", out, error);
}

#define REFUSED(name_, harmless_)                                                                                      \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_REFUSED, .harmless = ROCO_HARMLESS_##harmless_                               \
    }
#define IGNORED(name_)                                                                                                 \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_IGNORED, .help = "taken and not used"                                        \
    }
#define CUSTOM(name_, read_, type_, fallback_, ...)                                                                    \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_CUSTOM, .read = read_, .type = type_, .fallback = fallback_,                 \
        .help = __VA_ARGS__                                                                                            \
    }

#define SAME         .original = "same"
#define DIFFERS(how) .original = "differs: " how

/* clang-format off */
const roco_field roco_messages_fields[] = {
    CUSTOM("messages", read_messages, "array of messages", "required",
           "`user` and `assistant` in turn, with blocks of text, `tool_use`, `tool_result` and `thinking`; a last "
           "message of the assistant is continued",
           DIFFERS("text and tools alone"), .schema = "{'type':'array','minItems':1,'items':{'type':'object'}}"),
    CUSTOM("system", read_system, "string or array of text blocks", "none", "what comes before all messages",
           SAME, .schema = "{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'object'}}]}"),
    {.name = "max_tokens", .kind = ROCO_FIELD_INTEGER, .low = 1, .high = 2147483647,
     .offset = offsetof(roco_completion_params, max_tokens), .fallback = "2048",
     .help = "most tokens to generate; cut to what is left of the context", DIFFERS("may be missing")},
    CUSTOM("stop_sequences", roco_stop_read, "array of up to 4 strings of 1 to 256 bytes", "none",
           "the answer ends before the first of these",
           DIFFERS("at most 4 of 256 bytes"),
           .schema = "{'type':'array','maxItems':4,'items':{'type':'string','minLength':1,'maxLength':256}}"),
    CUSTOM("tools", read_tools, "array of up to 128 tools with `name` and `input_schema`", "none",
           "tools the model may use",
           DIFFERS("a client's own tools alone"),
           .schema = "{'type':'array','maxItems':128,'items':{'type':'object'}}"),
    CUSTOM("tool_choice", read_tool_choice, "object of type `auto`, `any`, `tool` or `none`", "`auto`",
           "whether a tool may, must or may not be used; `disable_parallel_tool_use` ends the answer with the first",
           DIFFERS("with `any` more than one only if `disable_parallel_tool_use` is given as false"),
           .schema = "{'type':'object'}"),
    CUSTOM("thinking", read_thinking, "object of type `enabled`, `adaptive` or `disabled`", "none",
           "`enabled`, `adaptive`: reasoning comes in blocks of its own; the template is told by `enable_thinking`",
           DIFFERS("`budget_tokens` is ignored"), .schema = "{'type':'object'}"),
    CUSTOM("output_config", read_output, "object", "none", "`format`: `json_schema` with `schema`",
           DIFFERS("`effort` is ignored"), .schema = "{'type':'object'}"),
    CUSTOM("output_format", read_output_format, "object", "none", "the same, as it was called before",
           SAME, .schema = "{'type':'object'}"),
    IGNORED("metadata"), IGNORED("service_tier"), IGNORED("cache_control"), IGNORED("inference_geo"),
    REFUSED("stop", EMPTY), REFUSED("n", ONE), REFUSED("logprobs", FALSE), REFUSED("top_logprobs", ZERO),
    REFUSED("prompt", NULL), REFUSED("container", NULL), REFUSED("mcp_servers", EMPTY),
    REFUSED("context_management", NULL), 
    REFUSED("parallel_tool_calls", TRUE),
    {.more = roco_chat_fields},
};
/* clang-format on */
