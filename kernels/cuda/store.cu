/* Every token's K and V into its slot: over the victim, behind the others, or into the stage. A block has one row of
 * one KV head. */
#include "kernels/cuda/cache.h"

namespace
{

constexpr unsigned THREADS = 64;
constexpr float HALF_MAX = 65504.0f;

/* NaN stays. */
__device__ __forceinline__ float clamped(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* One block of components as codes (kernels/kv_code.c), by one warp: a lane has one component. Returns the code. */
__device__ unsigned encode(bool is_q8, const float *in, unsigned n, uint16_t *scale, uint16_t *least)
{
    const unsigned lane = lane_of_thread();
    const float x = lane < n ? clamped(in[lane], -HALF_MAX, HALF_MAX) : 0.0f;
    const bool is_nan = __ballot_sync(ROCO_ALL_LANES, x != x) != 0;
    const float none = is_q8 ? 0.0f : -HALF_MAX;
    const float high = warp_max(lane < n ? fmaxf(x, none) : none), low = -warp_max(lane < n ? fmaxf(-x, none) : none);
    const float reach = is_q8 ? fmaxf(high, -low) : high - low;
    *scale = is_nan ? (uint16_t)0x7e00 : half_from_float(__fdiv_rn(reach, is_q8 ? 127.0f : 15.0f));
    *least = half_from_float(low);
    const float rounded = half_to_float(*scale), inverse = rounded > 0 ? __fdiv_rn(1.0f, rounded) : 0.0f;
    const float base = is_q8 ? 0.0f : half_to_float(*least);
    const float code = clamped((x - base) * inverse, is_q8 ? -127.0f : 0.0f, is_q8 ? 127.0f : 15.0f);
    return is_nan ? 0u : (unsigned)(int)rintf(code) & 255u;
}

/* Blocks of 32 components, a warp each. Two codes a byte meet by a shuffle. */
__device__ void store_coded_key(const roco_kv_layout *l, const float *k, unsigned char *page, unsigned slot)
{
    uint16_t *numbers = reinterpret_cast<uint16_t *>(page + l->key_scale_offset);
    const unsigned n_blocks = (l->key_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK, lane = lane_of_thread();
    const bool is_q8 = l->type == ROCO_KV_Q8;
    for (unsigned b = warp_of_thread(); b < n_blocks; b += THREADS / ROCO_WARP) {
        const unsigned first = b * ROCO_KV_BLOCK, d = first + lane;
        uint16_t scale, least;
        const unsigned n = l->key_dim - first < ROCO_KV_BLOCK ? l->key_dim - first : ROCO_KV_BLOCK;
        const unsigned code = encode(is_q8, k + first, n, &scale, &least);
        const unsigned next = __shfl_xor_sync(ROCO_ALL_LANES, lane < n ? code : 0u, 1);
        if (is_q8 && lane < n)
            page[d * l->slots + slot] = (unsigned char)code;
        if (!is_q8 && lane < n && lane % 2 == 0)
            page[d / 2 * l->slots + slot] = (unsigned char)(code | next << 4);
        if (lane == 0) {
            numbers[b * l->slots + slot] = scale;
            if (!is_q8)
                numbers[(n_blocks + b) * l->slots + slot] = least;
        }
    }
}

__device__ void store_coded_value(const roco_kv_layout *l, const float *v, unsigned char *page, unsigned slot)
{
    uint16_t *numbers = reinterpret_cast<uint16_t *>(page + l->value_scale_offset);
    unsigned char *values = page + l->value_offset;
    const unsigned n_blocks = (l->value_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK, lane = lane_of_thread();
    const bool is_q8 = l->type == ROCO_KV_Q8;
    for (unsigned b = warp_of_thread(); b < n_blocks; b += THREADS / ROCO_WARP) {
        const unsigned first = b * ROCO_KV_BLOCK;
        uint16_t scale, least;
        const unsigned n = l->value_dim - first < ROCO_KV_BLOCK ? l->value_dim - first : ROCO_KV_BLOCK;
        const unsigned code = encode(is_q8, v + first, n, &scale, &least);
        const unsigned other = __shfl_xor_sync(ROCO_ALL_LANES, lane < n ? code : 0u, 16);
        if (is_q8 && lane < n)
            values[slot * l->value_dim + first + lane] = (unsigned char)code;
        if (!is_q8 && lane < 16)
            values[(slot * n_blocks + b) * 16 + lane] = (unsigned char)((lane < n ? code : 0u) | other << 4);
        if (lane == 0) {
            numbers[slot * n_blocks + b] = scale;
            if (!is_q8)
                numbers[(l->slots + slot) * n_blocks + b] = least;
        }
    }
}

__device__ void store_plain(const roco_kv_layout *l, const float *k, const float *v, unsigned char *page, unsigned slot)
{
    const bool is_half = l->type == ROCO_KV_F16;
    for (unsigned d = threadIdx.x; d < l->key_dim; d += THREADS) {
        const unsigned at = d * l->slots + slot;
        if (is_half)
            reinterpret_cast<uint16_t *>(page)[at] = half_from_float(clamped(k[d], -HALF_MAX, HALF_MAX));
        else
            reinterpret_cast<float *>(page)[at] = k[d];
    }
    for (unsigned d = threadIdx.x; d < l->value_dim; d += THREADS) {
        const unsigned at = slot * l->value_dim + d;
        if (is_half)
            reinterpret_cast<uint16_t *>(page + l->value_offset)[at] =
                half_from_float(clamped(v[d], -HALF_MAX, HALF_MAX));
        else
            reinterpret_cast<float *>(page + l->value_offset)[at] = v[d];
    }
}

__global__ void store(roco_cuda_layer l, unsigned first)
{
    const roco_cuda_chunk *chunk = l.chunks + l.order[first + blockIdx.z];
    const unsigned i = blockIdx.x, row = chunk->row + i, kv_head = blockIdx.y;
    if (i >= chunk->n_rows)
        return;
    const head_cache c = open_cache(l, chunk, kv_head);
    unsigned slot;
    const unsigned column = chunk->decode ? c.target : c.staged ? c.base + i : (unsigned)chunk->position + i;
    unsigned char *page = page_of_column(c, column, &slot);
    const float *k = l.k + ((size_t)row * l.n_kv_heads + kv_head) * c.layout->key_dim;
    const float *v = l.v + ((size_t)row * l.n_kv_heads + kv_head) * c.layout->value_dim;
    if (c.layout->type == ROCO_KV_F16 || c.layout->type == ROCO_KV_F32) {
        store_plain(c.layout, k, v, page, slot);
    } else {
        store_coded_key(c.layout, k, page, slot);
        store_coded_value(c.layout, v, page, slot);
    }
    if (threadIdx.x == 0) {
        *position_of(c, page, slot) = chunk->position + (int32_t)i;
        *sum_of(c, page, slot) = 0;
        *sum_sq_of(c, page, slot) = 0;
        if (chunk->decode && c.head->evicts && c.head->held == c.head->budget)
            c.head->evicted_mass += c.head->victim_mass;
    }
}

} // namespace

void roco_cuda_launch_store(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n,
                            uint32_t most_rows)
{
    LAUNCH(store, dim3(most_rows, layer->n_kv_heads, n), THREADS, 0, stream, *layer, first);
}
