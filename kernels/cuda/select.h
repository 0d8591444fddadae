/* Which tokens of a head go: the twins of the policies in engine/, and the order they rank by. Device code.
 *
 * A block answers with a rule, not a list: a threshold (key, position) that says for each column whether it is a
 * victim. The threshold is found by radix selection, so nothing is sorted or stored. Keys are doubles, computed anew at
 * each look from S, S2 and the position, or once by weigh.h where K and V decide, by the same operations in the same
 * order as on the CPU (the _rn functions are never fused), so equal statistics give equal victims.
 */
#ifndef ROCO_KERNELS_CUDA_SELECT_H
#define ROCO_KERNELS_CUDA_SELECT_H

#include "kernels/cuda/weigh.h"

/* --- keys --- */

/* Bits that order as the doubles do; -0 counts as 0. */
static __device__ __forceinline__ unsigned long long ordered_bits(double key)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(__dadd_rn(key, 0.0));
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

/* S as RoCo takes it. */
static __device__ __forceinline__ double steady_sum(const candidate &t)
{
    const double s = (double)t.sum;
    return s == s ? s : -(double)INFINITY;
}

/* n^2 variance. */
static __device__ __forceinline__ double spread_of(const question &q, const candidate &t)
{
    const double s = steady_sum(t), d = __dsub_rn(__dmul_rn((double)t.sum_sq, queries_of(q, t)), __dmul_rn(s, s));
    return d > 0 ? d : 0;
}

