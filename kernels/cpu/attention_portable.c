/* Attention's inner loops in plain C: the reference the SIMD variants are compared with. Any compute thread; no state.
 */
#include "kernels/cpu/attention.h"

#include <math.h>

#define SLOTS        ROCO_PAGE_SLOTS
#define F16_GREATEST 65504.0f

static void scores_f16(const float *q, uint32_t n_rows, uint32_t dim, const void *keys, float *s, size_t s_stride)
{
    const uint16_t *k = keys;
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t j = 0; j < SLOTS; j++) {
            float sum = 0;
            for (uint32_t d = 0; d < dim; d++)
                sum += q[d * n_rows + r] * roco_f16_to_f32(k[d * SLOTS + j]);
            s[r * s_stride + j] = sum;
        }
}

static void scores_f32(const float *q, uint32_t n_rows, uint32_t dim, const void *keys, float *s, size_t s_stride)
{
    const float *k = keys;
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t j = 0; j < SLOTS; j++) {
            float sum = 0;
            for (uint32_t d = 0; d < dim; d++)
                sum += q[d * n_rows + r] * k[d * SLOTS + j];
            s[r * s_stride + j] = sum;
        }
}

static void softmax(float *s, uint32_t n_columns)
{
    float greatest = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < n_columns; j++)
        greatest = s[j] > greatest ? s[j] : greatest;
    for (uint32_t j = 0; j < n_columns; j++) {
        s[j] = expf(s[j] - greatest);
        sum += s[j];
    }
    float scale = 1.0f / sum;
    for (uint32_t j = 0; j < n_columns; j++)
        s[j] *= scale;
}

static void statistics(const float *p, size_t p_stride, uint32_t n_positions, uint32_t n_group, uint32_t n_columns,
                       float *sum, float *sum_sq)
{
    float scale = 1.0f / (float)n_group;
    for (uint32_t i = 0; i < n_positions; i++)
        for (uint32_t j = 0; j < n_columns; j++) {
            float m = 0;
            for (uint32_t g = 0; g < n_group; g++)
                m += p[(i * n_group + g) * p_stride + j];
            m *= scale;
            sum[j] += m;
            sum_sq[j] += m * m;
        }
}

static void weigh_f16(const float *p, size_t p_stride, uint32_t n_rows, uint32_t dim, const void *values,
                      uint32_t n_slots, float *out, size_t out_stride)
{
    const uint16_t *v = values;
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t j = 0; j < n_slots; j++)
            for (uint32_t c = 0; c < dim; c++)
                out[r * out_stride + c] += p[r * p_stride + j] * roco_f16_to_f32(v[j * dim + c]);
}

static void weigh_f32(const float *p, size_t p_stride, uint32_t n_rows, uint32_t dim, const void *values,
                      uint32_t n_slots, float *out, size_t out_stride)
{
    const float *v = values;
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t j = 0; j < n_slots; j++)
            for (uint32_t c = 0; c < dim; c++)
                out[r * out_stride + c] += p[r * p_stride + j] * v[j * dim + c];
}

static void to_f16(const float *in, uint16_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float x = in[i] > F16_GREATEST ? F16_GREATEST : in[i];
        out[i] = roco_f16_from_f32(x < -F16_GREATEST ? -F16_GREATEST : x);
    }
}

const roco_attention_kernels roco_attention_portable = {
    .scores = {scores_f16, scores_f32},
    .softmax = softmax,
    .statistics = statistics,
    .weigh = {weigh_f16, weigh_f32},
    .to_f16 = to_f16,
};
