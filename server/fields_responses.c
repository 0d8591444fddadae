/* The fields of POST /v1/responses, in front of those of chats. */
#include "server/fields_completion.h"

#include <stddef.h>
#include <string.h>

/* What needs translating is only looked at here; responses_request.c does it. */
static roco_status read_input(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsString(value) && !(cJSON_IsArray(value) && value->child))
        return roco_fail(error, ROCO_INVALID, "input", "input must be a string or an array of at least one item");
    ((roco_completion_params *)out)->messages = (cJSON *)value;
    return ROCO_OK;
}

static roco_status read_instructions(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsString(value))
        return roco_fail(error, ROCO_INVALID, "instructions", "instructions must be a string");
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

/* As in chats, but that the name of a function stands beside its type. */
static roco_status read_tool_choice(const cJSON *value, void *out, roco_error *error)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(value, "type");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(value, "name");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "function") != 0 || !cJSON_IsString(name))
        return roco_tool_choice_read(value, out, error);
    ((roco_completion_params *)out)->tool_choice = ROCO_TOOLS_REQUIRED;
    ((roco_completion_params *)out)->tool_name = name->valuestring;
    return ROCO_OK;
}

static roco_status read_reasoning(const cJSON *value, void *out, roco_error *error)
{
    const cJSON *effort = cJSON_GetObjectItemCaseSensitive(value, "effort");
    if (!cJSON_IsObject(value))
        return roco_fail(error, ROCO_INVALID, "reasoning", "reasoning must be an object");
    return effort && !cJSON_IsNull(effort) ? roco_effort_read(effort, "reasoning.effort", out, error) : ROCO_OK;
}

/* Nothing is kept from one request to the next. */
static roco_status read_store(const cJSON *value, void *out, roco_error *error)
{
    (void)out;
    if (cJSON_IsFalse(value))
        return ROCO_OK;
    return roco_fail(error, ROCO_UNSUPPORTED, "store",
                     "store must be false: this server keeps no responses; send the whole conversation as input");
}

static roco_status read_previous(const cJSON *value, void *out, roco_error *error)
{
    (void)value;
    (void)out;
    return roco_fail(error, ROCO_UNSUPPORTED, "previous_response_id",
                     "previous_response_id is not supported: this server keeps no responses; send the whole "
                     "conversation as input");
}

static roco_status read_truncation(const cJSON *value, void *out, roco_error *error)
{
    (void)out;
    if (cJSON_IsString(value) && strcmp(value->valuestring, "disabled") == 0)
        return ROCO_OK;
    return roco_fail(error, ROCO_UNSUPPORTED, "truncation", "truncation must be \"disabled\"");
}

/* What needs no including here may be asked for. */
static roco_status read_include(const cJSON *value, void *out, roco_error *error)
{
    (void)out;
    for (const cJSON *item = cJSON_IsArray(value) ? value->child : NULL; item; item = item->next)
        if (!cJSON_IsString(item) || strcmp(item->valuestring, "reasoning.encrypted_content") != 0)
            return roco_fail(error, ROCO_UNSUPPORTED, "include",
                             "include may hold nothing but \"reasoning.encrypted_content\", which is of no effect");
    return cJSON_IsArray(value) ? ROCO_OK : roco_fail(error, ROCO_INVALID, "include", "include must be an array");
}

static roco_status read_text(const cJSON *value, void *out, roco_error *error)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(value, "format");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(format, "type");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(format, "schema");
    const char *name = cJSON_IsString(type) ? type->valuestring : "";
    if (!cJSON_IsObject(value))
        return roco_fail(error, ROCO_INVALID, "text", "text must be an object");
    if (!format || cJSON_IsNull(format) || strcmp(name, "text") == 0)
        return ROCO_OK;
    if (strcmp(name, "json_object") == 0)
        return roco_constraint_set(out, ROCO_CONSTRAINT_OBJECT, NULL, "text.format", error);
    if (strcmp(name, "json_schema") == 0 && cJSON_IsObject(schema))
        return roco_constraint_set(out, ROCO_CONSTRAINT_SCHEMA, schema, "text.format.schema", error);
    return roco_fail(error, ROCO_INVALID, "text.format",
                     "text.format must be of type \"text\", \"json_object\", or \"json_schema\" with a schema");
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
const roco_field roco_responses_fields[] = {
    CUSTOM("input", read_input, "string, or array of items", "required",
           "a user's text, or messages, `function_call`, `function_call_output` and `reasoning` items",
           DIFFERS("text and tools alone; required"),
           .schema = "{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'object'}}]}"),
    CUSTOM("instructions", read_instructions, "string", "none", "a system message in front of the input",
           SAME, .schema = "{'type':'string'}"),
    {.name = "max_output_tokens", .kind = ROCO_FIELD_INTEGER, .low = 1, .high = 2147483647,
     .offset = offsetof(roco_completion_params, max_tokens), .fallback = "2048",
     .help = "most tokens to generate; cut to what is left of the context", DIFFERS("2048 unless given")},
    CUSTOM("tools", read_tools, "array of up to 128 functions", "none", "functions the model may call",
           DIFFERS("functions alone"), .schema = "{'type':'array','maxItems':128,'items':{'type':'object'}}"),
    CUSTOM("tool_choice", read_tool_choice, "`auto`, `none`, `required`, or an object that names a function", "`auto`",
           "as in chats",
           SAME, .schema = "{'anyOf':[{'enum':['auto','none','required']},{'type':'object'}]}"),
    CUSTOM("text", read_text, "object", "none", "`format`: `text`, `json_object`, or `json_schema` with `schema`",
           DIFFERS("`verbosity` is ignored"), .schema = "{'type':'object'}"),
    CUSTOM("reasoning", read_reasoning, "object", "none", "`effort`: as `reasoning_effort` of chats",
           SAME, .schema = "{'type':'object'}"),
    CUSTOM("store", read_store, "false", "false", "nothing is kept",
           DIFFERS("false unless given, and nothing else"), .schema = "{'const':false}"),
    CUSTOM("previous_response_id", read_previous, "null", "none", "nothing is kept",
           .schema = "{'type':'null'}"),
    CUSTOM("truncation", read_truncation, "`disabled`", "`disabled`", "an input that does not fit is refused",
           DIFFERS("`auto` is refused"), .schema = "{'const':'disabled'}"),
    CUSTOM("include", read_include, "array", "none", "may hold `reasoning.encrypted_content`, of no effect",
           DIFFERS("nothing else is included"),
           .schema = "{'type':'array','items':{'const':'reasoning.encrypted_content'}}"),
    IGNORED("metadata"), IGNORED("service_tier"), IGNORED("safety_identifier"), IGNORED("prompt_cache_key"),
    IGNORED("prompt_cache_retention"), IGNORED("stream_options"),
    REFUSED("conversation", NULL), REFUSED("background", FALSE), REFUSED("prompt", NULL), REFUSED("messages", NULL),
    REFUSED("max_tool_calls", NULL), REFUSED("max_tokens", NULL), REFUSED("max_completion_tokens", NULL),
    REFUSED("n", ONE), REFUSED("logprobs", FALSE), REFUSED("top_logprobs", ZERO), REFUSED("context_management", NULL),
    {.more = roco_chat_fields},
};
/* clang-format on */
