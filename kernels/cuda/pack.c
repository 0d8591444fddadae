/* Repacks the file's blocks into planes. The engine's thread, while a model opens.
 *
 * Block layouts are those that kernels/tensor_type.c decodes; here only the numbers change place.
 */
#include "kernels/cuda/pack.h"

#include <string.h>

/* What a block says of 32 neighbouring values. */
typedef struct unit {
    uint8_t q[ROCO_UNIT]; /* unsigned with the high bits; signed bytes of Q8_0 */
    uint16_t d, m;        /* f16 */
    uint8_t s, t;
} unit;

typedef struct form {
    roco_tensor_type type;
    roco_quant_form quant;
    roco_scale_form scale;
    int32_t zero;
} form;

static const form forms[] = {
    {ROCO_TYPE_Q4_0, ROCO_QUANT_NIBBLES, ROCO_SCALE_ONE, 8},
    {ROCO_TYPE_Q4_1, ROCO_QUANT_NIBBLES, ROCO_SCALE_BASE, 0},
    {ROCO_TYPE_Q5_0, ROCO_QUANT_FIVE_BITS, ROCO_SCALE_ONE, 16},
    {ROCO_TYPE_Q5_1, ROCO_QUANT_FIVE_BITS, ROCO_SCALE_BASE, 0},
    {ROCO_TYPE_Q8_0, ROCO_QUANT_BYTES, ROCO_SCALE_ONE, 0},
    {ROCO_TYPE_Q3_K, ROCO_QUANT_NIBBLES, ROCO_SCALE_SPLIT, 4},
    {ROCO_TYPE_Q4_K, ROCO_QUANT_NIBBLES, ROCO_SCALE_SUPER_MIN, 0},
    {ROCO_TYPE_Q5_K, ROCO_QUANT_FIVE_BITS, ROCO_SCALE_SUPER_MIN, 0},
    {ROCO_TYPE_Q6_K, ROCO_QUANT_SIX_BITS, ROCO_SCALE_SPLIT, 32},
    {ROCO_TYPE_IQ4_NL, ROCO_QUANT_TABLE, ROCO_SCALE_ONE, 0},
    {ROCO_TYPE_IQ4_XS, ROCO_QUANT_TABLE, ROCO_SCALE_SPLIT, 0},
};

