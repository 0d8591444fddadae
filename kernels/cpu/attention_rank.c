/* Keys and queries of a sequence whose positions are ranks in its cache: rotated here, each time they are used, since a
 * token's rank falls whenever an older one is evicted. Compute threads.
 *
 * Source: StreamingLLM, arXiv 2309.17453, section 3.2: distances are those within the cache. A token's rank is the
 * number of older ones that its head holds.
 */
#include "kernels/cpu/attention.h"
#include "kernels/order.h"

#include <string.h>

/* Pair `pair` of a vector: its components. */
static void find_pair(const roco_rank_rope *rope, uint32_t pair, uint32_t *a, uint32_t *b)
{
    *a = rope->halves ? pair : 2 * pair;
    *b = rope->halves ? pair + rope->dim / 2 : 2 * pair + 1;
}

void roco_rank_prepare(const roco_attention_job *job, const roco_attention_span *span)
{
    const roco_kv_layout *l = &job->layout;
    roco_attention_worker *w = job->worker;
    uint32_t *rank = job->stage->rank;
    for (uint32_t column = 0; column < span->base; column += l->slots)
        memcpy(w->position + column, roco_kv_positions(l, w->pages[column / l->slots]), l->slots * sizeof(int32_t));
    /* A decoded token stands over its victim: the newest one in the midst of the others. */
    const uint32_t n = job->chunk->decode && job->head->evicts ? span->base + span->n_rows : span->old;
    if (n > span->base)
        memcpy(w->position + span->base / l->slots * l->slots, roco_kv_positions(l, w->pages[span->base / l->slots]),
               l->slots * sizeof(int32_t));
    roco_order_by_position(w->position, n, w->order);
    for (uint32_t i = 0; i < n; i++)
        rank[w->order[i]] = i;
    for (uint32_t i = 0; i < span->n_rows && n == span->old; i++)
        rank[span->base + i] = span->old + i;
}

void roco_rank_rotate(const roco_rank_rope *rope, uint32_t rank, float *x)
{
    const float *cosines = rope->cosines + (size_t)rank * (rope->dim / 2),
                *sines = rope->sines + (cosines - rope->cosines);
    for (uint32_t pair = 0; pair < rope->dim / 2; pair++) {
        uint32_t a, b;
        find_pair(rope, pair, &a, &b);
        const float first = x[a], second = x[b];
        x[a] = first * cosines[pair] - second * sines[pair];
        x[b] = first * sines[pair] + second * cosines[pair];
    }
}

/* Slots first.. of a page as floats, [key_dim][ROCO_PAGE_SLOTS], rotated. */
static void load_keys(const roco_attention_job *job, const unsigned char *page, uint32_t first, uint32_t n,
                      const uint32_t *rank, float *out)
{
    const roco_kv_layout *l = &job->layout;
    const roco_rank_rope *rope = &job->args->rank_rope;
    roco_keys_read(l, page, first, n, out);
    for (uint32_t pair = 0; pair < rope->dim / 2; pair++) {
        uint32_t a, b;
        find_pair(rope, pair, &a, &b);
        float *x = out + a * ROCO_PAGE_SLOTS, *y = out + b * ROCO_PAGE_SLOTS;
        for (uint32_t j = 0; j < n; j++) {
            const size_t at = (size_t)rank[j] * (rope->dim / 2) + pair;
            const float c = rope->cosines[at], s = rope->sines[at], first_part = x[j], second_part = y[j];
            x[j] = first_part * c - second_part * s;
            y[j] = first_part * s + second_part * c;
        }
    }
}

void roco_rank_scores(const roco_attention_job *job, const roco_attention_span *span, uint32_t page, uint32_t n_rows,
                      float *scores, size_t stride)
{
    const roco_kv_layout *l = &job->layout;
    const roco_kv_layout floats = {.type = ROCO_KV_F32, .key_dim = l->key_dim, .slots = ROCO_PAGE_SLOTS};
    const uint32_t start = page * l->slots;
    for (uint32_t first = 0; first < l->slots; first += ROCO_PAGE_SLOTS) {
        const uint32_t left = l->slots - first, most = left < ROCO_PAGE_SLOTS ? left : ROCO_PAGE_SLOTS;
        /* With a hole before the chunk's own tokens, a page is of the one or of the others. */
        const bool older = span->old < span->base && start < span->base;
        const uint32_t column = start + first, end = older ? span->old : span->base + job->chunk->n_rows;
        const uint32_t n = end <= column ? 0 : end - column < most ? end - column : most;
        load_keys(job, job->worker->pages[page], first, n, job->stage->rank + column, job->worker->block);
        job->scratch->kernels->scores[ROCO_KV_F32](job->worker->q, n_rows, &floats,
                                                   (const unsigned char *)job->worker->block, scores + column, stride);
    }
}
