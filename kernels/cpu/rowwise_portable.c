/* The row-wise operations compiled with what every processor has: the reference. Any compute thread; no state. */
#include "kernels/cpu/rowwise_body.h"

const roco_rowwise_variant roco_rowwise_portable = ROCO_ROWWISE_VARIANT;
