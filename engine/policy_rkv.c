/* r-kv: tokens that the newest queries overlook, and tokens that repeat others, go.
 *
 * Source: R-KV, arXiv 2505.24133, section 3. With I_j the attention of the newest queries, pooled by maximum over 7
 * neighbours, and R_j the softmax over tokens of the mean cosine between k_j and all keys,
 *
 *     score = 0.1 I_j - 0.9 R_j        lowest scores go
 *
 * Parameters: sink, recent. Deviations: the window is the block of 8 positions that the last query is in and the block
 * before; I is a mean over the group's query heads; one token at a time goes in decode, not every 128. The paper spares
 * the newest of tokens that are alike; here the recent window does, so the cosines come from one product with the mean
 * key, linear in the tokens.
 */
#include "engine/policies.h"
#include "engine/policy_keys.h"
#include "engine/policy_select.h"

enum { WINDOW = 8, POOL = 7 };
#define IMPORTANCE 0.1

/* Mean attention over those queries of the window that saw the token. */
static double attention(const roco_policy_view *view, uint32_t j)
{
    const int32_t first = (view->now / WINDOW - 1) * WINDOW,
                  from = view->position[j] > first ? view->position[j] : first;
    const double sum = roco_policy_key(view->sum[j]) + roco_policy_key(view->sum_sq[j]);
    return sum / ((double)view->now - (from > 0 ? from : 0) + 1);
}

/* e^x of a cosine to the last bits, by its Taylor series to x^18. Of sums and products alone, so that every backend
 * gives the same bits. */
static double exponential(double x)
{
    double e = 1;
    for (int k = 18; k > 0; k--)
        e = 1 + e * x / k;
    return e;
}

static void select_redundant(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *key = view->scratch, *other = view->scratch + view->n;
    for (uint32_t j = 0; j < view->n; j++)
        other[j] = fmin(fmax(attention(view, j), -1e6), 1e6);
    roco_select_pool(view, POOL, true, other, key);
    roco_key_likeness(view, other);
    for (uint32_t j = 0; j < view->n; j++)
        other[j] = exponential(other[j]);
    const double total = roco_sum_in_blocks(other, view->n);
    for (uint32_t j = 0; j < view->n; j++)
        key[j] = IMPORTANCE * key[j] - (1 - IMPORTANCE) * other[j] / total;
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_rkv = {
    .name = "r-kv",
    .paper = "arXiv 2505.24133",
    .id = ROCO_POLICY_RKV,
    .evicts = true,
    .window = WINDOW,
    .needs_keys = true,
    .select = select_redundant,
};
