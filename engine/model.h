/* A model: its shape and its weights in the backend's form. For the engine and for `roco info`.
 *
 * A family of models is one file (model_llama.c) and one row of the table in model.c: the file reads the shape from a
 * GGUF's keys and takes the tensors in. The forward pass (forward.c) is written once over roco_model.
 */
#ifndef ROCO_ENGINE_MODEL_H
#define ROCO_ENGINE_MODEL_H

#include "engine/gguf.h"
#include "kernels/backend.h"

typedef struct roco_shape {
    uint32_t n_layers, width, ffn_width, n_vocab, n_context;
    uint32_t n_heads, n_kv_heads, key_dim, value_dim; /* n_heads is a multiple of n_kv_heads */
    uint32_t rope_dim;                                /* rotated components of a head, even, <= key_dim */
    float norm_eps;
    double rope_base, rope_scale; /* angle of pair i at position p: p * rope_scale * base^(-2i/rope_dim) / factor[i] */
} roco_shape;

typedef struct roco_layer {
    float *attention_norm, *ffn_norm; /* [width], device */
    roco_weight *q, *k, *v, *output, *gate, *up, *down;
} roco_layer;

typedef struct roco_model {
    const struct roco_model_family *family;
    roco_shape shape;
    double *rope_frequencies; /* [rope_dim / 2], host: radians per position */
    roco_weight *embedding;   /* [n_vocab, width] */
    roco_weight *head;        /* [n_vocab, width]; the embedding itself when the file ties them */
    float *final_norm;        /* [width], device */
    roco_layer *layers;       /* [n_layers] */
} roco_model;

typedef struct roco_model_family {
    const char *architecture; /* value of general.architecture */
    roco_status (*read_shape)(const roco_gguf *gguf, roco_shape *shape, roco_error *error);
    roco_status (*load)(roco_model *model, const roco_gguf *gguf, roco_backend *backend, roco_error *error);
} roco_model_family;

extern const roco_model_family roco_model_llama;

/* The family of a file's architecture; ROCO_UNSUPPORTED with the list of supported ones, ROCO_FORMAT when the key is
 * missing. */
roco_status roco_model_family_find(const roco_gguf *gguf, const roco_model_family **out, roco_error *error);
/* Loads all weights. On failure what was loaded is closed again. roco_model_close with the same backend. */
roco_status roco_model_open(const roco_model_family *family, const roco_shape *shape, const roco_gguf *gguf,
                            roco_backend *backend, roco_model *model, roco_error *error);
void roco_model_close(roco_model *model, roco_backend *backend);

/* True when the file's matrices are block-quantised: `--precision auto` then means int8. */
bool roco_model_is_quantized(const roco_gguf *gguf);

/* For families. Tensor `format` (printf, with the layer's number) of [rows, cols]: ROCO_FORMAT naming tensor and both
 * shapes. */
roco_status roco_model_matrix(const roco_gguf *gguf, roco_backend *backend, const char *name, uint64_t rows,
                              uint64_t cols, roco_weight **out, roco_error *error);
/* A float vector, to device memory. */
roco_status roco_model_vector(const roco_gguf *gguf, roco_backend *backend, const char *name, uint32_t size,
                              float **out, roco_error *error);
/* A float vector, to host memory (malloc). */
roco_status roco_model_host_vector(const roco_gguf *gguf, const char *name, uint32_t size, float **out,
                                   roco_error *error);

#endif
