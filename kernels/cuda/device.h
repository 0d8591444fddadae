/* What kernels may use of a device, beside CUDA's own names: one way to launch, one to declare shared memory, halves.
 *
 * nvcc compiles the .cu files against this header. Any other compiler is a test's (tests/emulator): it names with
 * ROCO_DEVICE_HEADER a header that gives the same, and CUDA's names, on the CPU.
 */
#ifndef ROCO_KERNELS_CUDA_DEVICE_H
#define ROCO_KERNELS_CUDA_DEVICE_H

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdint.h>

/* kernel<<<...>>>(arguments). `kernel` is a function or a pointer to one, `shared` the bytes of DYNAMIC_SHARED. */
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    (kernel)<<<(grid), (block), (shared), (cudaStream_t)(stream)>>>(__VA_ARGS__)

/* SHARED(float, sums, [32][4]); */
#define SHARED(type, name, dimensions) __shared__ __align__(16) type name dimensions

/* DYNAMIC_SHARED(float, queries); one a kernel. */
#define DYNAMIC_SHARED(type, name)                                                                                     \
    extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];                                             \
    type *name = reinterpret_cast<type *>(dynamic_shared_memory)

/* Halves are kept as their bits. */
static __device__ __forceinline__ float half_to_float(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

static __device__ __forceinline__ uint16_t half_from_float(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}

static __device__ __forceinline__ float bfloat_to_float(uint16_t bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

static __device__ __forceinline__ uint16_t bfloat_from_float(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

#else
#include ROCO_DEVICE_HEADER
#endif

#endif
