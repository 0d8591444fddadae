/* What a stride's queries paid to each column of an evicting head: sums of p and p^2 over its rows, into the state of
 * the slots. A block has 32 columns, its warps take tiles of rows in turn and are added up in their order. */
#include "kernels/cuda/scores.h"

namespace
{

constexpr unsigned WARPS = 4, TILE = 8;

/* Of one column: what goes to its two floats, and what the last row alone paid. */
struct payment {
    float first, second, last;
};

__device__ __forceinline__ float join(bool peak, float a, float b)
{
    return peak ? fmaxf(a, b) : a + b;
}

/* One position's: the mean over its group's heads, and the greatest. */
__device__ void pay_position(const roco_cuda_chunk *chunk, unsigned position, float mean, float peak, payment *to)
{
    const bool is_last = position + 1 == chunk->n_rows;
    if (is_last)
        to->last = mean;
    if (chunk->kept == ROCO_KEPT_LAST) {
        if (is_last)
            to->first = mean;
    } else if (chunk->kept == ROCO_KEPT_SUMS) {
        to->first += mean;
        to->second += __fmul_rn(mean, mean);
    } else {
        const int32_t window = (int32_t)chunk->policy_window;
        const int32_t age = last_position(chunk) / window - (chunk->position + (int32_t)position) / window;
        float *sum = age == 0 ? &to->first : &to->second;
        if (age <= 1)
            *sum = join(chunk->peak, *sum, chunk->peak ? peak : mean);
    }
}

/* All rows of the chunk, this warp's share: whole positions, so that a group is averaged before it is squared. */
template <int TYPE>
__device__ payment pay_rows(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head, unsigned first,
                            float *queries)
{
    const unsigned n_group = l.n_heads / l.n_kv_heads, n_rows = c.chunk->n_rows;
    const unsigned parts = (n_group + TILE - 1) / TILE, n_tiles = tiles_of(n_rows, n_group, TILE);
    payment paid = {0, 0, 0};
    for (unsigned tile = warp_of_thread() * parts; tile < n_tiles; tile += WARPS * parts) {
        float mean = 0, peak = 0;
        unsigned position = 0;
        for (unsigned part = 0; part < parts; part++) {
            const row_tile t = open_tile(tile + part, n_rows, n_group, TILE);
            float scores[TILE];
            __syncwarp(); /* the last tile's queries are read */
            load_queries<TILE>(l, c, kv_head, t, lane_of_thread(), ROCO_WARP, queries);
            __syncwarp();
            tile_scores<TYPE, TILE>(l, c, t, queries, first, scores);
            for (unsigned r = 0; r < TILE && tile_has(t, r); r++) {
                position = position_in_tile(t, r);
                const size_t row = c.chunk->row + position, head = kv_head * n_group + group_in_tile(t, r);
                const float *normal = l.normals + (row * l.n_heads + head) * 2;
                const float p = scores[r] == -INFINITY ? 0.0f : expf(scores[r] - normal[0]) * normal[1];
                mean += p;
                peak = fmaxf(peak, p);
                if (group_in_tile(t, r) + 1 == n_group) {
                    pay_position(c.chunk, position, mean * (1.0f / (float)n_group), peak, &paid);
                    mean = peak = 0;
                }
            }
        }
    }
    return paid;
}

/* Into the slot's state: the last query's p stands alone, a window moves on. */
__device__ void add_payment(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head, unsigned column,
                            const payment &paid)
{
    const roco_cuda_chunk *chunk = c.chunk;
    unsigned slot;
    unsigned char *page = page_of_column(c, column, &slot);
    float *s = sum_of(c, page, slot), *s2 = sum_sq_of(c, page, slot);
    if (chunk->kept == ROCO_KEPT_LAST) {
        *s = paid.first;
    } else {
        const int32_t window = (int32_t)chunk->policy_window;
        if (chunk->kept == ROCO_KEPT_WINDOW && chunk->position > 0) {
            const int32_t moved = last_position(chunk) / window - (chunk->position - 1) / window;
            if (moved > 0) {
                *s2 = moved == 1 ? *s : 0.0f;
                *s = 0;
            }
        }
        *s = join(chunk->peak, *s, paid.first);
        *s2 = join(chunk->peak, *s2, paid.second);
    }
    l.scores[chunk->first_score + (size_t)kv_head * chunk->columns + column] = paid.last;
}

__global__ void pay(roco_cuda_layer l, unsigned first_entry)
{
    DYNAMIC_SHARED(float, queries);
    SHARED(payment, shared, [WARPS][ROCO_WARP]);
    const roco_cuda_chunk *chunk = l.chunks + l.order[first_entry + blockIdx.z];
    const unsigned kv_head = blockIdx.y, first = 32 * blockIdx.x;
    if (chunk->n_rows == 0)
        return;
    const head_cache c = open_cache(l, chunk, kv_head);
    if (!c.staged || !keeps_statistics(l, c) || first >= end_of_columns(c))
        return;
    float *own = queries + warp_of_thread() * c.layout->key_dim * TILE;
    payment paid = {0, 0, 0};
    switch (c.head->type) {
    case ROCO_KV_F16: paid = pay_rows<ROCO_KV_F16>(l, c, kv_head, first, own); break;
    case ROCO_KV_F32: paid = pay_rows<ROCO_KV_F32>(l, c, kv_head, first, own); break;
    case ROCO_KV_Q8: paid = pay_rows<ROCO_KV_Q8>(l, c, kv_head, first, own); break;
    case ROCO_KV_Q4: paid = pay_rows<ROCO_KV_Q4>(l, c, kv_head, first, own); break;
    }
    shared[warp_of_thread()][lane_of_thread()] = paid;
    __syncthreads();
    const unsigned column = column_of_lane(first);
    if (warp_of_thread() != 0 || !holds_token(c, column))
        return;
    for (unsigned w = 1; w < WARPS; w++) {
        const payment other = shared[w][lane_of_thread()];
        paid.first = join(chunk->peak, paid.first, other.first);
        paid.second = join(chunk->peak, paid.second, other.second);
        paid.last += other.last; /* one warp has the last row */
    }
    add_payment(l, c, kv_head, column, paid);
}

} // namespace

void roco_cuda_launch_pay(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n,
                          uint32_t most_columns)
{
    const size_t bytes = (size_t)WARPS * TILE * layer->layouts[0].key_dim * sizeof(float);
    LAUNCH(pay, dim3((most_columns + 31) / 32, layer->n_kv_heads, n), WARPS * ROCO_WARP, bytes, stream, *layer, first);
}
