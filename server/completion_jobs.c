/* Reading a completion request as a whole. Any thread. */
#include "server/completion_jobs.h"

#include "http/json.h"
#include "server/chat_prompt.h"
#include "server/constraints.h"
#include "server/responses_request.h"
#include "server/tool_grammar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MOST_LOGPROBS = 1 << 20 };

typedef struct reader {
    const roco_served_model *model;
    roco_endpoint endpoint;
    const roco_completion_params *params;
    roco_completion_jobs *out;
    roco_problem *problem;
    bool may_wait; /* this thread */
    uint64_t seed;
    roco_pins pins;              /* of the prompt being read */
    roco_constraint *constraint; /* of all its jobs; a reference */
} reader;

static roco_status check_model(const reader *r)
{
    if (!r->params->model || strcmp(r->params->model, r->model->id) == 0)
        return ROCO_OK;
    r->problem->code = "model_not_found";
    return roco_fail(&r->problem->error, ROCO_NOT_FOUND, "model", "the model does not exist; GET /v1/models names it");
}

static roco_status no_context(const reader *r, const char *more, size_t n_tokens)
{
    r->problem->code = "context_length_exceeded";
    return roco_fail(
        &r->problem->error, ROCO_TOO_LARGE, r->endpoint == ROCO_ENDPOINT_COMPLETIONS ? "prompt" : "messages",
        "the prompt has %s%zu tokens, but the context is %u tokens, of which at least one must be left for "
        "the answer",
        more, n_tokens, r->model->n_context);
}

/* Tokens that prompt and answer may have together. */
static size_t longest(const reader *r)
{
    return r->params->kv_by_rank ? ROCO_MAX_STREAM : r->model->n_context;
}

/* The exact length is worth some work for the error text, but not without end. */
static size_t most_ids(const reader *r)
{
    return r->params->kv_by_rank ? ROCO_MAX_STREAM : 4 * (size_t)r->model->n_context;
}

static roco_status encode(const reader *r, const char *text, roco_ids *ids)
{
    roco_status status =
        roco_tokenizer_encode(r->model->tokenizer, text, strlen(text), ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS,
                              most_ids(r), ids, &r->problem->error);
    return status == ROCO_TOO_LARGE ? no_context(r, "more than ", most_ids(r)) : status;
}

static roco_status read_ids(const reader *r, const cJSON *array, roco_ids *ids)
{
    size_t n = (size_t)cJSON_GetArraySize(array);
    if (n > longest(r))
        return no_context(r, "", n);
    ids->data = malloc((n ? n : 1) * sizeof *ids->data);
    if (!ids->data)
        return roco_fail(&r->problem->error, ROCO_NO_MEMORY, NULL, "out of memory");
    ids->capacity = n;
    for (const cJSON *item = array->child; item; item = item->next) {
        int64_t id;
        if (!roco_json_integer(item, &id) || id < 0 || id >= r->model->n_vocab)
            return roco_fail(&r->problem->error, ROCO_INVALID, "prompt",
                             "prompt: entry %zu is not a token id from 0 to %u", ids->size, r->model->n_vocab - 1);
        ids->data[ids->size++] = (int32_t)id;
    }
    return ROCO_OK;
}

/* A share is of this prompt; the ceiling holds for both forms. */
static roco_status choose_budget(const reader *r, uint32_t n_prompt, uint32_t *budget)
{
    double wanted = r->params->kv_budget;
    int64_t tokens = (int64_t)wanted;
    if (wanted == 0) {
        tokens = r->model->options->kv_budget;
        tokens = tokens > r->model->budget_max ? r->model->budget_max : tokens;
    } else if (wanted < 1) {
        tokens = (int64_t)floor(wanted * n_prompt);
        tokens = tokens < ROCO_MIN_BUDGET ? ROCO_MIN_BUDGET : tokens;
    }
    if (wanted > 0 && tokens > r->model->budget_max)
        return roco_budget_invalid(&r->problem->error, r->model->budget_max);
    *budget = (uint32_t)tokens;
    return ROCO_OK;
}

