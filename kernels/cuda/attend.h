/* Softmax attention of tiles of query rows over a head's columns, one pass: each warp keeps its own greatest score,
 * sum and weighted values, and rescales them when a greater score comes; at the end the warps are joined. Device code;
 * the .cu files that include it each compile one width of values.
 *
 * Grid: tiles x splits, KV heads, chunks. A decode's tile may be cut into splits of the columns, which finish.cu joins.
 */
#ifndef ROCO_KERNELS_CUDA_ATTEND_H
#define ROCO_KERNELS_CUDA_ATTEND_H

#include "kernels/cuda/scores.h"

constexpr unsigned ATTEND_WARPS = 4;

/* Floats of a block's dynamic shared memory. */
template <int TILE> static size_t attend_floats(unsigned key_dim, unsigned value_dim)
{
    return (size_t)TILE * (key_dim + ATTEND_WARPS * (ROCO_WARP + 2 + value_dim));
}

template <int TILE> struct attend_shared {
    float *queries;  /* [key_dim][TILE] */
    float *weights;  /* [ATTEND_WARPS][32][TILE] of the columns at hand */
    float *greatest; /* [ATTEND_WARPS][TILE] */
    float *sums;     /* the same */
    float *values;   /* [ATTEND_WARPS][TILE][value_dim] */
};

template <int TILE> static __device__ __forceinline__ attend_shared<TILE> carve_shared(float *memory, unsigned key_dim)
{
    attend_shared<TILE> s;
    s.queries = memory;
    s.weights = s.queries + TILE * key_dim;
    s.greatest = s.weights + ATTEND_WARPS * ROCO_WARP * TILE;
    s.sums = s.greatest + ATTEND_WARPS * TILE;
    s.values = s.sums + ATTEND_WARPS * TILE;
    return s;
}

/* A warp's state: of its lane, components 2 (lane + 32 i) and the next of each row's weighted values. */
template <int TILE, int PAIRS> struct warp_rows {
    float greatest[TILE], sum[TILE];
    float2 values[TILE][PAIRS];
};

/* The weights of 32 columns' scores relative to the greatest so far; what was gathered before shrinks to match. */
template <int TILE, int PAIRS>
static __device__ __forceinline__ void weigh(warp_rows<TILE, PAIRS> &w, float scores[TILE])
{
#pragma unroll
    for (int r = 0; r < TILE; r++) {
        const float greatest = fmaxf(w.greatest[r], warp_max(scores[r]));
        const float shrink = greatest == -INFINITY ? 1.0f : expf(w.greatest[r] - greatest);
        scores[r] = scores[r] == -INFINITY ? 0.0f : expf(scores[r] - greatest);
        w.greatest[r] = greatest;
        w.sum[r] = w.sum[r] * shrink + scores[r];
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            w.values[r][i].x *= shrink;
            w.values[r][i].y *= shrink;
        }
    }
}

/* Values of the columns from `first` on, times `weights` [32][TILE]. Unwritten slots are never read. */
template <int TYPE, int TILE, int PAIRS>
static __device__ __forceinline__ void add_values(const head_cache &c, unsigned first, const float *weights,
                                                  warp_rows<TILE, PAIRS> &w)
{
    const unsigned end = first < c.base ? c.n_old : c.base + c.n_new, n = end - first < 32 ? end - first : 32;
    for (unsigned j = 0; j < n; j++) {
        unsigned slot;
        const unsigned char *page = page_of_column(c, first + j, &slot);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const unsigned d = 2 * (lane_of_thread() + ROCO_WARP * i);
            if (d >= c.layout->value_dim)
                continue;
            const float2 v = value_pair<TYPE>(c.layout, page, slot, d);
#pragma unroll
            for (int r = 0; r < TILE; r++) {
                w.values[r][i].x = fmaf(weights[j * TILE + r], v.x, w.values[r][i].x);
                w.values[r][i].y = fmaf(weights[j * TILE + r], v.y, w.values[r][i].y);
            }
        }
    }
}

