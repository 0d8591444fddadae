/* The olmo2 family: OLMo 2. No norms before the blocks; RMS norms on what they add, and on queries and keys over all
 * heads together; rotary pairs half a head apart. Source: arXiv 2501.00656, section 3.1.
 */
#include "engine/model_parts.h"

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "olmo2", .error = error};
    roco_keys_shape(&keys, shape);
    shape->rope_halves = true;
    shape->norms_whole_qk = true;
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_qk_norms(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_post_norms(loader, number, layer);
}

const roco_model_family roco_model_olmo2 = {
    .architecture = "olmo2", .read_shape = read_shape, .load_layer = load_layer};
