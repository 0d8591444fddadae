/* A model: its shape and its weights in the backend's form. For the engine and for `roco info`.
 *
 * A family of models is one file (model_<name>.c) and one row of the table in model.c: the file reads the shape from a
 * GGUF's keys and takes the tensors in, both with the helpers of model_parts.h. The forward pass (forward.c) is written
 * once over roco_model.
 */
#ifndef ROCO_ENGINE_MODEL_H
#define ROCO_ENGINE_MODEL_H

#include "engine/rope_choice.h"
#include "engine/source.h"
#include "kernels/backend.h"

#define ROCO_MAX_ROPES   2u
#define ROCO_MAX_CONTEXT (1u << 24)

/* Rotary positions: pair i turns by frequency[i] at each position. */
typedef struct roco_rope {
    double base, scale;   /* frequency[i] = scale * base^(-2i/rope_dim) / factor[i]; a file may bring the factors */
    double magnitude;     /* cosines and sines are multiplied by it; 1 but for YaRN and long RoPE */
    double yarn_original; /* YaRN (arXiv 2309.00071): positions the model was trained on first; 0: no YaRN */
    double yarn_fast, yarn_slow; /* turns over these positions above and below which a pair is left, or scaled fully */
    double dynamic_factor;       /* dynamic NTK: how far the positions trained on are stretched; 0: they are not */
    double dynamic_original;     /* these positions */
} roco_rope;

typedef struct roco_shape {
    uint32_t n_layers, width, ffn_width, n_vocab;
    uint32_t n_context;                               /* positions; the engine's when a model is opened */
    uint32_t n_heads, n_kv_heads, key_dim, value_dim; /* n_heads is a multiple of n_kv_heads */
    uint32_t rope_dim;                                /* rotated components of a head, even, <= key_dim */
    bool rope_halves;                                 /* see roco_backend_ops.rope */
    roco_rope ropes[ROCO_MAX_ROPES];                  /* the last one is for windowed layers */
    uint32_t n_ropes;
    uint32_t window;        /* tokens a windowed layer attends to; 0: no layer is windowed */
    uint32_t global_period; /* every n-th layer is not windowed; 0: all are */
    float norm_eps;
    bool norms_whole_qk; /* a QK norm spans all heads, not one */
    bool gelu;           /* the feed-forward's gate; else SiLU */
    float attention_scale;
    float embedding_scale, residual_scale, logit_scale; /* 1 but for families that say otherwise */
    float attention_softcap, logit_softcap;             /* 0: none */
} roco_shape;

/* The window of a layer; 0: it attends to all positions. */
static inline uint32_t roco_shape_window(const roco_shape *shape, uint32_t layer)
{
    return shape->global_period && (layer + 1) % shape->global_period == 0 ? 0 : shape->window;
}

/* Optional parts are NULL. All vectors are device memory. */
typedef struct roco_layer {
    float *attention_norm, *ffn_norm;           /* [width] before the block; optional */
    float *attention_post_norm, *ffn_post_norm; /* [width] on the block's result; optional */
    roco_weight *q, *k, *v, *output, *gate, *up, *down;
    float *q_bias, *k_bias, *v_bias; /* optional */
    float *q_norm, *k_norm;          /* [key_dim], or over all heads; optional */
} roco_layer;

typedef struct roco_model {
    const struct roco_model_family *family;
    roco_shape shape;
    double *rope_frequencies; /* [n_ropes, rope_dim / 2], host: radians per position */
    roco_weight *embedding;   /* [n_vocab, width] */
    roco_weight *head;        /* [n_vocab, width]; the embedding itself when the file ties them */
    float *final_norm;        /* [width], device */
    roco_layer *layers;       /* [n_layers] */
} roco_model;

typedef struct roco_loader roco_loader; /* model_parts.h */

typedef struct roco_model_family {
    const char *architecture; /* value of general.architecture */
    roco_status (*read_shape)(const roco_source *source, roco_shape *shape, roco_error *error);
    void (*load_layer)(roco_loader *loader, uint32_t number, roco_layer *layer);
} roco_model_family;

/* The family of a file's architecture; ROCO_UNSUPPORTED with the list of supported ones, ROCO_FORMAT when the key is
 * missing. */
roco_status roco_model_family_find(const roco_source *source, const roco_model_family **out, roco_error *error);
/* Loads all weights. On failure what was loaded is closed again. roco_model_close with the same backend. */
roco_status roco_model_open(const roco_model_family *family, const roco_shape *shape, const roco_source *source,
                            roco_backend *backend, roco_model *model, roco_error *error);
void roco_model_close(roco_model *model, roco_backend *backend);

/* model_rope.c: scales the shape's first rotary positions, those of the layers without a window, as chosen, and its
 * context to the original positions times the factor. Factors that a file brings as tensors stay. ROCO_INVALID names
 * the option.
 */
roco_status roco_shape_choose_rope(roco_shape *shape, const roco_rope_choice *choice, roco_error *error);

/* True when the file's matrices are block-quantised: `--precision auto` then means int8. */
bool roco_model_is_quantized(const roco_source *source);

#endif
