/* The table of completion fields and the readers of those that are more than a number. */
#include "server/fields_completion.h"

#include "engine/policies.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static roco_status read_model(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsString(value))
        return roco_fail(error, ROCO_INVALID, "model", "model must be a string");
    ((roco_completion_params *)out)->model = value->valuestring;
    return ROCO_OK;
}

static roco_status read_prompt(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsString(value) && !cJSON_IsArray(value))
        return roco_fail(error, ROCO_INVALID, "prompt",
                         "prompt must be a string, an array of strings, an array of token ids or an array of those");
    if (cJSON_IsArray(value) && !value->child)
        return roco_fail(error, ROCO_INVALID, "prompt", "prompt is an empty array");
    ((roco_completion_params *)out)->prompt = value;
    return ROCO_OK;
}

static roco_status add_stop(const cJSON *value, const char *field, roco_stop_set *stops, roco_error *error)
{
    if (!cJSON_IsString(value))
        return roco_fail(error, ROCO_INVALID, field, "%s must be a string or an array of at most %u strings", field,
                         ROCO_MAX_STOPS);
    size_t size = strlen(value->valuestring);
    if (size < 1 || size > ROCO_MAX_STOP_BYTES)
        return roco_fail(error, ROCO_INVALID, field, "a stop string must have 1 to %u bytes, one has %zu",
                         ROCO_MAX_STOP_BYTES, size);
    if (stops->n == ROCO_MAX_STOPS)
        return roco_fail(error, ROCO_INVALID, field, "%s must hold at most %u strings", field, ROCO_MAX_STOPS);
    roco_stop_add(stops, value->valuestring, size);
    return ROCO_OK;
}

roco_status roco_stop_read(const cJSON *value, void *out, roco_error *error)
{
    roco_stop_set *stops = &((roco_completion_params *)out)->stops;
    if (!cJSON_IsArray(value))
        return add_stop(value, value->string, stops, error);
    for (const cJSON *item = value->child; item; item = item->next) {
        roco_status status = add_stop(item, value->string, stops, error);
        if (status)
            return status;
    }
    return ROCO_OK;
}

static const roco_field stream_option_fields[] = {
    {.name = "include_usage", .kind = ROCO_FIELD_BOOLEAN, .offset = offsetof(roco_completion_params, include_usage)},
    {0},
};

static roco_status read_stream_options(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsObject(value))
        return roco_fail(error, ROCO_INVALID, "stream_options", "stream_options must be an object");
    roco_error inner;
    roco_status status = roco_fields_read(stream_option_fields, value, out, &inner);
    if (status == ROCO_OK)
        return status;
    char path[sizeof inner.field + sizeof "stream_options."];
    snprintf(path, sizeof path, "stream_options.%s", inner.field);
    return roco_fail(error, status, path, "stream_options: %s", inner.message);
}

roco_status roco_budget_invalid(roco_error *error, int64_t ceiling)
{
    char range[64];
    if (ceiling)
        snprintf(range, sizeof range, "from %d to %lld", ROCO_MIN_BUDGET, (long long)ceiling);
    else
        snprintf(range, sizeof range, "from %d up to the server's ceiling", ROCO_MIN_BUDGET);
    return roco_fail(error, ROCO_INVALID, "kv_budget",
                     "kv_budget must be a whole number of tokens %s, or a share of the prompt between 0 and 1, both "
                     "excluded",
                     range);
}

static roco_status read_budget(const cJSON *value, void *out, roco_error *error)
{
    double budget = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    int64_t tokens;
    bool share = budget > 0 && budget < 1;
    if (!share && !(roco_json_integer(value, &tokens) && tokens >= ROCO_MIN_BUDGET))
        return roco_budget_invalid(error, 0);
    ((roco_completion_params *)out)->kv_budget = budget;
    return ROCO_OK;
}

static roco_status read_policy(const cJSON *value, void *out, roco_error *error)
{
    const roco_policy *policy = cJSON_IsString(value) ? roco_policy_find(value->valuestring) : NULL;
    if (!policy)
        return roco_fail(error, ROCO_INVALID, "kv_policy", "kv_policy must be one of: %s", roco_policy_names());
    ((roco_completion_params *)out)->policy = policy;
    return ROCO_OK;
}

