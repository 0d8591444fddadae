/* The fields of POST /v1/completions and /v1/chat/completions: their tables, and the struct a body becomes. Any
 * thread. */
#ifndef ROCO_SERVER_FIELDS_COMPLETION_H
#define ROCO_SERVER_FIELDS_COMPLETION_H

#include "kernels/policy.h"
#include "scheduler/scheduler.h"
#include "server/fields.h"
#include "server/pins.h"
#include "server/stop.h"

#define ROCO_MAX_CHOICES         16u /* `n` */
#define ROCO_MAX_SEQUENCES       64u /* prompts times `n` */
#define ROCO_DEFAULT_MAX_TOKENS  256 /* or what is left of the context, whichever is less */
#define ROCO_DEFAULT_CHAT_TOKENS 2048
#define ROCO_MIN_BUDGET          32
#define ROCO_MAX_LOGPROBS        5u /* `logprobs` of completions; chats: ROCO_MAX_TOP_LOGPROBS */
#define ROCO_MAX_BIASES          300
#define ROCO_MAX_STOP_TOKENS     64u

/* Absent integers of which every value means something. */
#define ROCO_ABSENT INT64_MIN

/* What a budget caps. */
typedef enum roco_kv_scope { ROCO_KV_SCOPE_ALL, ROCO_KV_SCOPE_PROMPT, ROCO_KV_SCOPE_ANSWER } roco_kv_scope;

/* Whether an answer may, must or may not call a tool. */
typedef enum roco_tool_choice { ROCO_TOOLS_AUTO, ROCO_TOOLS_NONE, ROCO_TOOLS_REQUIRED } roco_tool_choice;

/* What the template is told of reasoning, as `enable_thinking`. */
typedef enum roco_thinking { ROCO_THINKING_DEFAULT, ROCO_THINKING_ON, ROCO_THINKING_OFF } roco_thinking;

/* How a budget is spent on heads. */
typedef enum roco_kv_heads { ROCO_KV_HEADS_DEFAULT, ROCO_KV_HEADS_PROFILE, ROCO_KV_HEADS_UNIFORM } roco_kv_heads;

/* What an answer must be, and in which words it is said. */
typedef enum roco_constraint_kind {
    ROCO_CONSTRAINT_NONE,
    ROCO_CONSTRAINT_OBJECT, /* any JSON object; no source */
    ROCO_CONSTRAINT_SCHEMA,
    ROCO_CONSTRAINT_CHOICE, /* one of an array of strings */
    ROCO_CONSTRAINT_REGEX,
    ROCO_CONSTRAINT_GBNF,
    ROCO_CONSTRAINT_TOOLS, /* a call that is valid (tool_grammar.h) */
} roco_constraint_kind;

typedef struct roco_constraint_field {
    roco_constraint_kind kind;
    const cJSON *source; /* borrowed */
    const char *field;   /* where in the request it is */
} roco_constraint_field;

typedef struct roco_completion_params {
    const char *model;                 /* borrowed from the JSON tree; NULL: any */
    const cJSON *prompt;               /* borrowed; NULL: missing, or a chat */
    cJSON *messages;                   /* of a chat, borrowed */
    const cJSON *chat_template_kwargs; /* borrowed, an object; NULL: none */
    int64_t add_generation_prompt;     /* ROCO_ABSENT: unless a message is continued */
    bool continue_final_message;
    cJSON *tools; /* of a chat, borrowed and checked, at least one; NULL: none */
    roco_tool_choice tool_choice;
    const char *tool_name; /* of REQUIRED, borrowed: this one; NULL: any */
    bool several_asked; /* parallel_tool_calls is true because the request says so */
    bool parallel_tool_calls, split_reasoning, include_reasoning;
    roco_thinking thinking;
    const char *reasoning_effort; /* borrowed; NULL: nothing is said of it */
    const cJSON *system;          /* of the forms that have one beside the messages, borrowed */
    cJSON *made; /* owned by whoever reads the params: messages and tools translated to those of a chat */
    int64_t max_tokens, max_completion_tokens; /* ROCO_ABSENT, or 1.. */
    double temperature, top_p, min_p;
    int64_t top_k; /* -1 and 0: off */
    int64_t seed;  /* ROCO_ABSENT: a random one */
    int64_t n;
    int64_t best_of;      /* ROCO_ABSENT: n */
    bool logprobs;        /* wanted, with that many */
    int64_t top_logprobs; /* most probable tokens beside each */
    bool echo;
    double frequency_penalty, presence_penalty, repetition_penalty; /* 0, 0, 1: off */
    const cJSON *logit_bias;                                        /* borrowed, an object; NULL: none */
    const cJSON *stop_token_ids;                                    /* borrowed, an array; NULL: none */
    int64_t min_tokens;
    bool stream, include_usage, ignore_eos;
    roco_stop_set stops;
    roco_constraint_field constraint;
    double kv_budget;           /* tokens from ROCO_MIN_BUDGET, or a share of the prompt in (0, 1); 0: the default */
    const roco_policy *policy;  /* NULL: the default */
    int64_t kv_sink, kv_recent; /* ROCO_ABSENT: the default */
    roco_kv_heads kv_heads;
    roco_kv_scope kv_scope;
    roco_pins kv_pin;   /* ranges alone */
    uint32_t pin_roles; /* bit r: roco_roles[r] */
    int64_t kv_stride;  /* ROCO_ABSENT: the server's */
    bool kv_by_rank;    /* `kv_positions` is "cache" */
    bool kv_compensation;
} roco_completion_params;

