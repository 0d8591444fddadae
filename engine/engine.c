/* Opening and closing an engine: shape, backend, weights, pool, the buffers of a step. Engine thread. */
#include "engine/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t largest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void name_model(const roco_source *source, char *out, size_t size)
{
    roco_text name = {0};
    if (roco_source_string(source, "general.name", &name, NULL) || !name.size) {
        const char *base = strrchr(roco_source_path(source), '/');
        name.data = base ? base + 1 : roco_source_path(source);
        name.size = strlen(name.data);
    }
    size_t n = name.size < size - 1 ? name.size : size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (name.data[i] >= ' ' && name.data[i] < 127) ? name.data[i] : '?';
    out[n] = '\0';
}

static roco_status choose_precision(const roco_engine_config *config, roco_precision *out, roco_error *error)
{
    if (!strcmp(config->precision, "auto"))
        *out = roco_model_is_quantized(config->source) ? ROCO_PRECISION_INT8 : ROCO_PRECISION_F32;
    else if (!strcmp(config->precision, "f32"))
        *out = ROCO_PRECISION_F32;
    else if (!strcmp(config->precision, "int8"))
        *out = roco_model_is_quantized(config->source) ? ROCO_PRECISION_INT8 : ROCO_PRECISION_INT8_ALL;
    else
        return roco_fail(error, ROCO_INVALID, "precision", "precision must be auto, f32 or int8");
    return ROCO_OK;
}

static roco_status describe(roco_engine *e, const roco_engine_config *config, const roco_shape *s, roco_error *error)
{
    roco_engine_info *info = &e->info;
    *info = (roco_engine_info){.n_vocab = s->n_vocab,
                               .n_context = config->context ? config->context : s->n_context,
                               .n_layers = s->n_layers,
                               .n_heads = s->n_heads,
                               .n_kv_heads = s->n_kv_heads,
                               .width = s->width,
                               .stride = config->stride,
                               .step_tokens = config->step_tokens,
                               .layout = roco_kv_layout_make(config->kv_type, s->key_dim, s->value_dim)};
    name_model(config->source, info->model_name, sizeof info->model_name);
    if (info->n_context > s->n_context)
        return roco_fail(error, ROCO_INVALID, "context", "context %u is more than the model was made for (%u)",
                         info->n_context, s->n_context);
    if (!config->stride || config->step_tokens < config->stride)
        return roco_fail(error, ROCO_INVALID, "step-tokens", "step-tokens (%u) must hold one stride (%u, at least 1)",
                         config->step_tokens, config->stride);
    return roco_pool_size(e, config, false, error);
}

static roco_status open_backend(roco_engine *e, const roco_engine_config *config, const roco_shape *s,
                                roco_error *error)
{
    uint32_t width = largest(largest(s->width, s->ffn_width), s->n_heads * largest(s->key_dim, s->value_dim));
    roco_backend_config backend = {.threads = config->threads,
                                   .max_rows = e->info.step_tokens,
                                   .max_width = width,
                                   .max_slots = e->info.n_context + e->info.stride,
                                   .stride = e->info.stride,
                                   .max_group = s->n_heads / s->n_kv_heads,
                                   .layout = e->info.layout,
                                   .precision = e->info.precision,
                                   .device = config->device,
                                   .max_kv_heads = s->n_kv_heads,
                                   .times_products = !config->fixed_products,
                                   .isa = config->isa};
    return roco_backend_open(config->backend, &backend, &e->backend, error);
}

static roco_status open_buffers(roco_engine *e, roco_error *error)
{
    const roco_shape *s = &e->model.shape;
    const size_t rows = e->info.step_tokens, angles = s->n_ropes * rows * (s->rope_dim / 2);
    roco_buffers *b = &e->buffers;
    const uint32_t most = e->backend->ops->sample ? ROCO_LOGIT_ROWS : ROCO_LOGIT_ROWS_CPU;
    e->logit_rows = most < e->info.step_tokens ? most : e->info.step_tokens;
    const struct {
        float **out;
        size_t values;
    } wanted[] = {
        {&b->x, rows * s->width},
        {&b->h, rows * s->width},
        {&b->q, rows * s->n_heads * s->key_dim},
        {&b->k, rows * s->n_kv_heads * s->key_dim},
        {&b->v, rows * s->n_kv_heads * s->value_dim},
        {&b->attended, rows * s->n_heads * s->value_dim},
        {&b->gate, rows * s->ffn_width},
        {&b->up, rows * s->ffn_width},
        {&b->cosines, angles},
        {&b->sines, angles},
        {&b->picked, (size_t)e->logit_rows * s->width},
        {&b->logits, (size_t)e->logit_rows * s->n_vocab},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        *wanted[i].out = e->backend->ops->memory_open(e->backend, wanted[i].values * sizeof(float));
        if (!*wanted[i].out)
            return roco_fail(error, ROCO_NO_MEMORY, "step-tokens", "out of memory for the buffers of %zu rows", rows);
        e->info.scratch_bytes += wanted[i].values * sizeof(float);
    }
    e->ids = calloc(rows, sizeof *e->ids);
    e->wanted = calloc(rows, sizeof *e->wanted);
    e->chunks = calloc(rows, sizeof *e->chunks);
    e->host_cosines = calloc(angles, sizeof *e->host_cosines);
    e->host_sines = calloc(angles, sizeof *e->host_sines);
    e->host_logits = calloc(s->n_vocab, sizeof *e->host_logits);
    e->model_logits = calloc(s->n_vocab, sizeof *e->model_logits);
    e->head_states = calloc((size_t)s->n_layers * s->n_kv_heads, sizeof *e->head_states);
    e->sampler_scratch = malloc(roco_sampler_scratch_bytes(s->n_vocab));
    if (!e->ids || !e->wanted || !e->chunks || !e->host_cosines || !e->host_sines || !e->host_logits ||
        !e->model_logits || !e->head_states || !e->sampler_scratch)
        return roco_fail(error, ROCO_NO_MEMORY, "step-tokens", "out of memory for the tables of %zu rows", rows);
    return ROCO_OK;
}

