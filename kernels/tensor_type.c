/* Element types of weights: sizes, and the exact dequantisation that every faster kernel is compared with.
 *
 * Block layouts and formulas are those of the GGUF format (ggml's quantised types). All fields are little-endian and so
 * is every machine roco runs on. The order of float32 operations is part of the definition: d * q, then + m; for K
 * types the scale product first.
 */
#include "kernels/tensor_type.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are read as little-endian");

#define SMALL 32u  /* values of a Q4_0 .. Q8_0 block */
#define SUPER 256u /* values of a K block */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float roco_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity, NaN with its payload */
        return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x0400u) /* exponent bias 15 becomes 127 */
        return float_of(sign | ((magnitude << 13) + (112u << 23)));
    return float_of(sign | bits_of((float)magnitude * 0x1p-24f));
}

uint16_t roco_f16_from_f32(float value)
{
    uint32_t sign = bits_of(value) >> 16 & 0x8000u;
    uint32_t magnitude = bits_of(value) & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u)
        half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    else if (magnitude >= 0x477ff000u) /* 65520, halfway between the largest half and 2^16 */
        half = 0x7c00u;
    else if (magnitude >= 0x38800000u) /* 2^-14: rounding may carry into the exponent, which is right */
        half = ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10);
    else /* neighbours of 0.5 are 2^-24 apart, as subnormal halves are: the addition rounds for us */
        half = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    return (uint16_t)(sign | half);
}

float roco_bf16_to_f32(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

static uint16_t load_u16(const uint8_t *in)
{
    uint16_t value;
    memcpy(&value, in, sizeof value);
    return value;
}

static uint32_t load_u32(const uint8_t *in)
{
    uint32_t value;
    memcpy(&value, in, sizeof value);
    return value;
}

static float load_half(const uint8_t *in)
{
    return roco_f16_to_f32(load_u16(in));
}

static void dequantize_f32(const void *in, float *out, size_t n)
{
    memcpy(out, in, n * sizeof *out);
}

static void dequantize_f16(const void *in, float *out, size_t n)
{
    const uint8_t *bytes = in;
    for (size_t i = 0; i < n; i++)
        out[i] = load_half(bytes + 2 * i);
}

static void dequantize_bf16(const void *in, float *out, size_t n)
{
    const uint8_t *bytes = in;
    for (size_t i = 0; i < n; i++)
        out[i] = roco_bf16_to_f32(load_u16(bytes + 2 * i));
}

/* d f16, q int8[32] */
static void dequantize_q8_0(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SMALL, block += 34) {
        float d = load_half(block);
        const int8_t *q = (const int8_t *)(block + 2);
        for (size_t j = 0; j < SMALL; j++)
            out[i + j] = d * (float)q[j];
    }
}

/* d f16, nibbles[16]: the low ones are values 0..15, the high ones 16..31 */
static void dequantize_q4_0(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SMALL, block += 18) {
        float d = load_half(block);
        const uint8_t *q = block + 2;
        for (size_t j = 0; j < SMALL / 2; j++) {
            out[i + j] = d * (float)((q[j] & 15) - 8);
            out[i + j + SMALL / 2] = d * (float)((q[j] >> 4) - 8);
        }
    }
}

/* d f16, m f16, nibbles[16] */
static void dequantize_q4_1(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SMALL, block += 20) {
        float d = load_half(block), m = load_half(block + 2);
        const uint8_t *q = block + 4;
        for (size_t j = 0; j < SMALL / 2; j++) {
            out[i + j] = d * (float)(q[j] & 15) + m;
            out[i + j + SMALL / 2] = d * (float)(q[j] >> 4) + m;
        }
    }
}

/* Value j of 32: a nibble as in Q4_0 with bit j of `high` on top. */
static int five_bits(const uint8_t *nibbles, uint32_t high, size_t j)
{
    int low = j < SMALL / 2 ? nibbles[j] & 15 : nibbles[j - SMALL / 2] >> 4;
    return low | (int)(high >> j & 1u) << 4;
}

/* d f16, fifth bits u32, nibbles[16] */
static void dequantize_q5_0(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SMALL, block += 22) {
        float d = load_half(block);
        uint32_t high = load_u32(block + 2);
        for (size_t j = 0; j < SMALL; j++)
            out[i + j] = d * (float)(five_bits(block + 6, high, j) - 16);
    }
}

