/* Keys of the policies that look at keys, values or neighbours: made once for a question, one a column, into the
 * chunk's cells. Device code.
 *
 * The twins of engine/policy_keys.c and of the policies over it. Sums run in the CPU's order: over a vector's
 * components one by one; over tokens in blocks of ROCO_POLICY_BLOCK, whose sums are then added up.
 */
#ifndef ROCO_KERNELS_CUDA_WEIGH_H
#define ROCO_KERNELS_CUDA_WEIGH_H

#include "kernels/cuda/attend_widths.h"
#include "kernels/cuda/question.h"
#include "kernels/cuda/sort.h"

/* The sum of term(0) .. term(n - 1), by one thread: four blocks at a time, which wait for each other in nothing. */
template <class Term> static __device__ double add_in_blocks(unsigned n, Term term)
{
    double all = 0;
    for (unsigned first = 0; first < n; first += 4 * ROCO_POLICY_BLOCK) {
        double sums[4] = {0, 0, 0, 0};
        for (unsigned i = 0; i < ROCO_POLICY_BLOCK; i++)
#pragma unroll
            for (unsigned b = 0; b < 4; b++)
                if (first + b * ROCO_POLICY_BLOCK + i < n)
                    sums[b] = __dadd_rn(sums[b], term(first + b * ROCO_POLICY_BLOCK + i));
#pragma unroll
        for (unsigned b = 0; b < 4; b++)
            all = __dadd_rn(all, sums[b]);
    }
    return all;
}

/* The same of x over the listed columns, by all threads, who all get it. */
static __device__ double add_columns(const column_cells &cells, unsigned n, const double *x)
{
    double *partial = reinterpret_cast<double *>(cells.sorted);
    __syncthreads();
    for (unsigned b = threadIdx.x; b * ROCO_POLICY_BLOCK < n; b += blockDim.x) {
        double sum = 0;
        for (unsigned i = b * ROCO_POLICY_BLOCK; i < (b + 1) * ROCO_POLICY_BLOCK && i < n; i++)
            sum = __dadd_rn(sum, x[cells.list[i]]);
        partial[b] = sum;
    }
    __syncthreads();
    double all = 0;
    for (unsigned b = 0; b * ROCO_POLICY_BLOCK < n; b++)
        all = __dadd_rn(all, partial[b]);
    return all;
}

/* Component d of a column's key, of its value. The type is the head's, so a block takes one way. */
static __device__ double key_component(const question &q, unsigned column, unsigned d)
{
    const roco_kv_layout *l = q.cache->layout;
    unsigned slot;
    const unsigned char *page = find_column(q, column, &slot);
    float2 pair = {0, 0};
    switch (l->type) {
    case ROCO_KV_F16: pair = key_pair<ROCO_KV_F16>(l, page, slot & ~1u, d); break;
    case ROCO_KV_F32: pair = key_pair<ROCO_KV_F32>(l, page, slot & ~1u, d); break;
    case ROCO_KV_Q8: pair = key_pair<ROCO_KV_Q8>(l, page, slot & ~1u, d); break;
    case ROCO_KV_Q4: pair = key_pair<ROCO_KV_Q4>(l, page, slot & ~1u, d); break;
    }
    return slot & 1 ? pair.y : pair.x;
}

static __device__ double value_component(const question &q, unsigned column, unsigned d)
{
    const roco_kv_layout *l = q.cache->layout;
    unsigned slot;
    const unsigned char *page = find_column(q, column, &slot);
    float2 pair = {0, 0};
    switch (l->type) {
    case ROCO_KV_F16: pair = value_pair<ROCO_KV_F16>(l, page, slot, d & ~1u); break;
    case ROCO_KV_F32: pair = value_pair<ROCO_KV_F32>(l, page, slot, d & ~1u); break;
    case ROCO_KV_Q8: pair = value_pair<ROCO_KV_Q8>(l, page, slot, d & ~1u); break;
    case ROCO_KV_Q4: pair = value_pair<ROCO_KV_Q4>(l, page, slot, d & ~1u); break;
    }
    return d & 1 ? pair.y : pair.x;
}

/* What is not a number, or beyond all, as the largest finite one. */
static __device__ __forceinline__ double bounded(double value)
{
    return fabs(value) <= largest_double() ? value : largest_double();
}