/* What may not be evicted must leave room in the budget. */
static roco_status fill_pins(const reader *r, roco_job *job)
{
    const roco_completion_params *params = r->params;
    const uint64_t pinned = roco_pins_count(&r->pins);
    const uint32_t end = r->pins.n ? r->pins.data[r->pins.n - 1].end : 0;
    if (end > job->n_prompt)
        return roco_fail(&r->problem->error, ROCO_INVALID, "kv_pin",
                         "kv_pin: a range ends at %u, but the prompt has %u tokens", end, job->n_prompt);
    if (!job->policy->evicts)
        return ROCO_OK;
    memcpy(job->pins, r->pins.data, r->pins.n * sizeof *job->pins);
    job->n_pins = r->pins.n;
    if (job->sink + job->recent >= job->budget)
        return roco_fail(&r->problem->error, ROCO_INVALID,
                         params->kv_sink != ROCO_ABSENT     ? "kv_sink"
                         : params->kv_recent != ROCO_ABSENT ? "kv_recent"
                                                            : "kv_budget",
                         "kv_sink (%u) and kv_recent (%u) together must be less than the budget (%u)", job->sink,
                         job->recent, job->budget);
    if (params->kv_scope != ROCO_KV_SCOPE_ANSWER && job->sink + job->recent + pinned >= job->budget)
        return roco_fail(&r->problem->error, ROCO_INVALID, "kv_pin",
                         "kv_pin holds %llu tokens; with kv_sink (%u) and kv_recent (%u) they must be fewer than the "
                         "budget (%u)",
                         (unsigned long long)pinned, job->sink, job->recent, job->budget);
    return ROCO_OK;
}

static roco_status choose_stride(const reader *r, roco_job *job)
{
    const int64_t most = r->model->options->evict_stride;
    if (r->params->kv_stride == ROCO_ABSENT)
        return ROCO_OK;
    if (r->params->kv_stride > most)
        return roco_fail(&r->problem->error, ROCO_INVALID, "kv_stride",
                         "kv_stride is %lld; at most %lld are allowed here, the server's --evict-stride",
                         (long long)r->params->kv_stride, (long long)most);
    job->stride = (uint32_t)r->params->kv_stride;
    return ROCO_OK;
}

/* Of an answer that is capped alone, the whole prompt is pinned and counts on top. */
static void choose_scope(const reader *r, roco_job *job)
{
    if (r->params->kv_scope == ROCO_KV_SCOPE_PROMPT)
        job->uncapped = job->max_tokens;
    if (r->params->kv_scope != ROCO_KV_SCOPE_ANSWER)
        return;
    job->pins[0] = (roco_pin){0, job->n_prompt};
    job->n_pins = 1;
    job->budget += job->n_prompt;
}

static roco_status fill_cache(const reader *r, roco_job *job)
{
    const roco_options *options = r->model->options;
    const roco_completion_params *params = r->params;
    job->policy = r->out->policy;
    job->sink = (uint32_t)(params->kv_sink == ROCO_ABSENT ? options->kv_sink : params->kv_sink);
    job->recent = (uint32_t)(params->kv_recent == ROCO_ABSENT ? options->kv_recent : params->kv_recent);
    job->uniform = params->kv_heads == ROCO_KV_HEADS_UNIFORM;
    job->by_rank = params->kv_by_rank;
    job->compensate = params->kv_compensation;
    if (params->kv_heads == ROCO_KV_HEADS_PROFILE && !r->model->has_profile)
        return roco_fail(&r->problem->error, ROCO_INVALID, "kv_heads",
                         "kv_heads is \"profile\", but the server has no head profile");
    roco_status status = choose_budget(r, job->n_prompt, &job->budget);
    if (!status)
        status = choose_stride(r, job);
    if (!status)
        status = fill_pins(r, job);
    if (status)
        return status;
    if (job->policy->evicts)
        choose_scope(r, job);
    else
        job->budget = job->n_prompt + job->max_tokens;
    uint32_t pinned = 0;
    for (uint32_t i = 0; i < job->n_pins; i++)
        pinned += job->pins[i].end - job->pins[i].first;
    r->out->pinned = pinned > r->out->pinned ? pinned : r->out->pinned;
    if (job->budget > r->out->budget)
        r->out->budget = job->budget;
    return ROCO_OK;
}

