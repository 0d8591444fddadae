/* The matcher behind stop.h. Its state after each byte is exactly what has to be held back: no more text waits than
 * could still be part of a stop. */
#include "server/stop.h"

#include "config/status.h"

#include <string.h>

void roco_stop_add(roco_stop_set *set, const char *text, size_t size)
{
    ROCO_CHECK(set->n < ROCO_MAX_STOPS && size >= 1 && size <= ROCO_MAX_STOP_BYTES);
    char *stop = set->text[set->n];
    uint16_t *border = set->border[set->n];
    memcpy(stop, text, size);
    border[0] = 0;
    for (size_t i = 1; i < size; i++) {
        uint16_t k = border[i - 1];
        while (k && stop[k] != stop[i])
            k = border[k - 1];
        border[i] = (uint16_t)(k + (stop[k] == stop[i]));
    }
    set->length[set->n++] = (uint16_t)size;
}

size_t roco_stop_step(const roco_stop_set *set, roco_stop_state *state, char byte)
{
    size_t found = 0;
    for (uint32_t s = 0; s < set->n; s++) {
        uint16_t k = state->matched[s];
        while (k && set->text[s][k] != byte)
            k = set->border[s][k - 1];
        k = (uint16_t)(k + (set->text[s][k] == byte));
        state->matched[s] = k;
        if (k == set->length[s] && k > found)
            found = k;
    }
    return found;
}

int roco_stop_matched(const roco_stop_set *set, const roco_stop_state *state)
{
    int found = -1;
    for (uint32_t s = 0; s < set->n; s++)
        if (state->matched[s] == set->length[s] && (found < 0 || set->length[s] > set->length[found]))
            found = (int)s;
    return found;
}

size_t roco_stop_pending(const roco_stop_set *set, const roco_stop_state *state)
{
    size_t longest = 0;
    for (uint32_t s = 0; s < set->n; s++)
        if (state->matched[s] > longest)
            longest = state->matched[s];
    return longest;
}
