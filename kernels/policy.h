/* What an eviction policy is to the kernels: a rule that picks slots of one head to give up.
 *
 * A policy is one file in engine/ and one row of its registry; a backend calls `select` (CPU) or its twin of the same
 * `id` (CUDA). Symbols as in arXiv 2402.06262, section 3: for a cached token j, S = sum of p, S2 = sum of p^2 over the
 * n queries since it was stored, n = now - position(j) + 1.
 */
#ifndef ROCO_KERNELS_POLICY_H
#define ROCO_KERNELS_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Positions first..end-1 are never evicted. */
typedef struct roco_pin {
    uint32_t first, end;
} roco_pin;

/* Tokens whose vectors a policy reads at once. */
#define ROCO_POLICY_BLOCK 32u

/* The keys or the values of the tokens in a view, for the policies that look at them; a backend embeds it. */
typedef struct roco_policy_vectors {
    uint32_t dim;
    /* Those of tokens first..first+ROCO_POLICY_BLOCK-1 as floats, component by component: [dim][ROCO_POLICY_BLOCK].
     * `first` is a multiple of ROCO_POLICY_BLOCK; past n there are zeros. Valid until the next call on keys or values.
     */
    const float *(*block)(const struct roco_policy_vectors *vectors, uint32_t first);
} roco_policy_vectors;

/* One head's cache as a policy sees it. All arrays [n], in slot order, which says nothing about position. */
typedef struct roco_policy_view {
    uint32_t n; /* tokens held, more than the budget by `surplus` (prefill) or exactly the budget (decode) */
    const int32_t *position; /* true positions, all different */
    const float *sum;        /* S;  NULL when the policy needs no statistics. With a window: of the newest block */
    const float *sum_sq;     /* S2; NULL likewise. With a window: of the block before */
    const float *last;       /* p of the last query alone; NULL unless the policy needs it */
    const roco_policy_vectors *keys, *values; /* as they are cached; NULL unless the policy needs them */
    uint64_t stream;                          /* tells the heads of a sequence apart: layer * 2^32 + KV head */
    int32_t now;                              /* position of the last query */
    uint32_t budget;                          /* B, tokens this head may hold */
    uint32_t sink;                            /* positions 0..sink-1 are protected */
    uint32_t recent;                          /* positions > now - recent are protected; sink + recent < budget */
    const roco_pin *pins; /* [n_pins] protected as well; with sink and recent fewer tokens than budget */
    uint32_t n_pins;
    double *scratch; /* [2 n] the policy may use */
    double *vector;  /* [dim of keys or values] the policy may use; NULL unless it needs one of those */
    uint32_t *order; /* [n] indices the policy may use */
} roco_policy_view;

/* Sinks, pins and the newest tokens are no victims, whatever the policy. */
static inline bool roco_policy_protects(const roco_policy_view *view, uint32_t slot)
{
    int64_t position = view->position[slot];
    if (position < (int64_t)view->sink || position > (int64_t)view->now - (int64_t)view->recent)
        return true;
    for (uint32_t i = 0; i < view->n_pins; i++)
        if (position >= (int64_t)view->pins[i].first && position < (int64_t)view->pins[i].end)
            return true;
    return false;
}

typedef struct roco_policy {
    const char *name;      /* as in `kv_policy` */
    const char *paper;     /* source of the rule */
    int id;                /* index in the registry; names the CUDA twin */
    bool evicts;           /* false: `full`, whose budget is the whole sequence */
    bool needs_statistics; /* S and S2 are kept */
    bool needs_last;       /* in their stead the last query's p is; not both */
    bool needs_keys, needs_values;
    /* > 0: in the stead of S and S2 what the newest queries paid alone, in blocks of so many positions: the sum of p
     * over the queries of the block that `now` is in, and over those of the block before. */
    uint32_t window;
    bool peak; /* with a window: not the sum but the greatest weight, of queries and of the group's query heads */
    /* Writes the slots to evict, `surplus` different ones (1 <= surplus < n), in ascending slot order. Ties go to the
     * lowest position. Never a protected token. Total: any float in the statistics, NaN included, gives a valid answer.
     * NULL when !evicts. */
    void (*select)(const roco_policy_view *view, uint32_t surplus, uint32_t *victims);
} roco_policy;

#endif
