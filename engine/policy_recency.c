/* recency: the first tokens and the newest ones stay, the oldest between them go.
 *
 * Source: attention sinks with a sliding window, arXiv 2309.17453, section 3.2.
 * Parameters: sink (positions kept at the front). `recent` needs no check of its own: sink + recent < B, so among the
 * B kept the recent window is always held.
 * Deviation: positions stay true positions; the paper renumbers keys by their place in the cache.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"

static void select_oldest(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = view->position[j];
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_recency = {
    .name = "recency",
    .paper = "arXiv 2309.17453",
    .id = ROCO_POLICY_RECENCY,
    .evicts = true,
    .needs_statistics = false,
    .select = select_oldest,
};
