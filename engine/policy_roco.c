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

/* The lowest mean of all unprotected tokens. S_i n_j < S_j n_i compares means without a division, exactly. */
static uint32_t lowest_mean(const roco_policy_view *view)
{
    uint32_t best = ROCO_NO_SLOT;
    double best_sum = INFINITY, best_n = 1;
    for (uint32_t j = 0; j < view->n; j++) {
        double s = sum(view, j), n = queries(view, j), a = s * best_n, b = best_sum * n;
        if (a > b || roco_policy_protects(view, j))
            continue;
        if (a < b || best == ROCO_NO_SLOT || view->position[j] < view->position[best])
            best = j, best_sum = s, best_n = n;
    }
    return best;
}

/* The one victim of a decode step, most often without any selection: the token of lowest mean, provided that it is a
 * candidate. It surely is when at most k tokens, itself included, have a variance no higher, so when n - k have a
 * higher one; as steadily ignored tokens go first, those are soon found. Else ROCO_NO_SLOT: not known. */
static uint32_t find_one(const roco_policy_view *view, uint32_t k)
{
    const uint32_t victim = lowest_mean(view), wanted = view->n > k ? view->n - k : 0;
    const double v = spread(view, victim), n = queries(view, victim), n2 = n * n;
    uint32_t n_higher = 0;
    for (uint32_t j = 0; j < view->n && n_higher < wanted; j++) {
        const double m = queries(view, j);
        n_higher += !(spread(view, j) * n2 <= v * (m * m));
    }
    return n_higher >= wanted ? victim : ROCO_NO_SLOT;
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
