/* random: any unprotected token may go. The floor that every other policy has to be better than.
 *
 * Source: the random baseline of arXiv 2402.06262, section 4, drawn for each layer and KV head. Parameters: sink,
 * recent.
 *
 * The draw depends on the request alone, so that answers are the same alone and in company: a token's key is a hash of
 * layer, KV head, the last query's position (each eviction draws anew) and its own position; lowest keys go. The hash
 * is two rounds of splitmix64's finaliser (Steele, Lea and Flood 2014): mix(mix(stream) + now * 2^32 + position), with
 * stream = layer * 2^32 + KV head.
 */
#include "engine/policies.h"
#include "engine/policy_select.h"

static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void select_any(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    const uint64_t head = mix(view->stream), now = (uint64_t)view->now << 32;
    for (uint32_t j = 0; j < view->n; j++)
        view->scratch[j] = (double)(mix(head + now + (uint64_t)view->position[j]) >> 11); /* 53 bits are exact */
    roco_select_unprotected(view, surplus, victims);
}

const roco_policy roco_policy_random = {
    .name = "random",
    .paper = "arXiv 2402.06262",
    .id = ROCO_POLICY_RANDOM,
    .evicts = true,
    .select = select_any,
};
