/* What all model families share: the registry, taking tensors in, closing. */
#include "engine/model.h"

#include "config/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const roco_model_family *const families[] = {&roco_model_llama};
#define N_FAMILIES (sizeof families / sizeof families[0])

roco_status roco_model_family_find(const roco_gguf *gguf, const roco_model_family **out, roco_error *error)
{
    roco_text name;
    roco_status status = roco_gguf_string(gguf, "general.architecture", &name, error);
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

bool roco_model_is_quantized(const roco_gguf *gguf)
{
    for (uint64_t i = 0; i < roco_gguf_n_tensors(gguf); i++)
        if (roco_type_is_quantized(roco_gguf_tensor_at(gguf, i)->type))
            return true;
    return false;
}

static roco_status find_tensor(const roco_gguf *gguf, const char *name, uint64_t rows, uint64_t cols,
                               const roco_gguf_tensor **out, roco_error *error)
{
    const roco_gguf_tensor *t = roco_gguf_tensor_find(gguf, name);
    if (!t)
        return roco_fail(error, ROCO_FORMAT, name, "tensor %s is missing", name);
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1)
        return roco_fail(error, ROCO_FORMAT, name,
                         "tensor %s is [%llu x %llu x %llu x %llu] where the file's keys ask for [%llu x %llu]", name,
                         (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
                         (unsigned long long)t->dims[3], (unsigned long long)cols, (unsigned long long)rows);
    *out = t;
    return ROCO_OK;
}

roco_status roco_model_matrix(const roco_gguf *gguf, roco_backend *backend, const char *name, uint64_t rows,
                              uint64_t cols, roco_weight **out, roco_error *error)
{
    const roco_gguf_tensor *t = NULL;
    roco_status status = find_tensor(gguf, name, rows, cols, &t, error);
    if (status)
        return status;
    roco_tensor_view view = {
        .name = name, .type = t->type, .n_rows = (uint32_t)rows, .n_cols = (uint32_t)cols, .data = t->data};
    return backend->ops->weight_open(backend, &view, out, error);
}

roco_status roco_model_host_vector(const roco_gguf *gguf, const char *name, uint32_t size, float **out,
                                   roco_error *error)
{
    const roco_gguf_tensor *t = NULL;
    roco_status status = find_tensor(gguf, name, 1, size, &t, error);
    if (status)
        return status;
    float *values = malloc(size * sizeof *values);
    if (!values)
        return roco_fail(error, ROCO_NO_MEMORY, name, "out of memory for tensor %s", name);
    roco_type_find(t->type)->dequantize(t->data, values, size);
    *out = values;
    return ROCO_OK;
}

roco_status roco_model_vector(const roco_gguf *gguf, roco_backend *backend, const char *name, uint32_t size,
                              float **out, roco_error *error)
{
    float *values = NULL;
    roco_status status = roco_model_host_vector(gguf, name, size, &values, error);
    if (status)
        return status;
    *out = backend->ops->memory_open(backend, size * sizeof *values);
    if (*out)
        backend->ops->upload(backend, *out, values, size * sizeof *values);
    free(values);
    return *out ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, name, "out of device memory for tensor %s", name);
}

roco_status roco_model_open(const roco_model_family *family, const roco_shape *shape, const roco_gguf *gguf,
                            roco_backend *backend, roco_model *model, roco_error *error)
{
    *model = (roco_model){.family = family, .shape = *shape};
    model->layers = calloc(shape->n_layers, sizeof *model->layers);
    model->rope_frequencies = calloc(shape->rope_dim / 2, sizeof *model->rope_frequencies);
    roco_status status = ROCO_NO_MEMORY;
    if (model->layers && model->rope_frequencies)
        status = family->load(model, gguf, backend, error);
    else
        roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the model's tables");
    if (status)
        roco_model_close(model, backend);
    return status;
}

void roco_model_close(roco_model *model, roco_backend *backend)
{
    const roco_backend_ops *ops = backend->ops;
    for (uint32_t l = 0; model->layers && l < model->shape.n_layers; l++) {
        roco_layer *layer = &model->layers[l];
        roco_weight *weights[] = {layer->q, layer->k, layer->v, layer->output, layer->gate, layer->up, layer->down};
        for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
            if (weights[i])
                ops->weight_close(backend, weights[i]);
        ops->memory_close(backend, layer->attention_norm);
        ops->memory_close(backend, layer->ffn_norm);
    }
    if (model->head && model->head != model->embedding)
        ops->weight_close(backend, model->head);
    if (model->embedding)
        ops->weight_close(backend, model->embedding);
    ops->memory_close(backend, model->final_norm);
    free(model->layers);
    free(model->rope_frequencies);
    *model = (roco_model){0};
}
