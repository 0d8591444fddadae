/* The engine's inside: its state, and which file does what. Engine thread only.
 *
 *   engine.c    open and close: shape, backend, weights, pool, buffers
 *   cache.c     one sequence's cache: budgets by head, block table, measures
 *   step.c      one step: items to chunks, forward, logits, sampling
 *   forward.c   the model's forward pass over the backend's operations
 *   times.c     where a step's time goes, when asked
 *   ranks.c     rotations of sequences whose positions are ranks in the cache
 *   profile_*.c which heads retrieve: measuring, files, and the budgets that follow
 */
#ifndef ROCO_ENGINE_STATE_H
#define ROCO_ENGINE_STATE_H

#include "engine/engine.h"
#include "engine/model.h"

/* Heads with a sliding window are in no profile: what they hold is bounded anyway. */
#define ROCO_NO_RANK 0xffffffffu

/* Rows of logits computed at once, at most; more wanted rows take several rounds. On the CPU, where all of them come to
 * be looked at, fewer. */
#define ROCO_LOGIT_ROWS     256u
#define ROCO_LOGIT_ROWS_CPU 32u

struct roco_cache {
    roco_kv_sequence sequence;       /* heads is device memory */
    roco_kv_head *heads;             /* host copy as opened: budget, first_page and evicts never change */
    uint32_t n_heads, n_pages;       /* n_heads: layers x KV heads */
    uint32_t stride;                 /* prompt tokens between two evictions */
    uint32_t slots[ROCO_N_KV_TYPES]; /* of a page, by type */
    roco_kv_type type;               /* of the pool */
    uint32_t length;                 /* tokens fed */
    uint32_t n_decoded;              /* of these one by one; when there are any, no more prompt */
    roco_pin *pins;                  /* owned */
};

/* Device buffers of one step; rows = step_tokens. */
typedef struct roco_buffers {
    float *x;                         /* [rows, width] the residual stream */
    float *h;                         /* [rows, width] normed */
    float *q;                         /* [rows, n_heads * key_dim] */
    float *k, *v;                     /* [rows, n_kv_heads * key_dim or value_dim] */
    float *attended;                  /* [rows, n_heads * value_dim] */
    float *gate, *up;                 /* [rows, ffn_width] */
    float *cosines, *sines;           /* [n_ropes, rows, rope_dim / 2] */
    float *rank_cosines, *rank_sines; /* [n_ropes, n_context, rope_dim / 2], the first n_ranks made; NULL: no backend
                                         for sequences by rank */
    float *picked;                    /* [logit_rows, width] rows whose logits are wanted */
    float *logits;                    /* [logit_rows, n_vocab] */
} roco_buffers;

typedef struct roco_times roco_times;

struct roco_engine {
    roco_engine_info info;
    roco_backend *backend;
    roco_model model;
    void *pool;
    roco_buffers buffers;
    uint32_t n_ranks; /* of the rotations by rank, made so far */
    /* host side of a step */
    int32_t *ids;                     /* [step_tokens] */
    uint32_t logit_rows;              /* computed at once */
    uint32_t *wanted;                 /* [step_tokens] rows whose logits are wanted, in order */
    roco_chunk *chunks;               /* [step_tokens] */
    float *host_cosines, *host_sines; /* [n_ropes, step_tokens, rope_dim / 2] */
    float *host_logits;               /* [n_vocab] what is drawn from, and spoilt by it */
    float *model_logits;              /* [n_vocab] the same as the model gave it, where log-probabilities are wanted */
    void *sampler_scratch;
    roco_kv_head *head_states; /* [n_layers * n_kv_heads] of one sequence, as they are on the device */
    uint64_t fault_nan;        /* test switch: counts down to the token that sees a NaN; 0 off */
    uint32_t *ranks;           /* [n_layers * n_kv_heads] of each head in the profile, from 0; NULL without one */
    uint32_t n_ranked;         /* heads that have one */
    uint32_t n_needed;         /* best heads that must be whole for a passage to be found again */
    uint32_t n_wanted;         /* those that should be */
    /* after each layer's attention; NULL but while profiling */
    void (*observe)(void *context, const roco_attention *attention);
    void *observe_context;
    roco_times *times; /* NULL unless operations are timed */
};

/* times.c: gives the backend its own table back. */
void roco_times_stop(roco_engine *engine);

/* Where a rope's cosines and sines start, host and device. */
static inline size_t roco_rope_offset(const roco_engine *engine, uint32_t rope)
{
    return (size_t)rope * engine->info.step_tokens * (engine->model.shape.rope_dim / 2);
}

/* pool.c. Pages from the options: those that name a size as soon as the model's shape is known, a share of the memory
 * that is free (`by_share`) when all else has its memory; does nothing when it is the other's turn. */
roco_status roco_pool_size(roco_engine *engine, const roco_engine_config *config, bool by_share, roco_error *error);
/* Takes the pool's memory; the last that is opened. */
roco_status roco_pool_open(roco_engine *engine, const roco_engine_config *config, roco_error *error);

/* What a layer's attention rotates by; the tables' own must be there for sequences by rank. */
roco_rank_rope roco_ranks_of_layer(const roco_engine *engine, uint32_t layer);
/* Sets the tables' memory aside, where the backend takes sequences by rank. ROCO_NO_MEMORY. */
roco_status roco_ranks_open(roco_engine *engine, roco_error *error);
/* Makes the tables up to `n_ranks` or the context. ROCO_NO_MEMORY. */
roco_status roco_ranks_reach(roco_engine *engine, uint32_t n_ranks);

/* x = embedding of ids, then all layers; chunks cover rows 0..n_rows-1. Buffers hold cosines and sines. */
void roco_forward(roco_engine *engine, uint32_t n_rows, uint32_t n_chunks);
/* Logits of n_wanted (<= logit_rows) rows of x into buffers.logits. */
void roco_forward_logits(roco_engine *engine, const uint32_t *wanted, uint32_t n_wanted);

#endif