static roco_status read_heads(const cJSON *value, void *out, roco_error *error)
{
    const char *name = cJSON_IsString(value) ? value->valuestring : "";
    roco_kv_heads *heads = &((roco_completion_params *)out)->kv_heads;
    if (strcmp(name, "profile") == 0)
        *heads = ROCO_KV_HEADS_PROFILE;
    else if (strcmp(name, "uniform") == 0)
        *heads = ROCO_KV_HEADS_UNIFORM;
    else
        return roco_fail(error, ROCO_INVALID, "kv_heads", "kv_heads must be \"profile\" or \"uniform\"");
    return ROCO_OK;
}

static roco_status read_scope(const cJSON *value, void *out, roco_error *error)
{
    static const char *const names[] = {"all", "prompt", "answer"};
    const char *name = cJSON_IsString(value) ? value->valuestring : "";
    for (int scope = ROCO_KV_SCOPE_ALL; scope <= ROCO_KV_SCOPE_ANSWER; scope++)
        if (strcmp(name, names[scope]) == 0) {
            ((roco_completion_params *)out)->kv_scope = (roco_kv_scope)scope;
            return ROCO_OK;
        }
    return roco_fail(error, ROCO_INVALID, "kv_scope", "kv_scope must be \"all\", \"prompt\" or \"answer\"");
}

static roco_status read_pin(const cJSON *value, void *out, roco_error *error)
{
    roco_completion_params *params = out;
    return roco_pins_read(value, &params->kv_pin, &params->pin_roles, error);
}

static roco_status read_positions(const cJSON *value, void *out, roco_error *error)
{
    const char *name = cJSON_IsString(value) ? value->valuestring : "";
    const bool by_rank = strcmp(name, "cache") == 0;
    if (!by_rank && strcmp(name, "text") != 0)
        return roco_fail(error, ROCO_INVALID, "kv_positions", "kv_positions must be \"text\" or \"cache\"");
    ((roco_completion_params *)out)->kv_by_rank = by_rank;
    return ROCO_OK;
}

#define AT(member) offsetof(roco_completion_params, member)
#define CUSTOM(name_, read_, type_, fallback_, ...)                                                                    \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_CUSTOM, .read = read_, .type = type_, .fallback = fallback_,                 \
        .help = __VA_ARGS__                                                                                            \
    }
#define INTEGER(name_, member, low_, high_, fallback_, ...)                                                            \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_INTEGER, .low = low_, .high = high_, .offset = AT(member),                   \
        .fallback = fallback_, .help = __VA_ARGS__                                                                     \
    }
#define NUMBER(name_, member, low_, high_, fallback_, ...)                                                             \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_NUMBER, .low = low_, .high = high_, .offset = AT(member),                    \
        .fallback = fallback_, .help = __VA_ARGS__                                                                     \
    }
#define BOOLEAN(name_, member, ...)                                                                                    \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_BOOLEAN, .offset = AT(member), .fallback = "false", .help = __VA_ARGS__      \
    }
#define REFUSED(name_, harmless_)                                                                                      \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_REFUSED, .harmless = ROCO_HARMLESS_##harmless_                               \
    }
#define IGNORED(name_, ...)                                                                                            \
    {                                                                                                                  \
        .name = name_, .kind = ROCO_FIELD_IGNORED, .help = __VA_ARGS__                                                 \
    }

/* How a row stands to OpenAI's field of that name. */
#define SAME         .original = "same"
#define DIFFERS(how) .original = "differs: " how

