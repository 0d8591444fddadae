/* Tokens into and between pages. Compute threads; the page belongs to the head being worked on, so to one thread.
 *
 * A key is a column of its page (one component per line), a value a row.
 */
#include "kernels/cpu/attention.h"

#include <string.h>

/* Two components a byte: neighbours in keys, half a block apart in values. */
static uint8_t pair(const uint8_t *codes, uint32_t n, uint32_t low, uint32_t high)
{
    return (uint8_t)((low < n ? codes[low] : 0) | (high < n ? codes[high] : 0) << 4);
}

/* n_blocks numbers, and at q4 as many leasts, `step` apart from `to` on. */
static void put_numbers(const roco_kv_layout *l, const uint16_t *from, uint32_t n_blocks, uint16_t *to, size_t step)
{
    const size_t leasts = (size_t)n_blocks * l->slots;
    for (uint32_t b = 0; b < n_blocks; b++) {
        to[b * step] = from[b];
        if (l->type == ROCO_KV_Q4)
            to[leasts + b * step] = from[n_blocks + b];
    }
}

static void put_coded_key(const roco_attention_job *job, const float *k, unsigned char *page, uint32_t slot)
{
    const roco_kv_layout *l = &job->layout;
    const uint32_t n_blocks = roco_kv_blocks(l->key_dim);
    uint8_t *codes = job->worker->codes;
    uint16_t *numbers = job->worker->numbers;
    job->scratch->kernels->encode(l->type, k, l->key_dim, codes, numbers, numbers + n_blocks);
    if (l->type == ROCO_KV_Q8)
        for (uint32_t d = 0; d < l->key_dim; d++)
            page[d * l->slots + slot] = codes[d];
    else
        for (uint32_t d = 0; d < l->key_dim; d += 2)
            page[d / 2 * l->slots + slot] = pair(codes, l->key_dim, d, d + 1);
    put_numbers(l, numbers, n_blocks, roco_kv_key_scales(l, page) + slot, l->slots);
}

static void put_coded_value(const roco_attention_job *job, const float *v, unsigned char *page, uint32_t slot)
{
    const roco_kv_layout *l = &job->layout;
    const uint32_t n_blocks = roco_kv_blocks(l->value_dim), half = ROCO_KV_BLOCK / 2;
    uint8_t *codes = job->worker->codes;
    uint16_t *numbers = job->worker->numbers;
    uint8_t *to = (uint8_t *)roco_kv_values(l, page) + (size_t)slot * roco_kv_value_bytes(l);
    job->scratch->kernels->encode(l->type, v, l->value_dim, codes, numbers, numbers + n_blocks);
    if (l->type == ROCO_KV_Q8)
        memcpy(to, codes, l->value_dim);
    else
        for (uint32_t i = 0; i < n_blocks * half; i++) {
            const uint32_t at = i / half * ROCO_KV_BLOCK + i % half;
            to[i] = pair(codes, l->value_dim, at, at + half);
        }
    put_numbers(l, numbers, n_blocks, roco_kv_value_scales(l, page) + (size_t)slot * n_blocks, 1);
}

static void put_key(const roco_attention_job *job, const float *k, unsigned char *page, uint32_t slot)
{
    const roco_kv_layout *l = &job->layout;
    if (l->type == ROCO_KV_F16) {
        uint16_t *keys = (uint16_t *)(void *)page, *half = job->worker->half;
        job->scratch->kernels->to_f16(k, half, l->key_dim);
        for (uint32_t d = 0; d < l->key_dim; d++)
            keys[d * l->slots + slot] = half[d];
    } else {
        float *keys = (float *)(void *)page;
        for (uint32_t d = 0; d < l->key_dim; d++)
            keys[d * l->slots + slot] = k[d];
    }
}

static void put_value(const roco_attention_job *job, const float *v, unsigned char *page, uint32_t slot)
{
    const roco_kv_layout *l = &job->layout;
    if (l->type == ROCO_KV_F16)
        job->scratch->kernels->to_f16(v, (uint16_t *)roco_kv_values(l, page) + slot * l->value_dim, l->value_dim);
    else
        memcpy((float *)roco_kv_values(l, page) + slot * l->value_dim, v, l->value_dim * sizeof *v);
}

