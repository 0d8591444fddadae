/* roco: robust cache omission. Of the tokens whose attention varies least, those attended to least go.
 *
 * Source: arXiv 2402.06262, sections 3 and 4. For a cached token j, over the n queries since it was stored,
 *
 *     mean = S / n        std = sqrt(max(S2 / n - mean^2, 0))
 *     candidates: the k of lowest std, k = max(B - int(0.1 B) - sink, surplus)
 *     victims: the surplus of lowest mean among the candidates
 *
 * so a high std is itself a protection: a token that was needed once in a while is kept, whatever its mean.
 *
 * Parameters: sink, recent. Deviations from the authors' code: sinks are protected in decode as well; the scope is the
 * prefill's (a tenth of the budget outside) in both phases; n counts every query since the token's own.
 *
 * Numerics: where attention is steady S2 / n and mean^2 nearly cancel. So the variance is taken as (S2 n - S^2) / n^2
 * in double, where both products of floats are exact, and clamped at 0. Ranks are by variance: the root keeps the
 * order. What is not a number counts as the lowest variance and mean, so a broken token is the first to go.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"
#include "kernels/kv_layout.h"

#include <float.h>
#include <math.h>

static uint32_t scope(const roco_policy_view *view, uint32_t surplus)
{
    int64_t k = (int64_t)view->budget - (int64_t)((double)view->budget * 0.1) - (int64_t)view->sink;
    return k > (int64_t)surplus ? (uint32_t)k : surplus;
}

static inline double queries(const roco_policy_view *view, uint32_t j)
{
    return (double)(view->now - view->position[j] + 1);
}

/* S */
static inline double sum(const roco_policy_view *view, uint32_t j)
{
    double s = (double)view->sum[j];
    return s == s ? s : -INFINITY;
}

/* n^2 variance */
static inline double spread(const roco_policy_view *view, uint32_t j)
{
    double s = sum(view, j), d = (double)view->sum_sq[j] * queries(view, j) - s * s;
    return d > 0 ? d : 0;
}

/* The unprotected token of lowest mean, or of those that rank behind `last`; ROCO_NO_SLOT without one. S_i n_j < S_j
 * n_i compares means without a division, exactly. */
static uint32_t next_lowest_mean(const roco_policy_view *view, uint32_t last)
{
    const bool is_first = last == ROCO_NO_SLOT;
    const double last_sum = is_first ? 0 : sum(view, last), last_n = is_first ? 1 : queries(view, last);
    uint32_t best = ROCO_NO_SLOT;
    double best_sum = INFINITY, best_n = 1;
    for (uint32_t j = 0; j < view->n; j++) {
        const double s = sum(view, j), n = queries(view, j), a = s * best_n, b = best_sum * n;
        if (a > b || roco_policy_protects(view, j))
            continue;
        const double here = s * last_n, there = last_sum * n;
        if (!is_first && (here < there || (here == there && view->position[j] <= view->position[last])))
            continue;
        if (a < b || best == ROCO_NO_SLOT || view->position[j] < view->position[best])
            best = j, best_sum = s, best_n = n;
    }
    return best;
}

/* Surely one of the k of lowest variance: n - k tokens have a higher one. */
static bool is_candidate(const roco_policy_view *view, uint32_t k, uint32_t token)
{
    const double v = spread(view, token), n = queries(view, token), n2 = n * n;
    const uint32_t wanted = view->n > k ? view->n - k : 0;
    uint32_t n_higher = 0;
    for (uint32_t j = 0; j < view->n && n_higher < wanted; j++) {
        const double m = queries(view, j);
        n_higher += !(spread(view, j) * n2 <= v * (m * m));
    }
    return n_higher >= wanted;
}

/* Surely none: k unprotected tokens have a lower variance. */
static bool is_no_candidate(const roco_policy_view *view, uint32_t k, uint32_t token)
{
    const double v = spread(view, token), n = queries(view, token), n2 = n * n;
    uint32_t n_lower = 0;
    for (uint32_t j = 0; j < view->n && n_lower < k; j++) {
        const double m = queries(view, j);
        n_lower += spread(view, j) * n2 < v * (m * m) && !roco_policy_protects(view, j);
    }
    return n_lower >= k;
}

#define MOST_TRIES 8u

/* The one victim of a decode step, most often without any selection: tokens in order of their means, up to the first
 * that is a candidate. As steadily ignored tokens go first, nine times of ten that is the first one. ROCO_NO_SLOT when
 * equal variances leave it open, or after MOST_TRIES. */
static uint32_t find_one(const roco_policy_view *view, uint32_t k)
{
    uint32_t token = ROCO_NO_SLOT;
    for (uint32_t i = 0; i < MOST_TRIES; i++) {
        token = next_lowest_mean(view, token);
        if (token == ROCO_NO_SLOT || is_candidate(view, k, token))
            return token;
        if (!is_no_candidate(view, k, token))
            return ROCO_NO_SLOT;
    }
    return ROCO_NO_SLOT;
}

void roco_select_in_scope(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *variance = view->scratch, *key = view->scratch + view->n;
    const uint32_t k = scope(view, surplus);
    for (uint32_t j = 0; j < view->n; j++) {
        double n = queries(view, j), v = spread(view, j) / (n * n);
        variance[j] = v < DBL_MAX ? v : DBL_MAX;
        if (roco_policy_protects(view, j))
            variance[j] = key[j] = INFINITY;
        view->order[j] = j;
    }
    /* Protected tokens may fill up the candidates; by their key they come last, and surplus others precede them. */
    roco_select_lowest(variance, view->position, view->order, view->n, k);
    roco_select_lowest(key, view->position, view->order, k, surplus);
    roco_select_finish(view->n, view->order, surplus, view->scratch, victims);
}

static void select_roco(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *mean = view->scratch + view->n;
    if (surplus == 1) {
        *victims = find_one(view, scope(view, surplus));
        if (*victims != ROCO_NO_SLOT)
            return;
    }
    for (uint32_t j = 0; j < view->n; j++)
        mean[j] = fmin(sum(view, j) / queries(view, j), DBL_MAX);
    roco_select_in_scope(view, surplus, victims);
}

const roco_policy roco_policy_roco = {
    .name = "roco",
    .paper = "arXiv 2402.06262",
    .id = ROCO_POLICY_ROCO,
    .evicts = true,
    .needs_statistics = true,
    .select = select_roco,
};
