#include "engine/sampler_row.h"

#include <math.h>
#include <string.h>

#define LANES  16u
#define INLINE static inline __attribute__((always_inline))

/* Taken by address: passing one by value would tie the call to registers not every machine has. */
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t words __attribute__((vector_size(4 * LANES)));

_Static_assert(ROCO_ROW_PART % LANES == 0, "a part is whole vectors");

INLINE void choose(const words *condition, const floats *yes, floats *no)
{
    *no = (floats)((*condition & (words)*yes) | (~*condition & (words)*no));
}

bool roco_row_highest(const float *logits, uint32_t n, uint32_t *place)
{
    floats best = (floats){0} - INFINITY;
    words odd = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        floats x;
        memcpy(&x, logits + i, sizeof x);
        const words above = x > best;
        odd |= x != x;
        choose(&above, &x, &best);
    }
    float highest = -INFINITY;
    bool broken = false;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        highest = best[lane] > highest ? best[lane] : highest;
        broken |= odd[lane] != 0;
    }
    for (; i < n; i++) {
        highest = logits[i] > highest ? logits[i] : highest;
        broken |= isnan(logits[i]) != 0;
    }
    if (broken || !isfinite(highest))
        return false;
    for (*place = 0; logits[*place] < highest; ++*place) {
    }
    return true;
}

/* As in the kernels: z = n ln 2 + r, e^r by its Taylor series to r^7, 2^n by adding n to the exponent. Adding 1.5 *
 * 2^23 rounds to an integer. */
INLINE void exponential(floats *x)
{
    const floats zero = {0}, low = zero - 87.0f, round = zero + 12582912.0f;
    const words below = *x < low;
    floats z = *x;
    choose(&below, &low, &z);
    const floats shifted = z * 1.44269504f + round, whole = shifted - round;
    const words n = (words)shifted - (words)round;
    floats r = z - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    floats p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    *x = (floats)((words)p + (n << 23));
    choose(&below, &zero, x);
}

/* One part of at most ROCO_ROW_PART values. */
static double weigh_part(float *x, uint32_t n, float highest, float inverse)
{
    floats sum = {0};
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t size = n - i < LANES ? n - i : LANES;
        floats e = (floats){0} - INFINITY;
        memcpy(&e, x + i, size * sizeof *x);
        e = (e - highest) * inverse;
        exponential(&e);
        memcpy(x + i, &e, size * sizeof *x);
        sum += e;
    }
    double total = 0;
    for (uint32_t lane = 0; lane < LANES; lane++)
        total += (double)sum[lane];
    return total;
}

double roco_row_weigh(float *x, uint32_t n, float highest, float inverse, double *sums)
{
    double total = 0;
    for (uint32_t part = 0; part < roco_row_parts(n); part++) {
        const uint32_t first = part * ROCO_ROW_PART, left = n - first;
        sums[part] = weigh_part(x + first, left < ROCO_ROW_PART ? left : ROCO_ROW_PART, highest, inverse);
        total += sums[part];
    }
    return total;
}

uint32_t roco_row_pick(const float *p, uint32_t n, const double *sums, double goal)
{
    double before = 0;
    uint32_t part = 0, last = 0;
    for (; part + 1 < roco_row_parts(n) && before + sums[part] <= goal; part++)
        before += sums[part];
    /* Rounding may leave the goal beyond the part: then it is the last that weighs anything, in this part or before. */
    for (uint32_t i = part * ROCO_ROW_PART; i < n && i < (part + 1) * ROCO_ROW_PART; i++) {
        before += (double)p[i];
        if (goal < before)
            return i;
    }
    for (uint32_t i = 0; i < n && i < (part + 1) * ROCO_ROW_PART; i++)
        last = p[i] > 0 ? i : last;
    return last;
}
