/* Rotations of sequences whose positions are ranks in the cache: tables by rank, and which one a layer takes. Engine
 * thread. A rank is below the context, however long the sequence is.
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

static void fill(const roco_engine *e, float *cosines, float *sines)
{
    const roco_shape *s = &e->model.shape;
    const uint32_t half = s->rope_dim / 2;
    for (uint32_t rope = 0; rope < s->n_ropes; rope++)
        for (uint32_t rank = 0; rank < e->info.n_context; rank++)
            for (uint32_t i = 0; i < half; i++) {
                const double angle = rank * e->model.rope_frequencies[(size_t)rope * half + i];
                const size_t at = ((size_t)rope * e->info.n_context + rank) * half + i;
                cosines[at] = (float)(cos(angle) * s->ropes[rope].magnitude);
                sines[at] = (float)(sin(angle) * s->ropes[rope].magnitude);
            }
}

roco_status roco_ranks_open(roco_engine *e, roco_error *error)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    const size_t n = (size_t)s->n_ropes * e->info.n_context * (s->rope_dim / 2), bytes = n * sizeof(float);
    if (!ops->takes_ranks)
        return roco_fail(error, ROCO_UNSUPPORTED, "kv_positions", "kv_positions \"cache\" is not for the backend %s",
                         ops->name);
    if (e->buffers.rank_cosines)
        return ROCO_OK;
    float *host = malloc(2 * bytes), *cosines = ops->memory_open(e->backend, bytes);
    float *sines = ops->memory_open(e->backend, bytes);
    roco_status status = ROCO_OK;
    if (host && cosines && sines) {
        fill(e, host, host + n);
        ops->upload(e->backend, cosines, host, bytes);
        ops->upload(e->backend, sines, host + n, bytes);
        e->buffers.rank_cosines = cosines;
        e->buffers.rank_sines = sines;
    } else {
        ops->memory_close(e->backend, cosines);
        ops->memory_close(e->backend, sines);
        status = roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the rotations by rank");
    }
    free(host);
    return status;
}
