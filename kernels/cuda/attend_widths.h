/* The widths of values that attention is compiled for, each in its own file, so that they compile side by side. */
#ifndef ROCO_KERNELS_CUDA_ATTEND_WIDTHS_H
#define ROCO_KERNELS_CUDA_ATTEND_WIDTHS_H

#include "kernels/cuda/attention.h"

/* Components of a key or a value at most. */
#define ROCO_CUDA_MOST_COMPONENTS 256u

#ifdef __cplusplus
extern "C" {
#endif

void roco_cuda_attend_decode_128(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t n);
void roco_cuda_attend_decode_256(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t n);
void roco_cuda_attend_prompt_128(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n,
                                 uint32_t most_rows);
void roco_cuda_attend_prompt_256(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n,
                                 uint32_t most_rows);

#ifdef __cplusplus
}
#endif

#endif
