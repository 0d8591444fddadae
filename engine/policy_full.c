/* full: nothing is ever evicted; the budget of every head is the whole sequence.
 *
 * The baseline the other policies are measured against. It keeps no statistics and has no selection: an engine gives
 * its heads `evicts = false`, and attention is plain.
 */
#include "engine/policies.h"

const roco_policy roco_policy_full = {
    .name = "full",
    .paper = "none: the whole cache is kept",
    .id = ROCO_POLICY_FULL,
    .evicts = false,
    .needs_statistics = false,
    .select = NULL,
};