/* For other readers: the answer must be of this kind; ROCO_INVALID when another field has said something already. */
roco_status roco_constraint_set(roco_completion_params *params, roco_constraint_kind kind, const cJSON *source,
                                const char *field, roco_error *error);

/* The readers of fields that are more than a number or a flag and concern the tokens of an answer (fields_tokens.c). */
roco_status roco_read_logprobs(const cJSON *value, void *out, roco_error *error);
roco_status roco_read_logit_bias(const cJSON *value, void *out, roco_error *error);
roco_status roco_read_stop_token_ids(const cJSON *value, void *out, roco_error *error);

/* Those that constrain an answer (fields_constraint.c), and what they and the others say together. */
roco_status roco_response_format_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_grammar_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_regex_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_json_schema_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_guided_json_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_guided_regex_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_guided_choice_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_guided_grammar_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_structured_outputs_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_constraint_check(const roco_completion_params *params, roco_error *error);

extern const roco_field roco_completion_fields[];
/* fields_chat.c; those of completions follow as `more`. */
extern const roco_field roco_chat_fields[];
/* fields_responses.c, fields_messages.c; those of chats follow. */
extern const roco_field roco_responses_fields[];
extern const roco_field roco_messages_fields[];

/* ROCO_INVALID or ROCO_UNSUPPORTED, with the field at fault. What needs the model or the options is checked later
 * (completion_jobs.h). `out` borrows from `object`. */
roco_status roco_completion_params_read(const cJSON *object, roco_completion_params *out, roco_error *error);
roco_status roco_chat_params_read(const cJSON *object, roco_completion_params *out, roco_error *error);
/* responses_request.c, messages_request.c: they translate as well. On failure out->made is NULL. */
roco_status roco_responses_params_read(const cJSON *object, roco_completion_params *out, roco_error *error);
roco_status roco_messages_params_read(const cJSON *object, roco_completion_params *out, roco_error *error);
/* What all begin with: the defaults, then the fields of one table, then what they say together. */
roco_status roco_params_read(const roco_field *fields, const cJSON *object, roco_completion_params *out,
                             roco_error *error);

/* Readers that several tables use. */
roco_status roco_stop_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_effort_read(const cJSON *value, const char *field, void *out, roco_error *error);

/* fields_tools.c. The tools that the model is told of; NULL: none. */
const cJSON *roco_tools_shown(const roco_completion_params *params);
/* The name of the tool that must be called; "" when it may be any of several; NULL when none must. */
const char *roco_tools_forced(const roco_completion_params *params);
/* May an answer hold several calls? Where it must hold one, small models find no end, so that has to be asked for. */
bool roco_tools_several(const roco_completion_params *params);
/* Where a tool has its parts, as the client wrote it: what errors name. */
typedef struct roco_tool_places {
    const char *name, *parameters;
} roco_tool_places;

/* Checks and keeps the tools of a chat, which were perhaps made of those of another API. */
roco_status roco_tools_keep(const cJSON *value, const roco_tool_places *places, void *out, roco_error *error);
/* Readers of fields. */
roco_status roco_tools_read(const cJSON *value, void *out, roco_error *error);
roco_status roco_tool_choice_read(const cJSON *value, void *out, roco_error *error);
/* What `tools` and `tool_choice` say together. */
roco_status roco_tools_check(const roco_completion_params *params, roco_error *error);

/* "kv_budget must be ...": the one text for every bad budget. `ceiling` 0: not known here. */
roco_status roco_budget_invalid(roco_error *error, int64_t ceiling);

#endif