/* to[column] = mean over all listed tokens of the cosine between their keys and the column's. */
static __device__ void write_likeness(const question &q, unsigned n, double *to)
{
    SHARED(double, mean, [ROCO_CUDA_MOST_COMPONENTS]);
    const column_cells &cells = q.cache->cells;
    const unsigned dim = q.cache->layout->key_dim;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        double squares = 0;
        for (unsigned d = 0; d < dim; d++) {
            const double k = key_component(q, cells.list[i], d);
            squares = __dadd_rn(squares, __dmul_rn(k, k));
        }
        to[cells.list[i]] = squares > 0 && squares <= largest_double() ? __ddiv_rn(1.0, __dsqrt_rn(squares)) : 0.0;
    }
    __syncthreads();
    for (unsigned d = threadIdx.x; d < dim; d += blockDim.x) {
        const double sum = add_in_blocks(
            n, [&](unsigned i) { return __dmul_rn(key_component(q, cells.list[i], d), to[cells.list[i]]); });
        mean[d] = sum == sum ? __ddiv_rn(sum, (double)n) : 0.0;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        double product = 0;
        for (unsigned d = 0; d < dim; d++)
            product = __dadd_rn(product, __dmul_rn(key_component(q, cells.list[i], d), mean[d]));
        const double inverse = to[cells.list[i]], cosine = __dmul_rn(product, inverse);
        to[cells.list[i]] = cosine != cosine || inverse == 0 ? 1.0 : cosine;
    }
}

/* mean[d] = sum over the listed tokens of key[column] v. */
static __device__ void weigh_values(const question &q, unsigned n, double *mean)
{
    const column_cells &cells = q.cache->cells;
    for (unsigned d = threadIdx.x; d < q.cache->layout->value_dim; d += blockDim.x)
        mean[d] = add_in_blocks(
            n, [&](unsigned i) { return __dmul_rn(value_component(q, cells.list[i], d), cells.key[cells.list[i]]); });
}

static __device__ double distance_to(const question &q, unsigned column, const double *mean)
{
    double squares = 0;
    for (unsigned d = 0; d < q.cache->layout->value_dim; d++) {
        const double x = __dsub_rn(value_component(q, column, d), mean[d]);
        squares = __dadd_rn(squares, __dmul_rn(x, x));
    }
    return bounded(__dsqrt_rn(squares));
}

/* CAOTE (engine/policy_caote.c): what leaving a token out does to the output, by another policy's importance. */
static __device__ void weigh_caote(const question &q, unsigned n)
{
    SHARED(double, mean, [ROCO_CUDA_MOST_COMPONENTS]);
    const column_cells &cells = q.cache->cells;
    const unsigned policy = q.cache->chunk->policy;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const candidate t = candidate_at(q, cells.list[i]);
        const double a = fmax(0.0, key_of(t.sum));
        cells.key[t.number] = policy == TWIN_ROCO_CAOTE ? __ddiv_rn(a, queries_of(q, t)) : a;
    }
    const double sum = add_columns(cells, n, cells.key);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        double *a = &cells.key[cells.list[i]];
        *a = sum > 0 ? __ddiv_rn(*a, sum) : 0.0;
    }
    __syncthreads();
    weigh_values(q, n, mean);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const candidate t = candidate_at(q, cells.list[i]);
        const double a = cells.key[t.number], odds = __ddiv_rn(a, fmax(__dsub_rn(1.0, a), 1e-6));
        const bool is_new = policy == TWIN_H2O_CAOTE && t.position > (int64_t)q.now - newest_tenth(q);
        const double change = fmin(__dmul_rn(odds, distance_to(q, t.number, mean)), largest_double());
        cells.key[t.number] = is_new ? (double)INFINITY : change;
    }
}

/* VATP (engine/policy_vatp.c). */
static __device__ void weigh_vatp(const question &q, unsigned n)
{
    const column_cells &cells = q.cache->cells;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const candidate t = candidate_at(q, cells.list[i]);
        double norm = 0;
        for (unsigned d = 0; d < q.cache->layout->value_dim; d++)
            norm = __dadd_rn(norm, fabs(value_component(q, t.number, d)));
        const double mean = fmax(0.0, __ddiv_rn(key_of(t.sum), queries_of(q, t)));
        cells.key[t.number] = fmin(__dmul_rn(mean, bounded(norm)), largest_double());
    }
}

