/* The granite family: Granite 3, dense. Llama's layers with four factors: on the embeddings, on attention scores in
 * place of the root of the head's size, on what each block adds, and a divisor of the logits.
 * Source: the Granite 3.0 report (IBM, 2024), section 3, and the names of the file's keys.
 */
#include "engine/model_parts.h"

static roco_status read_shape(const roco_source *source, roco_shape *shape, roco_error *error)
{
    roco_keys keys = {.source = source, .architecture = "granite", .error = error};
    roco_keys_shape(&keys, shape);
    double embedding = 1, residual = 1, logits = 1;
    roco_keys_float(&keys, "embedding_scale", 1e-6, 1e6, &embedding);
    roco_keys_float(&keys, "residual_scale", 1e-6, 1e6, &residual);
    roco_keys_float(&keys, "logit_scale", 1e-6, 1e6, &logits);
    shape->embedding_scale = (float)embedding;
    shape->residual_scale = (float)residual;
    shape->logit_scale = (float)(1 / logits);
    return keys.status;
}

static void load_layer(roco_loader *loader, uint32_t number, roco_layer *layer)
{
    roco_load_attention(loader, number, layer);
    roco_load_feed_forward(loader, number, layer);
    roco_load_norms(loader, number, layer);
}

const roco_model_family roco_model_granite = {
    .architecture = "granite", .read_shape = read_shape, .load_layer = load_layer};
