/* Between element types: embedding rows, dequantising for the dense product, activations for it. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/unit.h"

namespace
{

constexpr unsigned THREADS = 256;
constexpr float HALF_MAX = 65504.0f;

unsigned blocks_for(size_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

__device__ __forceinline__ size_t index_of_thread()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* NaN stays what it is: a fault must not be hidden. */
__device__ __forceinline__ uint16_t clamped_half(float value)
{
    return half_from_float(value > HALF_MAX ? HALF_MAX : value < -HALF_MAX ? -HALF_MAX : value);
}

/* Eight values of a row: quarter j of a unit. */
template <int QUANT>
__device__ __forceinline__ void quarter_of_row(const roco_planes &p, size_t row, unsigned unit, int j, float out[8])
{
    const unsigned n_supers = (p.n_units + ROCO_SUPER_UNITS - 1) / ROCO_SUPER_UNITS;
    const size_t at = row * p.n_units + unit;
    const unit_scales scales = unit_read_scales(p, at, row * n_supers + unit / ROCO_SUPER_UNITS);
    unit_values<QUANT>(unit_read_quants<QUANT>(p, at), scales, p.zero, j, out);
}

template <int QUANT> __global__ void embed_planes(roco_planes p, const int32_t *ids, unsigned n, float *out)
{
    const size_t i = index_of_thread();
    const unsigned j = (unsigned)(i % 4), unit = (unsigned)(i / 4 % p.n_units), row = (unsigned)(i / 4 / p.n_units);
    if (row >= n)
        return;
    float values[8];
    quarter_of_row<QUANT>(p, (size_t)ids[row], unit, (int)j, values);
    out += ((size_t)row * p.n_units + unit) * ROCO_UNIT + 4 * j;
    for (int k = 0; k < 4; k++) {
        out[k] = values[k];
        out[16 + k] = values[4 + k];
    }
}

template <int QUANT> __global__ void dequantize(roco_planes p, unsigned first, unsigned n_rows, uint16_t *out)
{
    const size_t i = index_of_thread();
    const unsigned j = (unsigned)(i % 4), unit = (unsigned)(i / 4 % p.n_units);
    const size_t row = i / 4 / p.n_units;
    if (row >= n_rows)
        return;
    float values[8];
    quarter_of_row<QUANT>(p, first + row, unit, (int)j, values);
    out += (row * p.n_units + unit) * ROCO_UNIT + 4 * j;
    for (int k = 0; k < 4; k++) {
        out[k] = clamped_half(values[k]);
        out[16 + k] = clamped_half(values[4 + k]);
    }
}

__global__ void embed_f32(const float *weight, const int32_t *ids, unsigned n_cols, size_t n, float *out)
{
    const size_t i = index_of_thread();
    if (i < n)
        out[i] = weight[(size_t)ids[i / n_cols] * n_cols + i % n_cols];
}

__global__ void embed_f16(const uint16_t *weight, const int32_t *ids, unsigned n_cols, size_t n, float *out)
{
    const size_t i = index_of_thread();
    if (i < n)
        out[i] = half_to_float(weight[(size_t)ids[i / n_cols] * n_cols + i % n_cols]);
}

__global__ void embed_bf16(const uint16_t *weight, const int32_t *ids, unsigned n_cols, size_t n, float *out)
{
    const size_t i = index_of_thread();
    if (i < n)
        out[i] = bfloat_to_float(weight[(size_t)ids[i / n_cols] * n_cols + i % n_cols]);
}

__global__ void narrow_to_f16(const float *x, size_t n, uint16_t *out)
{
    const size_t i = index_of_thread();
    if (i < n)
        out[i] = clamped_half(x[i]);
}

__global__ void narrow_to_bf16(const float *x, size_t n, uint16_t *out)
{
    const size_t i = index_of_thread();
    if (i < n)
        out[i] = bfloat_from_float(x[i]);
}

template <int QUANT>
void launch_embed(roco_gpu_stream stream, roco_planes p, const int32_t *ids, uint32_t n, float *out)
{
    LAUNCH(embed_planes<QUANT>, blocks_for((size_t)n * p.n_units * 4), THREADS, 0, stream, p, ids, n, out);
}

template <int QUANT>
void launch_dequantize(roco_gpu_stream stream, roco_planes p, uint32_t first, uint32_t n_rows, uint16_t *out)
{
    LAUNCH(dequantize<QUANT>, blocks_for((size_t)n_rows * p.n_units * 4), THREADS, 0, stream, p, first, n_rows, out);
}

} // namespace

void roco_cuda_launch_embed_planes(roco_gpu_stream stream, roco_planes planes, const int32_t *ids, uint32_t n,
                                   float *out)
{
    FOR_QUANT_FORM(planes.quant, launch_embed, stream, planes, ids, n, out);
}

void roco_cuda_launch_embed_dense(roco_gpu_stream stream, roco_tensor_type type, const void *weight, uint32_t n_cols,
                                  const int32_t *ids, uint32_t n, float *out)
{
    const size_t values = (size_t)n * n_cols;
    const uint16_t *words = static_cast<const uint16_t *>(weight);
    const float *floats = static_cast<const float *>(weight);
    if (type == ROCO_TYPE_F32)
        LAUNCH(embed_f32, blocks_for(values), THREADS, 0, stream, floats, ids, n_cols, values, out);
    else if (type == ROCO_TYPE_F16)
        LAUNCH(embed_f16, blocks_for(values), THREADS, 0, stream, words, ids, n_cols, values, out);
    else
        LAUNCH(embed_bf16, blocks_for(values), THREADS, 0, stream, words, ids, n_cols, values, out);
}

void roco_cuda_launch_dequantize(roco_gpu_stream stream, roco_planes planes, uint32_t first, uint32_t n_rows,
                                 uint16_t *out)
{
    FOR_QUANT_FORM(planes.quant, launch_dequantize, stream, planes, first, n_rows, out);
}

void roco_cuda_launch_narrow(roco_gpu_stream stream, roco_tensor_type type, const float *x, size_t n, uint16_t *out)
{
    if (type == ROCO_TYPE_F16)
        LAUNCH(narrow_to_f16, blocks_for(n), THREADS, 0, stream, x, n, out);
    else
        LAUNCH(narrow_to_bf16, blocks_for(n), THREADS, 0, stream, x, n, out);
}
