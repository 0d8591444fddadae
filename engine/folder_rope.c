/* Rotary positions of config.json: `rope_parameters` (transformers 5, one set or one for each type of layer), or
 * `rope_theta` and `rope_scaling` (4). The thread that opens the model.
 *
 * GGUF files hold Llama 3's scaling and long RoPE's as a tensor of divisors; here the tensors are made. Formulas:
 * transformers' modeling_rope_utils, which are those of the papers (YaRN 2309.00071, LongRoPE 2402.13753) and of Meta's
 * reference code for Llama 3.1.
 */
#include "engine/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct scaling {
    roco_source *source;
    const roco_folder_config *config;
    const roco_tree *parameters; /* what this reads; config.json itself stands behind it */
    roco_error *error;
    roco_status status; /* the first failure; then every call does nothing */
} scaling;

static const roco_tree *member(const scaling *s, const char *name)
{
    const roco_tree *found = roco_tree_member(s->parameters, name);
    return roco_tree_is_null(found) ? roco_config_member(s->config, name) : found;
}

/* *out keeps its value where there is none. True: there is one, in low..high. */
static bool number(scaling *s, const char *name, double low, double high, double *out)
{
    const roco_tree *found = member(s, name);
    double value;
    if (s->status || !found)
        return false;
    if (!roco_tree_number(found, &value) || !(value >= low && value <= high)) {
        s->status =
            roco_fail(s->error, ROCO_FORMAT, name, "config.json: %s is not a number of %g to %g", name, low, high);
        return false;
    }
    *out = value;
    return true;
}

static void put_float(scaling *s, const char *name, double value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->config->family->architecture, name);
    if (!s->status)
        s->status = roco_source_put_float(s->source, key, value, s->error);
}

static void put_uint(scaling *s, const char *name, double value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->config->family->architecture, name);
    if (!s->status)
        s->status = roco_source_put_uint(s->source, key, (uint64_t)value, s->error);
}

static void put_type(scaling *s, const char *type)
{
    char key[96];
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->config->family->architecture);
    if (!s->status)
        s->status = roco_source_put_string(s->source, key, (roco_text){type, strlen(type)}, s->error);
}

/* Room for rope_dim / 2 divisors that become a tensor of that name. */
static float *put_divisors(scaling *s, const char *name)
{
    const uint64_t n = s->config->rope_dim / 2;
    float *values = s->status ? NULL : roco_source_own(s->source, n * sizeof *values, s->error);
    roco_source_tensor *tensor = values ? roco_source_add_tensors(s->source, 1, s->error) : NULL;
    if (!s->status && !tensor)
        s->status = ROCO_NO_MEMORY;
    if (!tensor)
        return NULL;
    *tensor = (roco_source_tensor){.name = {name, strlen(name)},
                                   .type = ROCO_TYPE_F32,
                                   .n_dims = 1,
                                   .dims = {n, 1, 1, 1},
                                   .data = values,
                                   .bytes = n * sizeof *values};
    return values;
}

/* --- kinds --- */

/* Wavelengths over original / low turns are scaled whole, those under original / high not at all. */
static void read_llama3(scaling *s, double base)
{
    double factor = 8, low = 1, high = 4, original = 8192;
    number(s, "factor", 1, 1e6, &factor);
    number(s, "low_freq_factor", 1e-3, 1e6, &low);
    number(s, "high_freq_factor", 1e-3, 1e6, &high);
    number(s, "original_max_position_embeddings", 1, 1e9, &original);
    if (!s->status && low >= high)
        s->status = roco_fail(s->error, ROCO_FORMAT, "low_freq_factor",
                              "config.json: low_freq_factor %g is not below high_freq_factor %g", low, high);
    const uint64_t dim = s->config->rope_dim;
    float *divisors = put_divisors(s, "rope_freqs.weight");
    for (uint64_t i = 0; divisors && i < dim / 2; i++) {
        double wavelength = 2 * M_PI * pow(base, 2.0 * (double)i / (double)dim);
        double keep = (original / wavelength - low) / (high - low); /* how much of it stays unscaled */
        keep = fmin(fmax(keep, 0), 1);
        divisors[i] = (float)(1 / ((1 - keep) / factor + keep));
    }
}

static void read_factors(scaling *s, const char *name, const char *tensor)
{
    const roco_tree *list = member(s, name);
    const uint64_t dim = s->config->rope_dim;
    float *divisors = put_divisors(s, tensor);
    uint64_t n = 0;
    for (const roco_tree *item = roco_tree_first(list); divisors && item; item = roco_tree_next(item), n++) {
        double value;
        if (n < dim / 2 && roco_tree_number(item, &value))
            divisors[n] = (float)value;
    }
    if (divisors && n != dim / 2)
        s->status = roco_fail(s->error, ROCO_FORMAT, name,
                              "config.json: %s is no list of %llu numbers, one for each rotary pair", name,
                              (unsigned long long)(dim / 2));
}

static void read_longrope(scaling *s)
{
    const double context = fmax((double)s->config->n_context, 2);
    double original = context, factor = 0, attention = 0;
    number(s, "original_max_position_embeddings", 2, 1e9, &original); /* its logarithm divides */
    if (!number(s, "factor", 1e-6, 1e6, &factor))
        factor = context / original;
    if (!number(s, "attention_factor", 1e-3, 1e3, &attention))
        attention = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    put_type(s, "longrope");
    put_uint(s, "rope.scaling.original_context_length", original);
    put_float(s, "rope.scaling.attn_factor", attention);
    read_factors(s, "long_factor", "rope_factors_long.weight");
    read_factors(s, "short_factor", "rope_factors_short.weight");
}