/* Decode: the scores of the lane's column, for the statistics. */
template <int TILE>
static __device__ __forceinline__ void keep_scores(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head,
                                                   const row_tile &t, unsigned first, const float scores[TILE])
{
    const unsigned column = column_of_lane(first);
    if (!holds_token(c, column))
        return;
#pragma unroll
    for (int r = 0; r < TILE; r++)
        if (tile_has(t, r)) {
            const unsigned head = kv_head * t.n_group + group_in_tile(t, r);
            l.scores[c.chunk->first_score + (size_t)head * c.chunk->columns + column] = scores[r];
        }
}

/* Groups of 32 columns from `from` to `to`, this warp's share of them. */
template <int TYPE, int TILE, int PAIRS>
static __device__ void attend_columns(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head,
                                      const row_tile &t, const attend_shared<TILE> &s, unsigned from, unsigned to,
                                      warp_rows<TILE, PAIRS> &w)
{
    float *weights = s.weights + warp_of_thread() * ROCO_WARP * TILE;
    const bool keeps = c.chunk->decode && keeps_statistics(l, c);
    for (unsigned group = from + warp_of_thread(); group < to; group += ATTEND_WARPS) {
        const unsigned first = 32 * group;
        float scores[TILE];
        tile_scores<TYPE, TILE>(l, c, t, s.queries, first, scores);
        if (keeps)
            keep_scores<TILE>(l, c, kv_head, t, first, scores);
        weigh(w, scores);
        __syncwarp(); /* the last columns' weights are read */
#pragma unroll
        for (int r = 0; r < TILE; r++)
            weights[(column_of_lane(first) - first) * TILE + r] = scores[r];
        __syncwarp();
        add_values<TYPE, TILE, PAIRS>(c, first, weights, w);
    }
}

template <int TILE, int PAIRS>
static __device__ __forceinline__ void share_rows(const attend_shared<TILE> &s, unsigned value_dim,
                                                  const warp_rows<TILE, PAIRS> &w)
{
#pragma unroll
    for (int r = 0; r < TILE; r++) {
        const float sum = warp_sum(w.sum[r]);
        if (lane_of_thread() == 0) {
            s.greatest[warp_of_thread() * TILE + r] = w.greatest[r];
            s.sums[warp_of_thread() * TILE + r] = sum;
        }
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const unsigned d = 2 * (lane_of_thread() + ROCO_WARP * i);
            float *to = s.values + (warp_of_thread() * TILE + r) * value_dim + d;
            if (d < value_dim) {
                to[0] = w.values[r][i].x;
                to[1] = w.values[r][i].y;
            }
        }
    }
}

/* Joins the warps' rows into a row's result, or into a split's. */
template <int TILE>
static __device__ void write_rows(const roco_cuda_layer &l, const roco_cuda_chunk *chunk, unsigned kv_head,
                                  const row_tile &t, const attend_shared<TILE> &s, unsigned value_dim, unsigned split,
                                  unsigned entry)
{
    for (unsigned i = threadIdx.x; i < TILE * value_dim; i += blockDim.x) {
        const unsigned r = i / value_dim, d = i % value_dim;
        if (!tile_has(t, r))
            continue;
        float greatest = -INFINITY, sum = 0, value = 0;
        for (unsigned w = 0; w < ATTEND_WARPS; w++)
            greatest = fmaxf(greatest, s.greatest[w * TILE + r]);
        for (unsigned w = 0; w < ATTEND_WARPS; w++) {
            const float own = s.greatest[w * TILE + r], share = own == -INFINITY ? 0.0f : expf(own - greatest);
            sum += s.sums[w * TILE + r] * share;
            value += s.values[(w * TILE + r) * value_dim + d] * share;
        }
        const size_t row = chunk->row + position_in_tile(t, r), head = kv_head * t.n_group + group_in_tile(t, r);
        if (l.n_splits == 1 || !chunk->decode) {
            l.out[(row * l.n_heads + head) * value_dim + d] = value / sum;
            if (d == 0) {
                l.normals[(row * l.n_heads + head) * 2] = greatest;
                l.normals[(row * l.n_heads + head) * 2 + 1] = 1.0f / sum;
            }
        } else {
            float *to = l.partials + (((size_t)entry * l.n_heads + head) * l.n_splits + split) * (value_dim + 2);
            to[2 + d] = value;
            if (d == 0) {
                to[0] = greatest;
                to[1] = sum;
            }
        }
    }
}

