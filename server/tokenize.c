/* POST /tokenize, /detokenize and /v1/messages/count_tokens: the tokenizer as the server uses it. */
#include "server/choice.h"
#include "server/completion_jobs.h"
#include "server/fields.h"
#include "server/reply.h"
#include "server/task.h"

#include <stdlib.h>
#include <string.h>

/* Of one answer at most: the reply must not grow without bound. */
enum { MAX_IDS = 1 << 20, MAX_TEXT_BYTES = 16 << 20 };

typedef struct tokenize_task {
    roco_task task; /* first */
    roco_status status;
    roco_problem problem;
    roco_json_out out;
} tokenize_task;

/* --- /tokenize --- */

typedef struct tokenize_params {
    const char *text; /* borrowed */
    bool add_special, special;
} tokenize_params;

static roco_status read_text(const cJSON *value, void *out, roco_error *error)
{
    tokenize_params *params = out;
    if (!cJSON_IsString(value))
        return roco_fail(error, ROCO_INVALID, "text", "text must be a string");
    if (params->text)
        return roco_fail(error, ROCO_INVALID, "text", "give text or content, not both");
    params->text = value->valuestring;
    return ROCO_OK;
}

const roco_field roco_tokenize_fields[] = {
    {.name = "text",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_text,
     .type = "string",
     .help = "what to tokenize",
     .schema = "{'type':'string'}"},
    {.name = "content",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_text,
     .type = "string",
     .help = "another name of text",
     .schema = "{'type':'string'}"},
    {.name = "add_special",
     .kind = ROCO_FIELD_BOOLEAN,
     .offset = offsetof(tokenize_params, add_special),
     .fallback = "false",
     .help = "put the begin token in front, if the model has one there"},
    {.name = "special",
     .kind = ROCO_FIELD_BOOLEAN,
     .offset = offsetof(tokenize_params, special),
     .fallback = "true",
     .help = "text of control tokens becomes the control token, as in a completion's prompt"},
    {0},
};

static void write_ids(roco_json_out *out, const roco_ids *ids)
{
    roco_json_raw(out, "{\"tokens\":[");
    for (size_t i = 0; i < ids->size; i++)
        roco_json_format(out, i ? ",%d" : "%d", ids->data[i]);
    roco_json_format(out, "],\"count\":%zu}", ids->size);
}

static roco_status tokenize(const roco_served_model *model, const cJSON *root, roco_json_out *out, roco_error *error)
{
    tokenize_params params = {.special = true};
    roco_status status = roco_fields_read(roco_tokenize_fields, root, &params, error);
    if (!status && !params.text)
        status = roco_fail(error, ROCO_INVALID, "text", "text is missing");
    if (status)
        return status;
    unsigned flags = (params.special ? ROCO_ENCODE_SPECIAL : 0u) | (params.add_special ? ROCO_ENCODE_ADD_BOS : 0u);
    roco_ids ids = {0};
    status = roco_tokenizer_encode(model->tokenizer, params.text, strlen(params.text), flags, MAX_IDS, &ids, error);
    if (!status)
        write_ids(out, &ids);
    roco_ids_free(&ids);
    return status;
}

/* --- /detokenize --- */

static roco_status read_tokens(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsArray(value))
        return roco_fail(error, ROCO_INVALID, "tokens", "tokens must be an array of token ids");
    *(const cJSON **)out = value;
    return ROCO_OK;
}

const roco_field roco_detokenize_fields[] = {
    {.name = "tokens",
     .kind = ROCO_FIELD_CUSTOM,
     .read = read_tokens,
     .type = "array of token ids",
     .fallback = "required",
     .help = "to join",
     .schema = "{'type':'array','items':{'type':'integer','minimum':0}}"},
    {0},
};

