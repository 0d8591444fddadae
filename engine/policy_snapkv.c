/* snapkv: what the newest queries look at stays, and what stands beside it; of those queries the most attentive counts.
 *
 * Sources: SnapKV, arXiv 2404.14469, section 4: attention of a window of newest queries, pooled over neighbours, with
 * the window itself kept. DefensiveKV, arXiv 2510.13334, section 4: of queries and query heads the maximum instead of
 * the mean, so that the worst case decides, pooled over 5.
 *
 *     score = mean over the 5 neighbours in the cache of max over the newest 33 to 64 queries and the group's heads of
 * p
 *
 * Parameters: sink, recent. Deviations: the window is the block of 32 positions that the last query is in and the block
 * before; it moves on in decode as well; the maximum comes before the pooling. Of the newest tokens 32 are kept, a
 * quarter of the budget at most.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"

enum { WINDOW = 32, POOL = 5 };

static void select_overlooked(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *peak = view->scratch + view->n;
    const int64_t kept = view->budget / 4 < WINDOW ? view->budget / 4 : WINDOW;
    for (uint32_t j = 0; j < view->n; j++)
        peak[j] = fmax(roco_policy_key(view->sum[j]), roco_policy_key(view->sum_sq[j])) / POOL;
    roco_select_pool(view, POOL, false, peak, view->scratch);
    for (uint32_t j = 0; j < view->n; j++)
        if (view->position[j] > (int64_t)view->now - kept)
            view->scratch[j] = INFINITY;
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_snapkv = {
    .name = "snapkv",
    .paper = "arXiv 2404.14469",
    .id = ROCO_POLICY_SNAPKV,
    .evicts = true,
    .window = WINDOW,
    .peak = true,
    .select = select_overlooked,
};
