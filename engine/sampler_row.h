/* Passes over a whole row of logits, in vectors: what a draw costs where every token counts. Any thread; no state.
 *
 * The row's parts have ROCO_ROW_PART values; sums of parts let a draw find its place without another pass.
 */
#ifndef ROCO_ENGINE_SAMPLER_ROW_H
#define ROCO_ENGINE_SAMPLER_ROW_H

#include <stdbool.h>
#include <stdint.h>

#define ROCO_ROW_PART 256u

static inline uint32_t roco_row_parts(uint32_t n)
{
    return (n + ROCO_ROW_PART - 1) / ROCO_ROW_PART;
}

/* The place of the highest of n >= 1 logits, the lowest among equals. False when one is NaN or that one is not finite.
 */
bool roco_row_highest(const float *logits, uint32_t n, uint32_t *place);

/* x becomes exp((x - highest) * inverse), to 2 units in the last place, 0 under exp(-87). sums [roco_row_parts(n)]: of
 * the parts; returns their sum. No x is above `highest`. */
double roco_row_weigh(float *x, uint32_t n, float highest, float inverse, double *sums);

/* The place of `goal`, at least 0 and under the sum, on the line of weights p[0], p[1], ... laid end to end. */
uint32_t roco_row_pick(const float *p, uint32_t n, const double *sums, double goal);

#endif