static uint16_t u16_at(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static void read_nibbles(const uint8_t *from, unit *out)
{
    for (uint32_t j = 0; j < 16; j++) {
        out->q[j] = from[j] & 15;
        out->q[16 + j] = from[j] >> 4;
    }
}

static void add_fifth_bits(const uint8_t *from, unit *out)
{
    for (uint32_t j = 0; j < ROCO_UNIT; j++)
        out->q[j] |= (uint8_t)((from[j / 8] >> (j % 8) & 1) << 4);
}

/* Scale and minimum of sub-block i of a Q4_K or Q5_K block: six bits each. */
static void read_k_scales(const uint8_t packed[12], uint32_t i, unit *out)
{
    if (i < 4) {
        out->s = packed[i] & 63;
        out->t = packed[i + 4] & 63;
    } else {
        out->s = (uint8_t)((packed[i + 4] & 15) | packed[i - 4] >> 6 << 4);
        out->t = (uint8_t)(packed[i + 4] >> 4 | packed[i] >> 6 << 4);
    }
}

static void read_q4_k(const uint8_t *block, uint32_t i, const uint8_t *nibbles, unit *out)
{
    out->d = u16_at(block);
    out->m = u16_at(block + 2);
    read_k_scales(block + 4, i, out);
    for (uint32_t j = 0; j < ROCO_UNIT; j++)
        out->q[j] = nibbles[32 * (i / 2) + j] >> (i % 2 * 4) & 15;
}

static void read_q6_k(const uint8_t *block, uint32_t i, unit *out)
{
    const uint8_t *low = block + 64 * (i / 4) + 32 * (i % 2), *top = block + 128 + 32 * (i / 4);
    const uint32_t run = i % 4;
    out->d = u16_at(block + 208);
    out->s = block[192 + 2 * i];
    out->t = block[192 + 2 * i + 1];
    for (uint32_t j = 0; j < ROCO_UNIT; j++)
        out->q[j] = (uint8_t)((low[j] >> (run / 2 * 4) & 15) | (top[j] >> (2 * run) & 3) << 4);
}

static uint8_t q3_k_scale(const uint8_t *scales, uint32_t s)
{
    const int low = scales[s % 8] >> (s / 8 * 4) & 15, top = scales[8 + s % 4] >> (s / 4 * 2) & 3;
    return (uint8_t)((low | top << 4) - 32);
}

static void read_q3_k(const uint8_t *block, uint32_t i, unit *out)
{
    const uint32_t half = i / 4, run = i % 4;
    out->d = u16_at(block + 108);
    out->s = q3_k_scale(block + 96, 2 * i);
    out->t = q3_k_scale(block + 96, 2 * i + 1);
    for (uint32_t j = 0; j < ROCO_UNIT; j++)
        out->q[j] = (uint8_t)((block[32 + 32 * half + j] >> (2 * run) & 3) | (block[j] >> (4 * half + run) & 1) << 2);
}

static void read_iq4_xs(const uint8_t *block, uint32_t i, unit *out)
{
    const uint32_t low = block[4 + i / 2] >> (i % 2 * 4) & 15u, top = u16_at(block + 2) >> (2 * i) & 3u;
    out->d = u16_at(block);
    out->s = out->t = (uint8_t)((low | top << 4) - 32);
    read_nibbles(block + 8 + 16 * i, out);
}

/* Unit i of a block: 0 in small blocks, 0..7 in those of 256 values. */
static void read_unit(roco_tensor_type type, const uint8_t *block, uint32_t i, unit *out)
{
    out->d = u16_at(block);
    out->m = 0;
    out->s = out->t = 0;
    switch (type) {
    case ROCO_TYPE_Q4_1:
        out->m = u16_at(block + 2);
        read_nibbles(block + 4, out);
        break;
    case ROCO_TYPE_Q5_0:
        read_nibbles(block + 6, out);
        add_fifth_bits(block + 2, out);
        break;
    case ROCO_TYPE_Q5_1:
        out->m = u16_at(block + 2);
        read_nibbles(block + 8, out);
        add_fifth_bits(block + 4, out);
        break;
    case ROCO_TYPE_Q8_0: memcpy(out->q, block + 2, ROCO_UNIT); break;
    case ROCO_TYPE_Q4_K: read_q4_k(block, i, block + 16, out); break;
    case ROCO_TYPE_Q5_K:
        read_q4_k(block, i, block + 48, out);
        for (uint32_t j = 0; j < ROCO_UNIT; j++)
            out->q[j] |= (uint8_t)((block[16 + j] >> i & 1) << 4);
        break;
    case ROCO_TYPE_Q6_K: read_q6_k(block, i, out); break;
    case ROCO_TYPE_Q3_K: read_q3_k(block, i, out); break;
    case ROCO_TYPE_IQ4_XS: read_iq4_xs(block, i, out); break;
    default: read_nibbles(block + 2, out); break; /* Q4_0, IQ4_NL */
    }
}

static void write_quants(const roco_planes *p, size_t at, const unit *u)
{
    if (p->quant == ROCO_QUANT_BYTES) {
        memcpy((uint8_t *)p->quants + 32 * at, u->q, ROCO_UNIT);
        return;
    }
    uint8_t *nibbles = (uint8_t *)p->quants + 16 * at;
    uint32_t five = 0, six[2] = {0, 0};
    for (uint32_t j = 0; j < 16; j++)
        nibbles[j] = (uint8_t)((u->q[j] & 15) | (u->q[16 + j] & 15) << 4);
    for (uint32_t j = 0; j < ROCO_UNIT; j++) {
        five |= (uint32_t)(u->q[j] >> 4 & 1) << j;
        six[j / 16] |= (uint32_t)(u->q[j] >> 4 & 3) << (2 * (j % 16));
    }
    if (p->quant == ROCO_QUANT_FIVE_BITS)
        memcpy((uint8_t *)p->high + 4 * at, &five, 4);
    if (p->quant == ROCO_QUANT_SIX_BITS)
        memcpy((uint8_t *)p->high + 8 * at, six, 8);
}

static void write_scales(const roco_planes *p, size_t at, size_t super, const unit *u)
{
    uint16_t *scales = (uint16_t *)p->scales, *supers = (uint16_t *)p->supers;
    switch (p->scale) {
    case ROCO_SCALE_ONE: scales[at] = u->d; break;
    case ROCO_SCALE_BASE:
        scales[2 * at] = u->d;
        scales[2 * at + 1] = u->m;
        break;
    case ROCO_SCALE_SUPER_MIN:
        scales[at] = (uint16_t)(u->s | u->t << 8);
        supers[2 * super] = u->d;
        supers[2 * super + 1] = u->m;
        break;
    case ROCO_SCALE_SPLIT:
        scales[at] = (uint16_t)(u->s | u->t << 8);
        supers[super] = u->d;
        break;
    }
}

bool roco_planes_form(const roco_tensor_view *view, roco_planes *out)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].type == view->type) {
            *out = (roco_planes){.quant = forms[i].quant,
                                 .scale = forms[i].scale,
                                 .zero = forms[i].zero,
                                 .n_rows = view->n_rows,
                                 .n_units = view->n_cols / ROCO_UNIT};
            return true;
        }
    return false;
}

static size_t sixteens(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

roco_plane_sizes roco_planes_sizes(const roco_planes *p)
{
    const size_t units = (size_t)p->n_rows * p->n_units;
    const size_t supers = (size_t)p->n_rows * ((p->n_units + ROCO_SUPER_UNITS - 1) / ROCO_SUPER_UNITS);
    roco_plane_sizes s = {.quants = units * (p->quant == ROCO_QUANT_BYTES ? 32 : 16)};
    s.high = sixteens(units * (p->quant == ROCO_QUANT_FIVE_BITS ? 4 : p->quant == ROCO_QUANT_SIX_BITS ? 8 : 0));
    s.scales = sixteens(units * (p->scale == ROCO_SCALE_BASE ? 4 : 2));
    s.supers = sixteens(supers * (p->scale == ROCO_SCALE_SUPER_MIN ? 4 : p->scale == ROCO_SCALE_SPLIT ? 2 : 0));
    return s;
}

void roco_planes_pack(const roco_tensor_view *view, const roco_planes *p)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)view->type);
    const uint32_t in_block = traits->block_values / ROCO_UNIT, n_supers = (p->n_units + 7) / ROCO_SUPER_UNITS;
    const uint8_t *block = view->data;
    for (size_t row = 0; row < p->n_rows; row++)
        for (uint32_t u = 0; u < p->n_units; u++) {
            unit values;
            read_unit(view->type, block, u % in_block, &values);
            if (u % in_block == in_block - 1)
                block += traits->block_bytes;
            write_quants(p, row * p->n_units + u, &values);
            write_scales(p, row * p->n_units + u, row * n_supers + u / ROCO_SUPER_UNITS, &values);
        }
}
