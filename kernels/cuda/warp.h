/* Sums, maxima and lists over the threads of a warp or a block. Device code. */
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

/* Calls `write(index, number)` for the numbers from `from` to `to` that `has` takes, with their number in order.
 * Returns how many those are. All threads. */
template <class Has, class Write>
static __device__ unsigned each_in_order(unsigned from, unsigned to, Has has, Write write)
{
    SHARED(unsigned, counts, [32]);
    const unsigned lane = lane_of_thread(), warp = warp_of_thread(), n_warps = blockDim.x / ROCO_WARP;
    const unsigned each = (to - from + n_warps - 1) / n_warps, first = from + warp * each;
    const unsigned end = first + each < to ? first + each : to;
    unsigned own = 0;
    for (unsigned j = first; j < end; j += ROCO_WARP)
        own += (unsigned)__popc(__ballot_sync(ROCO_ALL_LANES, j + lane < end && has(j + lane)));
    if (lane == 0)
        counts[warp] = own;
    __syncthreads();
    unsigned at = 0, all = 0;
    for (unsigned w = 0; w < n_warps; w++) {
        at += w < warp ? counts[w] : 0;
        all += counts[w];
    }
    for (unsigned j = first; j < end; j += ROCO_WARP) {
        const bool is_one = j + lane < end && has(j + lane);
        const unsigned lanes = __ballot_sync(ROCO_ALL_LANES, is_one);
        if (is_one)
            write(at + (unsigned)__popc(lanes & ((1u << lane) - 1u)), j + lane);
        at += (unsigned)__popc(lanes);
    }
    __syncthreads();
    return all;
}

#endif
