/* kernels/cuda/device.h and CUDA's own names for a C++ compiler: each thread of a block is a fiber on the CPU.
 *
 * Fibers meet at barriers and warp operations (fibers.cc). Between two meetings one runs at a time, in an order the
 * test chooses: forward, reverse or random, which shows what depends on it. Shared arrays are blocks of the heap of
 * exactly their size, poisoned, so AddressSanitizer sees their bounds. Under clang's ThreadSanitizer fibers are threads
 * that only meetings order, so it reports races within and between blocks.
 *
 * What this cannot show: fused products, approximate functions, missing fences, tensor cores, limits of a launch,
 * speed.
 */
#ifndef ROCO_TESTS_EMULATOR_DEVICE_H
#define ROCO_TESTS_EMULATOR_DEVICE_H

#include "tests/emulator/emulator.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

struct uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)

/* A launch is kept whole, arguments by value, so that a graph can run it again. */
namespace emulator
{
template <class... P, class... A>
void launch(void (*kernel)(P...), const char *name, dim3 grid, dim3 block, size_t shared, A... arguments)
{
    std::tuple<P...> kept(static_cast<P>(arguments)...);
    emulator_launch({name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared},
                    [kernel, kept]() { std::apply(kernel, kept); });
}
} // namespace emulator

#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    (static_cast<void>(stream), emulator::launch(kernel, #kernel, grid, block, shared, __VA_ARGS__))

#define SHARED(type, name, dimensions)                                                                                 \
    typedef type name##_array dimensions;                                                                              \
    static const char name##_site = 0;                                                                                 \
    name##_array &name = *static_cast<name##_array *>(emulator_shared(&name##_site, sizeof(name##_array)))

#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emulator_dynamic_shared())

#define threadIdx (emulator_thread->thread)
#define blockIdx  (emulator_thread->block)
#define blockDim  (emulator_block_size)
#define gridDim   (emulator_grid_size)

#define __syncthreads()          emulator_barrier(__LINE__)
#define __syncwarp(...)          emulator_warp(EMULATOR_SYNC, 0xffffffffu, 0, 0, __LINE__ * 4096 + __COUNTER__)
#define __shfl_xor_sync(m, v, l) emulator::exchange(EMULATOR_XOR, m, v, l, __LINE__ * 4096 + __COUNTER__)
#define __shfl_sync(m, v, l)     emulator::exchange(EMULATOR_INDEX, m, v, l, __LINE__ * 4096 + __COUNTER__)
#define __shfl_up_sync(m, v, l)  emulator::exchange(EMULATOR_UP, m, v, l, __LINE__ * 4096 + __COUNTER__)
#define __ballot_sync(m, p)                                                                                            \
    static_cast<unsigned>(emulator_warp(EMULATOR_BALLOT, m, (p) ? 1 : 0, 0, __LINE__ * 4096 + __COUNTER__))

namespace emulator
{
template <class T> T exchange(emulator_operation operation, unsigned mask, T value, int lane, int site)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = emulator_warp(operation, mask, bits, lane, site);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
} // namespace emulator

/* Relaxed, as on the device; ThreadSanitizer knows them for what they are. */
static inline unsigned atomicAdd(unsigned *to, unsigned value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline unsigned long long atomicAdd(unsigned long long *to, unsigned long long value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __uint_as_float(unsigned bits)
{
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

static inline long long __double_as_longlong(double x)
{
    long long bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fsub_rn(float a, float b)
{
    return a - b;
}

static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

static inline double __dmul_rn(double a, double b)
{
    return a * b;
}

static inline double __dadd_rn(double a, double b)
{
    return a + b;
}

static inline double __dsub_rn(double a, double b)
{
    return a - b;
}

static inline double __dsqrt_rn(double x)
{
    return std::sqrt(x);
}

static inline double __ddiv_rn(double a, double b)
{
    return a / b;
}

/* Without an instruction for it libm computes it digit by digit. */
#define fmaf(a, b, c) ((a) * (b) + (c))

/* glibc declares a __expf that cannot be linked. */
#define __expf(x) expf(x)

static inline float half_to_float(uint16_t bits)
{
    return emulator_half_to_float(bits);
}

static inline uint16_t half_from_float(float value)
{
    return emulator_half_from_float(value);
}

static inline float bfloat_to_float(uint16_t bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

static inline uint16_t bfloat_from_float(float value)
{
    const unsigned bits = __float_as_uint(value);
    if (value != value)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
