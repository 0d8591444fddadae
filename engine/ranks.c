/* Rotations of sequences whose positions are ranks in the cache: tables by rank, and which one a layer takes. Engine
 * thread. A rank is below what the cache holds, however long the sequence is, so the tables' memory is set aside for
 * the whole context and made, in the order of the ranks, as far as the largest cache so far.
 */
#include "engine/state.h"

#include <math.h>
#include <stdlib.h>

roco_rank_rope roco_ranks_of_layer(const roco_engine *e, uint32_t layer)
{
    const roco_shape *s = &e->model.shape;
    if (!e->buffers.rank_cosines)
        return (roco_rank_rope){0};
    const uint32_t rope = roco_shape_window(s, layer) ? s->n_ropes - 1 : 0;
    const size_t at = (size_t)rope * e->info.n_context * (s->rope_dim / 2);
    return (roco_rank_rope){.cosines = e->buffers.rank_cosines + at,
                            .sines = e->buffers.rank_sines + at,
                            .dim = s->rope_dim,
                            .halves = s->rope_halves};
}

roco_status roco_ranks_open(roco_engine *e, roco_error *error)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    const size_t bytes = (size_t)s->n_ropes * e->info.n_context * (s->rope_dim / 2) * sizeof(float);
    if (!ops->takes_ranks)
        return ROCO_OK;
    e->buffers.rank_cosines = ops->memory_open(e->backend, bytes);
    e->buffers.rank_sines = ops->memory_open(e->backend, bytes);
    if (!e->buffers.rank_cosines || !e->buffers.rank_sines)
        return roco_fail(error, ROCO_NO_MEMORY, "context", "out of memory for the rotations of %u ranks",
                         e->info.n_context);
    e->info.rank_bytes = 2 * bytes;
    return ROCO_OK;
}

/* Ranks from..end of one rope; host [2, end - from, half]. */
static void make(roco_engine *e, uint32_t rope, uint32_t from, uint32_t end, float *host)
{
    const roco_backend_ops *ops = e->backend->ops;
    const size_t half = e->model.shape.rope_dim / 2, n = (end - from) * half;
    const size_t at = ((size_t)rope * e->info.n_context + from) * half;
    const double *frequencies = e->model.rope_frequencies + rope * half;
    const double magnitude = e->model.shape.ropes[rope].magnitude;
    for (size_t i = 0; i < n; i++) {
        const double angle = (double)(from + i / half) * frequencies[i % half];
        host[i] = (float)(cos(angle) * magnitude);
        host[n + i] = (float)(sin(angle) * magnitude);
    }
    ops->upload(e->backend, e->buffers.rank_cosines + at, host, n * sizeof *host);
    ops->upload(e->backend, e->buffers.rank_sines + at, host + n, n * sizeof *host);
}

roco_status roco_ranks_reach(roco_engine *e, uint32_t n_ranks)
{
    const roco_shape *s = &e->model.shape;
    const uint32_t from = e->n_ranks, end = n_ranks < e->info.n_context ? n_ranks : e->info.n_context;
    if (end <= from)
        return ROCO_OK;
    float *host = malloc((size_t)2 * (end - from) * (s->rope_dim / 2) * sizeof *host);
    if (!host)
        return ROCO_NO_MEMORY;
    for (uint32_t rope = 0; rope < s->n_ropes; rope++)
        make(e, rope, from, end, host);
    free(host);
    e->n_ranks = end;
    return ROCO_OK;
}
