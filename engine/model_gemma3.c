/* The gemma3 family, text. Gemma 2's layers with an RMS norm on each head's queries and keys in place of soft-capped
 * scores; of six layers five have a sliding window and a rotary base of their own. Source: arXiv 2503.19786, section 2.
 *
 * Files hold norm gains with their 1 added. Linear RoPE scaling is for the global layers alone.
 */
#include "engine/model_parts.h"

#define LAYERS_27B 62u

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "gemma3", .error = error};
    roco_keys_shape(&keys, shape);
    double logit_cap = 0, local_base = 10000;
    shape->global_period = 6;
    roco_keys_uint(&keys, "attention.sliding_window_pattern", 1, UINT32_MAX, &shape->global_period);
    roco_keys_float(&keys, "rope.freq_base_swa", 1, 1e12, &local_base);
    roco_keys_float(&keys, "final_logit_softcapping", 0, 1e6, &logit_cap);
    shape->logit_softcap = (float)logit_cap;
    shape->ropes[1] = (roco_rope){.base = local_base, .scale = 1, .magnitude = 1};
    shape->n_ropes = 2;
    roco_keys_gemma(&keys, shape, LAYERS_27B);
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_qk_norms(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
    roco_load_post_norms(loader, number, layer);
}

const roco_model_family roco_model_gemma3 = {
    .architecture = "gemma3", .read_shape = read_shape, .load_layer = load_layer};
