/* A backend: the operations the model's forward pass is written in, over device memory.
 *
 * The forward pass (engine/forward.c) calls nothing but this table. kernels/cpu implements it in portable C with SIMD
 * variants chosen at run time; kernels/cuda has the same names. Activations are float32, row-major. `n` is rows
 * (tokens) of the step's mixed batch. A row's result never depends on which other rows are in the batch, bit for bit on
 * the CPU.
 *
 * One thread (the engine's) calls a backend; it may use compute threads of its own. No operation allocates except those
 * that say so. Operations do not fail: what can fail is done at open and weight_open; a device fault is kept and
 * returned by `finish`.
 */
#ifndef ROCO_KERNELS_BACKEND_H
#define ROCO_KERNELS_BACKEND_H

#include "config/status.h"
#include "kernels/kv_layout.h"
#include "kernels/policy.h"
#include "kernels/tensor_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* INT8_ALL: matrices of floats become integers too, 32 of a row under one scale. */
typedef enum roco_precision { ROCO_PRECISION_F32, ROCO_PRECISION_INT8, ROCO_PRECISION_INT8_ALL } roco_precision;

/* A matrix as the file holds it: n_rows outputs of n_cols inputs, row-major blocks of `type`. Borrowed; `data` has any
 * alignment. */
typedef struct roco_tensor_view {
    const char *name;
    roco_tensor_type type;
    uint32_t n_rows, n_cols;
    const void *data;
} roco_tensor_view;

typedef struct roco_weight roco_weight; /* a matrix in the backend's own form; opaque */

/* One (layer, KV head) of one sequence. Lives in device memory; a backend updates held and victim. */
typedef struct roco_kv_head {
    uint32_t budget;     /* slots it may hold; reserved pages hold them all */
    uint32_t reserved;   /* of these, a prompt leaves so many free for the answer */
    uint32_t held;       /* slots 0..held-1 are in use, dense */
    uint32_t victim;     /* slot the next decoded token overwrites; ROCO_NO_SLOT while held < budget or !evicts */
    uint32_t first_page; /* index of its first page in the sequence's block table */
    float victim_mass;   /* p that the last query paid to `victim`; 0 where nothing is kept for the policy */
    float evicted_mass;  /* the sum over the tokens a policy evicted of p that the last query before paid */
    bool evicts;         /* false: the budget holds prompt + max_tokens, so no statistics are kept */
    bool compensates;    /* slot 0 stands for all tokens evicted; then held starts at 1 */
    roco_kv_type type;   /* of its K and V, which says how many slots its pages have: roco_kv_layout_of */
} roco_kv_head;

/* One sequence's cache as the attention operation sees it. */
typedef struct roco_kv_sequence {
    const roco_policy *policy;
    bool by_rank; /* q and k come unrotated and are rotated by rank: a token's is the number of older ones in the head's
                     cache, a row's the number of those it sees before itself */
    float *evicted; /* [n_layers * n_kv_heads][roco_kv_evicted_floats] device memory, zeroed at first: of heads that
                       compensate, the sums over evicted tokens of S K, S V and S, and their number; NULL without any */
    uint32_t sink, recent;
    const roco_pin *pins; /* [n_pins] host memory */
    uint32_t n_pins;
    uint32_t most_slots;   /* largest budget of its heads; 0: not known. It sizes work, not results. */
    roco_kv_head *heads;   /* [n_layers * n_kv_heads], layer-major */
    const uint32_t *pages; /* block table: page indices into the pool */
} roco_kv_sequence;

/* A run of neighbouring tokens of one sequence: one stride of a prompt, or one decoded token. */
typedef struct roco_chunk {
    roco_kv_sequence *sequence;
    uint32_t row;     /* its first row in the batch */
    uint32_t n_rows;  /* 1..stride */
    int32_t position; /* of its first token */
    bool
        decode; /* one generated token: written over the victim; else a prompt stride: attend, then evict the surplus */
} roco_chunk;

/* Rotations by rank: [n ranks, dim / 2] each, in device memory; pairs as in the operation `rope`. */
typedef struct roco_rank_rope {
    const float *cosines, *sines;
    uint32_t dim;
    bool halves;
} roco_rank_rope;

/* One layer's attention for the whole batch.
 *
 * For each chunk and KV head h (group = n_heads / n_kv_heads query heads share it):
 *   plain head (!evicts):   K, V of the chunk are appended to slots held.., then row i attends to all slots whose
 * position is <= its own. No statistics. evicting, prompt stride: rows attend to the slots held and causally to the
 * stride's own tokens; S, S2 of all of them grow by p and p^2 (p = mean over the group of softmax); held + n_rows -
 * (budget - reserved) tokens, when positive, are evicted by the policy (now = the stride's last position); survivors of
 * the stride go to the free and the evicted tokens' slots, so slots stay dense. evicting, decode:       the token's K,
 * V overwrite `victim` (or slot `held` while held < budget), S = S2 = 0 there; the row attends to slots 0..held-1,
 * itself included; S, S2 grow. After either, when held == budget, `victim` is chosen with now = the last position, else
 * ROCO_NO_SLOT. The chunk's own K and V are rounded to the kv type first, so a token looks the same to its own stride
 * and to later ones. A policy that needs no statistics leaves S and S2 untouched. Chunks of one sequence are adjacent
 * in `chunks`, in position order, and are processed in that order. */
