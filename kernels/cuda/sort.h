/* Sorting by the threads of one block, in global memory. Device code. */
#ifndef ROCO_KERNELS_CUDA_SORT_H
#define ROCO_KERNELS_CUDA_SORT_H

#include "kernels/cuda/device.h"

/* A column and its token's position, as one number that orders by position. */
static __device__ __forceinline__ unsigned long long sortable(int32_t position, unsigned column)
{
    return (unsigned long long)(unsigned)position << 32 | column;
}

/* Ascending. Batcher's merge exchange (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M): any n, and within
 * a round no two threads touch the same number. All threads of the block; they have met when it returns, and must have
 * met since the numbers were written. */
static __device__ void sort_ascending(unsigned long long *x, unsigned n)
{
    unsigned top = 1;
    while (2 * top < n)
        top *= 2;
    for (unsigned p = top; p > 0 && n > 1; p /= 2)
        for (unsigned q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (unsigned i = threadIdx.x; i + d < n; i += blockDim.x) {
                if ((i & p) != r)
                    continue;
                const unsigned long long a = x[i], b = x[i + d];
                if (a > b) {
                    x[i] = b;
                    x[i + d] = a;
                }
            }
            __syncthreads();
            if (q == p)
                break;
        }
}

#endif
