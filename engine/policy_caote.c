/* roco+caote, h2o+caote, tova+caote: another policy's importance, weighed by what the token's value does to the output.
 *
 * Source: CAOTE, arXiv 2504.14051, section 3. With importance a_j, normalised over the head's tokens, and the output o
 * = sum of a_j v_j, leaving token j out changes the output by
 *
 *     c_j = a_j / (1 - a_j) |v_j - o|
 *
 * and the lowest c_j go: among RoCo's candidates (a: mean), outside the newest tenth of the budget (a: S), or among all
 * (a: the last query's p). Parameters: sink, recent. Deviation: a and o are the KV head's, from the mean over its query
 * heads. 1 - a is 1e-6 at the least.
 */
#include "engine/policies.h"
#include "engine/policy_keys.h"
#include "engine/policy_select.h"

/* An importance, never negative. What is not a number goes first: it weighs nothing. */
static double weight(float statistic)
{
    return fmax(0, roco_policy_key(statistic));
}

/* From importance to c, in place, using scratch[other..]. Both halves of scratch are used. */
static void weigh_by_values(const roco_policy_view *view, double *a, double *distance)
{
    const double sum = roco_sum_in_blocks(a, view->n);
    for (uint32_t j = 0; j < view->n; j++)
        a[j] = sum > 0 ? a[j] / sum : 0;
    roco_value_mean(view, a);
    roco_value_distance(view, distance);
    for (uint32_t j = 0; j < view->n; j++)
        a[j] = fmin(a[j] / fmax(1 - a[j], 1e-6) * distance[j], DBL_MAX);
}

static void select_roco(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *key = view->scratch + view->n;
    for (uint32_t j = 0; j < view->n; j++)
        key[j] = weight(view->sum[j]) / ((double)view->now - view->position[j] + 1);
    weigh_by_values(view, key, view->scratch);
    roco_select_in_scope(view, surplus, victims);
}

static void select_h2o(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    const int64_t window = (int64_t)((double)view->budget * 0.1);
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = weight(view->sum[j]);
    weigh_by_values(view, view->scratch, view->scratch + view->n);
    for (uint32_t j = 0; j < view->n; j++)
        if (view->position[j] > (int64_t)view->now - window)
            view->scratch[j] = INFINITY;
    roco_select_unprotected(view, surplus, victims);
}

static void select_tova(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = weight(view->last[j]);
    weigh_by_values(view, view->scratch, view->scratch + view->n);
    roco_select_unprotected(view, surplus, victims);
}

#define PAPER "arXiv 2504.14051"

const roco_policy roco_policy_roco_caote = {
    .name = "roco+caote",
    .paper = PAPER,
    .id = ROCO_POLICY_ROCO_CAOTE,
    .evicts = true,
    .needs_statistics = true,
    .needs_values = true,
    .select = select_roco,
};

const roco_policy roco_policy_h2o_caote = {
    .name = "h2o+caote",
    .paper = PAPER,
    .id = ROCO_POLICY_H2O_CAOTE,
    .evicts = true,
    .needs_statistics = true,
    .needs_values = true,
    .select = select_h2o,
};

const roco_policy roco_policy_tova_caote = {
    .name = "tova+caote",
    .paper = PAPER,
    .id = ROCO_POLICY_TOVA_CAOTE,
    .evicts = true,
    .needs_last = true,
    .needs_values = true,
    .select = select_tova,
};
