/* Matrix products in portable C: the reference the SIMD variants are compared with. Any compute thread; no state. */
#include "kernels/cpu/linear.h"

#include <math.h>
#include <string.h>

/* The scales of one block of a panel, spread out: of the first and the second half, and the mins. */
typedef struct spread_scales {
    float scale[2][ROCO_PANEL_ROWS];
    float min[ROCO_PANEL_ROWS];
} spread_scales;

static float f16_at(const uint8_t *p, uint32_t i)
{
    uint16_t bits;
    memcpy(&bits, p + 2 * i, 2);
    return roco_f16_to_f32(bits);
}

static void quantize_block(const float *x, uint32_t outlier, float largest, float second, roco_q8_block *out)
{
    float inverse = roco_q8_inverse(largest, second);
    int32_t sum[2] = {0, 0};
    for (uint32_t i = 0; i < ROCO_BLOCK; i++) {
        out->q[i] = i == outlier ? 0 : (int8_t)rintf(x[i] * inverse);
        sum[i / 16] += out->q[i];
    }
    roco_q8_finish(largest, second, outlier, (int32_t)rintf(x[outlier] * inverse), sum[0], sum[1], out);
}

static void quantize(const float *x, uint32_t n_cols, roco_q8_block *out)
{
    for (uint32_t b = 0; b < n_cols / ROCO_BLOCK; b++, x += ROCO_BLOCK, out++) {
        float largest = 0, second = 0;
        uint32_t outlier = 0;
        bool finite = true;
        for (uint32_t i = 0; i < ROCO_BLOCK; i++) {
            float magnitude = fabsf(x[i]);
            finite = finite && isfinite(x[i]);
            if (magnitude > largest) {
                second = largest;
                largest = magnitude;
                outlier = i;
            } else if (magnitude > second) {
                second = magnitude;
            }
        }
        memset(out, 0, sizeof(*out));
        out->scale = finite ? 0.0f : NAN;
        out->scaled_sum = out->scale;
        if (finite && largest >= ROCO_Q8_SMALLEST)
            quantize_block(x, outlier, largest, second, out);
    }
}

static void spread(const roco_weight *weight, const uint8_t *header, const uint8_t *block, spread_scales *out)
{
    for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++) {
        bool super = weight->header_bytes > 0;
        const uint8_t *first = super ? header : block;
        float d = f16_at(first, lane);
        float m = weight->scales == ROCO_SCALES_MIN || weight->scales == ROCO_SCALES_SUPER_MIN
                      ? f16_at(first + 64, lane)
                      : 0.0f;
        float s = super ? (int8_t)block[lane] : 1, t = super ? (int8_t)block[32 + lane] : 1;
        out->scale[0][lane] = d * s;
        out->scale[1][lane] = weight->scales == ROCO_SCALES_SPLIT ? d * t : d * s;
        out->min[lane] = m * t;
    }
}

/* dot[lane] = sum of 16 products; half says which 16 inputs of the block. */
static void dot_half(const roco_weight *weight, const uint8_t *integers, const int8_t *q, uint32_t half,
                     int32_t dot[ROCO_PANEL_ROWS])
{
    bool nibbles = weight->element == ROCO_ELEMENT_U4;
    uint32_t shift = nibbles ? 4 * half : 0, mask = nibbles ? 15 : 255;
    for (uint32_t g = 0; g < 4; g++) {
        const uint8_t *group = integers + 128 * (nibbles ? g : 4 * half + g);
        const int8_t *a = q + 16 * half + 4 * g;
        for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++)
            for (uint32_t i = 0; i < 4; i++)
                dot[lane] += (int32_t)(group[4 * lane + i] >> shift & mask) * a[i];
    }
}

/* Adds the outlier's product to the half that it is in. */
static void dot_outlier(const roco_weight *weight, const uint8_t *integers, const roco_q8_block *x,
                        int32_t dot[2][ROCO_PANEL_ROWS])
{
    bool nibbles = weight->element == ROCO_ELEMENT_U4;
    uint32_t shift = nibbles ? x->u4_shift : x->u8_shift, mask = nibbles ? 15 : 255, half = x->u8_offset / 512;
    const uint8_t *at = integers + (nibbles ? x->u4_offset : x->u8_offset) + shift / 8;
    for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++)
        dot[half][lane] += (int32_t)(at[4 * lane] >> shift % 8 & mask) * x->outlier;
}

