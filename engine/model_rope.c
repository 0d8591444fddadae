/* Rotary frequencies: base, linear scaling, YaRN, and the factors some files bring. */
#include "engine/model_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* YaRN lengthens the logits a little too: 0.1 ln(factor) + 1 on both queries and keys (the paper's equation 22). */
static void read_yarn(roco_keys *keys, uint32_t n_context, double factor, roco_rope *rope)
{
    rope->yarn_original = n_context;
    rope->yarn_fast = 32;
    rope->yarn_slow = 1;
    roco_keys_float(keys, "rope.scaling.original_context_length", 1, 1e9, &rope->yarn_original);
    roco_keys_float(keys, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, &rope->yarn_fast);
    roco_keys_float(keys, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, &rope->yarn_slow);
    rope->magnitude = 0.1 * log(factor) + 1;
}

static void set_kind(roco_keys *keys, roco_text type, double factor, uint32_t n_context, roco_rope *rope)
{
    if (roco_text_is(type, "yarn")) {
        read_yarn(keys, n_context, factor, rope);
        rope->scale = 1 / factor;
    } else if (roco_text_is(type, "linear")) {
        rope->scale = 1 / factor;
    } else if (roco_text_is(type, "dynamic")) {
        rope->dynamic_factor = factor;
        rope->dynamic_original = n_context;
        roco_keys_float(keys, "rope.scaling.original_context_length", 1, 1e9, &rope->dynamic_original);
    } else if (!roco_text_is(type, "none") && !roco_text_is(type, "longrope")) {
        keys->status = roco_fail(keys->error, ROCO_UNSUPPORTED, roco_keys_name(keys, "rope.scaling.type"),
                                 "only rope scaling \"none\", \"linear\", \"dynamic\", \"yarn\" and \"longrope\" is "
                                 "supported");
    }
}

void roco_keys_rope(roco_keys *keys, uint32_t n_context, roco_rope *rope)
{
    *rope = (roco_rope){.base = 10000, .scale = 1, .magnitude = 1};
    double factor = 1, attention_factor = 1;
    roco_keys_float(keys, "rope.freq_base", 1, 1e12, &rope->base);
    roco_keys_float(keys, "rope.scaling.factor", 1, 1e6, &factor);
    roco_keys_float(keys, "rope.scaling.attn_factor", 1e-3, 1e3, &attention_factor);
    roco_text type = {"none", 4};
    if (!keys->status && roco_keys_has(keys, "rope.scaling.type"))
        keys->status = roco_source_string(keys->source, keys->key, &type, keys->error);
    if (keys->status)
        return;
    set_kind(keys, type, factor, n_context, rope);
    rope->magnitude *= attention_factor;
}

/* Dynamic NTK stretches the base so that the last pair's wavelength grows with the context. The engine's context
 * decides, as with long RoPE below. */
static double base_of(const roco_rope *rope, uint32_t dim, uint32_t n_context)
{
    const double stretch = n_context / fmax(rope->dynamic_original, 1);
    if (rope->dynamic_factor <= 0 || stretch <= 1 || dim <= 2)
        return rope->base;
    return rope->base * pow(rope->dynamic_factor * stretch - (rope->dynamic_factor - 1), (double)dim / (dim - 2));
}

static roco_status read_factor(const roco_rope_choice *choice, double *out, roco_error *error)
{
    char *end = NULL;
    *out = choice->factor ? strtod(choice->factor, &end) : 1;
    if (choice->factor && (end == choice->factor || *end || !(*out >= 1 && *out <= 1000)))
        return roco_fail(error, ROCO_INVALID, "rope-factor", "rope-factor is '%.40s' (a number of 1 to 1000)",
                         choice->factor);
    return ROCO_OK;
}

