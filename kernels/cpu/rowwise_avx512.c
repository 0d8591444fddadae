/* The row-wise operations compiled for AVX-512. Any compute thread; no state. */
#include "kernels/cpu/rowwise.h"

#ifdef __AVX512F__
#include "kernels/cpu/rowwise_body.h"

const roco_rowwise_variant roco_rowwise_avx512 = ROCO_ROWWISE_VARIANT;
#endif
