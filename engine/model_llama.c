/* The llama family: Llama, SmolLM2, Mistral without sliding window.
 *
 * Pre-norm decoder with RMS norms, grouped query heads, rotary positions over neighbouring pairs (GGUF files hold Q and
 * K permuted for that) and a gated SiLU feed-forward. Llama 3.1+ files bring `rope_freqs.weight`, a divisor for each
 * pair's frequency.
 */
#include "config/log.h"
#include "engine/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARCH        "llama."
#define MAX_CONTEXT (1u << 24)
#define MAX_WIDTH   (1u << 17)

/* A key that may be missing: *out keeps its default. */
static roco_status optional_uint(const roco_gguf *gguf, const char *key, uint32_t low, uint32_t high, uint32_t *out,
                                 roco_error *error)
{
    uint64_t value = *out;
    if (roco_gguf_has(gguf, key)) {
        roco_status status = roco_gguf_uint(gguf, key, low, high, &value, error);
        if (status)
            return status;
    }
    if (value < low || value > high)
        return roco_fail(error, ROCO_FORMAT, key, "%s would be %llu; allowed: %u..%u", key, (unsigned long long)value,
                         low, high);
    *out = (uint32_t)value;
    return ROCO_OK;
}

static roco_status required_uint(const roco_gguf *gguf, const char *key, uint32_t low, uint32_t high, uint32_t *out,
                                 roco_error *error)
{
    if (!roco_gguf_has(gguf, key))
        return roco_fail(error, ROCO_FORMAT, key, "key %s is missing", key);
    return optional_uint(gguf, key, low, high, out, error);
}

static roco_status read_sizes(const roco_gguf *gguf, roco_shape *s, roco_error *error)
{
    roco_status status;
    if ((status = required_uint(gguf, ARCH "block_count", 1, 1024, &s->n_layers, error)) ||
        (status = required_uint(gguf, ARCH "context_length", 1, MAX_CONTEXT, &s->n_context, error)) ||
        (status = required_uint(gguf, ARCH "embedding_length", 1, MAX_WIDTH, &s->width, error)) ||
        (status = required_uint(gguf, ARCH "feed_forward_length", 1, 4 * MAX_WIDTH, &s->ffn_width, error)) ||
        (status = required_uint(gguf, ARCH "attention.head_count", 1, 4096, &s->n_heads, error)))
        return status;
    s->n_kv_heads = s->n_heads;
    if ((status = optional_uint(gguf, ARCH "attention.head_count_kv", 1, s->n_heads, &s->n_kv_heads, error)))
        return status;
    if (s->n_heads % s->n_kv_heads)
        return roco_fail(error, ROCO_FORMAT, ARCH "attention.head_count_kv",
                         "%u query heads cannot share %u KV heads evenly", s->n_heads, s->n_kv_heads);
    s->key_dim = s->value_dim = s->width / s->n_heads;
    if ((status = optional_uint(gguf, ARCH "attention.key_length", 2, 1024, &s->key_dim, error)) ||
        (status = optional_uint(gguf, ARCH "attention.value_length", 1, 1024, &s->value_dim, error)))
        return status;
    s->rope_dim = s->key_dim;
    if ((status = optional_uint(gguf, ARCH "rope.dimension_count", 2, s->key_dim, &s->rope_dim, error)))
        return status;
    if (s->rope_dim % 2 || s->key_dim % 2)
        return roco_fail(error, ROCO_FORMAT, ARCH "rope.dimension_count", "an odd number of components (%u) of %u",
                         s->rope_dim, s->key_dim);
    const roco_gguf_tensor *embedding = roco_gguf_tensor_find(gguf, "token_embd.weight");
    if (!embedding)
        return roco_fail(error, ROCO_FORMAT, "token_embd.weight", "tensor token_embd.weight is missing");
    if (embedding->dims[1] < 1 || embedding->dims[1] > (1u << 24))
        return roco_fail(error, ROCO_FORMAT, "token_embd.weight",
                         "tensor token_embd.weight has %llu rows; a vocabulary has 1..%u",
                         (unsigned long long)embedding->dims[1], 1u << 24);
    s->n_vocab = (uint32_t)embedding->dims[1];
    return ROCO_OK;
}