/* clang-format off */
const roco_field roco_completion_fields[] = {
    CUSTOM("model", read_model, "string", "the served model", "as `/v1/models` names it; another name is a 404",
           .schema = "{'type':'string'}", DIFFERS("may be missing")),
    CUSTOM("prompt", read_prompt, "string, array of strings, array of token ids, or array of those", "required",
           "one choice (or `n`) for each prompt, in order; prompts times `n` at most 64",
           DIFFERS("required; at most 64 prompts"),
           .schema = "{'anyOf':[{'type':'string'},{'type':'array','minItems':1,'items':{'type':'string'}},"
                     "{'type':'array','minItems':1,'items':{'type':'integer','minimum':0}},{'type':'array',"
                     "'minItems':1,'items':{'type':'array','minItems':1,'items':{'type':'integer','minimum':0}}}]}"),
    INTEGER("max_tokens", max_tokens, 0, 2147483647, "256",
            "most tokens to generate; cut to what is left of the context; 0: the prompt is only read",
           DIFFERS("256 instead of 16; cut to the context instead of refused")),
    INTEGER("max_completion_tokens", max_completion_tokens, 1, 2147483647, "", "the same under its newer name",
           SAME),
    NUMBER("temperature", temperature, 0, 2, "1", "0 is greedy",
           SAME),
    NUMBER("top_p", top_p, 0, 1, "1", "keeps the most likely tokens up to this sum; 0 keeps one",
           SAME),
    INTEGER("top_k", top_k, -1, 2147483647, "0", "keeps that many most likely tokens; 0 or -1: all"),
    NUMBER("min_p", min_p, 0, 1, "0", "drops tokens less likely than this share of the best one's probability"),
    INTEGER("seed", seed, -9007199254740991.0, 9007199254740991.0, "random", "same seed, same answer",
           DIFFERS("the same answer always, not mostly")),
    CUSTOM("stop", roco_stop_read, "string of 1 to 256 bytes, or array of up to 4", "none",
           "the answer ends before the first of these",
           DIFFERS("at most 256 bytes each"),
           .schema = "{'anyOf':[{'type':'string','minLength':1,'maxLength':256},{'type':'array','maxItems':4,"
                     "'items':{'type':'string','minLength':1,'maxLength':256}}]}"),
    INTEGER("n", n, 1, ROCO_MAX_CHOICES, "1", "answers for each prompt",
           DIFFERS("at most 16")),
    INTEGER("best_of", best_of, 1, ROCO_MAX_CHOICES, "`n`",
            "answers to generate for each prompt, at least `n`, of which the `n` with the highest mean log-probability "
            "of their tokens are returned, the best first; not with `stream`",
           DIFFERS("at most 16, and `n` unless given")),
    CUSTOM("logprobs", roco_read_logprobs, "integer 0..5, or false", "none",
           "the log-probability of each token, and so many of the most probable ones at its place",
           SAME, .schema = "{'anyOf':[{'type':'integer','minimum':0,'maximum':5},{'const':false}]}"),
    BOOLEAN("echo", echo, "put the prompt in front of the answer, with its log-probabilities if those are asked for",
           SAME),
    NUMBER("frequency_penalty", frequency_penalty, -2, 2, "0",
           "subtracted from a token's logit for each time it is in the answer",
           SAME),
    NUMBER("presence_penalty", presence_penalty, -2, 2, "0", "subtracted once when it is in the answer at all",
           SAME),
    NUMBER("repetition_penalty", repetition_penalty, 0.1, 10, "1",
           "divides a positive logit, and multiplies a negative one, of a token that is in the prompt or the answer"),
    CUSTOM("logit_bias", roco_read_logit_bias, "object: token id as string -> number -100..100, up to 300", "none",
           "added to these tokens' logits",
           DIFFERS("at most 300 tokens, each spelt without leading zeros"),
           .schema = "{'type':'object','maxProperties':300,'propertyNames':{'pattern':'^(0|[1-9][0-9]*)$'},"
                     "'additionalProperties':{'type':'number','minimum':-100,'maximum':100}}"),
    INTEGER("min_tokens", min_tokens, 0, 2147483647, "0",
            "no end token and none of `stop_token_ids` before so many tokens; stop strings still end the answer"),
    CUSTOM("stop_token_ids", roco_read_stop_token_ids, "array of up to 64 token ids", "none",
           "end the answer as the model's own end tokens do, without text",
           .schema = "{'type':'array','maxItems':64,'items':{'type':'integer','minimum':0}}"),
    CUSTOM("response_format", roco_response_format_read,
           "object: `type` `text`, `json_object`, or `json_schema` with `json_schema.schema`", "`text`",
           "the answer is a JSON object, or JSON that is valid under the schema; see Constrained answers",
           SAME, .schema = "{'type':'object','required':['type'],'properties':{'type':{'enum':['text','json_object',"
                           "'json_schema']},'json_schema':{'type':['object','null']}}}"),
    CUSTOM("grammar", roco_grammar_read, "string in GBNF", "none", "the answer is a text of this grammar's `root`",
           .schema = "{'type':'string'}"),
    CUSTOM("regex", roco_regex_read, "string", "none", "the whole answer matches this regular expression",
           .schema = "{'type':'string'}"),
    CUSTOM("json_schema", roco_json_schema_read, "JSON Schema", "none", "`response_format` in llama.cpp's words",
           .schema = "{'type':['object','boolean','string']}"),
    CUSTOM("structured_outputs", roco_structured_outputs_read,
           "object with one of `json`, `regex`, `choice`, `grammar`, `json_object`", "none",
           "the same in vLLM's words; `choice`: the answer is one of these strings", .schema = "{'type':'object'}"),
    CUSTOM("guided_json", roco_guided_json_read, "JSON Schema", "none", "and in its older ones",
           .schema = "{'type':['object','boolean','string']}"),
    CUSTOM("guided_regex", roco_guided_regex_read, "string", "none", "likewise", .schema = "{'type':'string'}"),
    CUSTOM("guided_choice", roco_guided_choice_read, "array of strings", "none", "likewise",
           .schema = "{'type':'array','minItems':1,'items':{'type':'string'}}"),
    CUSTOM("guided_grammar", roco_guided_grammar_read, "string in GBNF", "none", "likewise",
           .schema = "{'type':'string'}"),
    BOOLEAN("stream", stream, "send the answer as server-sent events",
           SAME),
    CUSTOM("stream_options", read_stream_options, "object", "none", "`include_usage`: one more event with the usage",
           SAME, .schema = "{'type':'object','properties':{'include_usage':{'type':['boolean','null']}}}"),
    BOOLEAN("ignore_eos", ignore_eos, "go on to max_tokens, whatever the model says"),
    CUSTOM("kv_budget", read_budget, "integer from 32 to `--kv-budget-max`, or share of the prompt between 0 and 1",
           "`--kv-budget`", "tokens a head may hold on average; a share is turned into tokens, never under 32; "
           "of no effect with a policy that does not evict",
           .schema = "{'anyOf':[{'type':'integer','minimum':32},"
                     "{'type':'number','exclusiveMinimum':0,'exclusiveMaximum':1}]}"),
    CUSTOM("kv_policy", read_policy, "name of a policy", "`--kv-policy`", "how tokens to evict are chosen",
           .schema = "{'type':'string'}"),
    INTEGER("kv_sink", kv_sink, 0, 1024, "`--kv-sink`", "first positions never evicted"),
    INTEGER("kv_recent", kv_recent, 1, 4096, "`--kv-recent`",
            "newest tokens never evicted; with `kv_sink` less than the budget"),
    CUSTOM("kv_heads", read_heads, "`profile` or `uniform`", "`profile` where the server has one",
           "how a budget is spent: on the heads that look back, or on all alike",
           .schema = "{'enum':['profile','uniform']}"),
    CUSTOM("kv_scope", read_scope, "`all`, `prompt` or `answer`", "`all`",
           "what the budget caps: prompt and answer together, the prompt alone, or the answer alone",
           .schema = "{'enum':['all','prompt','answer']}"),
    CUSTOM("kv_pin", read_pin, "array of up to 16 ranges `[first, end]` and, in a chat, roles", "none",
           "never evicted: prompt tokens `first` to `end - 1`; the text of all messages of a role (`\"system\"`)",
           .schema = "{'type':'array','maxItems':16,'items':{'anyOf':[{'type':'string'},{'type':'array','minItems':2,"
                     "'maxItems':2,'items':{'type':'integer','minimum':0}}]}}"),
    CUSTOM("kv_positions", read_positions, "`text` or `cache`", "`text`",
           "what a token's position is: its place in the text, or among the tokens that a head still holds; with "
           "`cache` a stream may go on past the context",
           .schema = "{'enum':['text','cache']}"),
    BOOLEAN("kv_compensation", kv_compensation, "one slot of each head stands for the mean of what it evicted"),
    INTEGER("kv_stride", kv_stride, 1, 65536, "`--evict-stride`",
            "prompt tokens between two evictions, at most `--evict-stride`"),

    IGNORED("user", "taken and not used"),

    REFUSED("suffix", EMPTY), REFUSED("tools", EMPTY), REFUSED("tool_choice", NONE),
    REFUSED("functions", EMPTY), REFUSED("function_call", NONE), REFUSED("messages", NULL),
    REFUSED("top_logprobs", ZERO), REFUSED("prompt_logprobs", NULL),
    /* other servers' fields that would change the answer */
    REFUSED("repeat_penalty", ONE), REFUSED("length_penalty", ONE),
    REFUSED("n_predict", NULL),
    REFUSED("bad_words", EMPTY), REFUSED("typical_p", ONE), REFUSED("mirostat", ZERO), REFUSED("dry_multiplier", ZERO),
    REFUSED("xtc_probability", ZERO), REFUSED("use_beam_search", FALSE), 
    REFUSED("truncate_prompt_tokens", NULL), REFUSED("max_new_tokens", NULL), REFUSED("allowed_token_ids", EMPTY),
    REFUSED("include_stop_str_in_output", FALSE), REFUSED("skip_special_tokens", TRUE),
    REFUSED("no_repeat_ngram_size", ZERO), REFUSED("logits_processors", EMPTY),
    REFUSED("ebnf", EMPTY), REFUSED("dynatemp_range", ZERO), REFUSED("tfs_z", ONE), REFUSED("top_a", ZERO),
    {0},
};
/* clang-format on */

