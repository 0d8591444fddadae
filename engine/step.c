/* One step: the scheduler's items become chunks of one batch, the forward pass runs, wanted rows become tokens. Engine
 * thread. */
#include "engine/state.h"

#include <math.h>
#include <string.h>

void roco_engine_fault_nan(roco_engine *engine, uint64_t countdown)
{
#ifdef ROCO_FAULTS
    engine->fault_nan = countdown;
#endif
}

/* Cuts an item into strides; its rows start at `row`. Returns the chunks used. */
static uint32_t add_chunks(roco_engine *e, const roco_step_item *item, uint32_t row, roco_chunk *chunks)
{
    roco_cache *cache = item->cache;
    const uint32_t stride = cache->stride;
    ROCO_CHECK(item->n_tokens >= 1 && (!item->decode || item->n_tokens == 1));
    ROCO_CHECK(item->n_targets == 0 || (item->logprobs && item->n_targets + 1 >= item->n_tokens));
    ROCO_CHECK(item->n_targets + (item->sampling != NULL) <= item->n_tokens);
    /* What is evicted must depend on the request alone, so prompts are cut at multiples of the stride and nowhere else.
     */
    ROCO_CHECK(item->decode || (!cache->n_decoded && cache->length % stride == 0));
    uint32_t n_chunks = 0;
    for (uint32_t done = 0; done < item->n_tokens;) {
        uint32_t n = item->n_tokens - done < stride ? item->n_tokens - done : stride;
        chunks[n_chunks++] = (roco_chunk){.sequence = &cache->sequence,
                                          .row = row + done,
                                          .n_rows = n,
                                          .position = (int32_t)(cache->length + done),
                                          .decode = item->decode};
        done += n;
    }
    cache->length += item->n_tokens;
    cache->n_decoded += item->decode;
    return n_chunks;
}

static void fill_row(roco_engine *e, uint32_t row, int32_t id, uint32_t position, bool by_rank)
{
    const roco_shape *s = &e->model.shape;
    const uint32_t half = s->rope_dim / 2;
    ROCO_CHECK(id >= 0 && (uint32_t)id < e->info.n_vocab);
    e->ids[row] = id;
    for (uint32_t r = 0; r < s->n_ropes; r++) {
        const double *frequencies = e->model.rope_frequencies + (size_t)r * half;
        const size_t at = roco_rope_offset(e, r) + (size_t)row * half;
        for (uint32_t i = 0; i < half; i++) {
            if (by_rank) { /* rotated where the rank is known */
                e->host_cosines[at + i] = 1;
                e->host_sines[at + i] = 0;
                continue;
            }
            const double angle = position * frequencies[i];
            e->host_cosines[at + i] = (float)(cos(angle) * s->ropes[r].magnitude);
            e->host_sines[at + i] = (float)(sin(angle) * s->ropes[r].magnitude);
        }
    }
}

/* Packs the batch on the host and sends it up; returns rows and chunks. */
static uint32_t pack(roco_engine *e, roco_step_item *items, uint32_t n_items, uint32_t *n_chunks)
{
    uint32_t rows = 0;
    *n_chunks = 0;
    for (uint32_t i = 0; i < n_items; i++) {
        roco_step_item *item = &items[i];
        ROCO_CHECK(rows + item->n_tokens <= e->info.step_tokens);
        const uint32_t position = item->cache->length;
        *n_chunks += add_chunks(e, item, rows, e->chunks + *n_chunks);
        for (uint32_t t = 0; t < item->n_tokens; t++)
            fill_row(e, rows + t, item->tokens[t], position + t, item->cache->sequence.by_rank);
        rows += item->n_tokens;
        item->status = ROCO_OK;
    }
    const size_t bytes = rows * (e->model.shape.rope_dim / 2) * sizeof(float);
    for (uint32_t r = 0; r < e->model.shape.n_ropes; r++) {
        const size_t at = roco_rope_offset(e, r);
        e->backend->ops->upload(e->backend, e->buffers.cosines + at, e->host_cosines + at, bytes);
        e->backend->ops->upload(e->backend, e->buffers.sines + at, e->host_sines + at, bytes);
    }
    return rows;
}

