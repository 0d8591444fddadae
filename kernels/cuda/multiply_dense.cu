/* A matrix of F32, F16 or BF16 times few rows of activations: its bytes pass once for every BATCH rows. A warp has two
 * rows of the matrix; its lanes take eight neighbouring values in turn. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/warp.h"

namespace
{

constexpr unsigned WARPS = 8, ROWS = 2, CHUNK = 8;

template <int TYPE> struct element {
    typedef uint16_t type;
};
template <> struct element<ROCO_TYPE_F32> {
    typedef float type;
};

__device__ __forceinline__ float value_of(uint16_t bits, bool is_half)
{
    return is_half ? half_to_float(bits) : bfloat_to_float(bits);
}

/* Whole chunks of aligned rows come in words of 16 bytes; what is left of a row value by value, zeros behind it. */
template <int TYPE>
__device__ __forceinline__ void read_weights(const typename element<TYPE>::type *row, unsigned at, unsigned n_cols,
                                             float out[CHUNK])
{
    if (TYPE != ROCO_TYPE_F32 && n_cols % CHUNK == 0) {
        const uint4 words = *reinterpret_cast<const uint4 *>(row + at);
        const unsigned four[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out[2 * i] = value_of((uint16_t)four[i], TYPE == ROCO_TYPE_F16);
            out[2 * i + 1] = value_of((uint16_t)(four[i] >> 16), TYPE == ROCO_TYPE_F16);
        }
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < CHUNK; i++) {
        out[i] = 0;
        if (at + i < n_cols)
            out[i] =
                TYPE == ROCO_TYPE_F32 ? (float)row[at + i] : value_of((uint16_t)row[at + i], TYPE == ROCO_TYPE_F16);
    }
}

template <int TYPE, int BATCH>
__global__ void multiply(const typename element<TYPE>::type *weight, unsigned n_rows, unsigned n_cols, const float *x,
                         unsigned n, float *out, bool add)
{
    const unsigned row = (blockIdx.x * WARPS + warp_of_thread()) * ROWS, first = blockIdx.y * BATCH;
    if (row >= n_rows)
        return;
    float sums[ROWS][BATCH] = {};
    for (unsigned at = lane_of_thread() * CHUNK; at < n_cols; at += ROCO_WARP * CHUNK) {
        float weights[ROWS][CHUNK];
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
            const size_t own = row + r < n_rows ? row + r : n_rows - 1;
            read_weights<TYPE>(weight + own * n_cols, at, n_cols, weights[r]);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const float *from = x + (size_t)(first + b < n ? first + b : n - 1) * n_cols + at;
#pragma unroll
            for (unsigned i = 0; i < CHUNK; i++) {
                const float value = at + i < n_cols ? from[i] : 0.0f;
#pragma unroll
                for (unsigned r = 0; r < ROWS; r++)
                    sums[r][b] = fmaf(weights[r][i], value, sums[r][b]);
            }
        }
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const float sum = warp_sum(sums[r][b]);
            if (lane_of_thread() == 0 && row + r < n_rows && first + b < n) {
                float *to = out + (size_t)(first + b) * n_rows + row + r;
                *to = add ? *to + sum : sum;
            }
        }
}

struct product {
    const void *weight;
    uint32_t n_rows, n_cols;
    const float *x;
    uint32_t n;
    float *out;
    bool add;
};

template <int TYPE, int BATCH> void launch_batch(roco_gpu_stream stream, const product &p)
{
    const dim3 grid((p.n_rows + WARPS * ROWS - 1) / (WARPS * ROWS), (p.n + BATCH - 1) / BATCH);
    const typename element<TYPE>::type *weight = static_cast<const typename element<TYPE>::type *>(p.weight);
    void (*kernel)(const typename element<TYPE>::type *, unsigned, unsigned, const float *, unsigned, float *, bool) =
        multiply<TYPE, BATCH>;
    LAUNCH(kernel, grid, WARPS * ROCO_WARP, 0, stream, weight, p.n_rows, p.n_cols, p.x, p.n, p.out, p.add);
}

template <int TYPE> void launch(roco_gpu_stream stream, const product &p)
{
    if (p.n == 1)
        launch_batch<TYPE, 1>(stream, p);
    else if (p.n == 2)
        launch_batch<TYPE, 2>(stream, p);
    else if (p.n <= 4)
        launch_batch<TYPE, 4>(stream, p);
    else
        launch_batch<TYPE, 8>(stream, p);
}

} // namespace

void roco_cuda_launch_multiply_dense(roco_gpu_stream stream, roco_tensor_type type, const void *weight, uint32_t n_rows,
                                     uint32_t n_cols, const float *x, uint32_t n, float *out, bool add)
{
    const product p = {weight, n_rows, n_cols, x, n, out, add};
    if (type == ROCO_TYPE_F32)
        launch<ROCO_TYPE_F32>(stream, p);
    else if (type == ROCO_TYPE_F16)
        launch<ROCO_TYPE_F16>(stream, p);
    else
        launch<ROCO_TYPE_BF16>(stream, p);
}