roco_status roco_shape_choose_rope(roco_shape *shape, const roco_rope_choice *choice, roco_error *error)
{
    double factor;
    roco_rope *rope = &shape->ropes[0];
    if (!choice->scaling || !strcmp(choice->scaling, "file"))
        return ROCO_OK;
    roco_status status = read_factor(choice, &factor, error);
    if (status)
        return status;
    const double known = rope->yarn_original > 0      ? rope->yarn_original
                         : rope->dynamic_original > 0 ? rope->dynamic_original
                                                      : shape->n_context;
    const double original = choice->original ? choice->original : known;
    *rope = (roco_rope){.base = rope->base, .scale = 1, .magnitude = 1};
    if (!strcmp(choice->scaling, "none"))
        factor = 1;
    if (!strcmp(choice->scaling, "linear"))
        rope->scale = 1 / factor;
    if (!strcmp(choice->scaling, "yarn"))
        *rope = (roco_rope){.base = rope->base,
                            .scale = 1 / factor,
                            .magnitude = 0.1 * log(factor) + 1,
                            .yarn_original = original,
                            .yarn_fast = 32,
                            .yarn_slow = 1};
    if (!strcmp(choice->scaling, "dynamic")) {
        rope->dynamic_factor = factor;
        rope->dynamic_original = original;
    }
    shape->n_context = (uint32_t)fmin(original * factor, ROCO_MAX_CONTEXT);
    return ROCO_OK;
}

/* The pair that turns `turns` times over the original positions, as a real number. */
static double pair_that_turns(const roco_rope *rope, uint32_t dim, double turns)
{
    return dim * log(rope->yarn_original / (turns * 2 * M_PI)) / (2 * log(rope->base));
}

static void frequencies(const roco_rope *rope, uint32_t dim, uint32_t n_context, double *out)
{
    const double base = base_of(rope, dim, n_context);
    double low = 0, high = 0;
    if (rope->yarn_original > 0 && rope->base > 1) {
        low = fmax(floor(pair_that_turns(rope, dim, rope->yarn_fast)), 0);
        high = fmin(ceil(pair_that_turns(rope, dim, rope->yarn_slow)), dim - 1);
    }
    for (uint32_t i = 0; i < dim / 2; i++) {
        out[i] = rope->scale / pow(base, 2.0 * i / dim);
        if (rope->yarn_original <= 0)
            continue;
        double scaled = fmin(fmax((i - low) / fmax(high - low, 1e-3), 0), 1);
        out[i] = out[i] * scaled + (1 - scaled) / pow(rope->base, 2.0 * i / dim);
    }
}

static void divide(roco_loader *l, const char *name, double *out)
{
    const roco_shape *s = &l->model->shape;
    float *factors = NULL;
    roco_load_host_vector(l, name, s->rope_dim / 2, &factors);
    for (uint32_t i = 0; !l->status && i < s->rope_dim / 2; i++) {
        if (!(factors[i] > 0 && factors[i] < 1e9f))
            l->status = roco_fail(l->error, ROCO_FORMAT, name, "value %u (%g) is not a positive divisor", i,
                                  (double)factors[i]);
        out[i] /= factors[i];
    }
    free(factors);
}

/* Long RoPE has two sets of factors: one for up to the original positions, one for more. The engine's context decides,
 * not a sequence's length, so that a token's rotation never depends on what follows it. */
static void divide_by_context(roco_loader *l, double *out)
{
    const roco_shape *s = &l->model->shape;
    uint32_t original = s->n_context;
    roco_keys keys = {.source = l->source, .architecture = l->model->family->architecture, .error = l->error};
    roco_keys_need_uint(&keys, "rope.scaling.original_context_length", 1, 1u << 30, &original);
    l->status = l->status ? l->status : keys.status;
    bool is_long = s->n_context > original;
    divide(l, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight", out);
    l->n_used += roco_loader_has(l, is_long ? "rope_factors_short.weight" : "rope_factors_long.weight");
}

void roco_load_ropes(roco_loader *l)
{
    const roco_shape *s = &l->model->shape;
    for (uint32_t r = 0; r < s->n_ropes; r++)
        frequencies(&s->ropes[r], s->rope_dim, s->n_context,
                    l->model->rope_frequencies + (size_t)r * (s->rope_dim / 2));
    if (!l->status && roco_loader_has(l, "rope_freqs.weight"))
        divide(l, "rope_freqs.weight", l->model->rope_frequencies);
    if (!l->status && roco_loader_has(l, "rope_factors_long.weight"))
        divide_by_context(l, l->model->rope_frequencies);
}
