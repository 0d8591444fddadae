/* The registry of model families, and opening and closing a model of any of them. The engine's thread. */
#include "engine/model_parts.h"

#include "config/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row a family. */
#define FAMILIES(ROW)                                                                                                  \
    ROW(llama) ROW(qwen2) ROW(qwen3) ROW(gemma) ROW(gemma2) ROW(gemma3) ROW(phi3) ROW(granite) ROW(olmo2)

#define DECLARE(name) extern const roco_model_family roco_model_##name;
FAMILIES(DECLARE)

#define ROW(name) &roco_model_##name,
static const roco_model_family *const families[] = {FAMILIES(ROW)};
#define N_FAMILIES (sizeof families / sizeof families[0])

roco_status roco_model_family_find(const roco_source *source, const roco_model_family **out, roco_error *error)
{
    roco_text name;
    roco_status status = roco_source_string(source, "general.architecture", &name, error);
    if (status == ROCO_NOT_FOUND)
        return roco_fail(error, ROCO_FORMAT, "general.architecture",
                         "the file does not say its architecture (key general.architecture is missing)");
    if (status)
        return status;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const char *known = families[i]->architecture;
        if (name.size == strlen(known) && !memcmp(name.data, known, name.size)) {
            *out = families[i];
            return ROCO_OK;
        }
    }
    char supported[256] = "";
    char found[48] = "";
    for (size_t i = 0; i < N_FAMILIES; i++)
        snprintf(supported + strlen(supported), sizeof supported - strlen(supported), "%s%s", i ? ", " : "",
                 families[i]->architecture);
    for (size_t i = 0; i < name.size && i + 1 < sizeof found; i++)
        found[i] = (name.data[i] > ' ' && name.data[i] < 127) ? name.data[i] : '?';
    return roco_fail(error, ROCO_UNSUPPORTED, "general.architecture",
                     "architecture \"%s\" is not supported; supported: %s", found, supported);
}

bool roco_model_is_quantized(const roco_source *source)
{
    for (uint64_t i = 0; i < roco_source_n_tensors(source); i++)
        if (roco_type_is_quantized(roco_source_tensor_at(source, i)->type))
            return true;
    return false;
}

/* A bias left out would change every answer: refused. Other unknown tensors are named once. */
static void check_leftovers(roco_loader *l)
{
    uint64_t n_tensors = roco_source_n_tensors(l->source), n_biases = 0;
    for (uint64_t i = 0; i < n_tensors; i++) {
        roco_text name = roco_source_tensor_at(l->source, i)->name;
        n_biases += name.size > 5 && !memcmp(name.data + name.size - 5, ".bias", 5);
    }
    if (n_biases > l->n_biases)
        l->status =
            roco_fail(l->error, ROCO_UNSUPPORTED, "tensor",
                      "the file has %llu bias tensors, of which the %s family uses %llu here",
                      (unsigned long long)n_biases, l->model->family->architecture, (unsigned long long)l->n_biases);
    else if (n_tensors > l->n_used)
        roco_log(ROCO_LOG_WARN, "the model file has %llu tensors that are not used",
                 (unsigned long long)(n_tensors - l->n_used));
}

static roco_status load(roco_model *model, const roco_source *source, roco_backend *backend, roco_error *error)
{
    const roco_shape *s = &model->shape;
    roco_loader loader = {.model = model, .source = source, .backend = backend, .error = error};
    roco_load_named_matrix(&loader, "token_embd.weight", s->n_vocab, s->width, &model->embedding);
    if (roco_loader_has(&loader, "output.weight"))
        roco_load_named_matrix(&loader, "output.weight", s->n_vocab, s->width, &model->head);
    else
        model->head = model->embedding;
    roco_load_named_vector(&loader, "output_norm.weight", s->width, &model->final_norm);
    roco_load_ropes(&loader);
    for (uint32_t l = 0; l < s->n_layers && !loader.status; l++)
        model->family->load_layer(&loader, l, &model->layers[l]);
    if (!loader.status)
        check_leftovers(&loader);
    return loader.status;
}

roco_status roco_model_open(const roco_model_family *family, const roco_shape *shape, const roco_source *source,
                            roco_backend *backend, roco_model *model, roco_error *error)
{
    *model = (roco_model){.family = family, .shape = *shape};
    model->layers = calloc(shape->n_layers, sizeof *model->layers);
    model->rope_frequencies = calloc((size_t)shape->n_ropes * (shape->rope_dim / 2), sizeof *model->rope_frequencies);
    roco_status status = ROCO_NO_MEMORY;
    if (model->layers && model->rope_frequencies)
        status = load(model, source, backend, error);
    else
        roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the model's tables");
    if (status)
        roco_model_close(model, backend);
    return status;
}

static void close_layer(roco_layer *layer, roco_backend *backend)
{
    roco_weight *weights[] = {layer->q, layer->k, layer->v, layer->output, layer->gate, layer->up, layer->down};
    float *vectors[] = {layer->attention_norm, layer->ffn_norm, layer->attention_post_norm,
                        layer->ffn_post_norm,  layer->q_bias,   layer->k_bias,
                        layer->v_bias,         layer->q_norm,   layer->k_norm};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (weights[i])
            backend->ops->weight_close(backend, weights[i]);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        backend->ops->memory_close(backend, vectors[i]);
}

void roco_model_close(roco_model *model, roco_backend *backend)
{
    const roco_backend_ops *ops = backend->ops;
    for (uint32_t l = 0; model->layers && l < model->shape.n_layers; l++)
        close_layer(&model->layers[l], backend);
    if (model->head && model->head != model->embedding)
        ops->weight_close(backend, model->head);
    if (model->embedding)
        ops->weight_close(backend, model->embedding);
    ops->memory_close(backend, model->final_norm);
    free(model->layers);
    free(model->rope_frequencies);
    *model = (roco_model){0};
}
