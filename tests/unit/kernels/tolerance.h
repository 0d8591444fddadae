/* How far a variant of an operation may be from its reference, one number per operation, derived once.
 *
 * All are relative to the largest magnitude of the outputs compared. u = 2^-24 is float32's unit roundoff.
 */
#ifndef ROCO_TESTS_KERNELS_TOLERANCE_H
#define ROCO_TESTS_KERNELS_TOLERANCE_H

/* Products: at most 1,536 terms added one after the other, whose roundings add like a random walk: sqrt(1536) u =
 * 2.3e-6, times 4 where few outputs are compared and their terms cancel. Between variants as against float64. */
#define TOLERANCE_LINEAR   1e-5f
/* A sum of squares in 16 lanes, a root and a division. */
#define TOLERANCE_RMS_NORM 1e-6f
/* Two products and a sum. */
#define TOLERANCE_ROPE     3e-7f
/* e^x within 2 units in the last place, then a sum, a division and a product. */
#define TOLERANCE_SWIGLU   1e-6f
/* The same with a few more products in the exponent, relative to 1 where the result is near 0. */
#define TOLERANCE_GEGLU    2e-6f
/* Two sums and a product, then a soft-cap: e^x within 2 units in the last place, two divisions, two sums. */
#define TOLERANCE_ELEMENTS 1e-6f

/* Share of a product's norm lost by quantising activations to int8 in blocks of 32: a block's step is its second
 * largest magnitude / 127, about 1.7 sigma / 127 for normal values, its error step / sqrt(12) = 0.39 % of sigma. */
#define TOLERANCE_INT8_QUALITY 0.0045f

#endif
