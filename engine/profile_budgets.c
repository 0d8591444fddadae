/* How a budget is spent on heads. Pure arithmetic; any thread.
 *
 * There is a cliff: a model finds a passage again while a handful of heads see it whole, and not at all when they are
 * one fewer. So the best heads are made whole while that leaves the others half of the budget; or, when only the few at
 * the edge of the cliff can be, a quarter, since what is asked for later is worth more than a little everywhere. When
 * not even that can be, taking memory from the other heads would buy nothing.
 *
 * A budget is memory: a page holds more tokens at 8 bits, and more still at 4. At 8 bits nothing is lost that shows in
 * perplexity, so all heads are stored so; 4 bits show, and are for whole heads that would not be whole otherwise
 * (docs/QUALITY.md has the numbers). The best heads get no more pages than equal budgets would take: then how many
 * requests fit does not depend on the profile.
 */
#include "engine/profile.h"

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* n_whole heads whole, the others evenly; false when those would have fewer than `least` tokens. */
static bool share(const roco_head_room *room, roco_kv_type low, roco_kv_type whole, uint32_t n_whole, uint32_t least,
                  roco_head_shares *out)
{
    const uint64_t taken = (uint64_t)n_whole * ((room->length + room->slots[whole] - 1) / room->slots[whole]);
    const uint32_t n_others = room->n_heads - n_whole;
    if (taken > room->n_pages || !n_others)
        return false;
    const uint32_t left = room->n_pages - (uint32_t)taken, pages = left / n_others;
    const uint32_t slots = lesser(pages * room->slots[low], room->length);
    if (slots < least || slots <= room->guarded)
        return false;
    *out = (roco_head_shares){.n_whole = n_whole,
                              .n_more = left % n_others,
                              .whole = room->length,
                              .more = lesser((pages + 1) * room->slots[low], room->length),
                              .low = slots,
                              .whole_type = whole,
                              .low_type = low};
    return true;
}

roco_head_shares roco_head_shares_make(const roco_head_room *room)
{
    const roco_kv_type low = room->quantise ? ROCO_KV_Q8 : room->type, last = room->quantise ? ROCO_KV_Q4 : room->type;
    roco_head_shares out = {0};
    for (uint32_t n = lesser(room->n_wanted, room->n_heads); n >= room->n_needed; n--)
        if (share(room, low, low, n, room->budget / 2, &out))
            return out;
    if (share(room, low, last, room->n_needed, room->budget / 4, &out))
        return out;
    if (room->quantise && share(room, low, low, 0, room->budget, &out))
        return out;
    return (roco_head_shares){0};
}
