/* The phi3 family: Phi-3 and Phi-4, dense. Llama's layers with queries, keys and values in one matrix and gate and up
 * in another, rotary pairs half a head apart, and two sets of rotary factors for contexts beyond the first training's.
 * Source: arXiv 2404.14219, section 2.
 */
#include "engine/model_parts.h"

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "phi3", .error = error};
    roco_keys_shape(&keys, shape);
    shape->rope_halves = true;
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    const roco_shape *s = &loader->model->shape;
    uint64_t q = (uint64_t)s->n_heads * s->key_dim, k = (uint64_t)s->n_kv_heads * s->key_dim;
    uint64_t v = (uint64_t)s->n_kv_heads * s->value_dim, total = q + k + v, ffn = s->ffn_width;
    roco_load_rows(loader, number, "attn_qkv.weight", total, 0, q, s->width, &layer->q);
    roco_load_rows(loader, number, "attn_qkv.weight", total, q, k, s->width, &layer->k);
    roco_load_rows(loader, number, "attn_qkv.weight", total, q + k, v, s->width, &layer->v);
    roco_load_matrix(loader, number, "attn_output.weight", s->width, (uint64_t)s->n_heads * s->value_dim,
                     &layer->output);
    roco_load_rows(loader, number, "ffn_up.weight", 2 * ffn, 0, ffn, s->width, &layer->gate);
    roco_load_rows(loader, number, "ffn_up.weight", 2 * ffn, ffn, ffn, s->width, &layer->up);
    roco_load_matrix(loader, number, "ffn_down.weight", s->width, ffn, &layer->down);
    roco_load_norms(loader, number, layer);
}

const roco_model_family roco_model_phi3 = {.architecture = "phi3", .read_shape = read_shape, .load_layer = load_layer};
