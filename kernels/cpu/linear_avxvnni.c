/* Matrix products with AVX-VNNI, the byte products of AVX-512 at half its width, which processors without AVX-512 have.
 * Any compute thread; no state. */
#ifdef __AVXVNNI__
#include "kernels/cpu/linear_256.h"

const roco_linear_variant roco_linear_avxvnni = {
    .quantize = quantize, .multiply_integers = multiply_integers, .multiply_floats = multiply_floats};
#endif
