/* The qwen3 family: Qwen 3, dense. Llama's layers with an RMS norm on each head's queries and keys before they are
 * rotated, and rotary pairs half a head apart. Source: arXiv 2505.09388, section 2.
 */
#include "engine/model_parts.h"

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "qwen3", .error = error};
    roco_keys_shape(&keys, shape);
    shape->rope_halves = true;
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_qk_norms(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
}

const roco_model_family roco_model_qwen3 = {
    .architecture = "qwen3", .read_shape = read_shape, .load_layer = load_layer};