template <int TILE, int PAIRS> static __global__ void attend(roco_cuda_layer l, unsigned first, unsigned n_splits)
{
    DYNAMIC_SHARED(float, memory);
    const roco_cuda_chunk *chunk = l.chunks + l.order[first + blockIdx.z];
    const unsigned kv_head = blockIdx.y, n_group = l.n_heads / l.n_kv_heads;
    const unsigned index = blockIdx.x / n_splits, split = blockIdx.x % n_splits;
    if (index >= tiles_of(chunk->n_rows, n_group, TILE))
        return;
    const head_cache c = open_cache(l, chunk, kv_head);
    const row_tile t = open_tile(index, chunk->n_rows, n_group, TILE);
    const attend_shared<TILE> s = carve_shared<TILE>(memory, c.layout->key_dim);
    load_queries<TILE>(l, c, kv_head, t, threadIdx.x, blockDim.x, s.queries);
    __syncthreads();
    warp_rows<TILE, PAIRS> w = {};
#pragma unroll
    for (int r = 0; r < TILE; r++)
        w.greatest[r] = -INFINITY;
    const unsigned n_groups = (end_of_columns(c) + 31) / 32, each = (n_groups + n_splits - 1) / n_splits;
    const unsigned from = split * each, to = from + each < n_groups ? from + each : n_groups;
    switch (c.head->type) {
    case ROCO_KV_F16: attend_columns<ROCO_KV_F16>(l, c, kv_head, t, s, from, to, w); break;
    case ROCO_KV_F32: attend_columns<ROCO_KV_F32>(l, c, kv_head, t, s, from, to, w); break;
    case ROCO_KV_Q8: attend_columns<ROCO_KV_Q8>(l, c, kv_head, t, s, from, to, w); break;
    case ROCO_KV_Q4: attend_columns<ROCO_KV_Q4>(l, c, kv_head, t, s, from, to, w); break;
    }
    share_rows(s, c.layout->value_dim, w);
    __syncthreads();
    write_rows(l, chunk, kv_head, t, s, c.layout->value_dim, split, blockIdx.z);
}

/* n chunks from order[first] on, of up to most_rows rows. */
template <int TILE, int PAIRS>
static void launch_attend(roco_gpu_stream stream, const roco_cuda_layer &l, unsigned first, unsigned n,
                          unsigned most_rows, unsigned n_splits)
{
    const unsigned n_group = l.n_heads / l.n_kv_heads, key_dim = l.layouts[0].key_dim;
    const unsigned positions = n_group < TILE ? TILE / n_group : 1, parts = (n_group + TILE - 1) / TILE;
    const dim3 grid((most_rows + positions - 1) / positions * parts * n_splits, l.n_kv_heads, n);
    const size_t bytes = attend_floats<TILE>(key_dim, l.layouts[0].value_dim) * sizeof(float);
    void (*kernel)(roco_cuda_layer, unsigned, unsigned) = attend<TILE, PAIRS>;
    LAUNCH(kernel, grid, ATTEND_WARPS * ROCO_WARP, bytes, stream, l, first, n_splits);
}

/* Decode has one position, so its tile is the group, or eight heads of a larger one. */
template <int PAIRS> static void launch_attend_decode(roco_gpu_stream stream, const roco_cuda_layer &l, unsigned n)
{
    const unsigned n_group = l.n_heads / l.n_kv_heads;
    if (n_group == 1)
        launch_attend<1, PAIRS>(stream, l, 0, n, 1, l.n_splits);
    else if (n_group <= 4)
        launch_attend<4, PAIRS>(stream, l, 0, n, 1, l.n_splits);
    else
        launch_attend<8, PAIRS>(stream, l, 0, n, 1, l.n_splits);
}

#endif