static roco_status read_rope(const roco_gguf *gguf, roco_shape *s, roco_error *error)
{
    s->rope_base = 10000.0;
    s->rope_scale = 1.0;
    roco_status status;
    if (roco_gguf_has(gguf, ARCH "rope.freq_base") &&
        (status = roco_gguf_float(gguf, ARCH "rope.freq_base", &s->rope_base, error)))
        return status;
    if (!(s->rope_base >= 1.0 && s->rope_base <= 1e12))
        return roco_fail(error, ROCO_FORMAT, ARCH "rope.freq_base", "%g is outside 1..1e12", s->rope_base);
    if (!roco_gguf_has(gguf, ARCH "rope.scaling.type"))
        return ROCO_OK;
    roco_text type;
    if ((status = roco_gguf_string(gguf, ARCH "rope.scaling.type", &type, error)))
        return status;
    if (type.size == 4 && !memcmp(type.data, "none", 4))
        return ROCO_OK;
    if (type.size != 6 || memcmp(type.data, "linear", 6))
        return roco_fail(error, ROCO_UNSUPPORTED, ARCH "rope.scaling.type",
                         "only rope scaling \"none\" and \"linear\" are supported");
    double factor = 1.0;
    if (roco_gguf_has(gguf, ARCH "rope.scaling.factor") &&
        (status = roco_gguf_float(gguf, ARCH "rope.scaling.factor", &factor, error)))
        return status;
    if (!(factor >= 1.0 && factor <= 1e6))
        return roco_fail(error, ROCO_FORMAT, ARCH "rope.scaling.factor", "%g is outside 1..1e6", factor);
    s->rope_scale = 1.0 / factor;
    return ROCO_OK;
}

/* What would change every answer and is not computed here must not be ignored. */
static roco_status refuse_variants(const roco_gguf *gguf, const roco_shape *s, roco_error *error)
{
    uint64_t n = 0;
    if (roco_gguf_has(gguf, ARCH "expert_count")) {
        roco_status status = roco_gguf_uint(gguf, ARCH "expert_count", 0, UINT32_MAX, &n, error);
        if (status)
            return status;
        if (n > 0)
            return roco_fail(error, ROCO_UNSUPPORTED, ARCH "expert_count", "mixtures of experts are not supported");
    }
    if (roco_gguf_has(gguf, ARCH "attention.sliding_window")) {
        roco_status status = roco_gguf_uint(gguf, ARCH "attention.sliding_window", 0, UINT32_MAX, &n, error);
        if (status)
            return status;
        if (n > 0 && n < s->n_context)
            return roco_fail(error, ROCO_UNSUPPORTED, ARCH "attention.sliding_window",
                             "a sliding window (%llu of %u tokens) is not supported", (unsigned long long)n,
                             s->n_context);
    }
    return ROCO_OK;
}

static roco_status read_shape(const roco_gguf *gguf, roco_shape *s, roco_error *error)
{
    *s = (roco_shape){0};
    double eps = 0;
    roco_status status;
    if ((status = read_sizes(gguf, s, error)) || (status = read_rope(gguf, s, error)) ||
        (status = refuse_variants(gguf, s, error)))
        return status;
    if ((status = roco_gguf_float(gguf, ARCH "attention.layer_norm_rms_epsilon", &eps, error)))
        return status == ROCO_NOT_FOUND ? roco_fail(error, ROCO_FORMAT, ARCH "attention.layer_norm_rms_epsilon",
                                                    "key %sattention.layer_norm_rms_epsilon is missing", ARCH)
                                        : status;
    if (!(eps > 0 && eps < 1))
        return roco_fail(error, ROCO_FORMAT, ARCH "attention.layer_norm_rms_epsilon", "%g is outside 0..1", eps);
    s->norm_eps = (float)eps;
    return ROCO_OK;
}

static roco_status load_rope(roco_model *model, const roco_gguf *gguf, roco_error *error)
{
    const roco_shape *s = &model->shape;
    for (uint32_t i = 0; i < s->rope_dim / 2; i++)
        model->rope_frequencies[i] = s->rope_scale / pow(s->rope_base, 2.0 * i / s->rope_dim);
    if (!roco_gguf_tensor_find(gguf, "rope_freqs.weight"))
        return ROCO_OK;
    float *factors = NULL;
    roco_status status = roco_model_host_vector(gguf, "rope_freqs.weight", s->rope_dim / 2, &factors, error);
    for (uint32_t i = 0; !status && i < s->rope_dim / 2; i++) {
        if (!(factors[i] > 0 && factors[i] < 1e9f))
            status = roco_fail(error, ROCO_FORMAT, "rope_freqs.weight", "value %u (%g) is not a positive divisor", i,
                               (double)factors[i]);
        model->rope_frequencies[i] /= factors[i];
    }
    free(factors);
    return status;
}