static __device__ __forceinline__ unsigned long long mix(unsigned long long z)
{
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* RoCo ranks twice: by variance, then by mean or by what weigh_columns made of it. */
static __device__ __forceinline__ double variance_key(const question &q, const candidate &t)
{
    const double n = queries_of(q, t), v = __ddiv_rn(spread_of(q, t), __dmul_rn(n, n));
    return v < largest_double() ? v : largest_double();
}

static __device__ __forceinline__ double second_key(const question &q, const candidate &t)
{
    if (q.cache->chunk->policy == TWIN_ROCO_CAOTE)
        return q.cache->cells.key[t.number];
    const double m = __ddiv_rn(steady_sum(t), queries_of(q, t));
    return m < largest_double() ? m : largest_double();
}

/* The key of a policy that ranks once. */
static __device__ double single_key(const question &q, const candidate &t)
{
    switch (q.cache->chunk->policy) {
    case TWIN_RECENCY: return (double)t.position;
    case TWIN_MEAN: return __ddiv_rn(key_of(t.sum), queries_of(q, t));
    case TWIN_H2O: return t.position > (int64_t)q.now - newest_tenth(q) ? (double)INFINITY : key_of(t.sum);
    case TWIN_TOVA: return key_of(t.sum); /* p of the last query stands there */
    case TWIN_RANDOM:
        return (double)(mix(mix(q.stream) + ((unsigned long long)(unsigned)q.now << 32) +
                            (unsigned long long)(unsigned)t.position) >>
                        11);
    default: return q.cache->cells.key[t.number];
    }
}

/* --- selection --- */

/* A rank, and all that is not above it. */
typedef struct threshold {
    unsigned long long key;
    int32_t position;
} threshold;

static __device__ __forceinline__ bool within(const threshold &limit, unsigned long long key, int32_t position)
{
    return key < limit.key || (key == limit.key && position <= limit.position);
}

/* Adds up 256 counters and finds the one in which the count-th item is. All threads of the block; `found` is shared:
 * {bin, items before it, items in it}. */
static __device__ void find_bin(const unsigned counts[256], unsigned count, unsigned found[3])
{
    if (warp_of_thread() == 0) {
        const unsigned lane = lane_of_thread();
        unsigned own = 0, before;
        for (unsigned i = 0; i < 8; i++)
            own += counts[8 * lane + i];
        before = own;
        for (unsigned distance = 1; distance < ROCO_WARP; distance *= 2) {
            const unsigned other = __shfl_up_sync(ROCO_ALL_LANES, before, distance);
            before += lane >= distance ? other : 0;
        }
        before -= own;
        if (before < count && count <= before + own)
            for (unsigned i = 0; i < 8; i++) {
                const unsigned here = counts[8 * lane + i];
                if (before < count && count <= before + here) {
                    found[0] = 8 * lane + i;
                    found[1] = before;
                    found[2] = here;
                }
                before += here;
            }
    }
}

/* The count-th in rank of the columns that `has` takes, by key and then position; count <= their number. Twelve digits
 * of a byte: eight of the key, four of the position. All threads call it, all get it. */
template <class Has, class Key>
static __device__ threshold nth_lowest(const question &q, unsigned count, Has has, Key key)
{
    SHARED(unsigned, counts, [256]);
    SHARED(unsigned, found, [3]);
    unsigned long long high = 0;
    unsigned low = 0;
    for (int digit = 11; digit >= 0; digit--) {
        for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
            counts[i] = 0;
        __syncthreads();
        for (unsigned j = threadIdx.x; j < q.n; j += blockDim.x) {
            const candidate t = candidate_at(q, j);
            if (!has(t))
                continue;
            const unsigned long long own = ordered_bits(key(t));
            const int shift = 8 * (digit % 4);
            if (digit >= 4) {
                const int above = 8 * (digit - 3);
                if (above == 64 || own >> above == high >> above)
                    atomicAdd(&counts[own >> (8 * (digit - 4)) & 255], 1u);
            } else if (own == high && (digit == 3 || (unsigned)t.position >> (shift + 8) == low >> (shift + 8))) {
                atomicAdd(&counts[(unsigned)t.position >> shift & 255], 1u);
            }
        }
        __syncthreads();
        find_bin(counts, count, found);
        __syncthreads();
        count -= found[1];
        const bool all = found[2] == count; /* the rest of the digits decides nothing */
        if (digit >= 4)
            high |= (unsigned long long)found[0] << (8 * (digit - 4));
        else
            low |= found[0] << (8 * digit);
        __syncthreads();
        if (all) {
            if (digit >= 4)
                return {high | ((1ull << (8 * (digit - 4))) - 1), 0x7fffffff};
            return {high, (int32_t)(low | ((1u << (8 * digit)) - 1))};
        }
    }
    return {high, (int32_t)low};
}

/* The lowest of them: nth_lowest for a count of 1, in one look. */
template <class Has, class Key> static __device__ threshold lowest(const question &q, Has has, Key key)
{
    SHARED(unsigned long long, keys, [32]);
    SHARED(int32_t, positions, [32]);
    threshold best = {~0ull, 0x7fffffff};
    for (unsigned j = threadIdx.x; j < q.n; j += blockDim.x) {
        const candidate t = candidate_at(q, j);
        if (!has(t))
            continue;
        const unsigned long long own = ordered_bits(key(t));
        if (within(best, own, t.position))
            best = {own, t.position};
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const unsigned long long own = __shfl_xor_sync(ROCO_ALL_LANES, best.key, distance);
        const int32_t position = __shfl_xor_sync(ROCO_ALL_LANES, best.position, distance);
        if (within(best, own, position))
            best = {own, position};
    }
    __syncthreads(); /* an earlier call's reads */
    if (lane_of_thread() == 0) {
        keys[warp_of_thread()] = best.key;
        positions[warp_of_thread()] = best.position;
    }
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / ROCO_WARP; w++)
        if (within(best, keys[w], positions[w]))
            best = {keys[w], positions[w]};
    return best;
}

/* The answer: who goes. */
typedef struct answer {
    unsigned n_outside;     /* victims that have left the window */
    threshold outside;      /* of those, by position alone; used when not all of them go */
    bool all_outside, asks; /* asks: the policy was asked too, and the rest is its answer */
    bool ranks_twice;
    threshold first, second;
} answer;

static __device__ __forceinline__ bool is_chosen(const question &q, const answer &a, const candidate &t)
{
    if (!a.asks || is_outside(q, t) || is_protected(q, t))
        return false;
    if (!a.ranks_twice)
        return within(a.second, ordered_bits(single_key(q, t)), t.position);
    return within(a.first, ordered_bits(variance_key(q, t)), t.position) &&
           within(a.second, ordered_bits(second_key(q, t)), t.position);
}

static __device__ __forceinline__ bool is_victim(const question &q, const answer &a, const candidate &t)
{
    if (is_outside(q, t))
        return a.all_outside || within(a.outside, 0, t.position);
    return is_chosen(q, a, t);
}

