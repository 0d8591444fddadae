/* Tokens into and between pages. Compute threads; the page belongs to the head being worked on, so to one thread.
 *
 * A key is a column of its page (one component per line), a value a row.
 */
#include "kernels/cpu/attention.h"

#include <string.h>

void roco_slot_put(const roco_attention_job *job, uint32_t chunk_row, unsigned char *page, uint32_t slot)
{
    const roco_attention *args = job->args;
    const roco_kv_layout *l = &args->layout;
    size_t row = (size_t)job->chunk->row + chunk_row;
    const float *k = args->k + (row * args->n_kv_heads + job->kv_head) * l->key_dim;
    const float *v = args->v + (row * args->n_kv_heads + job->kv_head) * l->value_dim;
    if (l->type == ROCO_KV_F16) {
        uint16_t *keys = (uint16_t *)(void *)page, *half = job->worker->half;
        job->scratch->kernels->to_f16(k, half, l->key_dim);
        for (uint32_t d = 0; d < l->key_dim; d++)
            keys[d * l->slots + slot] = half[d];
        job->scratch->kernels->to_f16(v, (uint16_t *)roco_kv_values(l, page) + slot * l->value_dim, l->value_dim);
    } else {
        float *keys = (float *)(void *)page;
        for (uint32_t d = 0; d < l->key_dim; d++)
            keys[d * l->slots + slot] = k[d];
        memcpy((float *)roco_kv_values(l, page) + slot * l->value_dim, v, l->value_dim * sizeof *v);
    }
    roco_kv_positions(l, page)[slot] = job->chunk->position + (int32_t)chunk_row;
    roco_kv_sums(l, page)[slot] = 0;
    roco_kv_sums_sq(l, page)[slot] = 0;
}

void roco_slot_copy(const roco_kv_layout *layout, unsigned char *from, uint32_t from_slot, unsigned char *to,
                    uint32_t to_slot)
{
    const roco_kv_layout *l = layout;
    if (l->type == ROCO_KV_F16) {
        const uint16_t *source = (const uint16_t *)(void *)from;
        uint16_t *target = (uint16_t *)(void *)to;
        for (uint32_t d = 0; d < l->key_dim; d++)
            target[d * l->slots + to_slot] = source[d * l->slots + from_slot];
    } else {
        const float *source = (const float *)(void *)from;
        float *target = (float *)(void *)to;
        for (uint32_t d = 0; d < l->key_dim; d++)
            target[d * l->slots + to_slot] = source[d * l->slots + from_slot];
    }
    size_t value_bytes = (size_t)l->value_dim * roco_kv_type_bytes(l->type);
    memcpy((unsigned char *)roco_kv_values(l, to) + to_slot * value_bytes,
           (unsigned char *)roco_kv_values(l, from) + from_slot * value_bytes, value_bytes);
    roco_kv_positions(l, to)[to_slot] = roco_kv_positions(l, from)[from_slot];
    roco_kv_sums(l, to)[to_slot] = roco_kv_sums(l, from)[from_slot];
    roco_kv_sums_sq(l, to)[to_slot] = roco_kv_sums_sq(l, from)[from_slot];
}
