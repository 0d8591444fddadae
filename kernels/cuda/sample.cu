/* From logits to tokens, one block a row: engine/sampler.h's order of filters, temperature, top_k, top_p, min_p.
 *
 * Tokens rank by weight, most first, then by id. Every filter keeps a first part of that order, and the draw is a place
 * in it, so all of them are one question: the first token at which the running sum passes a limit, of ones for top_k,
 * of weights for the others. It is answered digit by digit (radix descent), without sorting. Weights are integers, so
 * sums do not depend on the order in which threads add.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/warp.h"

namespace
{

constexpr unsigned THREADS = 512;
constexpr float GREEDY_BELOW = 1e-5f;
constexpr double WEIGHT_OF_ONE = 1099511627776.0; /* 2^40: the sum over 2^20 tokens fits in 64 bits */

typedef unsigned long long rank; /* lower is earlier: inverted bits of p, then the id */

struct row_view {
    const float *p; /* exp((logit - greatest) / temperature), of the greatest 1 */
    unsigned n;
    bool by_id; /* nothing filters: the order is that of the ids */
};

__device__ __forceinline__ rank rank_of(const row_view &v, unsigned id)
{
    return v.by_id ? id : (rank)~__float_as_uint(v.p[id]) << 32 | id;
}

__device__ __forceinline__ rank weight_of(const row_view &v, unsigned id)
{
    return (rank)(v.p[id] * WEIGHT_OF_ONE);
}

__device__ rank block_total(rank value)
{
    SHARED(rank, warps, [THREADS / ROCO_WARP]);
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ROCO_ALL_LANES, value, distance);
    __syncthreads();
    if (lane_of_thread() == 0)
        warps[warp_of_thread()] = value;
    __syncthreads();
    rank sum = 0;
    for (unsigned i = 0; i < blockDim.x / ROCO_WARP; i++)
        sum += warps[i];
    return sum;
}

/* found[0]: the first of 256 bins at which the running sum passes `limit`; found[1]: the sum before it. By one warp. */
__device__ void find_digit(const rank bins[256], rank limit, rank found[2])
{
    const unsigned lane = lane_of_thread();
    rank own = 0;
    for (unsigned i = 0; i < 8; i++)
        own += bins[8 * lane + i];
    rank before = own;
    for (unsigned distance = 1; distance < ROCO_WARP; distance *= 2) {
        const rank other = __shfl_up_sync(ROCO_ALL_LANES, before, distance);
        before += lane >= distance ? other : 0;
    }
    before -= own;
    if (before > limit || limit >= before + own)
        return;
    for (unsigned i = 0; i < 8; i++) {
        const rank here = bins[8 * lane + i];
        if (before <= limit && limit < before + here) {
            found[0] = 8 * lane + i;
            found[1] = before;
        }
        before += here;
    }
}

/* The rank of the first token, of those up to `last`, at which the running sum of `amount` passes `limit`, which is
 * below the sum of all. */
template <class Amount> __device__ rank descend(const row_view &v, rank last, rank limit, Amount amount)
{
    SHARED(rank, bins, [256]);
    SHARED(rank, found, [2]);
    rank prefix = 0;
    for (int shift = v.by_id ? 24 : 56; shift >= 0; shift -= 8) {
        for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
            bins[i] = 0;
        __syncthreads();
        for (unsigned id = threadIdx.x; id < v.n; id += blockDim.x) {
            const rank own = rank_of(v, id);
            if (own <= last && (shift == 56 || own >> (shift + 8) == prefix >> (shift + 8)))
                atomicAdd(&bins[own >> shift & 255], amount(id));
        }
        __syncthreads();
        if (warp_of_thread() == 0)
            find_digit(bins, limit, found);
        __syncthreads();
        prefix |= found[0] << shift;
        limit -= found[1];
        __syncthreads();
    }
    return prefix;
}