static void draw_token(roco_engine *e, roco_step_item *item)
{
#ifdef ROCO_FAULTS
    if (e->fault_nan && --e->fault_nan == 0)
        e->host_logits[e->info.n_vocab / 2] = NAN;
#endif
    const roco_draw draw = {item->sampling, item->allowed, item->rules, item->sample_index};
    item->status = roco_sample(&draw, e->host_logits, e->info.n_vocab, e->sampler_scratch, &item->token);
}

static void take_logits(roco_engine *e, roco_step_item *item, uint32_t token, uint32_t slot)
{
    const uint32_t n_vocab = e->info.n_vocab;
    const bool draws = item->sampling && token + 1 == item->n_tokens;
    const bool scored = item->logprobs && (draws || token < item->n_targets);
    float *to = item->logits ? item->logits + (size_t)token * n_vocab : scored ? e->model_logits : e->host_logits;
    e->backend->ops->download(e->backend, to, e->buffers.logits + (size_t)slot * n_vocab, n_vocab * sizeof *to);
    const uint32_t index = draws ? item->n_targets : token;
    roco_logprob *row = scored ? item->logprobs + (size_t)index * (1 + item->n_top) : NULL;
    const double normalizer = scored ? roco_logprobs_top(to, n_vocab, item->n_top, row + 1) : 0;
    if (draws) {
        if (to != e->host_logits) /* drawing overwrites its input */
            memcpy(e->host_logits, to, n_vocab * sizeof *to);
        draw_token(e, item);
    }
    if (!scored)
        return;
    if (isnan(normalizer))
        item->status = ROCO_NUMERIC;
    if (item->status)
        return;
    row->token = draws ? item->token : item->targets[token];
    row->value = (float)(to[row->token] - normalizer);
}

/* Where the logits of batch row `row` go. */
typedef struct destination {
    roco_step_item *item;
    uint32_t token; /* of the item */
} destination;

static void flush(roco_engine *e, const uint32_t *rows, const destination *to, uint32_t n)
{
    if (!n)
        return;
    roco_forward_logits(e, rows, n);
    for (uint32_t i = 0; i < n; i++)
        take_logits(e, to[i].item, to[i].token, i);
}

static uint32_t wanted_first(const roco_step_item *item)
{
    return item->logits || item->n_targets ? 0 : item->n_tokens - 1;
}

static uint32_t wanted_end(const roco_step_item *item)
{
    return item->logits || item->sampling ? item->n_tokens : item->n_targets;
}

/* Only rows that somebody wants pass through the output head, ROCO_LOGIT_ROWS at a time. */
static void finish_items(roco_engine *e, roco_step_item *items, uint32_t n_items)
{
    uint32_t rows[ROCO_LOGIT_ROWS], n = 0, row = 0;
    destination to[ROCO_LOGIT_ROWS];
    for (uint32_t i = 0; i < n_items; i++) {
        const uint32_t n_tokens = items[i].n_tokens, end = wanted_end(&items[i]);
        for (uint32_t t = wanted_first(&items[i]); t < end; t++) {
            rows[n] = row + t;
            to[n++] = (destination){&items[i], t};
            if (n == ROCO_LOGIT_ROWS) {
                flush(e, rows, to, n);
                n = 0;
            }
        }
        row += n_tokens;
    }
    flush(e, rows, to, n);
}

roco_status roco_engine_step(roco_engine *e, roco_step_item *items, uint32_t n_items, roco_error *error)
{
    uint32_t n_chunks;
    const uint32_t rows = pack(e, items, n_items, &n_chunks);
    roco_forward(e, rows, n_chunks);
    finish_items(e, items, n_items);
    return e->backend->ops->finish(e->backend, error);
}