/* d f16, m f16, fifth bits u32, nibbles[16] */
static void dequantize_q5_1(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SMALL, block += 24) {
        float d = load_half(block), m = load_half(block + 2);
        uint32_t high = load_u32(block + 4);
        for (size_t j = 0; j < SMALL; j++)
            out[i + j] = d * (float)five_bits(block + 8, high, j) + m;
    }
}

/* The 6-bit scale and minimum of sub-block 0..7 of a Q4_K or Q5_K block. Bytes 0..3 and 4..7 hold those of the first
 * four; the last four have their low nibbles in bytes 8..11 and their top two bits in the spare bits of bytes 0..7. */
static void scale_and_minimum(const uint8_t packed[12], unsigned sub_block, float *scale, float *minimum)
{
    if (sub_block < 4) {
        *scale = (float)(packed[sub_block] & 63);
        *minimum = (float)(packed[sub_block + 4] & 63);
        return;
    }
    uint8_t low = packed[sub_block + 4];
    *scale = (float)((low & 15) | packed[sub_block - 4] >> 6 << 4);
    *minimum = (float)(low >> 4 | packed[sub_block] >> 6 << 4);
}

/* d f16, dmin f16, scales[12], nibbles[128]: each 32 bytes hold one sub-block low and the next high. */
static void dequantize_q4_k(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SUPER, block += 144) {
        float d = load_half(block), dmin = load_half(block + 2);
        for (unsigned s = 0; s < 8; s++) {
            const uint8_t *q = block + 16 + 32 * (s / 2);
            float scale, minimum;
            scale_and_minimum(block + 4, s, &scale, &minimum);
            float step = d * scale, base = dmin * minimum;
            for (size_t j = 0; j < 32; j++)
                out[i + 32 * s + j] = step * (float)(q[j] >> (s % 2 * 4) & 15) - base;
        }
    }
}

/* As Q4_K with fifth bits[32] before the nibbles: bit s of byte j belongs to value j of sub-block s. */
static void dequantize_q5_k(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SUPER, block += 176) {
        float d = load_half(block), dmin = load_half(block + 2);
        const uint8_t *high = block + 16;
        for (unsigned s = 0; s < 8; s++) {
            const uint8_t *q = block + 48 + 32 * (s / 2);
            float scale, minimum;
            scale_and_minimum(block + 4, s, &scale, &minimum);
            float step = d * scale, base = dmin * minimum;
            for (size_t j = 0; j < 32; j++)
                out[i + 32 * s + j] = step * (float)((q[j] >> (s % 2 * 4) & 15) | (high[j] >> s & 1) << 4) - base;
        }
    }
}

/* low nibbles[128], top two bits[64], scales int8[16], d f16. Each half of 128 values is four runs of 32: runs 0, 1 are
 * the low nibbles of its 64 bytes, runs 2, 3 the high ones; run r has bits 2r, 2r+1 of the half's 32 top bytes. */
static void dequantize_q6_k(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SUPER, block += 210) {
        float d = load_half(block + 208);
        const int8_t *scales = (const int8_t *)(block + 192);
        for (size_t run = 0; run < 8; run++) {
            size_t half = run / 4, r = run % 4;
            const uint8_t *low = block + 64 * half + 32 * (r % 2);
            const uint8_t *top = block + 128 + 32 * half;
            for (size_t j = 0; j < 32; j++) {
                int q = (low[j] >> (r / 2 * 4) & 15) | (top[j] >> (2 * r) & 3) << 4;
                float step = d * (float)scales[2 * run + j / 16];
                out[i + 32 * run + j] = step * (float)(q - 32);
            }
        }
    }
}

/* top bits[32], low two bits[64], scales[12], d f16. Half h of 128 values is four runs of 32: run r has bits 2r, 2r+1
 * of the half's 32 bytes, and bit 4h + r of the top bytes, which says that 4 is not subtracted. Sixteen values share a
 * 6-bit scale, of which 32 is subtracted: low nibbles of the first eight in bytes 0..7, of the others above them, top
 * bits in bytes 8..11. */
