/* tova: token omission via attention. The tokens that the last query attended to least go.
 *
 * Source: arXiv 2401.06104, section 3. Parameters: sink, recent. Deviations: each KV head chooses for itself, by the
 * mean over the query heads of its group, where the paper averages over all heads of a layer; sinks and newest tokens
 * are safe.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"

static void select_least_wanted(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = roco_policy_key(view->last[j]);
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_tova = {
    .name = "tova",
    .paper = "arXiv 2401.06104",
    .id = ROCO_POLICY_TOVA,
    .evicts = true,
    .needs_last = true,
    .select = select_least_wanted,
};
