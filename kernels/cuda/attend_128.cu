/* Attention for values of up to 128 components. */
#include "kernels/cuda/attend.h"
#include "kernels/cuda/attend_widths.h"

void roco_cuda_attend_decode_128(roco_gpu_stream stream, const roco_cuda_layer *l, uint32_t n)
{
    launch_attend_decode<2>(stream, *l, n);
}

void roco_cuda_attend_prompt_128(roco_gpu_stream stream, const roco_cuda_layer *l, uint32_t first, uint32_t n,
                                 uint32_t most_rows)
{
    launch_attend<8, 2>(stream, *l, first, n, most_rows, 1);
}