static void dequantize_q3_k(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SUPER, block += 110) {
        float d = load_half(block + 108);
        const uint8_t *scales = block + 96;
        for (size_t s = 0; s < 16; s++) {
            int scale = (scales[s % 8] >> (s / 8 * 4) & 15) | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4;
            float step = d * (float)(scale - 32);
            size_t half = s / 8, run = s / 2 % 4;
            for (size_t j = 16 * (s % 2); j < 16 * (s % 2) + 16; j++) {
                int q = block[32 + 32 * half + j] >> (2 * run) & 3;
                int top = block[j] >> (4 * half + run) & 1;
                out[i + 32 * (s / 2) + j] = step * (float)(q - (top ? 0 : 4));
            }
        }
    }
}

/* scales[16], two bits[64], d f16, dmin f16. Runs of 16 values are as in Q3_K; the low nibble of a run's byte is its
 * scale, the high one its minimum, which is subtracted. */
static void dequantize_q2_k(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SUPER, block += 84) {
        float d = load_half(block + 80), dmin = load_half(block + 82);
        for (size_t s = 0; s < 16; s++) {
            float step = d * (float)(block[s] & 15), base = dmin * (float)(block[s] >> 4);
            const uint8_t *q = block + 16 + 32 * (s / 8) + 16 * (s % 2);
            for (size_t j = 0; j < 16; j++)
                out[i + 16 * s + j] = step * (float)(q[j] >> (s / 2 % 4 * 2) & 3) - base;
        }
    }
}

const int8_t roco_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* d f16, nibbles[16] */
static void dequantize_iq4_nl(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SMALL, block += 18) {
        float d = load_half(block);
        for (size_t j = 0; j < SMALL; j++)
            out[i + j] = d * (float)roco_iq4_values[block[2 + j % 16] >> (j / 16 * 4) & 15];
    }
}

/* d f16, top scale bits u16, low scale nibbles[4], nibbles[128]: eight IQ4_NL blocks whose scale is d (s - 32). */
static void dequantize_iq4_xs(const void *in, float *out, size_t n)
{
    const uint8_t *block = in;
    for (size_t i = 0; i < n; i += SUPER, block += 136) {
        float d = load_half(block);
        unsigned top = block[2] | (unsigned)block[3] << 8;
        for (size_t s = 0; s < 8; s++) {
            unsigned scale = (block[4 + s / 2] >> (s % 2 * 4) & 15u) | (top >> (2 * s) & 3u) << 4;
            float step = d * (float)((int)scale - 32);
            for (size_t j = 0; j < 32; j++)
                out[i + 32 * s + j] = step * (float)roco_iq4_values[block[8 + 16 * s + j % 16] >> (j / 16 * 4) & 15];
        }
    }
}

static const roco_type_traits table[] = {
    {ROCO_TYPE_F32, "F32", 1, 4, dequantize_f32},
    {ROCO_TYPE_F16, "F16", 1, 2, dequantize_f16},
    {ROCO_TYPE_BF16, "BF16", 1, 2, dequantize_bf16},
    {ROCO_TYPE_Q8_0, "Q8_0", SMALL, 34, dequantize_q8_0},
    {ROCO_TYPE_Q4_0, "Q4_0", SMALL, 18, dequantize_q4_0},
    {ROCO_TYPE_Q4_1, "Q4_1", SMALL, 20, dequantize_q4_1},
    {ROCO_TYPE_Q5_0, "Q5_0", SMALL, 22, dequantize_q5_0},
    {ROCO_TYPE_Q5_1, "Q5_1", SMALL, 24, dequantize_q5_1},
    {ROCO_TYPE_Q4_K, "Q4_K", SUPER, 144, dequantize_q4_k},
    {ROCO_TYPE_Q5_K, "Q5_K", SUPER, 176, dequantize_q5_k},
    {ROCO_TYPE_Q6_K, "Q6_K", SUPER, 210, dequantize_q6_k},
    {ROCO_TYPE_Q2_K, "Q2_K", SUPER, 84, dequantize_q2_k},
    {ROCO_TYPE_Q3_K, "Q3_K", SUPER, 110, dequantize_q3_k},
    {ROCO_TYPE_IQ4_NL, "IQ4_NL", SMALL, 18, dequantize_iq4_nl},
    {ROCO_TYPE_IQ4_XS, "IQ4_XS", SUPER, 136, dequantize_iq4_xs},
};

const roco_type_traits *roco_type_find(uint32_t type)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if ((uint32_t)table[i].type == type)
            return &table[i];
    return NULL;
}

bool roco_type_is_quantized(roco_tensor_type type)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)type);
    return traits && traits->block_values > 1;
}