/* Their room is set aside for the longest answer there may be. */
static roco_status check_logprobs(const reader *r, const roco_job *job)
{
    const bool wanted = r->params->logprobs || r->out->n_tried > r->out->n_asked;
    if (!wanted || (uint64_t)job->n_prompt + job->max_tokens <= MOST_LOGPROBS)
        return ROCO_OK;
    return roco_fail(&r->problem->error, ROCO_TOO_LARGE, r->params->logprobs ? "logprobs" : "best_of",
                     "log-probabilities are kept of at most %d tokens, prompt and max_tokens together", MOST_LOGPROBS);
}

static roco_status add_job(const reader *r, const roco_ids *ids, uint32_t choice)
{
    const roco_completion_params *params = r->params;
    roco_job *job = roco_job_open();
    int32_t *prompt = malloc(ids->size * sizeof *prompt);
    if (!job || !prompt) {
        free(prompt);
        roco_job_free(job);
        return roco_fail(&r->problem->error, ROCO_NO_MEMORY, NULL, "out of memory");
    }
    r->out->jobs[r->out->n++] = job;
    memcpy(prompt, ids->data, ids->size * sizeof *prompt);
    job->prompt = prompt;
    job->n_prompt = (uint32_t)ids->size;
    int64_t room = (int64_t)longest(r) - job->n_prompt;
    int64_t absent = r->endpoint == ROCO_ENDPOINT_COMPLETIONS ? ROCO_DEFAULT_MAX_TOKENS : ROCO_DEFAULT_CHAT_TOKENS;
    int64_t wanted = params->max_tokens == ROCO_ABSENT ? absent : params->max_tokens;
    job->max_tokens = (uint32_t)(wanted < room ? wanted : room);
    roco_status status = check_logprobs(r, job);
    if (status)
        return status;
    job->ignore_eos = params->ignore_eos;
    job->sampling = (roco_sampling){
        .temperature = (float)params->temperature,
        .top_p = (float)params->top_p,
        .min_p = (float)params->min_p,
        .top_k = (int32_t)(params->top_k < 0 ? 0 : params->top_k),
        .seed = roco_seed_for_choice(r->seed, choice),
    };
    job->constraint = roco_constraint_hold(r->constraint);
    if (roco_job_rules_apply(&r->out->rules, params, job))
        return roco_fail(&r->problem->error, ROCO_NO_MEMORY, NULL, "out of memory");
    return fill_cache(r, job);
}

static roco_status add_choices(const reader *r, const roco_ids *ids)
{
    roco_status status = ROCO_OK;
    if (ids->size + (r->params->max_tokens != 0) > longest(r))
        return no_context(r, "", ids->size);
    r->out->prompt_tokens += ids->size;
    for (uint32_t choice = 0; !status && choice < r->out->n_tried; choice++)
        status = add_job(r, ids, choice);
    return status;
}

/* The tokens may begin with what the server put in front of the text: a begin token, SentencePiece's space. */
static roco_status measure_unsaid(const reader *r, const char *text, const roco_ids *ids, uint32_t first)
{
    const size_t size = strlen(text);
    roco_buffer said = {0};
    roco_status status = ROCO_OK;
    for (size_t i = 0; i < ids->size && !status; i++) {
        roco_text piece = roco_tokenizer_piece(r->model->tokenizer, ids->data[i], true);
        status = roco_buffer_append(&said, piece.data, piece.size);
    }
    if (status)
        roco_fail(&r->problem->error, status, NULL, "out of memory");
    else if (said.size > size && memcmp(said.data + said.size - size, text, size) == 0)
        for (uint32_t i = first; i < r->out->n; i++)
            r->out->unsaid[i] = (uint32_t)(said.size - size);
    roco_buffer_free(&said);
    return status;
}

