/* Seeded random tensors and backends for the kernel tests. */
#ifndef ROCO_TESTS_KERNELS_SUPPORT_TENSOR_H
#define ROCO_TESTS_KERNELS_SUPPORT_TENSOR_H

#include "kernels/backend.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct support_random {
    uint64_t state; /* any seed */
} support_random;

uint32_t support_random_bits(support_random *random);
/* Uniform in [-1, 1). */
float support_random_float(support_random *random);
void support_random_fill(support_random *random, float *out, size_t n);

extern const roco_tensor_type support_types[];
extern const uint32_t support_n_types;

/* A matrix of random blocks with finite scales. n_cols is a multiple of the type's block. The data is owned by the
 * caller: free((void *)view.data). */
roco_tensor_view support_tensor_open(support_random *random, roco_tensor_type type, uint32_t n_rows, uint32_t n_cols);
/* The whole matrix as floats; owned by the caller. */
float *support_tensor_floats(const roco_tensor_view *view);

/* "portable", "avx2", "avxvnni", "avx512": false when this machine lacks it. */
bool support_has_isa(const char *isa);
/* A CPU backend; the test fails when it cannot be opened. */
roco_backend *support_backend_open(const char *isa, uint32_t threads, uint32_t max_rows, roco_precision precision);

/* Largest |a - b| over the largest |b|; both [n]. NaN anywhere gives infinity. */
float support_distance(const float *a, const float *b, size_t n);

#endif