template <class Has> static __device__ unsigned count_columns(const question &q, Has has)
{
    unsigned n = 0;
    for (unsigned j = threadIdx.x; j < q.n; j += blockDim.x)
        n += has(candidate_at(q, j));
    return block_count(n);
}

template <class Has, class Key>
static __device__ threshold select_lowest(const question &q, unsigned count, Has has, Key key)
{
    return count == 1 ? lowest(q, has, key) : nth_lowest(q, count, has, key);
}

/* RoCo: the k of lowest variance, of those the surplus of lowest mean (engine/policy_roco.c). For one victim a look at
 * the token of lowest mean is mostly enough: it goes if no more than k free tokens, itself included, rank as low by
 * variance. */
static __device__ void ask_roco(const question &q, unsigned surplus, answer *a)
{
    const auto free = [&q](const candidate &t) { return !is_outside(q, t) && !is_protected(q, t); };
    const auto variance = [&q](const candidate &t) { return variance_key(q, t); };
    const auto mean = [&q](const candidate &t) { return second_key(q, t); };
    const int64_t scope = (int64_t)q.budget - (int64_t)__dmul_rn((double)q.budget, 0.1) - (int64_t)q.cache->chunk->sink;
    const unsigned k = scope > (int64_t)surplus ? (unsigned)scope : surplus, n_free = count_columns(q, free);
    a->ranks_twice = true;
    a->first = {~0ull, 0x7fffffff};
    if (k < n_free && surplus == 1) {
        const threshold best = lowest(q, free, mean);
        const auto is_best = [&best](const candidate &t) { return t.position == best.position; };
        const threshold own = lowest(q, is_best, variance);
        const unsigned n_within = count_columns(
            q, [&](const candidate &t) { return free(t) && within(own, ordered_bits(variance(t)), t.position); });
        if (n_within <= k) {
            a->first = own;
            a->second = best;
            return;
        }
    }
    if (k < n_free)
        a->first = nth_lowest(q, k, free, variance);
    const threshold first = a->first;
    const auto candidates = [&](const candidate &t) {
        return free(t) && within(first, ordered_bits(variance(t)), t.position);
    };
    a->second = select_lowest(q, surplus, candidates, mean);
}

/* Tokens that fell out of the window go first, oldest before newer; the policy chooses the rest among the others. All
 * threads of the block call it, all get the answer. surplus >= 1. */
static __device__ answer choose_victims(const question &q)
{
    const auto outside = [&q](const candidate &t) { return is_outside(q, t); };
    answer a = {};
    a.n_outside = q.outside >= 0 ? count_columns(q, outside) : 0;
    a.all_outside = a.n_outside <= q.surplus;
    if (!a.all_outside) {
        a.n_outside = q.surplus;
        a.outside = nth_lowest(q, q.surplus, outside, [](const candidate &) { return 0.0; });
        a.outside.key = 0;
        return a;
    }
    const unsigned surplus = q.surplus - a.n_outside;
    a.asks = surplus > 0;
    if (!a.asks)
        return a;
    weigh_columns(q, q.n - a.n_outside);
    if (q.cache->chunk->policy == TWIN_ROCO || q.cache->chunk->policy == TWIN_ROCO_CAOTE) {
        ask_roco(q, surplus, &a);
    } else {
        a.second = select_lowest(
            q, surplus, [&q](const candidate &t) { return !is_outside(q, t) && !is_protected(q, t); },
            [&q](const candidate &t) { return single_key(q, t); });
    }
    return a;
}

/* What a head's policy is asked after a chunk, `n_old` columns of the cache and `n_new` of the stride being held. */
static __device__ __forceinline__ question ask(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head,
                                               unsigned n_old, unsigned n_new, unsigned surplus)
{
    question q;
    q.cache = &c;
    q.pins = l.pins;
    q.n = n_old + n_new;
    q.n_old = n_old;
    q.budget = c.chunk->decode ? c.head->budget : c.head->budget - c.head->reserved;
    q.surplus = surplus;
    q.now = last_position(c.chunk);
    q.outside = l.window > 0 ? (int64_t)q.now + 1 - (int64_t)l.window : -1;
    q.stream = (uint64_t)l.layer << 32 | kv_head;
    return q;
}

#endif
