/* What model families are written with: reading keys, taking tensors in. Only for model_*.c.
 *
 * Both carry the first failure along: after it every call does nothing, so a family reads line by line and the caller
 * looks once, at the end.
 */
#ifndef ROCO_ENGINE_MODEL_PARTS_H
#define ROCO_ENGINE_MODEL_PARTS_H

#include "engine/model.h"

/* --- keys "<architecture>.<name>" --- */
typedef struct roco_keys {
    const roco_source *source;
    const char *architecture;
    roco_error *error;
    roco_status status;
    char key[96]; /* the last one built */
} roco_keys;

/* The whole key, valid until the next call. */
const char *roco_keys_name(roco_keys *keys, const char *name);
bool roco_keys_has(roco_keys *keys, const char *name);
/* *out keeps its value where the key is missing; ROCO_FORMAT where the value is outside low..high. */
void roco_keys_uint(roco_keys *keys, const char *name, uint32_t low, uint32_t high, uint32_t *out);
void roco_keys_float(roco_keys *keys, const char *name, double low, double high, double *out);
void roco_keys_bool(roco_keys *keys, const char *name, bool *out);
/* The same where the key must be there. */
void roco_keys_need_uint(roco_keys *keys, const char *name, uint32_t low, uint32_t high, uint32_t *out);
void roco_keys_need_float(roco_keys *keys, const char *name, double low, double high, double *out);

/* Everything of a shape that families have in common: sizes, rope.*, norms, a sliding window of all layers; experts are
 * refused. The family then sets what is its own. */
void roco_keys_shape(roco_keys *keys, roco_shape *shape);
/* model_gemma.c: what the Gemma families share, after roco_keys_shape. Queries are scaled by the root of the head's
 * size, in the 27B models alone by that of width / heads; no key says so, hence the number of layers that means 27B (0:
 * none). */
void roco_keys_gemma(roco_keys *keys, roco_shape *shape, uint32_t layers_27b);
/* model_rope.c: rope.freq_base and rope.scaling.* */
void roco_keys_rope(roco_keys *keys, uint32_t n_context, roco_rope *rope);

/* --- tensors --- */
struct roco_loader {
    roco_model *model;
    const roco_source *source;
    roco_backend *backend;
    roco_error *error;
    roco_status status;
    uint64_t n_used, n_biases; /* tensors taken in; those of them that are biases */
};

bool roco_loader_has(roco_loader *loader, const char *name);
/* A matrix [rows, cols]; ROCO_FORMAT names tensor and both shapes. `layer` in blk.<layer>.<part>. */
void roco_load_matrix(roco_loader *loader, uint32_t layer, const char *part, uint64_t rows, uint64_t cols,
                      roco_weight **out);
/* Rows first..first+rows-1 of a matrix of `total` rows. */
void roco_load_rows(roco_loader *loader, uint32_t layer, const char *part, uint64_t total, uint64_t first,
                    uint64_t rows, uint64_t cols, roco_weight **out);
/* A float vector, to device memory. */
void roco_load_vector(roco_loader *loader, uint32_t layer, const char *part, uint64_t size, float **out);
/* The same by whole name; and to host memory (malloc). */
void roco_load_named_matrix(roco_loader *loader, const char *name, uint64_t rows, uint64_t cols, roco_weight **out);
void roco_load_named_vector(roco_loader *loader, const char *name, uint64_t size, float **out);
void roco_load_host_vector(roco_loader *loader, const char *name, uint64_t size, float **out);

/* attn_q, attn_k, attn_v, attn_output; their biases but the last one's; ffn_gate, ffn_up, ffn_down; attn_norm and
 * ffn_norm; attn_q_norm and attn_k_norm; post_attention_norm and post_ffw_norm. */
void roco_load_attention(roco_loader *loader, uint32_t number, roco_layer *layer);
void roco_load_qkv_biases(roco_loader *loader, uint32_t number, roco_layer *layer);
void roco_load_feed_forward(roco_loader *loader, uint32_t number, roco_layer *layer);
void roco_load_norms(roco_loader *loader, uint32_t number, roco_layer *layer);
void roco_load_qk_norms(roco_loader *loader, uint32_t number, roco_layer *layer);
void roco_load_post_norms(roco_loader *loader, uint32_t number, roco_layer *layer);

/* model_rope.c: all frequencies of the model, with the factors its file may bring. */
void roco_load_ropes(roco_loader *loader);

#endif