static roco_status load_layer(roco_model *model, uint32_t number, const roco_gguf *gguf, roco_backend *backend,
                              roco_error *error)
{
    const roco_shape *s = &model->shape;
    roco_layer *layer = &model->layers[number];
    const struct {
        const char *name;
        uint64_t rows, cols;
        roco_weight **out;
    } matrices[] = {
        {"attn_q", (uint64_t)s->n_heads * s->key_dim, s->width, &layer->q},
        {"attn_k", (uint64_t)s->n_kv_heads * s->key_dim, s->width, &layer->k},
        {"attn_v", (uint64_t)s->n_kv_heads * s->value_dim, s->width, &layer->v},
        {"attn_output", s->width, (uint64_t)s->n_heads * s->value_dim, &layer->output},
        {"ffn_gate", s->ffn_width, s->width, &layer->gate},
        {"ffn_up", s->ffn_width, s->width, &layer->up},
        {"ffn_down", s->width, s->ffn_width, &layer->down},
    };
    char name[64];
    roco_status status = ROCO_OK;
    for (size_t i = 0; !status && i < sizeof matrices / sizeof matrices[0]; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", number, matrices[i].name);
        status = roco_model_matrix(gguf, backend, name, matrices[i].rows, matrices[i].cols, matrices[i].out, error);
    }
    if (!status) {
        snprintf(name, sizeof name, "blk.%u.attn_norm.weight", number);
        status = roco_model_vector(gguf, backend, name, s->width, &layer->attention_norm, error);
    }
    if (!status) {
        snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", number);
        status = roco_model_vector(gguf, backend, name, s->width, &layer->ffn_norm, error);
    }
    return status;
}

/* A bias would change every answer: refused. Other unknown tensors are named once. */
static roco_status check_leftovers(const roco_gguf *gguf, uint64_t n_used, roco_error *error)
{
    for (uint64_t i = 0; i < roco_gguf_n_tensors(gguf); i++) {
        roco_text name = roco_gguf_tensor_at(gguf, i)->name;
        if (name.size > 5 && !memcmp(name.data + name.size - 5, ".bias", 5))
            return roco_fail(error, ROCO_UNSUPPORTED, "tensor",
                             "the file has bias tensors (number %llu), which the "
                             "llama family does not use here",
                             (unsigned long long)i);
    }
    if (roco_gguf_n_tensors(gguf) > n_used)
        roco_log(ROCO_LOG_WARN, "the model file has %llu tensors that are not used",
                 (unsigned long long)(roco_gguf_n_tensors(gguf) - n_used));
    return ROCO_OK;
}

static roco_status load(roco_model *model, const roco_gguf *gguf, roco_backend *backend, roco_error *error)
{
    const roco_shape *s = &model->shape;
    roco_status status;
    uint64_t n_used = 2 + 9ull * s->n_layers;
    if ((status =
             roco_model_matrix(gguf, backend, "token_embd.weight", s->n_vocab, s->width, &model->embedding, error)))
        return status;
    model->head = model->embedding;
    if (roco_gguf_tensor_find(gguf, "output.weight")) {
        model->head = NULL;
        n_used++;
        if ((status = roco_model_matrix(gguf, backend, "output.weight", s->n_vocab, s->width, &model->head, error)))
            return status;
    }
    if ((status = roco_model_vector(gguf, backend, "output_norm.weight", s->width, &model->final_norm, error)) ||
        (status = load_rope(model, gguf, error)))
        return status;
    n_used += roco_gguf_tensor_find(gguf, "rope_freqs.weight") != NULL;
    for (uint32_t l = 0; l < s->n_layers; l++)
        if ((status = load_layer(model, l, gguf, backend, error)))
            return status;
    return check_leftovers(gguf, n_used, error);
}

const roco_model_family roco_model_llama = {.architecture = "llama", .read_shape = read_shape, .load = load};
