#include "server/job_rules.h"

#include <math.h>
#include <stdlib.h>

/* The id that a key of logit_bias spells, or -1. Only the shortest spelling counts, so that no token has two. */
static int64_t read_id(const char *text, uint32_t n_vocab)
{
    int64_t id = 0;
    if (text[0] < '0' || text[0] > '9' || (text[0] == '0' && text[1]))
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        id = id * 10 + (*text - '0');
        if (id >= n_vocab)
            return -1;
    }
    return id;
}

static roco_status read_bias(const cJSON *object, uint32_t n_vocab, roco_job_rules *out, roco_error *error)
{
    static const char field[] = "logit_bias";
    const int n = object ? cJSON_GetArraySize(object) : 0;
    if (n == 0)
        return ROCO_OK;
    if (n > ROCO_MAX_BIASES)
        return roco_fail(error, ROCO_INVALID, field, "logit_bias has %d tokens; at most %d are taken", n,
                         ROCO_MAX_BIASES);
    out->bias = malloc((size_t)n * sizeof *out->bias);
    if (!out->bias)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (const cJSON *item = object->child; item; item = item->next) {
        const int64_t id = read_id(item->string, n_vocab);
        const double bias = cJSON_IsNumber(item) ? item->valuedouble : NAN;
        if (id < 0)
            return roco_fail(error, ROCO_INVALID, field, "logit_bias: key %u is not a token id from 0 to %u",
                             out->n_bias, n_vocab - 1);
        if (!(bias >= -100 && bias <= 100))
            return roco_fail(error, ROCO_INVALID, field, "logit_bias: the bias of token %lld must be from -100 to 100",
                             (long long)id);
        for (uint32_t i = 0; i < out->n_bias; i++)
            if (out->bias[i].token == id)
                return roco_fail(error, ROCO_INVALID, field, "logit_bias: token %lld is given twice", (long long)id);
        out->bias[out->n_bias++] = (roco_logit_bias){(int32_t)id, (float)bias};
    }
    return ROCO_OK;
}

static bool holds(const int32_t *ids, uint32_t n, int64_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static roco_status read_stop_tokens(const cJSON *array, uint32_t n_vocab, roco_job_rules *out, roco_error *error)
{
    if (!array || !array->child)
        return ROCO_OK;
    out->stop_tokens = malloc(ROCO_MAX_STOP_TOKENS * sizeof *out->stop_tokens);
    if (!out->stop_tokens)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    uint32_t index = 0;
    for (const cJSON *item = array->child; item; item = item->next, index++) {
        int64_t id;
        if (index == ROCO_MAX_STOP_TOKENS)
            return roco_fail(error, ROCO_INVALID, "stop_token_ids", "stop_token_ids must hold at most %u ids",
                             ROCO_MAX_STOP_TOKENS);
        if (!roco_json_integer(item, &id) || id < 0 || id >= n_vocab)
            return roco_fail(error, ROCO_INVALID, "stop_token_ids",
                             "stop_token_ids: entry %u is not a token id from 0 to %u", index, n_vocab - 1);
        if (!holds(out->stop_tokens, out->n_stop_tokens, id))
            out->stop_tokens[out->n_stop_tokens++] = (int32_t)id;
    }
    return ROCO_OK;
}

/* All tokens that would end an answer: what min_tokens keeps away. */
static roco_status list_ends(const roco_completion_params *params, const roco_tokenizer *tokenizer, uint32_t n_vocab,
                             roco_job_rules *out, roco_error *error)
{
    for (int pass = 0; pass < 2; pass++) { /* counts, then writes */
        uint32_t n = 0;
        for (uint32_t id = 0; id < n_vocab; id++) {
            bool ends = !params->ignore_eos && roco_tokenizer_is_end(tokenizer, (int32_t)id);
            if (!ends && !holds(out->stop_tokens, out->n_stop_tokens, id))
                continue;
            if (pass)
                out->ends[n] = (int32_t)id;
            n++;
        }
        out->n_ends = n;
        if (pass || n == 0)
            return ROCO_OK;
        out->ends = malloc(n * sizeof *out->ends);
        if (!out->ends)
            break;
    }
    return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
}

roco_status roco_job_rules_read(const roco_completion_params *params, const roco_tokenizer *tokenizer, uint32_t n_vocab,
                                roco_job_rules *out, roco_error *error)
{
    roco_status status = read_bias(params->logit_bias, n_vocab, out, error);
    if (!status)
        status = read_stop_tokens(params->stop_token_ids, n_vocab, out, error);
    if (!status && params->min_tokens > 0)
        status = list_ends(params, tokenizer, n_vocab, out, error);
    return status;
}

roco_status roco_job_rules_apply(const roco_job_rules *rules, const roco_completion_params *params, roco_job *job)
{
    job->stop_tokens = rules->stop_tokens;
    job->n_stop_tokens = rules->n_stop_tokens;
    job->ends = rules->ends;
    job->n_ends = rules->n_ends;
    job->min_tokens = (uint32_t)params->min_tokens;
    job->rules = (roco_logit_rules){
        .bias = rules->bias,
        .n_bias = rules->n_bias,
        .repetition = (float)params->repetition_penalty,
        .frequency = (float)params->frequency_penalty,
        .presence = (float)params->presence_penalty,
    };
    return roco_job_track_tokens(job);
}

void roco_job_rules_free(roco_job_rules *rules)
{
    free(rules->bias);
    free(rules->stop_tokens);
    free(rules->ends);
    *rules = (roco_job_rules){0};
}