static double lengthened(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static void read_yarn(scaling *s)
{
    const double context = (double)s->config->n_context;
    double original = context, factor = 1, fast = 32, slow = 1, attention = 0, scale = 0, scale_all = 0;
    bool truncate = true;
    number(s, "original_max_position_embeddings", 1, 1e9, &original);
    if (!number(s, "factor", 1, 1e6, &factor))
        factor = fmax(context / original, 1);
    number(s, "beta_fast", 1e-3, 1e6, &fast);
    number(s, "beta_slow", 1e-3, 1e6, &slow);
    number(s, "mscale", 0, 1e3, &scale);
    number(s, "mscale_all_dim", 0, 1e3, &scale_all);
    if (!number(s, "attention_factor", 1e-3, 1e3, &attention))
        attention = scale > 0 && scale_all > 0 ? lengthened(factor, scale) / lengthened(factor, scale_all)
                                               : lengthened(factor, 1);
    if (!s->status && roco_tree_bool(member(s, "truncate"), &truncate) && !truncate)
        s->status =
            roco_fail(s->error, ROCO_UNSUPPORTED, "truncate", "config.json: YaRN without truncation is not supported");
    put_type(s, "yarn");
    put_float(s, "rope.scaling.factor", factor);
    put_uint(s, "rope.scaling.original_context_length", original);
    put_float(s, "rope.scaling.yarn_beta_fast", fast);
    put_float(s, "rope.scaling.yarn_beta_slow", slow);
    put_float(s, "rope.scaling.attn_factor",
              attention / lengthened(factor, 1)); /* the key is a factor on top of that */
}

static void read_scaled(scaling *s, const char *type)
{
    double factor = 1;
    if (!number(s, "factor", 1, 1e6, &factor) && !s->status)
        s->status =
            roco_fail(s->error, ROCO_FORMAT, "factor", "config.json: RoPE scaling \"%s\" without a factor", type);
    put_type(s, type);
    put_float(s, "rope.scaling.factor", factor);
    put_uint(s, "rope.scaling.original_context_length", (double)s->config->n_context);
}

/* The positions trained on, stretched as far as they are used: the engine's context decides the base. */
static void read_dynamic(scaling *s, roco_folder_config *config)
{
    read_scaled(s, "dynamic");
    double factor = 1;
    if (number(s, "factor", 1, 1e6, &factor))
        config->n_context = (uint64_t)(factor * (double)config->n_context);
}

static void read_kind(scaling *s, roco_folder_config *config, double base)
{
    roco_text type = {"default", 7};
    if (!roco_tree_text(roco_tree_member(s->parameters, "rope_type"), &type))
        (void)roco_tree_text(roco_tree_member(s->parameters, "type"), &type);
    if (s->status || roco_text_is(type, "default")) {
        return;
    } else if (roco_text_is(type, "llama3")) {
        read_llama3(s, base);
    } else if (roco_text_is(type, "longrope") || roco_text_is(type, "su")) {
        read_longrope(s);
    } else if (roco_text_is(type, "yarn")) {
        read_yarn(s);
    } else if (roco_text_is(type, "linear")) {
        read_scaled(s, "linear");
    } else if (roco_text_is(type, "dynamic")) {
        read_dynamic(s, config);
    } else {
        char name[32];
        roco_text_print(type, name, sizeof name);
        s->status = roco_fail(s->error, ROCO_UNSUPPORTED, "rope_type",
                              "config.json: RoPE scaling \"%s\" is not supported; supported: default, linear, dynamic, "
                              "yarn, longrope, llama3",
                              name);
    }
}

roco_status roco_folder_read_rope(roco_source *source, roco_folder_config *config, roco_error *error)
{
    const roco_tree *parameters = roco_config_member(config, "rope_parameters");
    const roco_tree *local = roco_tree_member(parameters, "sliding_attention");
    const roco_tree *global = roco_tree_member(parameters, "full_attention");
    scaling s = {.source = source, .config = config, .error = error};
    double base = 10000, local_base = 10000, part = 1;
    s.parameters = global ? global : parameters ? parameters : roco_config_member(config, "rope_scaling");
    number(&s, "rope_theta", 1, 1e12, &base);
    number(&s, "partial_rotary_factor", 1e-3, 1, &part);
    config->rope_dim = (uint64_t)(part * (double)config->head_dim);
    if (!s.status && (config->rope_dim < 2 || config->rope_dim % 2))
        s.status = roco_fail(error, ROCO_FORMAT, "partial_rotary_factor",
                             "config.json: %llu of %llu components of a head are rotated; an even number of 2 or more "
                             "can be",
                             (unsigned long long)config->rope_dim, (unsigned long long)config->head_dim);
    put_uint(&s, "rope.dimension_count", (double)config->rope_dim);
    put_float(&s, "rope.freq_base", base);
    read_kind(&s, config, base);
    s.parameters = local;
    if (local ? number(&s, "rope_theta", 1, 1e12, &local_base)
              : number(&s, "rope_local_base_freq", 1, 1e12, &local_base))
        put_float(&s, "rope.freq_base_swa", local_base);
    return s.status;
}
