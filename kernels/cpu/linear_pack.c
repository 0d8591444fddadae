/* From the file's blocks to panels and, row by row, back to floats.
 *
 * Pure functions of their arguments; any compute thread. The formats are GGUF's (ggml's block_q*): only their bits are
 * moved here, no value is rounded. Floats that are asked for as integers are, to what Q8_0 would hold.
 */
#include "kernels/cpu/linear.h"

#include <math.h>
#include <string.h>

#define CHUNK 256u /* inputs dequantised at a time: a multiple of every format's block */

/* What one row's block of 32 says, in the terms of roco_scales. */
typedef struct block_parts {
    uint8_t q[ROCO_BLOCK];
    uint16_t scale, min; /* f16 bits; under a header d and m */
    uint8_t sub[2];      /* s and t under a header */
} block_parts;

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void split_nibbles(const uint8_t *packed, uint8_t *q)
{
    for (uint32_t i = 0; i < 16; i++) {
        q[i] = packed[i] & 15;
        q[i + 16] = packed[i] >> 4;
    }
}

/* Q5_0 and Q5_1 keep the fifth bits of a block in one little-endian word. */
static void add_fifth_bits(const uint8_t *word, uint8_t *q)
{
    for (uint32_t i = 0; i < 32; i++)
        q[i] |= (uint8_t)((word[i / 8] >> (i % 8) & 1) << 4);
}

static void read_q4_0(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *block = row + (size_t)b * 18;
    out->scale = read_u16(block);
    split_nibbles(block + 2, out->q);
}

static void read_q4_1(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *block = row + (size_t)b * 20;
    out->scale = read_u16(block);
    out->min = read_u16(block + 2);
    split_nibbles(block + 4, out->q);
}

static void read_q5_0(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *block = row + (size_t)b * 22;
    out->scale = read_u16(block);
    split_nibbles(block + 6, out->q);
    add_fifth_bits(block + 2, out->q);
}

static void read_q5_1(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *block = row + (size_t)b * 24;
    out->scale = read_u16(block);
    out->min = read_u16(block + 2);
    split_nibbles(block + 8, out->q);
    add_fifth_bits(block + 4, out->q);
}

static void read_q8_0(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *block = row + (size_t)b * 34;
    out->scale = read_u16(block);
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        out->q[i] = (uint8_t)(block[2 + i] ^ 0x80u); /* q + 128 */
}