/* The highest logit and its id, the lowest among equals; id -1 when the row cannot be trusted. */
__device__ int find_highest(const float *logits, unsigned n, float *highest)
{
    SHARED(rank, warps, [THREADS / ROCO_WARP]);
    rank best = ~0ull;
    bool broken = false;
    for (unsigned id = threadIdx.x; id < n; id += blockDim.x) {
        const unsigned bits = __float_as_uint(logits[id] + 0.0f); /* -0 counts as 0 */
        broken |= logits[id] != logits[id];
        const unsigned ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
        const rank own = (rank)~ascending << 32 | id;
        best = own < best ? own : best;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const rank other = __shfl_xor_sync(ROCO_ALL_LANES, best, distance);
        best = other < best ? other : best;
    }
    __syncthreads();
    if (lane_of_thread() == 0)
        warps[warp_of_thread()] = best;
    broken = block_count(broken) > 0; /* a barrier, too */
    for (unsigned i = 0; i < blockDim.x / ROCO_WARP; i++)
        best = warps[i] < best ? warps[i] : best;
    *highest = logits[(unsigned)best];
    return broken || !(fabsf(*highest) <= 3.4028234e38f) ? -1 : (int)(unsigned)best;
}

__device__ __forceinline__ rank mix(rank x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ rank weigh_up_to(const row_view &v, rank last)
{
    rank sum = 0;
    for (unsigned id = threadIdx.x; id < v.n; id += blockDim.x)
        sum += rank_of(v, id) <= last ? weight_of(v, id) : 0;
    return block_total(sum);
}

/* The last rank that the filters leave. The most probable token always stays. */
__device__ rank last_kept(const row_view &v, const roco_sample_row &row)
{
    const auto weight = [&v](unsigned id) { return weight_of(v, id); };
    rank last = ~0ull;
    if (row.top_k > 0 && (unsigned)row.top_k < v.n)
        last = descend(v, last, (rank)row.top_k - 1, [](unsigned) { return (rank)1; });
    if (row.top_p < 1.0f) {
        const rank goal = (rank)((double)row.top_p * (double)weigh_up_to(v, last));
        last = descend(v, last, goal > 0 ? goal - 1 : 0, weight);
    }
    if (row.min_p > 0.0f) {
        const rank least = (rank)~__float_as_uint(row.min_p) << 32 | 0xffffffffu;
        last = least < last ? least : last;
    }
    return last;
}

/* logits are spoilt. */
__global__ void __launch_bounds__(THREADS)
    sample(float *logits, unsigned n_vocab, const roco_sample_row *rows, int32_t *tokens)
{
    const roco_sample_row row = rows[blockIdx.x];
    float *own = logits + (size_t)row.row * n_vocab, highest;
    const int best = find_highest(own, n_vocab, &highest);
    if (best < 0 || row.temperature < GREEDY_BELOW || row.top_k == 1) {
        if (threadIdx.x == 0)
            tokens[blockIdx.x] = best;
        return;
    }
    __syncthreads(); /* all have read the logits */
    const float inverse = 1.0f / row.temperature;
    for (unsigned id = threadIdx.x; id < n_vocab; id += blockDim.x)
        own[id] = expf((own[id] - highest) * inverse);
    __syncthreads();
    const bool all_counts = row.top_k <= 0 || (unsigned)row.top_k >= n_vocab;
    const row_view v = {own, n_vocab, all_counts && row.top_p >= 1.0f && row.min_p <= 0.0f};
    const rank last = v.by_id ? ~0ull : last_kept(v, row), total = weigh_up_to(v, last);
    const double u = (double)(mix(mix(row.seed) + row.index) >> 11) * 0x1p-53;
    rank goal = (rank)(u * (double)total);
    goal = goal < total ? goal : total - 1;
    const rank drawn = descend(v, last, goal, [&v](unsigned id) { return weight_of(v, id); });
    if (threadIdx.x == 0)
        tokens[blockIdx.x] = (int32_t)(unsigned)drawn;
}

} // namespace

void roco_cuda_launch_sample(roco_gpu_stream stream, float *logits, uint32_t n_vocab, const roco_sample_row *rows,
                             uint32_t n, int32_t *tokens)
{
    LAUNCH(sample, n, THREADS, 0, stream, logits, n_vocab, rows, tokens);
}
