/* Products of dense matrices on the device: cuBLAS, found at run time (dense.c), or a plain loop in the tests.
 * Engine thread; work goes to the device's stream. */
#ifndef ROCO_KERNELS_CUDA_DENSE_H
#define ROCO_KERNELS_CUDA_DENSE_H

#include "kernels/cuda/gpu.h"
#include "kernels/tensor_type.h"

typedef struct roco_dense roco_dense;

/* ROCO_UNSUPPORTED when the library is not on this machine or does not fit. Returns owned. */
roco_status roco_dense_open(roco_gpu *gpu, roco_dense **out, roco_error *error);
void roco_dense_close(roco_dense *dense);

/* out[i * out_stride + r] = or += sum over k of x[i, k] weight[r, k], for i < n and r < n_rows. x and weight are both
 * of `type`: F32, F16 or BF16; sums are float32. */
typedef struct roco_dense_product {
    roco_tensor_type type;
    const void *weight; /* [n_rows, n_cols] */
    uint32_t n_rows, n_cols;
    const void *x; /* [n, n_cols] */
    uint32_t n;
    float *out;
    uint32_t out_stride;
    bool add;
} roco_dense_product;
void roco_dense_multiply(roco_dense *dense, const roco_dense_product *product);
/* Forgets failures: of products that were to be recorded in a graph, and did not run. */
void roco_dense_forgive(roco_dense *dense);
/* The first failure of a product since open, or ROCO_OK. */
roco_status roco_dense_finish(const roco_dense *dense, roco_error *error);

#endif