typedef struct roco_attention {
    uint32_t layer, n_heads, n_kv_heads;
    uint32_t window; /* a row attends to positions > its own - window; 0: to all. Then evicting heads give up what no
                        later row attends to before the policy is asked, sinks included. Plain heads must be shorter. */
    float scale;     /* of q.k, mostly 1/sqrt(key_dim) */
    float softcap;   /* scores become softcap * tanh(score / softcap); 0: they stay */
    const float *q;  /* [n, n_heads * key_dim], rotated */
    const float *k;  /* [n, n_kv_heads * key_dim], rotated */
    const float *v;  /* [n, n_kv_heads * value_dim] */
    float *out;      /* [n, n_heads * value_dim] */
    const roco_chunk *chunks;
    uint32_t n_chunks;
    roco_rank_rope rank_rope; /* of this layer, for sequences by rank */
    roco_kv_layout layout;    /* the pool's; a head's own follows from its type */
    void *pool;               /* device memory, n_pages * layout.page_bytes, 64-byte aligned */
} roco_attention;

typedef struct roco_copy {
    void *to;         /* device memory */
    const void *from; /* host memory */
    size_t row_bytes; /* of each of the step's n_ids rows */
} roco_copy;

/* Copies of a step at most: cosines and sines of two ropes. */
#define ROCO_STEP_COPIES 4u

/* All that a step brings from the host. Borrowed, and not changed, until the next step is announced. */
typedef struct roco_step_tables {
    const int32_t *ids; /* [n_ids] what embed gets */
    uint32_t n_ids;
    const uint32_t *rows; /* [n_rows] what gather gets, in parts */
    uint32_t n_rows;
    const roco_chunk *chunks; /* what attention gets */
    uint32_t n_chunks;
    const roco_copy *copies; /* [n_copies] done by `begin` */
    uint32_t n_copies;
    uint32_t most_rows; /* that operations may be called for instead of n_ids; 0: of no others. Buffers hold them. */
} roco_step_tables;

/* One draw: engine/sampler.h says what the fields mean. */
typedef struct roco_sample_row {
    uint32_t row; /* of the logits */
    int32_t top_k;
    float temperature, top_p, min_p;
    uint64_t seed, index;
} roco_sample_row;

typedef struct roco_backend roco_backend;

typedef struct roco_backend_config {
    uint32_t threads;   /* compute threads, the caller's included; >= 1 */
    uint32_t max_rows;  /* largest n of any call; >= 1 */
    uint32_t max_width; /* largest n_cols or n_rows of any weight but the output head's n_rows */
    uint32_t max_slots; /* largest budget or context of any head, plus the stride */
    uint32_t stride;    /* largest prompt chunk */
    uint32_t max_group; /* query heads per KV head */
    roco_kv_layout layout;
    roco_precision precision;
    uint32_t device;       /* CUDA: number of the device, from 0 */
    uint32_t max_kv_heads; /* CUDA: of any attention; >= 1 */
    bool times_products;   /* CUDA: as matrices come, to choose which product multiplies how many rows */
    const char *isa; /* CPU: NULL or "auto" = best of the machine; "portable", "avx2", "avxvnni", "avx512" force one */
} roco_backend_config;

