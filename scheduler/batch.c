#include "scheduler/batch.h"

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

static void add_decode(roco_batch *batch, uint32_t source, const roco_sequence *sequence)
{
    add(batch, source,
        (roco_step_item){
            .cache = sequence->cache,
            .tokens = &sequence->last_token,
            .n_tokens = 1,
            .decode = true,
            .sampling = &sequence->job->sampling,
            .sample_index = sequence->n_generated,
        });
}

/* A cut is allowed only where a stride ends, counted from position 0: what is evicted must not depend on the load. */
static uint32_t prompt_rows(const roco_sequence *sequence, uint32_t stride, uint32_t room)
{
    uint32_t left = sequence->job->n_prompt - sequence->position;
    return left <= room ? left : room - room % stride;
}

static void add_prompt(roco_batch *batch, uint32_t source, const roco_sequence *sequence, uint32_t n_tokens)
{
    bool last = sequence->position + n_tokens == sequence->job->n_prompt;
    add(batch, source,
        (roco_step_item){
            .cache = sequence->cache,
            .tokens = sequence->job->prompt + sequence->position,
            .n_tokens = n_tokens,
            .sampling = last ? &sequence->job->sampling : NULL,
        });
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
