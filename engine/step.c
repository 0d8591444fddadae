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

/* Packs the batch on the host; returns rows and chunks. */
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
    return rows;
}

/* All that the step brings, in one transfer where the backend knows one. `wanted` must be listed. Returns the rows that
 * operations are called for, 0: for none. */
static uint32_t send(roco_engine *e, uint32_t rows, uint32_t n_chunks, uint32_t n_wanted)
{
    const roco_backend_ops *ops = e->backend->ops;
    const size_t row_bytes = e->model.shape.rope_dim / 2 * sizeof(float);
    roco_copy copies[ROCO_STEP_COPIES];
    uint32_t n = 0;
    for (uint32_t r = 0; r < e->model.shape.n_ropes; r++) {
        const size_t at = roco_rope_offset(e, r);
        copies[n++] = (roco_copy){e->buffers.cosines + at, e->host_cosines + at, row_bytes};
        copies[n++] = (roco_copy){e->buffers.sines + at, e->host_sines + at, row_bytes};
    }
    if (ops->begin) {
        /* Who looks into a step, or times its parts, needs them one by one. */
        const uint32_t most_rows = e->observe || e->times ? 0 : e->logit_rows;
        const roco_step_tables tables = {e->ids, rows, e->wanted, n_wanted, e->chunks, n_chunks, copies, n, most_rows};
        return ops->begin(e->backend, &tables);
    }
    for (uint32_t i = 0; i < n; i++)
        ops->upload(e->backend, copies[i].to, copies[i].from, rows * copies[i].row_bytes);
    return rows;
}

/* All layers, then the logits of the first round of wanted rows. */
static void run(roco_engine *e, uint32_t rows, uint32_t n_chunks, uint32_t n_wanted)
{
    roco_forward(e, rows, n_chunks);
    if (n_wanted)
        roco_forward_logits(e, e->wanted, n_wanted < e->logit_rows ? n_wanted : e->logit_rows);
}

/* Sends the step and runs it. */
static void forward(roco_engine *e, uint32_t rows, uint32_t n_chunks, uint32_t n_wanted)
{
    const roco_backend_ops *ops = e->backend->ops;
    const uint32_t to_run = send(e, rows, n_chunks, n_wanted);
    if (!to_run)
        return;
    /* Rows that the backend adds are nobody's. */
    for (uint32_t i = rows; i < to_run; i++)
        e->ids[i] = 0;
    n_wanted += to_run - rows;
    run(e, to_run, n_chunks, n_wanted);
    if (ops->end && !ops->end(e->backend))
        run(e, to_run, n_chunks, n_wanted);
}

static void draw_token(roco_engine *e, roco_step_item *item)
{
#ifdef ROCO_FAULTS
    if (e->fault_nan && --e->fault_nan == 0)
        e->host_logits[e->info.n_vocab / 2] = NAN;
#endif
    const roco_draw draw = {item->sampling, item->allowed, item->rules, item->sample_index};
    const roco_status drawn = roco_sample(&draw, e->host_logits, e->info.n_vocab, e->sampler_scratch, &item->token);
    if (!item->status) /* a row that was scored before may have failed */
        item->status = drawn;
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

/* Nothing but the token is wanted, and nothing but the sampling decides it: the device draws, and no logits come down.
 */
static bool draws_there(const roco_engine *e, const destination *to)
{
    const roco_step_item *item = to->item;
    return e->backend->ops->sample && item->sampling && to->token + 1 == item->n_tokens && !item->logits &&
           !item->logprobs && !item->allowed && !item->rules && !e->fault_nan;
}

static void draw_there(roco_engine *e, const destination *to, uint32_t n)
{
    roco_sample_row rows[ROCO_LOGIT_ROWS];
    int32_t tokens[ROCO_LOGIT_ROWS];
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        const roco_sampling *s = to[i].item->sampling;
        if (draws_there(e, &to[i]))
            rows[n_rows++] = (roco_sample_row){.row = i,
                                               .top_k = s->top_k,
                                               .temperature = s->temperature,
                                               .top_p = s->top_p,
                                               .min_p = s->min_p,
                                               .seed = s->seed,
                                               .index = to[i].item->sample_index};
    }
    if (n_rows)
        e->backend->ops->sample(e->backend, e->buffers.logits, e->info.n_vocab, rows, n_rows, tokens);
    for (uint32_t i = 0; i < n_rows; i++) {
        roco_step_item *item = to[rows[i].row].item;
        item->token = tokens[i];
        item->status = tokens[i] < 0 ? ROCO_NUMERIC : ROCO_OK;
    }
}

/* A round of wanted rows. The first one's logits are there. */
static void flush(roco_engine *e, const uint32_t *rows, const destination *to, uint32_t n)
{
    if (!n)
        return;
    if (rows != e->wanted)
        roco_forward_logits(e, rows, n);
    for (uint32_t i = 0; i < n; i++)
        if (!draws_there(e, &to[i]))
            take_logits(e, to[i].item, to[i].token, i);
    draw_there(e, to, n);
}

static uint32_t wanted_first(const roco_step_item *item)
{
    return item->logits || item->n_targets ? 0 : item->n_tokens - 1;
}

static uint32_t wanted_end(const roco_step_item *item)
{
    return item->logits || item->sampling ? item->n_tokens : item->n_targets;
}

/* The rows that somebody wants, in order, into e->wanted. Returns how many. */
static uint32_t list_wanted(roco_engine *e, const roco_step_item *items, uint32_t n_items)
{
    uint32_t n = 0, row = 0;
    for (uint32_t i = 0; i < n_items; row += items[i++].n_tokens)
        for (uint32_t t = wanted_first(&items[i]); t < wanted_end(&items[i]); t++)
            e->wanted[n++] = row + t;
    return n;
}

/* Only rows that somebody wants pass through the output head, e->logit_rows at a time. */
static void finish_items(roco_engine *e, roco_step_item *items, uint32_t n_items)
{
    const uint32_t *rows = e->wanted;
    uint32_t n = 0;
    destination to[ROCO_LOGIT_ROWS];
    for (uint32_t i = 0; i < n_items; i++) {
        const uint32_t end = wanted_end(&items[i]);
        for (uint32_t t = wanted_first(&items[i]); t < end; t++) {
            to[n++] = (destination){&items[i], t};
            if (n == e->logit_rows) {
                flush(e, rows, to, n);
                rows += n;
                n = 0;
            }
        }
    }
    flush(e, rows, to, n);
}

roco_status roco_engine_step(roco_engine *e, roco_step_item *items, uint32_t n_items, roco_error *error)
{
    uint32_t n_chunks;
    const uint32_t rows = pack(e, items, n_items, &n_chunks);
    forward(e, rows, n_chunks, list_wanted(e, items, n_items));
    finish_items(e, items, n_items);
    return e->backend->ops->finish(e->backend, error);
}
