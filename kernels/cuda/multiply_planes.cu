/* A quantised matrix times few rows of activations: its bytes pass once for every BATCH rows and are dequantised in
 * registers. A warp has two rows of the matrix; its lanes take units in turn, so neighbouring lanes read neighbouring
 * bytes. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/unit.h"
#include "kernels/cuda/warp.h"

namespace
{

constexpr unsigned WARPS = 8, ROWS = 2;

template <int QUANT, int BATCH>
__global__ void multiply(roco_planes p, const float *x, unsigned n, float *out, bool add)
{
    const unsigned row = (blockIdx.x * WARPS + warp_of_thread()) * ROWS, first = blockIdx.y * BATCH;
    const unsigned n_cols = p.n_units * ROCO_UNIT, n_supers = (p.n_units + ROCO_SUPER_UNITS - 1) / ROCO_SUPER_UNITS;
    if (row >= p.n_rows)
        return;
    float sums[ROWS][BATCH] = {};
    for (unsigned unit = lane_of_thread(); unit < p.n_units; unit += ROCO_WARP) {
        unit_quants<QUANT> quants[ROWS];
        unit_scales scales[ROWS];
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
            /* Past the last row the last one is read again, and its sum is not stored. */
            const size_t own = row + r < p.n_rows ? row + r : p.n_rows - 1;
            quants[r] = unit_read_quants<QUANT>(p, own * p.n_units + unit);
            scales[r] = unit_read_scales(p, own * p.n_units + unit, own * n_supers + unit / ROCO_SUPER_UNITS);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float weights[ROWS][8];
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++)
                unit_values<QUANT>(quants[r], scales[r], p.zero, j, weights[r]);
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                const unsigned i = first + b < n ? first + b : n - 1;
                const float4 *from = reinterpret_cast<const float4 *>(x + (size_t)i * n_cols + unit * ROCO_UNIT) + j;
                const float4 low = from[0], high = from[4];
#pragma unroll
                for (unsigned r = 0; r < ROWS; r++) {
                    float sum = sums[r][b];
                    sum = fmaf(weights[r][0], low.x, sum);
                    sum = fmaf(weights[r][1], low.y, sum);
                    sum = fmaf(weights[r][2], low.z, sum);
                    sum = fmaf(weights[r][3], low.w, sum);
                    sum = fmaf(weights[r][4], high.x, sum);
                    sum = fmaf(weights[r][5], high.y, sum);
                    sum = fmaf(weights[r][6], high.z, sum);
                    sums[r][b] = fmaf(weights[r][7], high.w, sum);
                }
            }
        }
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++)
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const float sum = warp_sum(sums[r][b]);
            if (lane_of_thread() == 0 && row + r < p.n_rows && first + b < n) {
                float *to = out + (size_t)(first + b) * p.n_rows + row + r;
                *to = add ? *to + sum : sum;
            }
        }
}

template <int QUANT, int BATCH>
void launch_batch(roco_gpu_stream stream, const roco_planes &p, const float *x, uint32_t n, float *out, bool add)
{
    const dim3 grid((p.n_rows + WARPS * ROWS - 1) / (WARPS * ROWS), (n + BATCH - 1) / BATCH);
    void (*kernel)(roco_planes, const float *, unsigned, float *, bool) = multiply<QUANT, BATCH>;
    LAUNCH(kernel, grid, WARPS * ROCO_WARP, 0, stream, p, x, n, out, add);
}

template <int QUANT>
void launch(roco_gpu_stream stream, const roco_planes &p, const float *x, uint32_t n, float *out, bool add)
{
    if (n == 1)
        launch_batch<QUANT, 1>(stream, p, x, n, out, add);
    else if (n == 2)
        launch_batch<QUANT, 2>(stream, p, x, n, out, add);
    else if (n <= 4)
        launch_batch<QUANT, 4>(stream, p, x, n, out, add);
    else
        launch_batch<QUANT, 8>(stream, p, x, n, out, add);
}

} // namespace

void roco_cuda_launch_multiply_planes(roco_gpu_stream stream, roco_planes planes, const float *x, uint32_t n,
                                      float *out, bool add)
{
    FOR_QUANT_FORM(planes.quant, launch, stream, planes, x, n, out, add);
}
