/* How a budget is spent on heads: half for every head evenly, the rest on the best ones in order, each as whole as the
 * sequence is long. Pure arithmetic; any thread.
 *
 * There is a cliff: a model finds a passage again while a handful of heads see it whole, and not at all when they are
 * one fewer. So the floor goes down, to a quarter at the least, where that makes enough heads whole; where it does not,
 * taking memory from the other heads would buy nothing, and all get the same.
 *
 * Memory is dealt in pages, so the floor is whole pages, and the best heads get no more pages than equal budgets would
 * take: then how many requests fit does not depend on the profile.
 */
#include "engine/profile.h"

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t pages_for(uint32_t slots, uint32_t page_slots)
{
    return slots / page_slots + (slots % page_slots != 0);
}

static roco_head_shares shares_above(uint32_t low, uint32_t n_heads, uint32_t budget, uint32_t length,
                                     uint32_t page_slots)
{
    const uint32_t low_pages = pages_for(low, page_slots);
    const uint32_t add = length - low, add_pages = pages_for(length, page_slots) - low_pages;
    uint64_t slots_left = (uint64_t)n_heads * (budget - low);
    uint64_t pages_left = (uint64_t)n_heads * (pages_for(budget, page_slots) - low_pages);

    uint64_t n_whole = slots_left / add;
    if (add_pages && n_whole > pages_left / add_pages)
        n_whole = pages_left / add_pages;
    slots_left -= n_whole * add;
    pages_left -= n_whole * add_pages;
    const uint64_t in_pages = (low_pages + pages_left) * page_slots;
    uint64_t partial = low + slots_left < in_pages ? low + slots_left : in_pages;
    return (roco_head_shares){
        .n_whole = (uint32_t)n_whole, .whole = length, .partial = lesser((uint32_t)partial, length), .low = low};
}

roco_head_shares roco_head_shares_make(uint32_t n_heads, uint32_t n_needed, uint32_t budget, uint32_t length,
                                       uint32_t guarded, uint32_t page_slots)
{
    /* Floors in whole pages, with room beside the protected tokens. */
    const uint32_t half = budget / 2 / page_slots, quarter = pages_for(budget / 4, page_slots);
    const uint32_t room = pages_for(guarded + 1, page_slots), least = quarter > room ? quarter : room;
    for (uint32_t pages = half > least ? half : least; pages >= least && pages * page_slots < budget; pages--) {
        const roco_head_shares shares = shares_above(pages * page_slots, n_heads, budget, length, page_slots);
        if (shares.n_whole >= n_needed)
            return shares;
    }
    return (roco_head_shares){.partial = budget, .low = budget};
}