roco_status roco_params_read(const roco_field *fields, const cJSON *object, roco_completion_params *out,
                             roco_error *error)
{
    *out = (roco_completion_params){
        .add_generation_prompt = ROCO_ABSENT,
        .parallel_tool_calls = true,
        .split_reasoning = true,
        .include_reasoning = true,
        .max_tokens = ROCO_ABSENT,
        .max_completion_tokens = ROCO_ABSENT,
        .temperature = 1,
        .top_p = 1,
        .seed = ROCO_ABSENT,
        .n = 1,
        .best_of = ROCO_ABSENT,
        .repetition_penalty = 1,
        .kv_sink = ROCO_ABSENT,
        .kv_recent = ROCO_ABSENT,
        .kv_stride = ROCO_ABSENT,
    };
    roco_status status = roco_fields_read(fields, object, out, error);
    if (status)
        return status;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "parallel_tool_calls")))
        out->several_asked = true;
    if (out->best_of == ROCO_ABSENT)
        out->best_of = out->n;
    if (out->best_of < out->n)
        return roco_fail(error, ROCO_INVALID, "best_of", "best_of is %lld; it must be at least n, which is %lld",
                         (long long)out->best_of, (long long)out->n);
    if (out->stream && out->best_of > out->n)
        return roco_fail(error, ROCO_INVALID, "best_of",
                         "best_of over n cannot be streamed: the best is known only at the end");
    if (out->max_tokens == ROCO_ABSENT)
        out->max_tokens = out->max_completion_tokens;
    else if (out->max_completion_tokens != ROCO_ABSENT && out->max_completion_tokens != out->max_tokens)
        return roco_fail(error, ROCO_INVALID, "max_completion_tokens",
                         "max_tokens and max_completion_tokens differ; give one of them");
    if (out->max_tokens != ROCO_ABSENT && out->min_tokens > out->max_tokens)
        return roco_fail(error, ROCO_INVALID, "min_tokens", "min_tokens is %lld, over max_tokens, which is %lld",
                         (long long)out->min_tokens, (long long)out->max_tokens);
    return roco_constraint_check(out, error);
}

roco_status roco_completion_params_read(const cJSON *object, roco_completion_params *out, roco_error *error)
{
    roco_status status = roco_params_read(roco_completion_fields, object, out, error);
    if (!status && !out->prompt)
        return roco_fail(error, ROCO_INVALID, "prompt", "prompt is missing");
    return status;
}