/* One prompt: a string or an array of ids. */
static roco_status add_prompt(const reader *r, const cJSON *prompt)
{
    const uint32_t first = r->out->n;
    roco_ids ids = {0};
    roco_status status = cJSON_IsString(prompt) ? encode(r, prompt->valuestring, &ids) : read_ids(r, prompt, &ids);
    if (!status && ids.size == 0)
        status = roco_fail(&r->problem->error, ROCO_INVALID, "prompt", "a prompt holds no tokens");
    status = status ? status : add_choices(r, &ids);
    if (!status && r->out->echo && cJSON_IsString(prompt))
        status = measure_unsaid(r, prompt->valuestring, &ids, first);
    roco_ids_free(&ids);
    return status;
}

static roco_status add_chat(reader *r)
{
    roco_ids ids = {0};
    roco_status status = roco_chat_turn_open(&r->model->chat, r->params, &r->out->turn, &r->problem->error);
    if (!status)
        status = roco_chat_prompt(r->model, r->params, r->may_wait, most_ids(r), &ids, &r->pins, &r->out->turn.begun,
                                  r->problem);
    r->out->deferred = status == ROCO_BUSY;
    if (r->out->deferred)
        return ROCO_OK;
    if (status == ROCO_TOO_LARGE && !r->problem->error.field[0])
        status = no_context(r, "more than ", most_ids(r));
    if (!status && ids.size == 0)
        status = roco_fail(&r->problem->error, ROCO_INVALID, "messages",
                           "the chat template makes no text of these messages");
    status = status ? status : add_choices(r, &ids);
    roco_ids_free(&ids);
    return status;
}

static roco_status check_counts(const reader *r, const cJSON *first)
{
    uint64_t n_prompts = 1;
    if (first) {
        n_prompts = 0;
        bool strings = cJSON_IsString(first);
        for (const cJSON *item = first; item; item = item->next, n_prompts++) {
            if (strings ? !cJSON_IsString(item) : !cJSON_IsArray(item))
                return roco_fail(&r->problem->error, ROCO_INVALID, "prompt",
                                 "prompt: entry %llu is not of the kind of the first; give all strings, all token ids "
                                 "or all arrays of token ids",
                                 (unsigned long long)n_prompts);
        }
    }
    if (n_prompts * (uint64_t)r->params->best_of > ROCO_MAX_SEQUENCES)
        return roco_fail(&r->problem->error, ROCO_INVALID, n_prompts > 1 ? "prompt" : "n",
                         "%llu prompts times n or best_of (%lld) are over the limit of %u answers in one request",
                         (unsigned long long)n_prompts, (long long)r->params->best_of, ROCO_MAX_SEQUENCES);
    return ROCO_OK;
}

static roco_status add_prompts(const reader *r)
{
    if (r->params->pin_roles)
        return roco_fail(&r->problem->error, ROCO_INVALID, "kv_pin",
                         "kv_pin names a role; only the messages of a chat have one");
    const cJSON *prompt = r->params->prompt;
    /* A bare array of ids is one prompt; any other array is a list of prompts. */
    const cJSON *first = cJSON_IsArray(prompt) && !cJSON_IsNumber(prompt->child) ? prompt->child : NULL;
    roco_status status = check_counts(r, first);
    if (status || !first)
        return status ? status : add_prompt(r, prompt);
    for (const cJSON *item = first; item && !status; item = item->next)
        status = add_prompt(r, item);
    return status;
}

