/* What a policy is asked about a head, and how its columns are read. Device code. */
#ifndef ROCO_KERNELS_CUDA_QUESTION_H
#define ROCO_KERNELS_CUDA_QUESTION_H

#include "kernels/cuda/cache.h"

/* Ids of engine/policies.h, which stands above this layer; the tests of attention hold them equal. */
enum policy_twin {
    TWIN_FULL,
    TWIN_ROCO,
    TWIN_RECENCY,
    TWIN_MEAN,
    TWIN_H2O,
    TWIN_TOVA,
    TWIN_RANDOM,
    TWIN_KEYDIFF,
    TWIN_ROCO_CAOTE,
    TWIN_H2O_CAOTE,
    TWIN_TOVA_CAOTE,
    TWIN_VATP,
    TWIN_SNAPKV,
    TWIN_RKV,
};

/* Its columns are cache slots, then the stride's tokens without a hole. */
typedef struct question {
    const head_cache *cache;
    const roco_pin *pins;
    unsigned n, n_old, budget, surplus;
    int32_t now;
    int64_t outside; /* positions up to this have left the sliding window; -1: none */
    uint64_t stream;
} question;

/* One token of it. */
typedef struct candidate {
    float sum, sum_sq;
    int32_t position;
    unsigned number; /* of its column, without a hole */
} candidate;

/* Where a column of the question is in the cache. */
static __device__ __forceinline__ unsigned char *find_column(const question &q, unsigned j, unsigned *slot)
{
    return page_of_column(*q.cache, j < q.n_old ? j : q.cache->base + (j - q.n_old), slot);
}

static __device__ __forceinline__ candidate candidate_at(const question &q, unsigned j)
{
    unsigned slot;
    unsigned char *page = find_column(q, j, &slot);
    return {*sum_of(*q.cache, page, slot), *sum_sq_of(*q.cache, page, slot), *position_of(*q.cache, page, slot), j};
}

static __device__ __forceinline__ bool is_outside(const question &q, const candidate &t)
{
    return (int64_t)t.position <= q.outside;
}

static __device__ __forceinline__ bool is_protected(const question &q, const candidate &t)
{
    const roco_cuda_chunk *chunk = q.cache->chunk;
    const int64_t position = t.position;
    if (position < (int64_t)chunk->sink || position > (int64_t)q.now - (int64_t)chunk->recent)
        return true;
    for (unsigned i = 0; i < chunk->n_pins; i++) {
        const roco_pin pin = q.pins[chunk->first_pin + i];
        if (position >= (int64_t)pin.first && position < (int64_t)pin.end)
            return true;
    }
    return false;
}

static __device__ __forceinline__ double largest_double()
{
    return 1.7976931348623157e308;
}

/* A statistic as a key: what is not a number goes first, infinity counts as the largest finite value. */
static __device__ __forceinline__ double key_of(float statistic)
{
    if (statistic != statistic)
        return -largest_double();
    return fmax(fmin((double)statistic, largest_double()), -largest_double());
}

static __device__ __forceinline__ double queries_of(const question &q, const candidate &t)
{
    return (double)(q.now - t.position + 1);
}

/* Newest tokens that h2o spares. */
static __device__ __forceinline__ int64_t newest_tenth(const question &q)
{
    return (int64_t)__dmul_rn((double)q.budget, 0.1);
}

#endif
