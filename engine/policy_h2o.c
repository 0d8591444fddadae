/* h2o: heavy hitters. The tokens that drew the least attention in sum go; the newest tenth of the budget stays.
 *
 * Source: arXiv 2306.14048, section 4. For a cached token j, S = sum of the attention it received. Parameters: sink,
 * recent. Deviations: the paper halves the budget between heavy hitters and newest tokens; here the newest max(recent,
 * int(0.1 B)) are safe, as in the comparison of arXiv 2402.06262, and so are the sinks.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"

#include <math.h>

static void select_lightest(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    const int64_t window = (int64_t)((double)view->budget * 0.1);
    for (uint32_t j = 0; j < view->n; j++) {
        const bool is_new = view->position[j] > (int64_t)view->now - window;
        view->scratch[j] = is_new ? INFINITY : roco_policy_key(view->sum[j]);
    }
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_h2o = {
    .name = "h2o",
    .paper = "arXiv 2306.14048",
    .id = ROCO_POLICY_H2O,
    .evicts = true,
    .needs_statistics = true,
    .select = select_lightest,
};
