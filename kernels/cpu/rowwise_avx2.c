/* The row-wise operations compiled for AVX2. Any compute thread; no state. */
#include "kernels/cpu/rowwise.h"

#ifdef __AVX2__
#include "kernels/cpu/rowwise_body.h"

const roco_rowwise_variant roco_rowwise_avx2 = ROCO_ROWWISE_VARIANT;
#endif
