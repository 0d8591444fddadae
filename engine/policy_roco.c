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

#include <math.h>

/* A token found not to be a candidate costs one more pass; past this many, partial selection is cheaper. */
#define MAX_PASSES 8

static uint32_t scope(const roco_policy_view *view, uint32_t surplus)
{
    int64_t k = (int64_t)view->budget - (int64_t)((double)view->budget * 0.1) - (int64_t)view->sink;
    return k > (int64_t)surplus ? (uint32_t)k : surplus;
}

/* variance, mean [n]; the unprotected slots to order. Returns how many those are. */
static uint32_t measure(const roco_policy_view *view, double *variance, double *mean, uint32_t *order)
{
    uint32_t n_unprotected = 0;
    for (uint32_t j = 0; j < view->n; j++) {
        double n = (double)view->now - (double)view->position[j] + 1.0;
        double m = (double)view->sum[j] / n;
        double v = (double)view->sum_sq[j] / n - m * m;
        variance[j] = v > 0 ? v : 0; /* rounding makes it negative where attention is constant; NaN fails the test */
        mean[j] = m == m ? m : -INFINITY;
        order[n_unprotected] = j;
        n_unprotected += !roco_policy_protects(view, j);
    }
    return n_unprotected;
}

/* The victim of a decode step without any selection: the token of lowest mean that is a candidate, i.e. that fewer than
 * k others precede by variance. Most often the first one looked at is. ROCO_NO_SLOT after MAX_PASSES. */
static uint32_t find_one(const int32_t *position, const double *variance, const double *mean, uint32_t *order,
                         uint32_t n, uint32_t k)
{
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        uint32_t best = 0, rank = 0;
        for (uint32_t i = 1; i < n; i++)
            if (roco_ranks_before(mean, position, order[i], order[best]))
                best = i;
        uint32_t victim = order[best];
        for (uint32_t i = 0; i < n; i++)
            rank += roco_ranks_before(variance, position, order[i], victim);
        if (rank < k)
            return victim;
        order[best] = order[--n]; /* it comes after every candidate, so their ranks and k stay as they are */
        order[n] = victim;
    }
    return ROCO_NO_SLOT;
}

static void select_roco(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *variance = view->scratch, *mean = view->scratch + view->n;
    uint32_t n = measure(view, variance, mean, view->order), k = scope(view, surplus);
    if (k > n)
        k = n;
    if (surplus == 1) {
        *victims = find_one(view->position, variance, mean, view->order, n, k);
        if (*victims != ROCO_NO_SLOT)
            return;
    }
    roco_select_lowest(variance, view->position, view->order, n, k);
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