static roco_status join(const roco_served_model *model, const cJSON *tokens, roco_buffer *bytes, roco_error *error)
{
    size_t i = 0;
    for (const cJSON *item = tokens->child; item; item = item->next, i++) {
        int64_t id;
        if (!roco_json_integer(item, &id) || id < 0 || id >= model->n_vocab)
            return roco_fail(error, ROCO_INVALID, "tokens", "tokens: entry %zu is not a token id from 0 to %u", i,
                             model->n_vocab - 1);
        roco_text piece = roco_tokenizer_piece(model->tokenizer, (int32_t)id, true);
        if (bytes->size + piece.size > MAX_TEXT_BYTES)
            return roco_fail(error, ROCO_TOO_LARGE, "tokens",
                             "tokens: the text of %zu of them is over the limit of %d "
                             "bytes",
                             i + 1, MAX_TEXT_BYTES);
        if (roco_buffer_append(bytes, piece.data, piece.size))
            return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    }
    return ROCO_OK;
}

static roco_status detokenize(const roco_served_model *model, const cJSON *root, roco_json_out *out, roco_error *error)
{
    const cJSON *tokens = NULL;
    roco_status status = roco_fields_read(roco_detokenize_fields, root, &tokens, error);
    if (!status && !tokens)
        status = roco_fail(error, ROCO_INVALID, "tokens", "tokens is missing");
    roco_buffer bytes = {0}, text = {0};
    if (!status)
        status = join(model, tokens, &bytes, error);
    if (!status && roco_append_clean(&text, bytes.data, bytes.size))
        status = roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    if (!status) {
        roco_json_raw(out, "{\"text\":");
        roco_json_string(out, text.data, text.size);
        roco_json_raw(out, "}");
    }
    roco_buffer_free(&bytes);
    roco_buffer_free(&text);
    return status;
}

/* --- both --- */

typedef roco_status (*converter)(const roco_served_model *, const cJSON *, roco_json_out *, roco_error *);

static void run(tokenize_task *t, converter convert)
{
    cJSON *root = NULL;
    t->status = roco_json_parse(t->task.body, t->task.size, &root, &t->problem.error);
    if (!t->status)
        t->status = convert(&t->task.app->model, root, &t->out, &t->problem.error);
    cJSON_Delete(root);
}

static void run_tokenize(roco_task *task)
{
    run((tokenize_task *)task, tokenize);
}

/* Of a request of /v1/messages, read as if it were to be answered. */
static void run_count(roco_task *task)
{
    tokenize_task *t = (tokenize_task *)task;
    roco_completion_jobs jobs;
    t->status = roco_completion_jobs_read(&task->app->model, ROCO_ENDPOINT_MESSAGES, task->body, task->size,
                                          task->on_pool, &jobs, &t->problem);
    task->wants_pool = jobs.deferred;
    if (!jobs.deferred)
        roco_json_format(&t->out, "{\"input_tokens\":%llu}", (unsigned long long)jobs.prompt_tokens);
    roco_completion_jobs_free(&jobs);
}

static void run_detokenize(roco_task *task)
{
    run((tokenize_task *)task, detokenize);
}

static void done(roco_task *task)
{
    tokenize_task *t = (tokenize_task *)task;
    if (task->exchange && t->status)
        roco_problem_reply(&t->problem, task->exchange);
    else if (task->exchange)
        roco_json_reply(&t->out, task->exchange);
    roco_json_out_free(&t->out);
    free(t);
}

static void handle(roco_exchange *exchange, roco_app *app, void (*run_task)(roco_task *))
{
    if (!roco_app_admits(app, exchange))
        return;
    tokenize_task *t = calloc(1, sizeof *t);
    if (!t) {
        roco_problem problem = {0};
        roco_fail(&problem.error, ROCO_NO_MEMORY, NULL, "out of memory");
        roco_problem_reply(&problem, exchange);
        return;
    }
    t->task.run = run_task;
    t->task.done = done;
    roco_task_start(&t->task, app, exchange);
}

void roco_handle_tokenize(roco_exchange *exchange, void *context)
{
    handle(exchange, context, run_tokenize);
}

void roco_handle_count_tokens(roco_exchange *exchange, void *context)
{
    handle(exchange, context, run_count);
}

void roco_handle_detokenize(roco_exchange *exchange, void *context)
{
    handle(exchange, context, run_detokenize);
}
