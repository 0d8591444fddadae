#include "kernels/order.h"

#include <stddef.h>

/* Shell's sort (CACM 2, 1959) with Ciura's distances: no memory of its own, and slots are half in order mostly. */
void roco_order_by_position(const int32_t *position, uint32_t n, uint32_t *order)
{
    static const uint32_t distances[] = {88591, 39373, 17499, 7777, 3456, 1536, 701, 301, 132, 57, 23, 10, 4, 1};
    for (uint32_t j = 0; j < n; j++)
        order[j] = j;
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++)
        for (uint32_t i = distances[d]; i < n; i++) {
            const uint32_t moved = order[i];
            uint32_t at = i;
            for (; at >= distances[d] && position[order[at - distances[d]]] > position[moved]; at -= distances[d])
                order[at] = order[at - distances[d]];
            order[at] = moved;
        }
}
