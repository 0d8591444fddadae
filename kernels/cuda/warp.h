/* Sums and maxima over the threads of a warp or a block. Device code. */
#ifndef ROCO_KERNELS_CUDA_WARP_H
#define ROCO_KERNELS_CUDA_WARP_H

#include "kernels/cuda/device.h"

#define ROCO_WARP      32u
#define ROCO_ALL_LANES 0xffffffffu

static __device__ __forceinline__ unsigned lane_of_thread()
{
    return threadIdx.x % ROCO_WARP;
}

static __device__ __forceinline__ unsigned warp_of_thread()
{
    return threadIdx.x / ROCO_WARP;
}

static __device__ __forceinline__ float warp_sum(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ROCO_ALL_LANES, value, distance);
    return value;
}

static __device__ __forceinline__ float warp_max(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(ROCO_ALL_LANES, value, distance));
    return value;
}

/* All threads of a block of whole warps call it; all get the sum. Fixed order. */
static __device__ __forceinline__ float block_sum(float value)
{
    SHARED(float, warps, [32]);
    value = warp_sum(value);
    __syncthreads(); /* an earlier call's reads */
    if (lane_of_thread() == 0)
        warps[warp_of_thread()] = value;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / ROCO_WARP; i++)
        sum += warps[i];
    return sum;
}

static __device__ __forceinline__ unsigned block_count(unsigned value)
{
    SHARED(unsigned, warps, [32]);
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ROCO_ALL_LANES, value, distance);
    __syncthreads();
    if (lane_of_thread() == 0)
        warps[warp_of_thread()] = value;
    __syncthreads();
    unsigned sum = 0;
    for (unsigned i = 0; i < blockDim.x / ROCO_WARP; i++)
        sum += warps[i];
    return sum;
}

#endif
