/* vatp: value-aware token pruning. The mean attention a token received, times the length of what it gives.
 *
 * Source: arXiv 2406.12335, section 3. score = S / n * (sum over components of |v_j|); lowest scores go. Parameters:
 * sink, recent. Deviation: the mean over the queries since a token was stored stands for the paper's sum.
 */
#include "engine/policies.h"
#include "engine/policy_keys.h"
#include "engine/policy_select.h"

static void select_least_given(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    roco_value_norm(view, view->scratch);
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = fmax(0, roco_policy_mean_key(view, j)) * view->scratch[j];
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = fmin(view->scratch[j], DBL_MAX);
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_vatp = {
    .name = "vatp",
    .paper = "arXiv 2406.12335",
    .id = ROCO_POLICY_VATP,
    .evicts = true,
    .needs_statistics = true,
    .needs_values = true,
    .select = select_least_given,
};