static uint64_t choose_seed(const roco_completion_params *params)
{
    uint64_t seed = (uint64_t)params->seed;
    if (params->seed == ROCO_ABSENT && getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = 0;
    return seed;
}

/* False with ROCO_OK in *status: the constraint has to be compiled, and not here. */
static bool find_constraint(reader *r, roco_status *status)
{
    const roco_constraint_field *asked = &r->params->constraint;
    *status = ROCO_OK;
    if (asked->kind != ROCO_CONSTRAINT_NONE)
        *status = roco_constraints_get(r->model->constraints, asked, r->may_wait, &r->constraint, &r->problem->error);
    r->out->deferred = asked->kind != ROCO_CONSTRAINT_NONE && !*status && !r->constraint;
    return !*status && !r->out->deferred;
}

static roco_status read_params(roco_endpoint endpoint, const cJSON *root, roco_completion_params *out,
                               roco_error *error)
{
    switch (endpoint) {
    case ROCO_ENDPOINT_COMPLETIONS: return roco_completion_params_read(root, out, error);
    case ROCO_ENDPOINT_CHAT: return roco_chat_params_read(root, out, error);
    case ROCO_ENDPOINT_RESPONSES: return roco_responses_params_read(root, out, error);
    case ROCO_ENDPOINT_MESSAGES: return roco_messages_params_read(root, out, error);
    }
    return ROCO_INVALID;
}

/* The messages that a chat is made of were the client's `input`. */
static void blame_input(roco_error *error)
{
    if (strncmp(error->field, "messages", strlen("messages")) == 0)
        snprintf(error->field, sizeof error->field, "input");
}

roco_status roco_completion_jobs_read(const roco_served_model *model, roco_endpoint endpoint, const char *body,
                                      size_t size, bool may_wait, roco_completion_jobs *out, roco_problem *problem)
{
    memset(out, 0, sizeof *out);
    cJSON *root = NULL;
    roco_completion_params params = {0};
    roco_status status = roco_json_parse(body, size, &root, &problem->error);
    if (!status)
        status = read_params(endpoint, root, &params, &problem->error);
    bool read = !status;
    if (!status && endpoint != ROCO_ENDPOINT_COMPLETIONS)
        status = roco_tools_constrain(&model->chat, &params, &problem->error);
    if (!status && endpoint == ROCO_ENDPOINT_RESPONSES)
        status = roco_responses_repeat(root, &params, &out->repeated, &problem->error);
    if (!status) {
        reader r = {model, endpoint, &params, out, problem, may_wait, choose_seed(&params), params.kv_pin, NULL};
        out->stops = params.stops;
        out->stream = params.stream;
        out->include_usage = params.include_usage;
        out->policy = params.policy ? params.policy : model->policy;
        out->echo = params.echo;
        out->logprobs = params.logprobs;
        out->n_top = (uint32_t)params.top_logprobs;
        out->n_asked = (uint32_t)params.n;
        out->n_tried = (uint32_t)params.best_of;
        status = check_model(&r);
        if (!status)
            status = roco_job_rules_read(&params, model->tokenizer, model->n_vocab, &out->rules, &problem->error);
        if (!status && find_constraint(&r, &status))
            status = endpoint == ROCO_ENDPOINT_COMPLETIONS ? add_prompts(&r) : add_chat(&r);
        roco_constraint_release(r.constraint);
    }
    cJSON_Delete(params.made);
    cJSON_Delete(root);
    if (status && read && endpoint == ROCO_ENDPOINT_RESPONSES)
        blame_input(&problem->error);
    if (status || out->deferred)
        roco_completion_jobs_free(out);
    return status;
}

void roco_completion_jobs_free(roco_completion_jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->n; i++)
        roco_job_free(jobs->jobs[i]);
    jobs->n = 0;
    roco_job_rules_free(&jobs->rules);
    roco_buffer_free(&jobs->repeated);
    roco_chat_turn_free(&jobs->turn);
    jobs->turn = (roco_chat_turn){0};
}
