/* Scores of a warp's tile: up to TILE query rows against 32 neighbouring columns. Device code.
 *
 * A lane has one column: it reads the keys of two neighbouring slots, half of their components, and trades one half
 * sum with the lane 16 further on. So keys come in words and every component is read once.
 */
#ifndef ROCO_KERNELS_CUDA_SCORES_H
#define ROCO_KERNELS_CUDA_SCORES_H

#include "kernels/cuda/cache.h"

/* The query rows of a tile: neighbouring positions with all heads of their group, or a part of one position's. */
typedef struct row_tile {
    unsigned n_group, first_group; /* heads of the group; of a tile that has a part of them, the first */
    unsigned first_position, n_positions;
    unsigned in_position; /* rows of one position */
} row_tile;

static __device__ __forceinline__ unsigned tiles_of(unsigned n_rows, unsigned n_group, unsigned tile)
{
    const unsigned positions = n_group < tile ? tile / n_group : 1, parts = (n_group + tile - 1) / tile;
    return (n_rows + positions - 1) / positions * parts;
}

static __device__ __forceinline__ row_tile open_tile(unsigned index, unsigned n_rows, unsigned n_group, unsigned tile)
{
    row_tile t;
    t.n_group = n_group;
    const unsigned positions = n_group < tile ? tile / n_group : 1, parts = (n_group + tile - 1) / tile;
    t.first_position = index / parts * positions;
    t.n_positions = n_rows - t.first_position < positions ? n_rows - t.first_position : positions;
    t.first_group = index % parts * tile;
    t.in_position = n_group - t.first_group < tile ? n_group - t.first_group : tile;
    return t;
}

static __device__ __forceinline__ bool tile_has(const row_tile &t, unsigned r)
{
    return r < t.n_positions * t.in_position;
}

static __device__ __forceinline__ unsigned position_in_tile(const row_tile &t, unsigned r)
{
    return t.first_position + r / t.in_position;
}

static __device__ __forceinline__ unsigned group_in_tile(const row_tile &t, unsigned r)
{
    return t.first_group + r % t.in_position;
}

/* The tile's queries, scaled, to[d * TILE + r], by `n` threads of which this is number `i`. */
template <int TILE>
static __device__ __forceinline__ void load_queries(const roco_cuda_layer &l, const roco_cuda_chunk *chunk,
                                                    unsigned kv_head, const row_tile &t, unsigned key_dim, unsigned i,
                                                    unsigned n, float *to)
{
    for (; i < key_dim * TILE; i += n) {
        const unsigned r = i / key_dim, d = i % key_dim;
        float value = 0;
        if (tile_has(t, r)) {
            const size_t row = chunk->row + position_in_tile(t, r), head = kv_head * t.n_group + group_in_tile(t, r);
            value = l.q[(row * l.n_heads + head) * key_dim + d] * l.scale;
        }
        to[d * TILE + r] = value;
    }
}

/* The column of a lane, of 32 from `first` on. */
static __device__ __forceinline__ unsigned column_of_lane(unsigned first)
{
    return first + 2 * (lane_of_thread() % 16) + lane_of_thread() / 16;
}

template <int TYPE, int TILE>
static __device__ __forceinline__ void products(const head_cache &c, const float *queries, unsigned first,
                                                float scores[TILE])
{
    const unsigned half = lane_of_thread() / 16, pair = first + 2 * (lane_of_thread() % 16);
    float left[TILE] = {}, right[TILE] = {};
    if (holds_token(c, pair)) {
        unsigned slot;
        const unsigned char *page = page_of_column(c, pair, &slot);
        for (unsigned d = half; d < c.layout->key_dim; d += 2) {
            const float2 k = key_pair<TYPE>(c.layout, page, slot, d);
#pragma unroll
            for (int r = 0; r < TILE; r++) {
                left[r] = fmaf(queries[d * TILE + r], k.x, left[r]);
                right[r] = fmaf(queries[d * TILE + r], k.y, right[r]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < TILE; r++) {
        const float given = __shfl_xor_sync(ROCO_ALL_LANES, half ? left[r] : right[r], 16);
        scores[r] = (half ? right[r] : left[r]) + given;
    }
}

/* Is the lane's column seen by a position of the chunk? */
static __device__ __forceinline__ bool is_seen(const roco_cuda_layer &l, const head_cache &c, unsigned column,
                                               int32_t column_position, unsigned position)
{
    if (!holds_token(c, column))
        return false;
    const int32_t own = c.chunk->position + (int32_t)position;
    if (l.window > 0 && c.head->evicts && (int64_t)column_position <= (int64_t)own - (int64_t)l.window)
        return false;
    if (c.chunk->decode)
        return true;
    return c.staged ? column < c.base || column - c.base <= position : (int32_t)column <= own;
}

/* Scores of the lane's column for all rows; what a row does not see is -infinity. */
template <int TYPE, int TILE>
static __device__ __forceinline__ void tile_scores(const roco_cuda_layer &l, const head_cache &c, const row_tile &t,
                                                   const float *queries, unsigned first, float scores[TILE])
{
    const unsigned column = column_of_lane(first);
    int32_t column_position = 0;
    products<TYPE, TILE>(c, queries, first, scores);
    if (l.window > 0 && holds_token(c, column)) {
        unsigned slot;
        unsigned char *page = page_of_column(c, column, &slot);
        column_position = *position_of(c, page, slot);
    }
#pragma unroll
    for (int r = 0; r < TILE; r++) {
        if (!tile_has(t, r) || !is_seen(l, c, column, column_position, position_in_tile(t, r)))
            scores[r] = -INFINITY;
        else if (l.softcap > 0)
            scores[r] = l.softcap * tanhf(scores[r] / l.softcap);
    }
}

#endif