static roco_status open_all(roco_engine *e, const roco_engine_config *config, roco_error *error)
{
    const roco_model_family *family = NULL;
    roco_shape shape;
    roco_precision precision = ROCO_PRECISION_F32;
    roco_status status;
    if ((status = roco_model_family_find(config->source, &family, error)) ||
        (status = family->read_shape(config->source, &shape, error)) ||
        (status = roco_shape_choose_rope(&shape, &config->rope, error)) ||
        (status = choose_precision(config, &precision, error)) || (status = describe(e, config, &shape, error)))
        return status;
    shape.n_context = e->info.n_context;
    e->info.precision = precision;
    e->info.architecture = family->architecture;
    if ((status = open_backend(e, config, &shape, error)) ||
        (status = roco_model_open(family, &shape, config->source, e->backend, &e->model, error)) ||
        (status = open_buffers(e, error)) || (status = roco_ranks_open(e, error)) ||
        (status = roco_pool_open(e, config, error)))
        return status;
    e->info.backend = e->backend->ops->describe(e->backend);
    e->info.weight_bytes = e->backend->ops->weight_bytes(e->backend);
    e->info.scratch_bytes += e->backend->ops->scratch_bytes(e->backend);
    return ROCO_OK;
}

roco_status roco_engine_open(const roco_engine_config *config, roco_engine **out, roco_error *error)
{
    roco_engine *e = calloc(1, sizeof *e);
    if (!e)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the engine");
    roco_status status = open_all(e, config, error);
    if (status) {
        roco_engine_close(e);
        return status;
    }
    *out = e;
    return ROCO_OK;
}

static void close_device(roco_engine *e)
{
    roco_times_stop(e);
    const roco_backend_ops *ops = e->backend->ops;
    roco_buffers *b = &e->buffers;
    float *buffers[] = {b->rank_cosines, b->rank_sines, b->x,       b->h,     b->q,      b->k,      b->v,   b->attended,
                        b->gate,         b->up,         b->cosines, b->sines, b->picked, b->logits, e->pool};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        ops->memory_close(e->backend, buffers[i]);
    roco_model_close(&e->model, e->backend);
    ops->close(e->backend);
}

void roco_engine_close(roco_engine *e)
{
    if (!e)
        return;
    if (e->backend)
        close_device(e);
    free(e->ids);
    free(e->wanted);
    free(e->chunks);
    free(e->host_cosines);
    free(e->host_sines);
    free(e->host_logits);
    free(e->head_states);
    free(e->model_logits);
    free(e->sampler_scratch);
    free(e->ranks);
    free(e);
}

uint32_t roco_engine_slots(const roco_engine *engine, roco_kv_type type)
{
    return roco_kv_layout_of(&engine->info.layout, type).slots;
}

const roco_engine_info *roco_engine_describe(const roco_engine *engine)
{
    return &engine->info;
}

/* The fewest best heads that have this share of all score. */
static uint32_t count_best(const roco_engine *e, const float *scores, double share)
{
    const uint32_t n = e->info.n_layers * e->info.n_kv_heads;
    double total = 0, held = 0;
    for (uint32_t i = 0; i < n; i++)
        total += e->ranks[i] == ROCO_NO_RANK ? 0 : (double)scores[i];
    uint32_t best = 0;
    do {
        for (uint32_t i = 0; i < n; i++)
            held += e->ranks[i] == best ? (double)scores[i] : 0;
        best++;
    } while (best < e->n_ranked && held < total * share);
    return best;
}

/* Where the cliff is, and from where on more whole heads change little. */
#define SHARE_NEEDED 0.55
#define SHARE_WANTED 0.70

roco_status roco_engine_use_profile(roco_engine *e, const float *scores, roco_error *error)
{
    const uint32_t n = e->info.n_layers * e->info.n_kv_heads;
    uint32_t *ranks = calloc(n, sizeof *ranks);
    if (!ranks)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for a head profile");
    e->n_ranked = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (roco_shape_window(&e->model.shape, i / e->info.n_kv_heads)) {
            ranks[i] = ROCO_NO_RANK;
            continue;
        }
        e->n_ranked++;
        for (uint32_t j = 0; j < n; j++)
            if (!roco_shape_window(&e->model.shape, j / e->info.n_kv_heads))
                ranks[i] += scores[j] > scores[i] || (scores[j] == scores[i] && j < i);
    }
    free(e->ranks);
    e->ranks = ranks;
    e->n_needed = count_best(e, scores, SHARE_NEEDED);
    e->n_wanted = count_best(e, scores, SHARE_WANTED);
    e->info.has_profile = e->n_ranked > 0;
    return ROCO_OK;
}