/* key = mean, or maximum, of `other` over the `width` (odd) tokens around in position order, fewer at the ends. */
static __device__ void pool_neighbours(const question &q, unsigned n, unsigned width, bool maximum)
{
    const column_cells &cells = q.cache->cells;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        cells.sorted[i] = sortable(candidate_at(q, cells.list[i]).position, cells.list[i]);
    __syncthreads();
    sort_ascending(cells.sorted, n);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const unsigned half = width / 2, first = i < half ? 0 : i - half, end = i + half + 1 < n ? i + half + 1 : n;
        double sum = 0, highest = -(double)INFINITY;
        for (unsigned k = first; k < end; k++) {
            const double x = cells.other[(unsigned)cells.sorted[k]];
            sum = __dadd_rn(sum, x);
            highest = fmax(highest, x);
        }
        cells.key[(unsigned)cells.sorted[i]] = maximum ? highest : __ddiv_rn(sum, (double)(end - first));
    }
    __syncthreads();
}

/* SnapKV (engine/policy_snapkv.c). */
static __device__ void weigh_snapkv(const question &q, unsigned n)
{
    const unsigned width = 5, window = q.cache->chunk->policy_window;
    const column_cells &cells = q.cache->cells;
    const int64_t kept = q.budget / 4 < window ? q.budget / 4 : window;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const candidate t = candidate_at(q, cells.list[i]);
        cells.other[t.number] = __ddiv_rn(fmax(key_of(t.sum), key_of(t.sum_sq)), (double)width);
    }
    pool_neighbours(q, n, width, false);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const candidate t = candidate_at(q, cells.list[i]);
        if (t.position > (int64_t)q.now - kept)
            cells.key[t.number] = (double)INFINITY;
    }
}

/* e^x of a cosine, step by step as engine/policy_rkv.c has it. */
static __device__ double exponential(double x)
{
    double e = 1;
    for (unsigned k = 18; k > 0; k--)
        e = __dadd_rn(1.0, __ddiv_rn(__dmul_rn(e, x), (double)k));
    return e;
}

/* R-KV (engine/policy_rkv.c). */
static __device__ void weigh_rkv(const question &q, unsigned n)
{
    const column_cells &cells = q.cache->cells;
    const int32_t window = (int32_t)q.cache->chunk->policy_window, start = (q.now / window - 1) * window;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const candidate t = candidate_at(q, cells.list[i]);
        const int32_t from = t.position > start ? t.position : start;
        const double sum = __dadd_rn(key_of(t.sum), key_of(t.sum_sq));
        const double mean = __ddiv_rn(sum, (double)(q.now - (from > 0 ? from : 0) + 1));
        cells.other[t.number] = fmin(fmax(mean, -1e6), 1e6);
    }
    pool_neighbours(q, n, 7, true);
    write_likeness(q, n, cells.other);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        cells.other[cells.list[i]] = exponential(cells.other[cells.list[i]]);
    const double total = add_columns(cells, n, cells.other);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        double *key = &cells.key[cells.list[i]];
        const double repeats = __ddiv_rn(__dmul_rn(1.0 - 0.1, cells.other[cells.list[i]]), total);
        *key = __dsub_rn(__dmul_rn(0.1, *key), repeats);
    }
}

/* The keys of the n tokens that are still in the window, for policies that need it. All threads of the block. */
static __device__ void weigh_columns(const question &q, unsigned n)
{
    if (q.cache->chunk->policy < TWIN_KEYDIFF)
        return;
    const column_cells &cells = q.cache->cells;
    each_in_order(
        0, q.n, [&q](unsigned j) { return !is_outside(q, candidate_at(q, j)); },
        [&cells](unsigned i, unsigned j) { cells.list[i] = j; });
    switch (q.cache->chunk->policy) {
    case TWIN_KEYDIFF:
        write_likeness(q, n, cells.key);
        for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
            cells.key[cells.list[i]] = -cells.key[cells.list[i]];
        break;
    case TWIN_VATP: weigh_vatp(q, n); break;
    case TWIN_SNAPKV: weigh_snapkv(q, n); break;
    case TWIN_RKV: weigh_rkv(q, n); break;
    default: weigh_caote(q, n); break;
    }
    __syncthreads();
}

#endif