void roco_slot_write(const roco_attention_job *job, const float *k, const float *v, unsigned char *page, uint32_t slot,
                     int32_t position)
{
    const roco_kv_layout *l = &job->layout;
    if (roco_kv_type_is_quantized(l->type)) {
        put_coded_key(job, k, page, slot);
        put_coded_value(job, v, page, slot);
    } else {
        put_key(job, k, page, slot);
        put_value(job, v, page, slot);
    }
    roco_kv_positions(l, page)[slot] = position;
    roco_kv_sums(l, page)[slot] = 0;
    roco_kv_sums_sq(l, page)[slot] = 0;
}

void roco_slot_put(const roco_attention_job *job, uint32_t chunk_row, unsigned char *page, uint32_t slot)
{
    const roco_attention *args = job->args;
    const size_t row = ((size_t)job->chunk->row + chunk_row) * args->n_kv_heads + job->kv_head;
    roco_slot_write(job, args->k + row * job->layout.key_dim, args->v + row * job->layout.value_dim, page, slot,
                    job->chunk->position + (int32_t)chunk_row);
}

/* Columns `from` and `to` of n lines of `slots` elements. */
static void copy_bytes(const uint8_t *from, uint8_t *to, uint32_t n, uint32_t slots)
{
    for (size_t i = 0; i < n; i++)
        to[i * slots] = from[i * slots];
}

static void copy_halves(const uint16_t *from, uint16_t *to, uint32_t n, uint32_t slots)
{
    for (size_t i = 0; i < n; i++)
        to[i * slots] = from[i * slots];
}

static void copy_words(const uint32_t *from, uint32_t *to, uint32_t n, uint32_t slots)
{
    for (size_t i = 0; i < n; i++)
        to[i * slots] = from[i * slots];
}

static void copy_key(const roco_kv_layout *l, unsigned char *from, uint32_t from_slot, unsigned char *to,
                     uint32_t to_slot)
{
    if (l->type == ROCO_KV_F16)
        copy_halves((uint16_t *)(void *)from + from_slot, (uint16_t *)(void *)to + to_slot, l->key_dim, l->slots);
    else if (l->type == ROCO_KV_F32)
        copy_words((uint32_t *)(void *)from + from_slot, (uint32_t *)(void *)to + to_slot, l->key_dim, l->slots);
    else if (l->type == ROCO_KV_Q8)
        copy_bytes(from + from_slot, to + to_slot, l->key_dim, l->slots);
    else
        copy_bytes(from + from_slot, to + to_slot, (l->key_dim + 1) / 2, l->slots);
}

/* Numbers of a block: the scale, and at q4 the least. */
static void copy_numbers(const roco_kv_layout *l, unsigned char *from, uint32_t from_slot, unsigned char *to,
                         uint32_t to_slot)
{
    const uint32_t arrays = l->type == ROCO_KV_Q4 ? 2 : 1;
    const uint32_t key_blocks = roco_kv_blocks(l->key_dim), value_blocks = roco_kv_blocks(l->value_dim);
    const uint16_t *source = roco_kv_value_scales(l, from);
    uint16_t *target = roco_kv_value_scales(l, to);
    copy_halves(roco_kv_key_scales(l, from) + from_slot, roco_kv_key_scales(l, to) + to_slot, arrays * key_blocks,
                l->slots);
    for (uint32_t i = 0; i < arrays; i++, source += l->slots * value_blocks, target += l->slots * value_blocks)
        memcpy(target + to_slot * value_blocks, source + from_slot * value_blocks, value_blocks * sizeof *target);
}

void roco_slot_copy(const roco_kv_layout *layout, unsigned char *from, uint32_t from_slot, unsigned char *to,
                    uint32_t to_slot)
{
    const roco_kv_layout *l = layout;
    const size_t value_bytes = roco_kv_value_bytes(l);
    copy_key(l, from, from_slot, to, to_slot);
    if (roco_kv_type_is_quantized(l->type))
        copy_numbers(l, from, from_slot, to, to_slot);
    memcpy((unsigned char *)roco_kv_values(l, to) + to_slot * value_bytes,
           (unsigned char *)roco_kv_values(l, from) + from_slot * value_bytes, value_bytes);
    roco_kv_positions(l, to)[to_slot] = roco_kv_positions(l, from)[from_slot];
    roco_kv_sums(l, to)[to_slot] = roco_kv_sums(l, from)[from_slot];
    roco_kv_sums_sq(l, to)[to_slot] = roco_kv_sums_sq(l, from)[from_slot];
}
