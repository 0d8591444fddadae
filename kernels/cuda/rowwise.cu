/* Norms, rotary positions, gated activations, element-wise operations, copies of rows. One thread a value or a pair,
 * one block a row's norm. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/warp.h"

namespace
{

constexpr unsigned THREADS = 256;

unsigned blocks_for(size_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

__device__ __forceinline__ size_t index_of_thread()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ void rms_norm(const float *x, const float *gain, float eps, unsigned width, float *out)
{
    x += (size_t)blockIdx.x * width;
    out += (size_t)blockIdx.x * width;
    float squares = 0;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
        squares += x[i] * x[i];
    const float scale = 1.0f / sqrtf(block_sum(squares) / (float)width + eps);
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x)
        out[i] = x[i] * scale * gain[i];
}

/* A thread turns one pair: neighbours, or half of the rotated components apart. */
__global__ void rope(float *x, const float *cosines, const float *sines, unsigned n_pairs_in_all, unsigned n_heads,
                     unsigned head_dim, unsigned n_pairs, bool halves)
{
    const unsigned i = (unsigned)index_of_thread();
    if (i >= n_pairs_in_all)
        return;
    const unsigned pair = i % n_pairs, head = i / n_pairs, row = head / n_heads;
    float *a = x + (size_t)head * head_dim + (halves ? pair : 2 * pair), *b = a + (halves ? n_pairs : 1);
    const float c = cosines[(size_t)row * n_pairs + pair], s = sines[(size_t)row * n_pairs + pair];
    const float first = *a, second = *b;
    *a = first * c - second * s;
    *b = second * c + first * s;
}

/* The exponent stays finite: beyond 88 the quotient is 0 anyway. */
__global__ void swiglu(float *gate, const float *up, size_t n)
{
    const size_t i = index_of_thread();
    if (i < n)
        gate[i] = gate[i] / (1.0f + expf(fminf(-gate[i], 88.0f))) * up[i];
}

/* x (1 + tanh(u)) / 2 = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
__global__ void geglu(float *gate, const float *up, size_t n)
{
    const size_t i = index_of_thread();
    if (i >= n)
        return;
    const float x = gate[i], e = x * (x * x * 0.044715f + 1.0f) * -1.59576912f;
    gate[i] = x / (1.0f + expf(fminf(e, 88.0f))) * up[i];
}

__global__ void add(float *x, const float *y, float factor, size_t n)
{
    const size_t i = index_of_thread();
    if (i < n)
        x[i] += factor * y[i];
}

__global__ void add_bias(float *x, const float *bias, unsigned width, size_t n)
{
    const size_t i = index_of_thread();
    if (i < n)
        x[i] += bias[i % width];
}

__global__ void scale(float *x, float factor, size_t n)
{
    const size_t i = index_of_thread();
    if (i < n)
        x[i] *= factor;
}

__global__ void softcap(float *x, float cap, size_t n)
{
    const size_t i = index_of_thread();
    if (i < n)
        x[i] = tanhf(x[i] / cap) * cap;
}

__global__ void gather(const float *x, const uint32_t *rows, unsigned width, size_t n, float *out)
{
    const size_t i = index_of_thread();
    if (i < n)
        out[i] = x[(size_t)rows[i / width] * width + i % width];
}

} // namespace

void roco_cuda_launch_rms_norm(roco_gpu_stream stream, const float *x, const float *gain, float eps, uint32_t n,
                               uint32_t width, float *out)
{
    const unsigned threads = width >= 1024 ? 256 : width >= 256 ? 128 : 32;
    LAUNCH(rms_norm, n, threads, 0, stream, x, gain, eps, width, out);
}

void roco_cuda_launch_rope(roco_gpu_stream stream, float *x, const float *cosines, const float *sines, uint32_t n,
                           uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves)
{
    const unsigned n_pairs = rope_dim / 2, in_all = n * n_heads * n_pairs;
    LAUNCH(rope, blocks_for(in_all), THREADS, 0, stream, x, cosines, sines, in_all, n_heads, head_dim, n_pairs, halves);
}

void roco_cuda_launch_swiglu(roco_gpu_stream stream, float *gate, const float *up, size_t n)
{
    LAUNCH(swiglu, blocks_for(n), THREADS, 0, stream, gate, up, n);
}

void roco_cuda_launch_geglu(roco_gpu_stream stream, float *gate, const float *up, size_t n)
{
    LAUNCH(geglu, blocks_for(n), THREADS, 0, stream, gate, up, n);
}

void roco_cuda_launch_add(roco_gpu_stream stream, float *x, const float *y, float factor, size_t n)
{
    LAUNCH(add, blocks_for(n), THREADS, 0, stream, x, y, factor, n);
}

void roco_cuda_launch_add_bias(roco_gpu_stream stream, float *x, const float *bias, uint32_t width, size_t n)
{
    LAUNCH(add_bias, blocks_for(n), THREADS, 0, stream, x, bias, width, n);
}

void roco_cuda_launch_scale(roco_gpu_stream stream, float *x, float factor, size_t n)
{
    LAUNCH(scale, blocks_for(n), THREADS, 0, stream, x, factor, n);
}

void roco_cuda_launch_softcap(roco_gpu_stream stream, float *x, float cap, size_t n)
{
    LAUNCH(softcap, blocks_for(n), THREADS, 0, stream, x, cap, n);
}

void roco_cuda_launch_gather(roco_gpu_stream stream, const float *x, const uint32_t *rows, uint32_t n_out,
                             uint32_t width, float *out)
{
    const size_t n = (size_t)n_out * width;
    LAUNCH(gather, blocks_for(n), THREADS, 0, stream, x, rows, width, n, out);
}
