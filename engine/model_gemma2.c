/* The gemma2 family. Norms before and after each block, a GELU gate, embeddings scaled by the root of the width, every
 * second layer with a sliding window, attention scores and logits soft-capped. Source: arXiv 2408.00118, section 2.
 *
 * Files hold norm gains with their 1 added.
 */
#include "engine/model_parts.h"

#define LAYERS_27B 46u

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "gemma2", .error = error};
    roco_keys_shape(&keys, shape);
    double attention_cap = 50, logit_cap = 30;
    shape->window = 4096;
    roco_keys_uint(&keys, "attention.sliding_window", 1, UINT32_MAX, &shape->window);
    roco_keys_float(&keys, "attn_logit_softcapping", 0, 1e6, &attention_cap);
    roco_keys_float(&keys, "final_logit_softcapping", 0, 1e6, &logit_cap);
    shape->attention_softcap = (float)attention_cap;
    shape->logit_softcap = (float)logit_cap;
    shape->global_period = 2;
    roco_keys_uint(&keys, "attention.sliding_window_pattern", 1, UINT32_MAX, &shape->global_period);
    roco_keys_gemma(&keys, shape, LAYERS_27B);
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
    roco_load_post_norms(loader, number, layer);
}

const roco_model_family roco_model_gemma2 = {
    .architecture = "gemma2", .read_shape = read_shape, .load_layer = load_layer};
