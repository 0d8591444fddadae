/* The gemma family: Gemma 1. Llama's layers with a GELU gate, embeddings scaled by the root of the width and rotary
 * pairs half a head apart. Source: arXiv 2403.08295, section 2. Files hold norm gains with their 1 added.
 */
#include "engine/model_parts.h"

#include <math.h>

void roco_keys_gemma(roco_keys *keys, roco_shape *shape, uint32_t layers_27b)
{
    shape->rope_halves = shape->gelu = true;
    shape->embedding_scale = sqrtf((float)shape->width);
    if (!keys->status && layers_27b && shape->n_layers == layers_27b && !roco_keys_has(keys, "attention.scale"))
        shape->attention_scale = 1.0f / sqrtf((float)shape->width / (float)shape->n_heads);
}

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "gemma", .error = error};
    roco_keys_shape(&keys, shape);
    roco_keys_gemma(&keys, shape, 0);
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
}

const roco_model_family roco_model_gemma = {
    .architecture = "gemma", .read_shape = read_shape, .load_layer = load_layer};
