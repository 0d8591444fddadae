/* The order of positions, which slots say nothing of. Pure; no allocation. */
#ifndef ROCO_KERNELS_ORDER_H
#define ROCO_KERNELS_ORDER_H

#include <stdint.h>

/* Fills order[n] with 0..n-1, by ascending position; positions differ. */
void roco_order_by_position(const int32_t *position, uint32_t n, uint32_t *order);

#endif
