/* Encoding and decoding of K and V in plain C: the reference of the vector kernels. Any thread; no state. */
#include "kernels/kv_code.h"

#include "kernels/tensor_type.h"

#include <math.h>
#include <string.h>

#define F16_GREATEST 65504.0f

static const char *const names[ROCO_N_KV_TYPES] = {
    [ROCO_KV_F16] = "f16", [ROCO_KV_F32] = "f32", [ROCO_KV_Q8] = "q8", [ROCO_KV_Q4] = "q4"};

const char *roco_kv_type_name(roco_kv_type type)
{
    return names[type];
}

bool roco_kv_type_find(const char *name, roco_kv_type *out)
{
    for (uint32_t i = 0; i < ROCO_N_KV_TYPES; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (roco_kv_type)i;
            return true;
        }
    return false;
}

/* Passes NaN. */
static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static void encode_block(roco_kv_type type, const float *in, uint32_t n, uint8_t *codes, uint16_t *scale,
                         uint16_t *least)
{
    float high = type == ROCO_KV_Q8 ? 0 : -F16_GREATEST, low = type == ROCO_KV_Q8 ? 0 : F16_GREATEST;
    bool is_nan = false;
    for (uint32_t i = 0; i < n; i++) {
        const float x = clamp(in[i], -F16_GREATEST, F16_GREATEST);
        is_nan |= isnan(x);
        high = x > high ? x : high;
        low = x < low ? x : low;
    }
    const float most = type == ROCO_KV_Q8 ? 127 : 15, fewest = type == ROCO_KV_Q8 ? -127 : 0;
    const float reach = type == ROCO_KV_Q8 ? (high > -low ? high : -low) : high - low;
    *scale = is_nan ? roco_f16_from_f32(NAN) : roco_f16_from_f32(reach / most);
    const float rounded = roco_f16_to_f32(*scale), inverse = rounded > 0 ? 1.0f / rounded : 0;
    float base = 0;
    if (type == ROCO_KV_Q4) {
        *least = roco_f16_from_f32(low);
        base = roco_f16_to_f32(*least);
    }
    for (uint32_t i = 0; i < n; i++) {
        const float x = clamp(in[i], -F16_GREATEST, F16_GREATEST);
        codes[i] = is_nan ? 0 : (uint8_t)(int8_t)lrintf(clamp((x - base) * inverse, fewest, most));
    }
}

void roco_kv_encode(roco_kv_type type, const float *in, uint32_t n, uint8_t *codes, uint16_t *scales, uint16_t *leasts)
{
    for (uint32_t at = 0, b = 0; at < n; at += ROCO_KV_BLOCK, b++) {
        const uint32_t size = n - at < ROCO_KV_BLOCK ? n - at : ROCO_KV_BLOCK;
        encode_block(type, in + at, size, codes + at, scales + b, type == ROCO_KV_Q4 ? leasts + b : NULL);
    }
}

float roco_kv_key(const roco_kv_layout *l, const unsigned char *page, uint32_t slot, uint32_t component)
{
    const uint32_t at = component * l->slots + slot;
    if (l->type == ROCO_KV_F32)
        return ((const float *)(const void *)page)[at];
    if (l->type == ROCO_KV_F16)
        return roco_f16_to_f32(((const uint16_t *)(const void *)page)[at]);
    const uint16_t *scales = (const uint16_t *)(const void *)(page + l->key_scale_offset);
    const uint32_t block = component / ROCO_KV_BLOCK * l->slots + slot;
    if (l->type == ROCO_KV_Q8)
        return (float)(int8_t)page[at] * roco_f16_to_f32(scales[block]);
    const uint8_t code = page[component / 2 * l->slots + slot] >> component % 2 * 4 & 15;
    return code * roco_f16_to_f32(scales[block]) +
           roco_f16_to_f32(scales[roco_kv_blocks(l->key_dim) * l->slots + block]);
}

float roco_kv_value(const roco_kv_layout *l, const unsigned char *page, uint32_t slot, uint32_t component)
{
    const unsigned char *row = page + l->value_offset + (size_t)slot * roco_kv_value_bytes(l);
    if (l->type == ROCO_KV_F32)
        return ((const float *)(const void *)row)[component];
    if (l->type == ROCO_KV_F16)
        return roco_f16_to_f32(((const uint16_t *)(const void *)row)[component]);
    const uint16_t *scales = (const uint16_t *)(const void *)(page + l->value_scale_offset);
    const uint32_t n_blocks = roco_kv_blocks(l->value_dim), block = component / ROCO_KV_BLOCK;
    if (l->type == ROCO_KV_Q8)
        return (float)(int8_t)row[component] * roco_f16_to_f32(scales[slot * n_blocks + block]);
    const uint32_t in_block = component % ROCO_KV_BLOCK, half = ROCO_KV_BLOCK / 2;
    const uint8_t code = row[block * half + in_block % half] >> in_block / half * 4 & 15;
    return code * roco_f16_to_f32(scales[slot * n_blocks + block]) +
           roco_f16_to_f32(scales[(l->slots + slot) * n_blocks + block]);
}
