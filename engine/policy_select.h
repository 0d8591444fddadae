/* Partial selection, shared by the policies of this folder. Pure functions over the caller's arrays; no allocation. */
#ifndef ROCO_ENGINE_POLICY_SELECT_H
#define ROCO_ENGINE_POLICY_SELECT_H

#include "kernels/policy.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The order every policy ranks by: lower key first, then lower position. Keys must not be NaN; positions differ, so the
 * order is total and no result depends on where in the slots a token lies. */
static inline bool roco_ranks_before(const double *key, const int32_t *position, uint32_t a, uint32_t b)
{
    return key[a] < key[b] || (key[a] == key[b] && position[a] < position[b]);
}

/* Moves the `count` first in rank of order[0..n) to its front, in no particular order. count <= n. Expected O(n). */
void roco_select_lowest(const double *key, const int32_t *position, uint32_t *order, uint32_t n, uint32_t count);

/* Writes order[0..count), slots below n, to victims in ascending order. marks: [n], overwritten. O(n). */
void roco_select_finish(uint32_t n, const uint32_t *order, uint32_t count, double *marks, uint32_t *victims);

/* A statistic as a key: what is not a number goes first, infinity counts as the largest finite value. */
static inline double roco_policy_key(float statistic)
{
    if (isnan(statistic))
        return -DBL_MAX;
    return fmax(fmin((double)statistic, DBL_MAX), -DBL_MAX);
}

/* A mean over the n queries a token has seen, as a key. */
static inline double roco_policy_mean_key(const roco_policy_view *view, uint32_t j)
{
    return roco_policy_key(view->sum[j]) / ((double)view->now - view->position[j] + 1);
}

/* Moves keys of neighbours: to[j] = mean, or maximum, of from over the `width` (odd) tokens around j in position order,
 * fewer at the ends. Both [n]. Overwrites view->order. */
void roco_select_pool(const roco_policy_view *view, uint32_t width, bool maximum, const double *from, double *to);

/* The `surplus` tokens with the lowest keys, view->scratch[n..2n), none of them NaN, among the candidates of RoCo's
 * scope (policy_roco.c). Overwrites scratch. */
void roco_select_in_scope(const roco_policy_view *view, uint32_t surplus, uint32_t *victims);

/* The `surplus` unprotected tokens with the lowest keys, view->scratch[0..n); ties by position. What has the key
 * infinity is taken after all others. Writes victims as a policy's select does. */
void roco_select_unprotected(const roco_policy_view *view, uint32_t surplus, uint32_t *victims);

#endif
