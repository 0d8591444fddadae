/* How the backend starts its kernels: one function a launch, in the .cu file named at the end of each group. All
 * pointers are device memory unless said; shapes are those of kernels/backend.h. Nothing is launched for n = 0: callers
 * see to it.
 */
#ifndef ROCO_KERNELS_CUDA_KERNELS_H
#define ROCO_KERNELS_CUDA_KERNELS_H

#include "kernels/backend.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- rowwise.cu --- */
void roco_cuda_launch_rms_norm(roco_gpu_stream stream, const float *x, const float *gain, float eps, uint32_t n,
                               uint32_t width, float *out);
void roco_cuda_launch_rope(roco_gpu_stream stream, float *x, const float *cosines, const float *sines, uint32_t n,
                           uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves);
void roco_cuda_launch_swiglu(roco_gpu_stream stream, float *gate, const float *up, size_t n);
void roco_cuda_launch_geglu(roco_gpu_stream stream, float *gate, const float *up, size_t n);
void roco_cuda_launch_add(roco_gpu_stream stream, float *x, const float *y, float factor, size_t n);
void roco_cuda_launch_add_bias(roco_gpu_stream stream, float *x, const float *bias, uint32_t width, size_t n);
void roco_cuda_launch_scale(roco_gpu_stream stream, float *x, float factor, size_t n);
void roco_cuda_launch_softcap(roco_gpu_stream stream, float *x, float cap, size_t n);
void roco_cuda_launch_gather(roco_gpu_stream stream, const float *x, const uint32_t *rows, uint32_t n_out,
                             uint32_t width, float *out);

/* --- convert.cu --- */
/* out[i] = row ids[i] of a quantised or a dense (F32, F16, BF16) matrix, exactly. */
void roco_cuda_launch_embed_planes(roco_gpu_stream stream, roco_planes planes, const int32_t *ids, uint32_t n,
                                   float *out);
void roco_cuda_launch_embed_dense(roco_gpu_stream stream, roco_tensor_type type, const void *weight, uint32_t n_cols,
                                  const int32_t *ids, uint32_t n, float *out);
/* Rows first..first+n_rows-1 as f16, to nearest even. */
void roco_cuda_launch_dequantize(roco_gpu_stream stream, roco_planes planes, uint32_t first, uint32_t n_rows,
                                 uint16_t *out);
/* n floats to F16 (beyond its range to its largest finite value) or BF16. */
void roco_cuda_launch_narrow(roco_gpu_stream stream, roco_tensor_type type, const float *x, size_t n, uint16_t *out);

/* --- multiply_planes.cu, multiply_dense.cu: out = x w^T, or +=. For few rows: the matrix passes once for every 8. ---
 */
void roco_cuda_launch_multiply_planes(roco_gpu_stream stream, roco_planes planes, const float *x, uint32_t n,
                                      float *out, bool add);
void roco_cuda_launch_multiply_dense(roco_gpu_stream stream, roco_tensor_type type, const void *weight, uint32_t n_rows,
                                     uint32_t n_cols, const float *x, uint32_t n, float *out, bool add);

/* --- sample.cu --- */
/* tokens[i] from row rows[i].row of logits, which it spoils; -1 where the row cannot be trusted. */
void roco_cuda_launch_sample(roco_gpu_stream stream, float *logits, uint32_t n_vocab, const roco_sample_row *rows,
                             uint32_t n, int32_t *tokens);

#ifdef __cplusplus
}
#endif

#endif
