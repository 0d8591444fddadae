/* Keys and values as policies see them: floats, a block of tokens at a time. Compute threads. */
#include "kernels/cpu/attention.h"

#include <string.h>

/* The page and slot of a token of the view. */
static const unsigned char *find_slot(const roco_attention_vectors *v, uint32_t token, uint32_t *slot)
{
    const uint32_t slots = v->job->layout.slots;
    uint32_t column = v->inside ? v->inside[token] : token;
    column += column >= v->span->old ? v->span->base - v->span->old : 0;
    *slot = column % slots;
    return v->job->worker->pages[column / slots];
}

/* f16 without its infinities, which are never stored: shifts and one exact product, so that loops become vectors. */
static inline float widen(uint16_t half)
{
    const uint32_t bits = (uint32_t)(half & 0x7fffu) << 13, sign = (uint32_t)(half & 0x8000u) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    uint32_t out;
    memcpy(&out, &value, sizeof out);
    out |= sign;
    memcpy(&value, &out, sizeof value);
    return value;
}

/* out[c * ROCO_POLICY_BLOCK] = from[c * distance]. */
static void read_one(roco_kv_type type, const void *from, size_t distance, uint32_t dim, float *out)
{
    for (uint32_t c = 0; c < dim; c++)
        out[(size_t)c * ROCO_POLICY_BLOCK] =
            type == ROCO_KV_F16 ? widen(((const uint16_t *)from)[c * distance]) : ((const float *)from)[c * distance];
}

void roco_keys_read(const roco_kv_layout *l, const unsigned char *page, uint32_t first, uint32_t n, float *out)
{
    const uint16_t *half = (const uint16_t *)(const void *)page + first;
    const float *whole = (const float *)(const void *)page + first;
    for (uint32_t d = 0; d < l->key_dim; d++) {
        float *line = out + (size_t)d * ROCO_POLICY_BLOCK;
        if (l->type == ROCO_KV_F16)
            for (uint32_t j = 0; j < n; j++)
                line[j] = widen(half[(size_t)d * l->slots + j]);
        else if (l->type == ROCO_KV_F32)
            memcpy(line, whole + (size_t)d * l->slots, n * sizeof *line);
        else
            for (uint32_t j = 0; j < n; j++)
                line[j] = roco_kv_key(l, page, first + j, d);
    }
}

/* Keys of a whole page are in the wanted order already. */
static bool read_page(const roco_attention_vectors *v, uint32_t first, uint32_t n, float *out)
{
    const roco_kv_layout *l = &v->job->layout;
    if (v->values || v->inside || l->slots != ROCO_POLICY_BLOCK || n < ROCO_POLICY_BLOCK || first + n > v->span->old)
        return false;
    uint32_t slot;
    roco_keys_read(l, find_slot(v, first, &slot), 0, n, out);
    return true;
}

/* out[c * ROCO_POLICY_BLOCK] = component c of a slot's key or value. */
static void read_coded(const roco_kv_layout *l, const unsigned char *page, uint32_t slot, bool values, float *out)
{
    const uint32_t dim = values ? l->value_dim : l->key_dim;
    for (uint32_t c = 0; c < dim; c++)
        out[(size_t)c * ROCO_POLICY_BLOCK] = values ? roco_kv_value(l, page, slot, c) : roco_kv_key(l, page, slot, c);
}

static const float *read_block(const roco_policy_vectors *vectors, uint32_t first)
{
    const roco_attention_vectors *v = (const roco_attention_vectors *)vectors;
    const roco_kv_layout *l = &v->job->layout;
    const size_t bytes = roco_kv_type_bytes(l->type); /* unless quantised */
    const uint32_t left = v->n - first, n = left < ROCO_POLICY_BLOCK ? left : ROCO_POLICY_BLOCK;
    float *out = v->job->worker->block;
    if (read_page(v, first, n, out))
        return out;
    memset(out, 0, (size_t)vectors->dim * ROCO_POLICY_BLOCK * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot;
        const unsigned char *page = find_slot(v, first + i, &slot);
        if (roco_kv_type_is_quantized(l->type))
            read_coded(l, page, slot, v->values, out + i);
        else if (v->values)
            read_one(l->type, page + l->value_offset + slot * l->value_dim * bytes, 1, l->value_dim, out + i);
        else
            read_one(l->type, page + slot * bytes, l->slots, l->key_dim, out + i);
    }
    return out;
}

roco_attention_vectors roco_attention_vectors_make(const roco_attention_job *job, const roco_attention_span *span,
                                                   uint32_t n, const uint32_t *inside, bool values)
{
    const roco_kv_layout *l = &job->layout;
    return (roco_attention_vectors){.vectors = {values ? l->value_dim : l->key_dim, read_block},
                                    .job = job,
                                    .span = span,
                                    .inside = inside,
                                    .n = n,
                                    .values = values};
}
