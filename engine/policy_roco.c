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
 * Ranks are taken on the variance: the root keeps the order and costs time. In double, because S2 / n and mean^2 nearly
 * cancel where attention is steady. What is not a number ranks first (variance and mean 0 or less), so a broken token
 * leaves the cache.
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

/* variance, mean [n]: finite or -infinity where unprotected, +infinity where protected. No branches: this loop is most
 * of the cost of a decode step's selection. */
static void measure(const roco_policy_view *view, double *variance, double *mean)
{
    for (uint32_t j = 0; j < view->n; j++) {
        double n = (double)(view->now - view->position[j] + 1);
        double m = (double)view->sum[j] / n;
        double v = (double)view->sum_sq[j] / n - m * m;
        v = v > 0 ? v : 0; /* rounding makes it negative where attention is constant; NaN fails the test too */
        variance[j] = v < DBL_MAX ? v : DBL_MAX;
        m = m > -INFINITY ? m : -INFINITY;
        mean[j] = m < DBL_MAX ? m : DBL_MAX;
    }
    for (uint32_t j = 0; j < view->n; j++)
        if (roco_policy_protects(view, j))
            variance[j] = mean[j] = INFINITY;
}

/* The one victim of a decode step without any selection: the token of lowest mean, provided that it is a candidate. It
 * surely is when at most k tokens, itself included, have a variance no higher. Else ROCO_NO_SLOT: not known. */
static uint32_t find_one(const roco_policy_view *view, const double *variance, const double *mean, uint32_t k)
{
    uint32_t victim = 0, n_no_higher = 0;
    for (uint32_t j = 1; j < view->n; j++)
        if (roco_ranks_before(mean, view->position, j, victim))
            victim = j;
    double v = variance[victim];
    for (uint32_t j = 0; j < view->n; j++)
        n_no_higher += variance[j] <= v;
    return n_no_higher <= k ? victim : ROCO_NO_SLOT;
}

static void select_roco(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *variance = view->scratch, *mean = view->scratch + view->n;
    uint32_t k = scope(view, surplus);
    measure(view, variance, mean);
    if (surplus == 1) {
        *victims = find_one(view, variance, mean, k);
        if (*victims != ROCO_NO_SLOT)
            return;
    }
    for (uint32_t j = 0; j < view->n; j++)
        view->order[j] = j;
    /* Protected tokens may fill up the candidates; by their mean they come last, and surplus others precede them. */
    roco_select_lowest(variance, view->position, view->order, view->n, k);
    roco_select_lowest(mean, view->position, view->order, k, surplus);
    roco_select_finish(view->n, view->order, surplus, view->scratch, victims);
}

const roco_policy roco_policy_roco = {
    .name = "roco",
    .paper = "arXiv 2402.06262",
    .id = ROCO_POLICY_ROCO,
    .evicts = true,
    .needs_statistics = true,
    .select = select_roco,
};
