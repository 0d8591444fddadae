/* The llama family: Llama, SmolLM2, Mistral.
 *
 * Pre-norm decoder with RMS norms, grouped query heads, rotary positions over neighbouring pairs (GGUF files hold Q and
 * K permuted for that) and a gated SiLU feed-forward. Llama 3.1+ files bring `rope_freqs.weight`, a divisor for each
 * pair's frequency; Mistral's first files a sliding window in all layers.
 */
#include "engine/model_parts.h"

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "llama", .error = error};
    roco_keys_shape(&keys, shape);
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
}

const roco_model_family roco_model_llama = {
    .architecture = "llama", .read_shape = read_shape, .load_layer = load_layer};
