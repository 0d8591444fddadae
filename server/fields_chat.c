/* The fields that only chats have, in front of those of completions. */
#include "server/fields_completion.h"

#include <stddef.h>
#include <string.h>

/* The tree is the request's own, and reading messages may change it. */
static roco_status read_messages(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsArray(value))
        return roco_fail(error, ROCO_INVALID, "messages", "messages must be an array");
    ((roco_completion_params *)out)->messages = (cJSON *)value;
    return ROCO_OK;
}

static roco_status read_kwargs(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsObject(value))
        return roco_fail(error, ROCO_INVALID, "chat_template_kwargs", "chat_template_kwargs must be an object");
    ((roco_completion_params *)out)->chat_template_kwargs = value;
    return ROCO_OK;
}

static roco_status read_generation_prompt(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsBool(value))
        return roco_fail(error, ROCO_INVALID, "add_generation_prompt", "add_generation_prompt must be true or false");
    ((roco_completion_params *)out)->add_generation_prompt = cJSON_IsTrue(value);
    return ROCO_OK;
}

/* The names are those of other servers: "none" leaves reasoning where it is, all others tell it apart. */
static roco_status read_reasoning_format(const cJSON *value, void *out, roco_error *error)
{
    static const char *const names[] = {"auto", "deepseek", "none"};
    for (size_t i = 0; cJSON_IsString(value) && i < sizeof names / sizeof *names; i++)
        if (strcmp(value->valuestring, names[i]) == 0) {
            ((roco_completion_params *)out)->split_reasoning = i < 2;
            return ROCO_OK;
        }
    return roco_fail(error, ROCO_INVALID, "reasoning_format",
                     "reasoning_format must be \"auto\", \"deepseek\" or \"none\"");
}

roco_status roco_effort_read(const cJSON *value, const char *field, void *out, roco_error *error)
{
    static const char *const names[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
    roco_completion_params *params = out;
    for (size_t i = 0; cJSON_IsString(value) && i < sizeof names / sizeof *names; i++)
        if (strcmp(value->valuestring, names[i]) == 0) {
            params->reasoning_effort = names[i];
            if (i == 0)
                params->thinking = ROCO_THINKING_OFF;
            return ROCO_OK;
        }
    return roco_fail(error, ROCO_INVALID, field, "%s must be one of: none, minimal, low, medium, high, xhigh", field);
}

static roco_status read_reasoning_effort(const cJSON *value, void *out, roco_error *error)
{
    return roco_effort_read(value, "reasoning_effort", out, error);
}

#define REFUSED(name_, harmless_)                                                                                      \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_REFUSED, .harmless = ROCO_HARMLESS_##harmless_                               \
    }
#define IGNORED(name_)                                                                                                 \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_IGNORED, .help = "taken and not used"                                        \
    }

/* clang-format off */
static const char messages_schema[] =
    "{'type':'array','minItems':1,'items':{'type':'object','required':['role'],'properties':{"
        "'role':{'enum':['system','developer','user','assistant','tool']},"
        "'content':{'anyOf':[{'type':'string'},{'type':'null'},{'type':'array','items':{"
            "'type':'object','required':['type','text'],"
            "'properties':{'type':{'const':'text'},'text':{'type':'string'}}}}]}}}}";
/* clang-format on */