static void add_block(const roco_weight *weight, const uint8_t *header, const uint8_t *block, const roco_q8_block *x,
                      float sum[ROCO_PANEL_ROWS])
{
    spread_scales scales;
    spread(weight, header, block, &scales);
    const uint8_t *integers = block + roco_scales_bytes(weight->scales);
    int32_t zero =
        weight->scales == ROCO_SCALES_ONE || weight->scales == ROCO_SCALES_SPLIT ? 1 << weight->zero_shift : 0;
    int32_t dot[2][ROCO_PANEL_ROWS];
    for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++) {
        dot[0][lane] = x->minus_sum_low * zero;
        dot[1][lane] = (x->minus_sum - x->minus_sum_low) * zero;
    }
    for (uint32_t half = 0; half < 2; half++)
        dot_half(weight, integers, x->q, half, dot[half]);
    dot_outlier(weight, integers, x, dot);
    for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++) {
        if (weight->scales == ROCO_SCALES_SPLIT) {
            sum[lane] += (float)dot[0][lane] * (scales.scale[0][lane] * x->scale);
            sum[lane] += (float)dot[1][lane] * (scales.scale[1][lane] * x->scale);
        } else {
            sum[lane] += (float)(dot[0][lane] + dot[1][lane]) * (scales.scale[0][lane] * x->scale);
            sum[lane] += scales.min[lane] * x->scaled_sum;
        }
    }
}

static void put(const roco_linear_part *part, uint32_t panel, uint32_t row, const float sum[ROCO_PANEL_ROWS])
{
    const roco_weight *weight = part->weight;
    uint32_t first = panel * ROCO_PANEL_ROWS;
    float *out = part->out + (size_t)row * weight->n_rows + first;
    for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS && first + lane < weight->n_rows; lane++)
        out[lane] = part->add ? out[lane] + sum[lane] : sum[lane];
}

static void multiply_integers(const roco_linear_part *part)
{
    const roco_weight *weight = part->weight;
    uint32_t n_blocks = weight->n_cols / ROCO_BLOCK;
    for (uint32_t p = part->first_panel; p < part->last_panel; p++) {
        const uint8_t *panel = weight->panels + p * weight->panel_bytes;
        for (uint32_t row = 0; row < part->n; row++) {
            float sum[ROCO_PANEL_ROWS] = {0};
            for (uint32_t b = 0; b < n_blocks; b++)
                add_block(weight, roco_panel_header(weight, panel, b), roco_panel_block(weight, panel, b),
                          &part->quantized[(size_t)row * n_blocks + b], sum);
            put(part, p, row, sum);
        }
    }
}

/* The 32 weights of input k. */
static void spread_floats(const roco_weight *weight, const uint8_t *panel, uint32_t k, float out[ROCO_PANEL_ROWS])
{
    if (weight->element == ROCO_ELEMENT_F32) {
        memcpy(out, panel + (size_t)k * ROCO_PANEL_ROWS * 4, ROCO_PANEL_ROWS * 4);
        return;
    }
    uint16_t bits[ROCO_PANEL_ROWS];
    memcpy(bits, panel + (size_t)k * sizeof(bits), sizeof(bits));
    for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++)
        out[lane] = weight->element == ROCO_ELEMENT_F16 ? roco_f16_to_f32(bits[lane]) : roco_bf16_to_f32(bits[lane]);
}

static void multiply_floats(const roco_linear_part *part)
{
    const roco_weight *weight = part->weight;
    for (uint32_t p = part->first_panel; p < part->last_panel; p++) {
        const uint8_t *panel = weight->panels + p * weight->panel_bytes;
        for (uint32_t row = 0; row < part->n; row++) {
            const float *x = part->x + (size_t)row * weight->n_cols;
            float sum[ROCO_PANEL_ROWS] = {0};
            for (uint32_t k = 0; k < weight->n_cols; k++) {
                float w[ROCO_PANEL_ROWS];
                spread_floats(weight, panel, k, w);
                for (uint32_t lane = 0; lane < ROCO_PANEL_ROWS; lane++)
                    sum[lane] += w[lane] * x[k];
            }
            put(part, p, row, sum);
        }
    }
}

const roco_linear_variant roco_linear_portable = {
    .quantize = quantize, .multiply_integers = multiply_integers, .multiply_floats = multiply_floats};
