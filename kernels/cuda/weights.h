/* Matrices on the device, and which product multiplies them. Engine thread. */
#ifndef ROCO_KERNELS_CUDA_WEIGHTS_H
#define ROCO_KERNELS_CUDA_WEIGHTS_H

#include "kernels/cuda/cuda.h"

/* The operations: see kernels/backend.h. */
roco_status roco_cuda_weight_open(roco_backend *backend, const roco_tensor_view *view, roco_weight **out,
                                  roco_error *error);
void roco_cuda_weight_close(roco_backend *backend, roco_weight *weight);
void roco_cuda_embed(roco_backend *backend, const roco_weight *weight, const int32_t *ids, uint32_t n, float *out);
void roco_cuda_matmul(roco_backend *backend, const roco_weight *const *weights, float *const *outs, uint32_t n_weights,
                      const float *x, uint32_t n, bool add);

/* measure.c. *few: up to how many rows matrices of the type are multiplied without the library; it stays as it is where
 * there is no memory for the trial. */
void roco_cuda_measure(roco_cuda *cuda, roco_tensor_type type, uint32_t *few);

#endif