typedef struct roco_backend_ops {
    const char *name;
    bool takes_ranks;        /* attention knows sequences by rank */
    bool takes_types;        /* a head's K and V may be of another type than the pool's */
    bool takes_compensation; /* attention knows heads that compensate */
    /* Has attention a twin of the policy? NULL: of every one. */
    bool (*knows_policy)(const roco_backend *backend, const roco_policy *policy);

    void (*close)(roco_backend *backend);
    /* "cpu, 2 threads, avx512-vnni": for the log. Borrowed until close. */
    const char *(*describe)(const roco_backend *backend);
    /* Bytes of device memory the backend holds now: weights, and its own scratch. */
    size_t (*weight_bytes)(const roco_backend *backend);
    size_t (*scratch_bytes)(const roco_backend *backend);

    /* Device memory, 64-byte aligned, zeroed. NULL when there is none left. Allocates. Closing NULL does nothing. */
    void *(*memory_open)(roco_backend *backend, size_t bytes);
    /* Bytes that memory_open may still take, at this moment; 0 where nobody knows. */
    size_t (*memory_left)(const roco_backend *backend);
    void (*memory_close)(roco_backend *backend, void *memory);
    void (*upload)(roco_backend *backend, void *to, const void *from, size_t bytes);
    void (*download)(roco_backend *backend, void *to, const void *from, size_t bytes);
    /* Within device memory; the two do not overlap. */
    void (*copy)(roco_backend *backend, void *to, const void *from, size_t bytes);

    /* Takes a matrix in: repacked for the precision (int8 keeps F32/F16/BF16 matrices as they are), or dequantised
     * (f32). The view's data may be unmapped afterwards unless the view is F32/F16/BF16 and kept by reference (the
     * engine keeps the file mapped). Allocates. ROCO_NO_MEMORY, or ROCO_UNSUPPORTED naming the tensor. Returns owned.
     */
    roco_status (*weight_open)(roco_backend *backend, const roco_tensor_view *view, roco_weight **out,
                               roco_error *error);
    void (*weight_close)(roco_backend *backend, roco_weight *weight);

    /* May be NULL. Announces a step, so that all of it goes up in one transfer: operations that are given the same
     * pointers find it there already. Others send for themselves. Returns how many rows the operations are to be called
     * for: n_ids, or, where every row is one decoded token and wanted, more, of which nobody reads the last ones. 0:
     * the device does already what was recorded at an earlier such step, so none is to be called, nor `end`. */
    uint32_t (*begin)(roco_backend *backend, const roco_step_tables *step);
    /* NULL where `begin` is. After the operations of a step with most_rows > 0, which are always the same ones. False:
     * they were to be recorded, that failed, and none of them has run, so they must be called again. */
    bool (*end)(roco_backend *backend);

    /* out[i] = row ids[i] of weight, dequantised exactly. ids: host memory, [n], each < n_rows. out [n, n_cols]. */
    void (*embed)(roco_backend *backend, const roco_weight *weight, const int32_t *ids, uint32_t n, float *out);

    /* out[i] = x[i] / sqrt(mean(x[i]^2) + eps) * gain. x, out [n, width] (may be the same); gain [width] in device
     * memory. */
    void (*rms_norm)(roco_backend *backend, const float *x, const float *gain, float eps, uint32_t n, uint32_t width,
                     float *out);

    /* For each of n_weights matrices over one input: outs[w] = x weights[w]^T, or += when add. x [n, n_cols]; outs[w]
     * [n, n_rows of w]. Several matrices in one call share the input's quantisation and one pass over the threads.
     * n_weights 1..4. */
    void (*matmul)(roco_backend *backend, const roco_weight *const *weights, float *const *outs, uint32_t n_weights,
                   const float *x, uint32_t n, bool add);

    /* Rotates pairs of the first rope_dim components of each head: neighbours (2i, 2i+1), or (i, i + rope_dim / 2) with
     * `halves`. x [n, n_heads * head_dim], in place; cosines, sines [n, rope_dim / 2]. */
    void (*rope)(roco_backend *backend, float *x, const float *cosines, const float *sines, uint32_t n,
                 uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves);

    /* gate[i] = silu(gate[i]) * up[i], n * width values. */
    void (*swiglu)(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width);
    /* gate[i] = gelu(gate[i]) * up[i], with gelu's tanh form. */
    void (*geglu)(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width);

    /* Element by element over x [n, width], in place. y [n, width]; bias [width] in device memory. */
    /* x += factor * y */
    void (*add)(roco_backend *backend, float *x, const float *y, float factor, uint32_t n, uint32_t width);
    void (*add_bias)(roco_backend *backend, float *x, const float *bias, uint32_t n, uint32_t width);
    void (*scale)(roco_backend *backend, float *x, float factor, uint32_t n, uint32_t width);
    /* x = cap * tanh(x / cap) */
    void (*softcap)(roco_backend *backend, float *x, float cap, uint32_t n, uint32_t width);

    void (*attention)(roco_backend *backend, const roco_attention *args);

    /* out[i] = x[rows[i]]. rows: host memory, [n_out]. x [*, width], out [n_out, width]. */
    void (*gather)(roco_backend *backend, const float *x, const uint32_t *rows, uint32_t n_out, uint32_t width,
                   float *out);

    /* May be NULL. tokens[i], host memory, is drawn from logits [*, n_vocab] at rows[i].row, all different, as
     * engine/sampler.c draws; -1 where a logit is NaN or none is finite. Spoils those logits. Waits. */
    void (*sample)(roco_backend *backend, float *logits, uint32_t n_vocab, const roco_sample_row *rows, uint32_t n,
                   int32_t *tokens);

    /* Waits for all work; ROCO_OK, or the device's fault, which makes the backend unusable. */
    roco_status (*finish)(roco_backend *backend, roco_error *error);
} roco_backend_ops;

struct roco_backend {
    const roco_backend_ops *ops; /* the first member of every backend's own struct */
};

/* kernels/registry.c is the one place that knows which backends this build has. `name`: "auto", "cpu", ... Returns
 * owned. */
roco_status roco_backend_open(const char *name, const roco_backend_config *config, roco_backend **out,
                              roco_error *error);

#endif