const roco_field roco_chat_fields[] = {
    {.name = "messages",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_messages,
     .type = "array of messages",
     .fallback = "required",
     .help = "the conversation, turned into a prompt by the chat template",
     .original = "differs: text parts alone",
     .schema = messages_schema},
    {.name = "max_tokens",
     .kind = ROCO_FIELD_INTEGER,
     .low = 1,
     .high = 2147483647,
     .offset = offsetof(roco_completion_params, max_tokens),
     .fallback = "2048",
     .help = "most tokens to generate; cut to what is left of the context",
     .original = "differs: 2048 unless given; cut to the context"},
    {.name = "add_generation_prompt",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_generation_prompt,
     .type = "true or false",
     .fallback = "true, but false with `continue_final_message`",
     .help = "end the prompt with the opening of an assistant's turn",
     .schema = "{'type':'boolean'}"},
    {.name = "continue_final_message",
     .kind = ROCO_FIELD_BOOLEAN,
     .offset = offsetof(roco_completion_params, continue_final_message),
     .fallback = "false",
     .help = "go on with the last message, which must be the assistant's, instead of answering it"},
    {.name = "chat_template_kwargs",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_kwargs,
     .type = "object",
     .fallback = "none",
     .help = "more names for the template, such as `enable_thinking`",
     .schema = "{'type':'object'}"},
    {.name = "logprobs",
     .kind = ROCO_FIELD_BOOLEAN,
     .offset = offsetof(roco_completion_params, logprobs),
     .fallback = "false",
     .help = "the log-probability of each token of the answer",
     .original = "same"},
    {.name = "top_logprobs",
     .kind = ROCO_FIELD_INTEGER,
     .low = 0,
     .high = ROCO_MAX_TOP_LOGPROBS,
     .offset = offsetof(roco_completion_params, top_logprobs),
     .fallback = "0",
     .help = "so many of the most probable tokens at its place; wants `logprobs`",
     .original = "same"},
    {.name = "tools",
     .kind = ROCO_FIELD_CUSTOM,
     .read = roco_tools_read,
     .type = "array of up to 128 functions",
     .fallback = "none",
     .help = "functions the model may call",
     .original = "differs: functions alone",
     .schema = "{'type':'array','maxItems':128,'items':{'type':'object'}}"},
    {.name = "tool_choice",
     .kind = ROCO_FIELD_CUSTOM,
     .read = roco_tool_choice_read,
     .type = "`auto`, `none`, `required`, or an object that names a function",
     .fallback = "`auto`",
     .help = "whether the answer may, may not or must be a call; with `none` the model is not told of the tools",
     .original = "same",
     .schema = "{'anyOf':[{'enum':['auto','none','required']},{'type':'object'}]}"},
    {.name = "parallel_tool_calls",
     .kind = ROCO_FIELD_BOOLEAN,
     .offset = offsetof(roco_completion_params, parallel_tool_calls),
     .fallback = "true",
     .help = "false: the answer ends with its first call; true, where one is `required`: more may follow it",
     .original = "differs: where a call is required, more than one only if it is given"},
    {.name = "reasoning_format",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_reasoning_format,
     .type = "`auto`, `deepseek` or `none`",
     .fallback = "`auto`",
     .help = "`none` leaves reasoning in `content`; the others move it to `reasoning_content`",
     .schema = "{'enum':['auto','deepseek','none']}"},
    {.name = "include_reasoning",
     .kind = ROCO_FIELD_BOOLEAN,
     .offset = offsetof(roco_completion_params, include_reasoning),
     .fallback = "true",
     .help = "false: reasoning that is told apart is not sent"},
    {.name = "reasoning_effort",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_reasoning_effort,
     .type = "`none`, `minimal`, `low`, `medium`, `high` or `xhigh`",
     .fallback = "none",
     .help =
         "told to the template under this name, `none` also as `enable_thinking` false; of effect where it knows them",
     .original = "same",
     .schema = "{'enum':['none','minimal','low','medium','high','xhigh']}"},
    IGNORED("store"),
    IGNORED("metadata"),
    IGNORED("service_tier"),
    IGNORED("safety_identifier"),
    IGNORED("prompt_cache_key"),
    IGNORED("prediction"),
    REFUSED("prompt", NULL),
    REFUSED("echo", FALSE),
    REFUSED("best_of", ONE),
    REFUSED("chat_template", NULL),
    REFUSED("documents", EMPTY),
    REFUSED("modalities", NULL),
    REFUSED("audio", NULL),
    REFUSED("verbosity", NULL),
    REFUSED("web_search_options", NULL),
    {.more = roco_completion_fields},
};

roco_status roco_chat_params_read(const cJSON *object, roco_completion_params *out, roco_error *error)
{
    roco_status status = roco_params_read(roco_chat_fields, object, out, error);
    if (status)
        return status;
    if (!out->messages)
        return roco_fail(error, ROCO_INVALID, "messages", "messages is missing");
    if (out->top_logprobs > 0 && !out->logprobs)
        return roco_fail(error, ROCO_INVALID, "top_logprobs", "top_logprobs wants logprobs to be true");
    if (out->continue_final_message && out->add_generation_prompt == 1)
        return roco_fail(error, ROCO_INVALID, "add_generation_prompt",
                         "add_generation_prompt and continue_final_message ask for opposite things");
    return roco_tools_check(out, error);
}
