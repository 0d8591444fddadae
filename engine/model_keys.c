/* The shape of a model from its file's keys: what all families share. Any thread. */
#include "engine/model_parts.h"

#include <math.h>
#include <stdio.h>

#define MAX_WIDTH (1u << 17)
#define MAX_VOCAB (1u << 24)

const char *roco_keys_name(roco_keys *keys, const char *name)
{
    snprintf(keys->key, sizeof keys->key, "%s.%s", keys->architecture, name);
    return keys->key;
}

bool roco_keys_has(roco_keys *keys, const char *name)
{
    return roco_source_has(keys->source, roco_keys_name(keys, name));
}

void roco_keys_uint(roco_keys *keys, const char *name, uint32_t low, uint32_t high, uint32_t *out)
{
    if (keys->status)
        return;
    uint64_t value = *out;
    if (roco_keys_has(keys, name))
        keys->status = roco_source_uint(keys->source, keys->key, low, high, &value, keys->error);
    if (!keys->status && (value < low || value > high))
        keys->status = roco_fail(keys->error, ROCO_FORMAT, keys->key, "%s would be %llu; allowed: %u..%u", keys->key,
                                 (unsigned long long)value, low, high);
    *out = (uint32_t)value;
}

void roco_keys_float(roco_keys *keys, const char *name, double low, double high, double *out)
{
    if (keys->status || !roco_keys_has(keys, name))
        return;
    keys->status = roco_source_float(keys->source, keys->key, out, keys->error);
    if (!keys->status && !(*out >= low && *out <= high))
        keys->status =
            roco_fail(keys->error, ROCO_FORMAT, keys->key, "%s is %g, outside %g..%g", keys->key, *out, low, high);
}

void roco_keys_bool(roco_keys *keys, const char *name, bool *out)
{
    if (!keys->status && roco_keys_has(keys, name))
        keys->status = roco_source_bool(keys->source, keys->key, out, keys->error);
}

static void need(roco_keys *keys, const char *name)
{
    if (!keys->status && !roco_keys_has(keys, name))
        keys->status = roco_fail(keys->error, ROCO_FORMAT, keys->key, "key %s is missing", keys->key);
}

void roco_keys_need_uint(roco_keys *keys, const char *name, uint32_t low, uint32_t high, uint32_t *out)
{
    need(keys, name);
    roco_keys_uint(keys, name, low, high, out);
}

void roco_keys_need_float(roco_keys *keys, const char *name, double low, double high, double *out)
{
    need(keys, name);
    roco_keys_float(keys, name, low, high, out);
}

static void read_vocabulary(roco_keys *keys, roco_shape *s)
{
    static const char name[] = "token_embd.weight";
    if (keys->status)
        return;
    const roco_source_tensor *embedding = roco_source_tensor_find(keys->source, name);
    if (!embedding)
        keys->status = roco_fail(keys->error, ROCO_FORMAT, name, "tensor %s is missing", name);
    else if (embedding->dims[1] < 1 || embedding->dims[1] > MAX_VOCAB)
        keys->status = roco_fail(keys->error, ROCO_FORMAT, name, "tensor %s has %llu rows; a vocabulary has 1..%u",
                                 name, (unsigned long long)embedding->dims[1], MAX_VOCAB);
    else
        s->n_vocab = (uint32_t)embedding->dims[1];
}

static void read_heads(roco_keys *keys, roco_shape *s)
{
    s->n_kv_heads = s->n_heads;
    roco_keys_uint(keys, "attention.head_count_kv", 1, s->n_heads, &s->n_kv_heads);
    if (keys->status)
        return;
    if (s->n_heads % s->n_kv_heads) {
        keys->status = roco_fail(keys->error, ROCO_FORMAT, roco_keys_name(keys, "attention.head_count_kv"),
                                 "%u query heads cannot share %u KV heads evenly", s->n_heads, s->n_kv_heads);
        return;
    }
    s->key_dim = s->value_dim = s->width / s->n_heads;
    roco_keys_uint(keys, "attention.key_length", 2, 1024, &s->key_dim);
    roco_keys_uint(keys, "attention.value_length", 1, 1024, &s->value_dim);
    s->rope_dim = s->key_dim;
    roco_keys_uint(keys, "rope.dimension_count", 2, s->key_dim, &s->rope_dim);
    if (!keys->status && (s->rope_dim % 2 || s->key_dim % 2))
        keys->status = roco_fail(keys->error, ROCO_FORMAT, roco_keys_name(keys, "rope.dimension_count"),
                                 "an odd number of components (%u) of %u", s->rope_dim, s->key_dim);
}

/* A window that no sequence can fill is none. */
static void read_window(roco_keys *keys, roco_shape *s)
{
    uint32_t n_experts = 0;
    roco_keys_uint(keys, "expert_count", 0, UINT32_MAX, &n_experts);
    if (!keys->status && n_experts > 0)
        keys->status = roco_fail(keys->error, ROCO_UNSUPPORTED, roco_keys_name(keys, "expert_count"),
                                 "mixtures of experts are not supported");
    roco_keys_uint(keys, "attention.sliding_window", 0, UINT32_MAX, &s->window);
    if (s->window >= s->n_context)
        s->window = 0;
}

void roco_keys_shape(roco_keys *keys, roco_shape *s)
{
    *s = (roco_shape){.n_ropes = 1, .embedding_scale = 1, .residual_scale = 1, .logit_scale = 1};
    double eps = 0;
    roco_keys_need_uint(keys, "block_count", 1, 1024, &s->n_layers);
    roco_keys_need_uint(keys, "context_length", 1, ROCO_MAX_CONTEXT, &s->n_context);
    roco_keys_need_uint(keys, "embedding_length", 1, MAX_WIDTH, &s->width);
    roco_keys_need_uint(keys, "feed_forward_length", 1, 4 * MAX_WIDTH, &s->ffn_width);
    roco_keys_need_uint(keys, "attention.head_count", 1, 4096, &s->n_heads);
    if (!keys->status)
        read_heads(keys, s);
    read_vocabulary(keys, s);
    roco_keys_rope(keys, s->n_context, &s->ropes[0]);
    read_window(keys, s);
    roco_keys_need_float(keys, "attention.layer_norm_rms_epsilon", 1e-30, 1, &eps);
    s->norm_eps = (float)eps;
    double scale = 1 / sqrt((double)s->key_dim);
    roco_keys_float(keys, "attention.scale", 1e-6, 1e6, &scale);
    s->attention_scale = (float)scale;
    roco_keys_bool(keys, "rope.halves", &s->rope_halves);
}
