/* Attention's inner loops in plain C: the reference the SIMD variants are compared with. Any compute thread; no state.
 */
#include "kernels/cpu/attention.h"

#include <math.h>

#define SLOTS        ROCO_PAGE_SLOTS
#define F16_GREATEST 65504.0f

/* Adds component d of the page's keys, k, to every row's scores. */
static void add_component(const float *q, uint32_t n_rows, uint32_t d, const float *k, float *s, size_t s_stride)
{
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t j = 0; j < SLOTS; j++)
            s[r * s_stride + j] += q[d * n_rows + r] * k[j];
}

static void clear(uint32_t n_rows, float *s, size_t s_stride)
{
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t j = 0; j < SLOTS; j++)
            s[r * s_stride + j] = 0;
}

static void scores_f16(const float *q, uint32_t n_rows, const roco_kv_layout *l, const unsigned char *page, float *s,
                       size_t s_stride)
{
    const uint16_t *k = (const uint16_t *)(const void *)page;
    float line[SLOTS];
    clear(n_rows, s, s_stride);
    for (uint32_t d = 0; d < l->key_dim; d++) {
        for (uint32_t j = 0; j < SLOTS; j++)
            line[j] = roco_f16_to_f32(k[d * SLOTS + j]);
        add_component(q, n_rows, d, line, s, s_stride);
    }
}

static void scores_f32(const float *q, uint32_t n_rows, const roco_kv_layout *l, const unsigned char *page, float *s,
                       size_t s_stride)
{
    const float *k = (const float *)(const void *)page;
    clear(n_rows, s, s_stride);
    for (uint32_t d = 0; d < l->key_dim; d++)
        add_component(q, n_rows, d, k + d * SLOTS, s, s_stride);
}

static void scores_coded(const float *q, uint32_t n_rows, const roco_kv_layout *l, const unsigned char *page, float *s,
                         size_t s_stride)
{
    for (uint32_t j = 0; j < l->slots; j++) {
        for (uint32_t r = 0; r < n_rows; r++)
            s[r * s_stride + j] = 0;
        for (uint32_t d = 0; d < l->key_dim; d++) {
            const float k = roco_kv_key(l, page, j, d);
            for (uint32_t r = 0; r < n_rows; r++)
                s[r * s_stride + j] += q[d * n_rows + r] * k;
        }
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

/* Adds slot j's value, v, to every row's output. */
static void add_value(const float *p, size_t p_stride, uint32_t n_rows, uint32_t j, uint32_t dim, const float *v,
                      float *out, size_t out_stride)
{
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t c = 0; c < dim; c++)
            out[r * out_stride + c] += p[r * p_stride + j] * v[c];
}

static void weigh_f16(const float *p, size_t p_stride, uint32_t n_rows, const roco_kv_layout *l,
                      const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride)
{
    const uint16_t *v = (const uint16_t *)(const void *)(page + l->value_offset);
    float part[64];
    const uint32_t most = sizeof part / sizeof *part, dim = l->value_dim;
    for (uint32_t c = 0; c < dim; c += most) {
        uint32_t n = dim - c < most ? dim - c : most;
        for (uint32_t j = 0; j < n_slots; j++) {
            for (uint32_t i = 0; i < n; i++)
                part[i] = roco_f16_to_f32(v[j * dim + c + i]);
            add_value(p, p_stride, n_rows, j, n, part, out + c, out_stride);
        }
    }
}

static void weigh_f32(const float *p, size_t p_stride, uint32_t n_rows, const roco_kv_layout *l,
                      const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride)
{
    const float *v = (const float *)(const void *)(page + l->value_offset);
    for (uint32_t j = 0; j < n_slots; j++)
        add_value(p, p_stride, n_rows, j, l->value_dim, v + j * l->value_dim, out, out_stride);
}

static void weigh_coded(const float *p, size_t p_stride, uint32_t n_rows, const roco_kv_layout *l,
                        const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride)
{
    for (uint32_t j = 0; j < n_slots; j++)
        for (uint32_t c = 0; c < l->value_dim; c++) {
            const float v = roco_kv_value(l, page, j, c);
            for (uint32_t r = 0; r < n_rows; r++)
                out[r * out_stride + c] += p[r * p_stride + j] * v;
        }
}

static void to_f16(const float *in, uint16_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float x = in[i] > F16_GREATEST ? F16_GREATEST : in[i];
        out[i] = roco_f16_from_f32(x < -F16_GREATEST ? -F16_GREATEST : x);
    }
}

const roco_attention_kernels roco_attention_portable = {
    .scores = {scores_f16, scores_f32, scores_coded, scores_coded},
    .softmax = softmax,
    .statistics = statistics,
    .weigh = {weigh_f16, weigh_f32, weigh_coded, weigh_coded},
    .to_f16 = to_f16,
    .encode = roco_kv_encode,
};