/* Q4_K and Q5_K begin alike: d, dmin, then eight 6-bit scales and mins in 12 bytes. */
static void read_k_scales(const uint8_t *super, uint32_t j, block_parts *out)
{
    const uint8_t *s = super + 4;
    out->scale = read_u16(super);
    out->min = read_u16(super + 2) ^ 0x8000u; /* the format subtracts it */
    if (j < 4) {
        out->sub[0] = s[j] & 63;
        out->sub[1] = s[j + 4] & 63;
    } else {
        out->sub[0] = (uint8_t)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        out->sub[1] = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

static void read_q4_k(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *super = row + (size_t)(b / 8) * 144;
    uint32_t j = b % 8;
    const uint8_t *packed = super + 16 + j / 2 * 32;
    read_k_scales(super, j, out);
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        out->q[i] = packed[i] >> (j % 2 * 4) & 15;
}

static void read_q5_k(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *super = row + (size_t)(b / 8) * 176;
    uint32_t j = b % 8;
    const uint8_t *fifth = super + 16, *packed = super + 48 + j / 2 * 32;
    read_k_scales(super, j, out);
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        out->q[i] = (uint8_t)((packed[i] >> (j % 2 * 4) & 15) | (fifth[i] >> j & 1) << 4);
}

static void read_q6_k(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *super = row + (size_t)(b / 8) * 210;
    uint32_t half = b % 8 / 4, k = b % 4;
    const uint8_t *low = super + 64 * half + 32 * (k % 2);
    const uint8_t *high = super + 128 + 32 * half;
    out->scale = read_u16(super + 208);
    memcpy(out->sub, super + 192 + 8 * half + 2 * k, 2);
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        out->q[i] = (uint8_t)((low[i] >> (k / 2 * 4) & 15) | (high[i] >> (2 * k) & 3) << 4);
}

/* A 6-bit scale for each 16 values, less 32. */
static uint8_t q3_k_scale(const uint8_t *scales, uint32_t s)
{
    int scale = (scales[s % 8] >> (s / 8 * 4) & 15) | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4;
    return (uint8_t)(scale - 32);
}

static void read_q3_k(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *super = row + (size_t)(b / 8) * 110;
    uint32_t s = b % 8, half = s / 4, run = s % 4;
    out->scale = read_u16(super + 108);
    out->sub[0] = q3_k_scale(super + 96, 2 * s);
    out->sub[1] = q3_k_scale(super + 96, 2 * s + 1);
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        out->q[i] = (uint8_t)((super[32 + 32 * half + i] >> (2 * run) & 3) | (super[i] >> s & 1) << 2);
}

/* The values behind the nibbles, + 128. */
static void look_up_iq4(uint8_t *q)
{
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        q[i] = (uint8_t)(roco_iq4_values[q[i]] + 128);
}

static void read_iq4_nl(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *block = row + (size_t)b * 18;
    out->scale = read_u16(block);
    split_nibbles(block + 2, out->q);
    look_up_iq4(out->q);
}

static void read_iq4_xs(const uint8_t *row, uint32_t b, block_parts *out)
{
    const uint8_t *super = row + (size_t)(b / 8) * 136;
    uint32_t s = b % 8;
    int scale = (super[4 + s / 2] >> (s % 2 * 4) & 15) | (read_u16(super + 2) >> (2 * s) & 3) << 4;
    out->scale = read_u16(super);
    out->sub[0] = out->sub[1] = (uint8_t)(scale - 32);
    split_nibbles(super + 8 + 16 * s, out->q);
    look_up_iq4(out->q);
}

/* 32 floats: q = x / scale to the nearest, 127 for the largest. What is no number makes the scale one too. */
static void round_block(const float *x, block_parts *out)
{
    float largest = 0;
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        largest = !(fabsf(x[i]) <= largest) ? fabsf(x[i]) : largest;
    out->scale = roco_f16_from_f32(largest / 127.0f);
    const float scale = roco_f16_to_f32(out->scale), inverse = scale > 0 && isfinite(scale) ? 1.0f / scale : 0;
    for (uint32_t i = 0; i < ROCO_BLOCK; i++) {
        const float q = fminf(fmaxf(x[i] * inverse, -127.0f), 127.0f);
        out->q[i] = (uint8_t)(lrintf(q) + 128);
    }
}

/* Each 16 values have a scale and a minimum of their own, which no panel has room for: rounded, as floats are, to what
 * Q8_0 would hold, an error of a hundredth of a two-bit step. */
static void read_q2_k(const uint8_t *row, uint32_t b, block_parts *out)
{
    float x[8 * ROCO_BLOCK];
    roco_type_find(ROCO_TYPE_Q2_K)->dequantize(row + (size_t)(b / 8) * 84, x, 8 * ROCO_BLOCK);
    round_block(x + b % 8 * ROCO_BLOCK, out);
}

static void read_floats(roco_tensor_type type, const uint8_t *block, block_parts *out)
{
    float x[ROCO_BLOCK];
    roco_type_find(type)->dequantize(block, x, ROCO_BLOCK);
    round_block(x, out);
}

static void read_f32(const uint8_t *row, uint32_t b, block_parts *out)
{
    read_floats(ROCO_TYPE_F32, row + (size_t)b * ROCO_BLOCK * 4, out);
}

static void read_f16_block(const uint8_t *row, uint32_t b, block_parts *out)
{
    read_floats(ROCO_TYPE_F16, row + (size_t)b * ROCO_BLOCK * 2, out);
}

static void read_bf16(const uint8_t *row, uint32_t b, block_parts *out)
{
    read_floats(ROCO_TYPE_BF16, row + (size_t)b * ROCO_BLOCK * 2, out);
}

typedef struct packed_format {
    roco_tensor_type type;
    roco_element element;
    roco_scales scales;
    uint32_t zero_shift;
    void (*read)(const uint8_t *row, uint32_t b, block_parts *out);
} packed_format;

static const packed_format *format_of(roco_tensor_type type)
{
    static const packed_format formats[] = {
        {ROCO_TYPE_Q4_0, ROCO_ELEMENT_U4, ROCO_SCALES_ONE, 3, read_q4_0},
        {ROCO_TYPE_Q4_1, ROCO_ELEMENT_U4, ROCO_SCALES_MIN, 0, read_q4_1},
        {ROCO_TYPE_Q5_0, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 4, read_q5_0},
        {ROCO_TYPE_Q5_1, ROCO_ELEMENT_U8, ROCO_SCALES_MIN, 0, read_q5_1},
        {ROCO_TYPE_Q8_0, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 7, read_q8_0},
        {ROCO_TYPE_Q4_K, ROCO_ELEMENT_U4, ROCO_SCALES_SUPER_MIN, 0, read_q4_k},
        {ROCO_TYPE_Q5_K, ROCO_ELEMENT_U8, ROCO_SCALES_SUPER_MIN, 0, read_q5_k},
        {ROCO_TYPE_Q6_K, ROCO_ELEMENT_U8, ROCO_SCALES_SPLIT, 5, read_q6_k},
        {ROCO_TYPE_Q2_K, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 7, read_q2_k},
        {ROCO_TYPE_Q3_K, ROCO_ELEMENT_U8, ROCO_SCALES_SPLIT, 2, read_q3_k},
        {ROCO_TYPE_IQ4_NL, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 7, read_iq4_nl},
        {ROCO_TYPE_IQ4_XS, ROCO_ELEMENT_U8, ROCO_SCALES_SPLIT, 7, read_iq4_xs},
        {ROCO_TYPE_F32, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 7, read_f32},
        {ROCO_TYPE_F16, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 7, read_f16_block},
        {ROCO_TYPE_BF16, ROCO_ELEMENT_U8, ROCO_SCALES_ONE, 7, read_bf16},
    };
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (formats[i].type == type)
            return &formats[i];
    return NULL;
}

static roco_element float_element(roco_tensor_type type)
{
    return type == ROCO_TYPE_F16 ? ROCO_ELEMENT_F16 : type == ROCO_TYPE_BF16 ? ROCO_ELEMENT_BF16 : ROCO_ELEMENT_F32;
}

static size_t float_bytes(roco_element element)
{
    return element == ROCO_ELEMENT_F32 ? 4 : 2;
}

bool roco_panel_layout(const roco_tensor_view *view, roco_precision precision, roco_weight *out)
{
    *out = (roco_weight){.n_rows = view->n_rows, .n_cols = view->n_cols};
    out->n_panels = (uint32_t)(((uint64_t)view->n_rows + ROCO_PANEL_ROWS - 1) / ROCO_PANEL_ROWS);
    const bool floats = !roco_type_is_quantized(view->type);
    if (precision == ROCO_PRECISION_F32 || (floats && precision == ROCO_PRECISION_INT8) || view->n_cols % ROCO_BLOCK) {
        out->element = float_element(view->type);
        out->panel_bytes = (size_t)view->n_cols * ROCO_PANEL_ROWS * float_bytes(out->element);
        return true;
    }
    const packed_format *format = format_of(view->type);
    if (format == NULL)
        return false;
    size_t n_blocks = view->n_cols / ROCO_BLOCK;
    out->element = format->element;
    out->scales = format->scales;
    out->zero_shift = format->zero_shift;
    out->header_bytes = out->scales == ROCO_SCALES_SUPER_MIN ? 128 : out->scales == ROCO_SCALES_SPLIT ? 64 : 0;
    out->block_bytes = roco_scales_bytes(out->scales) +
                       (size_t)ROCO_PANEL_ROWS * ROCO_BLOCK / (out->element == ROCO_ELEMENT_U4 ? 2 : 1);
    out->panel_bytes = n_blocks * out->block_bytes + n_blocks / ROCO_SUPER_BLOCKS * out->header_bytes;
    return true;
}

static void put_scales(const roco_weight *weight, const block_parts *parts, uint32_t lane, uint8_t *header,
                       uint8_t *block)
{
    bool super = weight->header_bytes > 0;
    uint8_t *first = super ? header : block;
    memcpy(first + 2 * lane, &parts->scale, 2);
    if (weight->scales == ROCO_SCALES_MIN || weight->scales == ROCO_SCALES_SUPER_MIN)
        memcpy(first + 64 + 2 * lane, &parts->min, 2);
    if (super) {
        block[lane] = parts->sub[0];
        block[32 + lane] = parts->sub[1];
    }
}

static void put_integers(const roco_weight *weight, const block_parts *parts, uint32_t lane, uint8_t *integers)
{
    const uint8_t *q = parts->q;
    uint8_t *to = integers + 4 * lane;
    if (weight->element == ROCO_ELEMENT_U8) {
        for (uint32_t g = 0; g < 8; g++)
            memcpy(to + 128 * g, q + 4 * g, 4);
        return;
    }
    for (uint32_t g = 0; g < 4; g++)
        for (uint32_t i = 0; i < 4; i++)
            to[128 * g + i] = (uint8_t)(q[4 * g + i] | q[16 + 4 * g + i] << 4);
}

static void pack_integers(const roco_tensor_view *view, const roco_weight *weight, const uint8_t *row, uint32_t lane,
                          uint8_t *panel)
{
    const packed_format *format = format_of(view->type);
    for (uint32_t b = 0; b < weight->n_cols / ROCO_BLOCK; b++) {
        block_parts parts = {.scale = 0};
        format->read(row, b, &parts);
        uint8_t *header = panel + (roco_panel_header(weight, panel, b) - panel);
        uint8_t *block = panel + (roco_panel_block(weight, panel, b) - panel);
        put_scales(weight, &parts, lane, header, block);
        put_integers(weight, &parts, lane, block + roco_scales_bytes(weight->scales));
    }
}

static void pack_floats(const roco_tensor_view *view, const roco_weight *weight, const uint8_t *row, uint32_t lane,
                        uint8_t *panel)
{
    const roco_type_traits *traits = roco_type_find(view->type);
    size_t size = float_bytes(weight->element);
    bool dequantize = roco_type_is_quantized(view->type);
    float values[CHUNK];
    for (uint32_t k = 0; k < weight->n_cols; k += CHUNK) {
        uint32_t n = weight->n_cols - k < CHUNK ? weight->n_cols - k : CHUNK;
        const uint8_t *from = row + (size_t)k / traits->block_values * traits->block_bytes;
        if (dequantize)
            traits->dequantize(from, values, n);
        else
            memcpy(values, from, n * size);
        for (uint32_t i = 0; i < n; i++)
            memcpy(panel + ((size_t)(k + i) * ROCO_PANEL_ROWS + lane) * size, (const uint8_t *)values + i * size, size);
    }
}

void roco_panel_pack(const roco_tensor_view *view, const roco_weight *weight, uint32_t panel)
{
    const roco_type_traits *traits = roco_type_find(view->type);
    size_t row_bytes = (size_t)view->n_cols / traits->block_values * traits->block_bytes;
    uint32_t first = panel * ROCO_PANEL_ROWS;
    uint32_t n_rows = weight->n_rows - first < ROCO_PANEL_ROWS ? weight->n_rows - first : ROCO_PANEL_ROWS;
    uint8_t *to = weight->panels + panel * weight->panel_bytes;
    if (n_rows < ROCO_PANEL_ROWS)
        memset(to, 0, weight->panel_bytes);
    for (uint32_t lane = 0; lane < n_rows; lane++) {
        const uint8_t *row = (const uint8_t *)view->data + (first + lane) * row_bytes;
        if (roco_element_is_integer(weight->element))
            pack_integers(view, weight, row, lane, to);
        else
            pack_floats(view, weight, row, lane, to);
    }
}

static float read_f16(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, 2);
    return roco_f16_to_f32(bits);
}

static void unpack_floats(const roco_weight *weight, const uint8_t *panel, uint32_t lane, float *out)
{
    size_t size = float_bytes(weight->element);
    for (uint32_t k = 0; k < weight->n_cols; k++) {
        const uint8_t *at = panel + ((size_t)k * ROCO_PANEL_ROWS + lane) * size;
        uint16_t bits;
        memcpy(&bits, at, 2);
        if (weight->element == ROCO_ELEMENT_F32)
            memcpy(&out[k], at, 4);
        else
            out[k] = weight->element == ROCO_ELEMENT_F16 ? roco_f16_to_f32(bits) : roco_bf16_to_f32(bits);
    }
}

/* The lane's scale for each half of the block, and its min. */
static void read_scales(const roco_weight *weight, const uint8_t *header, const uint8_t *block, uint32_t lane,
                        float scale[2], float *min)
{
    *min = 0;
    if (weight->header_bytes == 0) {
        scale[0] = scale[1] = read_f16(block + 2 * lane);
        if (weight->scales == ROCO_SCALES_MIN)
            *min = read_f16(block + 64 + 2 * lane);
        return;
    }
    float d = read_f16(header + 2 * lane), s = (int8_t)block[lane], t = (int8_t)block[32 + lane];
    scale[0] = scale[1] = d * s;
    if (weight->scales == ROCO_SCALES_SPLIT)
        scale[1] = d * t;
    else
        *min = read_f16(header + 64 + 2 * lane) * t;
}

static void unpack_block(const roco_weight *weight, const uint8_t *header, const uint8_t *block, uint32_t lane,
                         float *out)
{
    float scale[2], min;
    read_scales(weight, header, block, lane, scale, &min);
    const uint8_t *integers = block + roco_scales_bytes(weight->scales) + 4 * lane;
    bool has_min = weight->scales == ROCO_SCALES_MIN || weight->scales == ROCO_SCALES_SUPER_MIN;
    for (uint32_t i = 0; i < ROCO_BLOCK; i++) {
        int q = weight->element == ROCO_ELEMENT_U8 ? integers[i / 4 * 128 + i % 4]
                                                   : integers[i % 16 / 4 * 128 + i % 4] >> (i / 16 * 4) & 15;
        float s = scale[i / 16];
        out[i] = has_min ? s * (float)q + min : s * (float)(q - (1 << weight->zero_shift));
    }
}

void roco_panel_unpack_row(const roco_weight *weight, uint32_t row, float *out)
{
    const uint8_t *panel = weight->panels + row / ROCO_PANEL_ROWS * weight->panel_bytes;
    uint32_t lane = row % ROCO_PANEL_ROWS;
    if (!roco_element_is_integer(weight->element)) {
        unpack_floats(weight, panel, lane, out);
        return;
    }
    for (uint32_t b = 0; b < weight->n_cols / ROCO_BLOCK; b++)
        unpack_block(weight, roco_panel_header(weight, panel, b), roco_panel_block(weight, panel, b), lane,
                     out + (size_t)b * ROCO_BLOCK);
}
