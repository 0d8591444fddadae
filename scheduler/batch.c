#include "scheduler/batch.h"

#include "scheduler/rules.h"

#include <stdlib.h>

roco_status roco_batch_init(roco_batch *batch, uint32_t max_seqs)
{
    *batch = (roco_batch){.capacity = max_seqs};
    batch->items = calloc(max_seqs, sizeof *batch->items);
    batch->source = calloc(max_seqs, sizeof *batch->source);
    if (batch->items && batch->source)
        return ROCO_OK;
    roco_batch_free(batch);
    return ROCO_NO_MEMORY;
}

void roco_batch_free(roco_batch *batch)
{
    free(batch->items);
    free(batch->source);
    *batch = (roco_batch){0};
}

static void add(roco_batch *batch, uint32_t source, roco_step_item item)
{
    ROCO_CHECK(batch->n_items < batch->capacity);
    batch->items[batch->n_items] = item;
    batch->source[batch->n_items++] = source;
    batch->rows += item.n_tokens;
}

/* Where the log-probabilities of token number `position`, counted from the prompt's start, go. */
static roco_logprob *logprobs_at(const roco_job *job, uint32_t position)
{
    const uint32_t row = job->score_prompt ? position : position - job->n_prompt;
    return job->logprobs + (size_t)row * (1 + job->n_top);
}

static void add_decode(roco_batch *batch, uint32_t source, const roco_sequence *sequence)
{
    const roco_job *job = sequence->job;
    add(batch, source,
        (roco_step_item){
            .cache = sequence->cache,
            .tokens = &sequence->last_token,
            .n_tokens = 1,
            .decode = true,
            .sampling = &job->sampling,
            .sample_index = sequence->n_generated,
            .allowed = sequence->allowed,
            .rules = roco_rules_of(job),
            .logprobs = job->logprobs ? logprobs_at(job, job->n_prompt + sequence->n_generated) : NULL,
            .n_top = job->n_top,
        });
}

/* A cut is allowed only where a stride ends, counted from position 0: what is evicted must not depend on the load. */
static uint32_t prompt_rows(const roco_sequence *sequence, uint32_t stride, uint32_t room)
{
    stride = sequence->job->stride ? sequence->job->stride : stride;
    uint32_t left = sequence->job->n_prompt - sequence->position;
    return left <= room ? left : room - room % stride;
}

static void add_prompt(roco_batch *batch, uint32_t source, const roco_sequence *sequence, uint32_t n_tokens)
{
    const roco_job *job = sequence->job;
    const bool last = sequence->position + n_tokens == job->n_prompt, draws = last && job->max_tokens > 0;
    roco_step_item item = {
        .cache = sequence->cache,
        .tokens = job->prompt + sequence->position,
        .n_tokens = n_tokens,
        .sampling = draws ? &job->sampling : NULL,
        .allowed = draws ? sequence->allowed : NULL,
        .rules = roco_rules_of(job),
        .n_top = job->n_top,
    };
    if (job->logprobs && job->score_prompt) {
        item.targets = item.tokens + 1;
        item.n_targets = last ? n_tokens - 1 : n_tokens;
        item.logprobs = logprobs_at(job, sequence->position + 1);
    } else if (job->logprobs && draws) {
        item.logprobs = logprobs_at(job, job->n_prompt);
    }
    add(batch, source, item);
}

void roco_batch_pack(roco_batch *batch, const roco_sequence *running, uint32_t n, uint32_t stride, uint32_t step_tokens)
{
    batch->n_items = 0;
    batch->rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!roco_sequence_in_prefill(&running[i]))
            add_decode(batch, i, &running[i]);
    }
    for (uint32_t i = 0; i < n && batch->rows < step_tokens; i++) {
        if (!roco_sequence_in_prefill(&running[i]))
            continue;
        uint32_t n_tokens = prompt_rows(&running[i], stride, step_tokens - batch->rows);
        /* Rows too few for the oldest prompt's stride may still hold the end of a younger one. */
        if (n_tokens > 0)
            add_prompt(batch, i, &running[i], n_tokens);
    }
}
