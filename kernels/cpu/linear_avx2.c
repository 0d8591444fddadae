/* Matrix products with AVX2 and FMA. Any compute thread; no state. */
#ifdef __AVX2__
#include "kernels/cpu/linear_256.h"

const roco_linear_variant roco_linear_avx2 = {
    .quantize = quantize, .multiply_integers = multiply_integers, .multiply_floats = multiply_floats};
#endif
