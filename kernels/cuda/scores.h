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

/* Component d of a vector, rotated by rank. */
static __device__ __forceinline__ float rotated(const roco_rank_rope &rope, unsigned rank, const float *x, unsigned d)
{
    if (d >= rope.dim)
        return x[d];
    const unsigned half = rope.dim / 2, pair = rope.halves ? d % half : d / 2;
    const bool is_first = rope.halves ? d < half : d % 2 == 0;
    const float c = rope.cosines[(size_t)rank * half + pair], s = rope.sines[(size_t)rank * half + pair];
    const float other = x[rope.halves ? (is_first ? d + half : d - half) : d ^ 1u];
    return is_first ? x[d] * c - other * s : other * s + x[d] * c;
}

/* The tile's queries, scaled, to[d * TILE + r], by `n` threads of which this is number `i`. */
template <int TILE>
static __device__ __forceinline__ void load_queries(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head,
                                                    const row_tile &t, unsigned i, unsigned n, float *to)
{
    const unsigned key_dim = c.layout->key_dim;
    for (; i < key_dim * TILE; i += n) {
        const unsigned r = i / key_dim, d = i % key_dim;
        float value = 0;
        if (tile_has(t, r)) {
            const unsigned row = position_in_tile(t, r), head = kv_head * t.n_group + group_in_tile(t, r);
            const float *q = l.q + ((size_t)(c.chunk->row + row) * l.n_heads + head) * key_dim;
            value = (c.chunk->by_rank ? rotated(l.rank_rope, rank_of_row(c, row), q, d) : q[d]) * l.scale;
        }
        to[d * TILE + r] = value;
    }
}

/* The column of a lane, of 32 from `first` on. */
static __device__ __forceinline__ unsigned column_of_lane(unsigned first)
{
    return first + 2 * (lane_of_thread() % 16) + lane_of_thread() / 16;
}

/* Adds the products of component d of two keys. */
template <int TILE>
static __device__ __forceinline__ void add_products(const float *queries, unsigned d, float2 k, float left[TILE],
                                                    float right[TILE])
{
#pragma unroll
    for (int r = 0; r < TILE; r++) {
        left[r] = fmaf(queries[d * TILE + r], k.x, left[r]);
        right[r] = fmaf(queries[d * TILE + r], k.y, right[r]);
    }
}

/* Every second pair of components that turn together, of two neighbouring columns' keys, each turned by its rank. */
template <int TYPE, int TILE>
static __device__ void add_rotated(const roco_rank_rope &rope, const head_cache &c, const float *queries,
                                   unsigned column, float left[TILE], float right[TILE])
{
    const unsigned half = rope.dim / 2, left_rank = rank_of_column(c, column);
    const unsigned right_rank = holds_token(c, column + 1) ? rank_of_column(c, column + 1) : left_rank;
    unsigned slot;
    const unsigned char *page = page_of_column(c, column, &slot);
    for (unsigned pair = lane_of_thread() / 16; pair < half; pair += 2) {
        const unsigned a = rope.halves ? pair : 2 * pair, b = rope.halves ? pair + half : 2 * pair + 1;
        const float2 x = key_pair<TYPE>(c.layout, page, slot, a), y = key_pair<TYPE>(c.layout, page, slot, b);
        const size_t i = (size_t)left_rank * half + pair, j = (size_t)right_rank * half + pair;
        const float2 cosine = {rope.cosines[i], rope.cosines[j]}, sine = {rope.sines[i], rope.sines[j]};
        const float2 first = {x.x * cosine.x - y.x * sine.x, x.y * cosine.y - y.y * sine.y};
        const float2 second = {x.x * sine.x + y.x * cosine.x, x.y * sine.y + y.y * cosine.y};
        add_products<TILE>(queries, a, first, left, right);
        add_products<TILE>(queries, b, second, left, right);
    }
}

template <int TYPE, int TILE>
static __device__ __forceinline__ void products(const roco_rank_rope &rope, const head_cache &c, const float *queries,
                                                unsigned first, float scores[TILE])
{
    const unsigned half = lane_of_thread() / 16, pair = first + 2 * (lane_of_thread() % 16);
    float left[TILE] = {}, right[TILE] = {};
    if (holds_token(c, pair)) {
        unsigned slot;
        const unsigned char *page = page_of_column(c, pair, &slot);
        if (c.chunk->by_rank)
            add_rotated<TYPE, TILE>(rope, c, queries, pair, left, right);
        for (unsigned d = half + (c.chunk->by_rank ? rope.dim : 0); d < c.layout->key_dim; d += 2)
            add_products<TILE>(queries, d, key_pair<TYPE>(c.layout, page, slot, d), left, right);
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
    products<TYPE, TILE>(l.rank_rope, c, queries, first, scores);
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
