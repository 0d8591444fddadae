/* The qwen2 family: Qwen 2 and 2.5. Llama's layers with biases on queries, keys and values, and rotary pairs half a
 * head apart. Source: arXiv 2407.10671, section 2.2.
 */
#include "engine/model_parts.h"

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "qwen2", .error = error};
    roco_keys_shape(&keys, shape);
    shape->rope_halves = true;
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_qkv_biases(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
}

const roco_model_family roco_model_qwen2 = {
    .architecture = "qwen2", .read_shape = read_shape, .load_layer = load_layer};
