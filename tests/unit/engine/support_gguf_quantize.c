/* The quantisers of support_gguf.h: the inverse of kernels/tensor_type.c by plain rounding. They need to be valid and
 * reasonable, not good. */
#include "support_gguf.h"

#include <math.h>
#include <string.h>

static void append(roco_buffer *out, const void *data, size_t size)
{
    ROCO_CHECK(roco_buffer_append(out, data, size) == ROCO_OK);
}

/* Appends the half and returns what it became: the quants must be rounded against that. */
static float append_half(roco_buffer *out, float value)
{
    uint16_t half = roco_f16_from_f32(value);
    append(out, &half, sizeof half);
    return roco_f16_to_f32(half);
}

static int nearest(float value, float step, int low, int high)
{
    if (step == 0)
        return low > 0 ? low : 0;
    float q = rintf(value / step);
    return q < (float)low ? low : q > (float)high ? high : (int)q;
}

static float largest(const float *x, size_t n)
{
    float top = 0;
    for (size_t i = 0; i < n; i++)
        top = fmaxf(top, fabsf(x[i]));
    return top;
}

static void range(const float *x, size_t n, float *low, float *high)
{
    *low = *high = x[0];
    for (size_t i = 1; i < n; i++) {
        *low = fminf(*low, x[i]);
        *high = fmaxf(*high, x[i]);
    }
}

static void q8_0(const float *x, roco_buffer *out)
{
    int8_t q[32];
    float d = append_half(out, largest(x, 32) / 127);
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)nearest(x[j], d, -127, 127);
    append(out, q, sizeof q);
}

/* Q4_0, Q4_1, Q5_0, Q5_1: `bits` 4 or 5; with a minimum, or centred. */
static void small_block(const float *x, int bits, bool with_minimum, roco_buffer *out)
{
    int top = (1 << bits) - 1, centre = 1 << (bits - 1);
    float d, low = 0, high;
    if (with_minimum) {
        range(x, 32, &low, &high);
        d = append_half(out, (high - low) / (float)top);
        low = append_half(out, low);
    } else {
        d = append_half(out, largest(x, 32) / (float)(centre - 1));
    }
    uint8_t nibbles[16] = {0};
    uint32_t fifth = 0;
    for (int j = 0; j < 32; j++) {
        int q = with_minimum ? nearest(x[j] - low, d, 0, top) : nearest(x[j], d, -centre, centre - 1) + centre;
        nibbles[j % 16] |= (uint8_t)((q & 15) << (j / 16 * 4));
        fifth |= (uint32_t)(q >> 4) << j;
    }
    if (bits == 5)
        append(out, &fifth, sizeof fifth);
    append(out, nibbles, sizeof nibbles);
}

/* Six-bit scales and minimums of eight sub-blocks in twelve bytes, as scale_and_minimum of tensor_type.c reads them. */
static void pack_scales(const int *scale, const int *minimum, uint8_t *packed)
{
    memset(packed, 0, 12);
    for (int s = 0; s < 4; s++) {
        packed[s] = (uint8_t)(scale[s] | scale[s + 4] >> 4 << 6);
        packed[s + 4] = (uint8_t)(minimum[s] | minimum[s + 4] >> 4 << 6);
        packed[s + 8] = (uint8_t)((scale[s + 4] & 15) | (minimum[s + 4] & 15) << 4);
    }
}

/* Q4_K and Q5_K. */
static void super_block(const float *x, int bits, roco_buffer *out)
{
    int top = (1 << bits) - 1, scale[8], minimum[8];
    float step[8], base[8];
    for (int s = 0; s < 8; s++) {
        float low, high;
        range(x + 32 * s, 32, &low, &high);
        base[s] = fmaxf(-low, 0);
        step[s] = (high + base[s]) / (float)top;
    }
    float d = append_half(out, largest(step, 8) / 63);
    float dmin = append_half(out, largest(base, 8) / 63);
    uint8_t packed[12], nibbles[128] = {0}, fifth[32] = {0};
    for (int s = 0; s < 8; s++) {
        scale[s] = nearest(step[s], d, 0, 63);
        minimum[s] = nearest(base[s], dmin, 0, 63);
        for (int j = 0; j < 32; j++) {
            int q = nearest(x[32 * s + j] + dmin * (float)minimum[s], d * (float)scale[s], 0, top);
            nibbles[32 * (s / 2) + j] |= (uint8_t)((q & 15) << (s % 2 * 4));
            fifth[j] |= (uint8_t)(q >> 4 << s);
        }
    }
    pack_scales(scale, minimum, packed);
    append(out, packed, sizeof packed);
    if (bits == 5)
        append(out, fifth, sizeof fifth);
    append(out, nibbles, sizeof nibbles);
}

static void q6_k(const float *x, roco_buffer *out)
{
    uint8_t low[128] = {0}, top[64] = {0};
    int8_t scale[16];
    float d = roco_f16_to_f32(roco_f16_from_f32(largest(x, 256) / (31.0f * 127.0f)));
    for (int s = 0; s < 16; s++)
        scale[s] = (int8_t)nearest(largest(x + 16 * s, 16) / 31, d, 0, 127);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, r = i % 128 / 32, j = i % 32;
        int q = nearest(x[i], d * (float)scale[i / 16], -32, 31) + 32;
        low[64 * half + 32 * (r % 2) + j] |= (uint8_t)((q & 15) << (r / 2 * 4));
        top[32 * half + j] |= (uint8_t)(q >> 4 << (2 * r));
    }
    append(out, low, sizeof low);
    append(out, top, sizeof top);
    append(out, scale, sizeof scale);
    append_half(out, d);
}

static void bf16(float value, roco_buffer *out)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    append(out, &half, sizeof half);
}

void gguf_quantize(roco_tensor_type type, const float *values, size_t n, roco_buffer *out)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)type);
    ROCO_CHECK(traits && n % traits->block_values == 0);
    for (size_t i = 0; i < n; i += traits->block_values) {
        const float *x = values + i;
        switch (type) {
        case ROCO_TYPE_F32: append(out, x, sizeof *x); break;
        case ROCO_TYPE_F16: append_half(out, *x); break;
        case ROCO_TYPE_BF16: bf16(*x, out); break;
        case ROCO_TYPE_Q8_0: q8_0(x, out); break;
        case ROCO_TYPE_Q4_0: small_block(x, 4, false, out); break;
        case ROCO_TYPE_Q4_1: small_block(x, 4, true, out); break;
        case ROCO_TYPE_Q5_0: small_block(x, 5, false, out); break;
        case ROCO_TYPE_Q5_1: small_block(x, 5, true, out); break;
        case ROCO_TYPE_Q4_K: super_block(x, 4, out); break;
        case ROCO_TYPE_Q5_K: super_block(x, 5, out); break;
        case ROCO_TYPE_Q6_K: q6_k(x, out); break;
        case ROCO_TYPE_Q2_K:
        case ROCO_TYPE_Q3_K:
        case ROCO_TYPE_IQ4_NL:
        case ROCO_TYPE_IQ4_XS: ROCO_CHECK(!"a type this writer knows"); break;
        }
    }
}
