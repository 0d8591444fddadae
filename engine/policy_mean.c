/* mean: the tokens attended to least, on average over the queries they have seen, go. RoCo without its scope.
 *
 * Source: the averaged importance of arXiv 2402.06262, section 3. For a cached token j, mean = S / n over the n queries
 * since it was stored. Parameters: sink, recent.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"

static void select_lowest_mean(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = roco_policy_key(view->sum[j]) / (double)(view->now - view->position[j] + 1);
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_mean = {
    .name = "mean",
    .paper = "arXiv 2402.06262",
    .id = ROCO_POLICY_MEAN,
    .evicts = true,
    .needs_statistics = true,
    .select = select_lowest_mean,
};
