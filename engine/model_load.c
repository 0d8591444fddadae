/* Taking tensors in: what all families share. The engine's thread, while a model opens. */
#include "engine/model_parts.h"

#include <stdio.h>
#include <stdlib.h>

static const roco_source_tensor *find(roco_loader *l, const char *name, uint64_t rows, uint64_t cols)
{
    if (l->status)
        return NULL;
    const roco_source_tensor *t = roco_source_tensor_find(l->source, name);
    if (!t) {
        l->status = roco_fail(l->error, ROCO_FORMAT, name, "tensor %s is missing", name);
        return NULL;
    }
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1) {
        l->status =
            roco_fail(l->error, ROCO_FORMAT, name,
                      "tensor %s is [%llu x %llu x %llu x %llu] where the file's keys ask for [%llu x %llu]", name,
                      (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
                      (unsigned long long)t->dims[3], (unsigned long long)cols, (unsigned long long)rows);
        return NULL;
    }
    return t;
}

bool roco_loader_has(roco_loader *l, const char *name)
{
    return roco_source_tensor_find(l->source, name) != NULL;
}

static void open_rows(roco_loader *l, const char *name, uint64_t total, uint64_t first, uint64_t rows, uint64_t cols,
                      roco_weight **out)
{
    const roco_source_tensor *t = find(l, name, total, cols);
    if (!t)
        return;
    roco_tensor_view view = {.name = name,
                             .type = t->type,
                             .n_rows = (uint32_t)rows,
                             .n_cols = (uint32_t)cols,
                             .data = (const char *)t->data + t->bytes / total * first};
    l->status = l->backend->ops->weight_open(l->backend, &view, out, l->error);
    l->n_used += first == 0;
}

void roco_load_rows(roco_loader *l, uint32_t layer, const char *part, uint64_t total, uint64_t first, uint64_t rows,
                    uint64_t cols, roco_weight **out)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, part);
    open_rows(l, name, total, first, rows, cols, out);
}

void roco_load_matrix(roco_loader *l, uint32_t layer, const char *part, uint64_t rows, uint64_t cols, roco_weight **out)
{
    roco_load_rows(l, layer, part, rows, 0, rows, cols, out);
}

void roco_load_named_matrix(roco_loader *l, const char *name, uint64_t rows, uint64_t cols, roco_weight **out)
{
    open_rows(l, name, rows, 0, rows, cols, out);
}

void roco_load_host_vector(roco_loader *l, const char *name, uint64_t size, float **out)
{
    const roco_source_tensor *t = find(l, name, 1, size);
    float *values = t ? malloc(size * sizeof *values) : NULL;
    if (!t)
        return;
    if (!values) {
        l->status = roco_fail(l->error, ROCO_NO_MEMORY, name, "out of memory for tensor %s", name);
        return;
    }
    roco_type_find(t->type)->dequantize(t->data, values, size);
    *out = values;
    l->n_used++;
}

void roco_load_named_vector(roco_loader *l, const char *name, uint64_t size, float **out)
{
    float *values = NULL;
    roco_load_host_vector(l, name, size, &values);
    if (l->status)
        return;
    *out = l->backend->ops->memory_open(l->backend, size * sizeof *values);
    if (*out)
        l->backend->ops->upload(l->backend, *out, values, size * sizeof *values);
    else
        l->status = roco_fail(l->error, ROCO_NO_MEMORY, name, "out of device memory for tensor %s", name);
    free(values);
}

void roco_load_vector(roco_loader *l, uint32_t layer, const char *part, uint64_t size, float **out)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, part);
    roco_load_named_vector(l, name, size, out);
}

/* --- parts of a layer --- */

void roco_load_attention(roco_loader *l, uint32_t number, roco_layer *layer)
{
    const roco_shape *s = &l->model->shape;
    roco_load_matrix(l, number, "attn_q.weight", (uint64_t)s->n_heads * s->key_dim, s->width, &layer->q);
    roco_load_matrix(l, number, "attn_k.weight", (uint64_t)s->n_kv_heads * s->key_dim, s->width, &layer->k);
    roco_load_matrix(l, number, "attn_v.weight", (uint64_t)s->n_kv_heads * s->value_dim, s->width, &layer->v);
    roco_load_matrix(l, number, "attn_output.weight", s->width, (uint64_t)s->n_heads * s->value_dim, &layer->output);
}

void roco_load_qkv_biases(roco_loader *l, uint32_t number, roco_layer *layer)
{
    const roco_shape *s = &l->model->shape;
    roco_load_vector(l, number, "attn_q.bias", (uint64_t)s->n_heads * s->key_dim, &layer->q_bias);
    roco_load_vector(l, number, "attn_k.bias", (uint64_t)s->n_kv_heads * s->key_dim, &layer->k_bias);
    roco_load_vector(l, number, "attn_v.bias", (uint64_t)s->n_kv_heads * s->value_dim, &layer->v_bias);
    l->n_biases += 3;
}

void roco_load_feed_forward(roco_loader *l, uint32_t number, roco_layer *layer)
{
    const roco_shape *s = &l->model->shape;
    roco_load_matrix(l, number, "ffn_gate.weight", s->ffn_width, s->width, &layer->gate);
    roco_load_matrix(l, number, "ffn_up.weight", s->ffn_width, s->width, &layer->up);
    roco_load_matrix(l, number, "ffn_down.weight", s->width, s->ffn_width, &layer->down);
}

void roco_load_norms(roco_loader *l, uint32_t number, roco_layer *layer)
{
    roco_load_vector(l, number, "attn_norm.weight", l->model->shape.width, &layer->attention_norm);
    roco_load_vector(l, number, "ffn_norm.weight", l->model->shape.width, &layer->ffn_norm);
}

void roco_load_qk_norms(roco_loader *l, uint32_t number, roco_layer *layer)
{
    const roco_shape *s = &l->model->shape;
    uint64_t q_heads = s->norms_whole_qk ? s->n_heads : 1, k_heads = s->norms_whole_qk ? s->n_kv_heads : 1;
    roco_load_vector(l, number, "attn_q_norm.weight", q_heads * s->key_dim, &layer->q_norm);
    roco_load_vector(l, number, "attn_k_norm.weight", k_heads * s->key_dim, &layer->k_norm);
}

void roco_load_post_norms(roco_loader *l, uint32_t number, roco_layer *layer)
{
    roco_load_vector(l, number, "post_attention_norm.weight", l->model->shape.width, &layer->attention_post_norm);
    roco_load_vector(l, number, "post_ffw_norm.weight", l->model->shape.width, &layer->ffn_post_norm);
}
