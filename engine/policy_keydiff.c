/* keydiff: keys that say what the others say already go; the distinct ones stay.
 *
 * Source: arXiv 2504.15364, section 3. For a cached token j with unit key k_j / |k_j|, score = -(its dot product with
 * the mean of all unit keys); lowest scores go. Parameters: sink, recent. No attention statistics. Deviation: the
 * mean's own length is left out, which keeps the order.
 */
#include "engine/policies.h"
#include "engine/policy_keys.h"
#include "engine/policy_select.h"

static void select_alike(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    roco_key_likeness(view, view->scratch);
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = -view->scratch[j];
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_keydiff = {
    .name = "keydiff",
    .paper = "arXiv 2504.15364",
    .id = ROCO_POLICY_KEYDIFF,
    .evicts = true,
    .needs_keys = true,
    .select = select_alike,
};
