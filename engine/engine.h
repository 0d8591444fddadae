/* The engine: a model, a KV pool and a backend; it runs steps over mixed batches of sequences.
 *
 * It knows nothing of requests, queues or HTTP. One thread (the scheduler's) calls it, except for roco_engine_open,
 * which may run on any thread before, and roco_engine_describe, roco_cache_pages and roco_cache_serves, which read what
 * never changes.
 * Whoever calls owns the page accounting: the engine is told which pages a cache may use (the block table) and never
 * asks for more.
 */
#ifndef ROCO_ENGINE_ENGINE_H
#define ROCO_ENGINE_ENGINE_H

#include "config/options.h"
#include "config/status.h"
#include "engine/logprobs.h"
#include "engine/rope_choice.h"
#include "engine/sampler.h"
#include "engine/source.h"
#include "kernels/backend.h"
#include "kernels/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct roco_engine roco_engine;
typedef struct roco_cache roco_cache; /* one sequence's KV cache */

typedef struct roco_engine_config {
    const roco_source *source; /* borrowed until roco_engine_close */
    const char *backend;       /* "auto" | "cpu" | "cuda" */
    uint32_t device;           /* CUDA: number of the device */
    bool fixed_products;       /* CUDA: how many rows which product multiplies is not measured (tests) */
    const char *precision;     /* "auto" | "f32" | "int8" */
    const char *isa;           /* see roco_backend_config */
    uint32_t threads;
    uint32_t context; /* 0: the model's */
    roco_rope_choice rope;
    roco_kv_type kv_type;
    uint64_t kv_pool_bytes;    /* used when kv_pool_tokens and the share are 0 */
    const char *kv_pool_share; /* of the memory free beside weights and scratch, as text; NULL, 0: none */
    uint64_t kv_pool_tokens;   /* tokens of full cache over all layers and heads */
    uint32_t stride;           /* prompt tokens between two evictions, 1.. */
    uint32_t step_tokens;      /* rows of one step at most; >= stride */
} roco_engine_config;

/* kv-pool-share as a number, 0 or 0.01 to 0.98; ROCO_INVALID. `text` may be NULL. */
roco_status roco_pool_read_share(const char *text, double *out, roco_error *error);

/* What the options say of an engine. Borrows from both. */
roco_engine_config roco_engine_configure(const roco_options *options, const roco_source *source);

typedef struct roco_engine_info {
    char model_name[128]; /* general.name made printable, else the file's base name */
    const char *architecture;
    uint32_t n_vocab, n_context, n_layers, n_heads, n_kv_heads, width;
    uint32_t stride, step_tokens;
    bool has_profile; /* budgets go by head */
    roco_kv_layout layout;
    uint32_t n_pages; /* in the pool */
    uint64_t pool_bytes, weight_bytes, scratch_bytes;
    uint64_t rank_bytes; /* rotations by rank; memory is touched up to the largest cache of a sequence by rank */
    uint64_t free_bytes; /* of which the pool is a share; 0 when its size was named */
    const char *backend; /* description */
    roco_precision precision;
} roco_engine_info;

/* Prints nothing; errors name the option or tensor. Allocates everything a step will need. Returns owned. */
roco_status roco_engine_open(const roco_engine_config *config, roco_engine **out, roco_error *error);
void roco_engine_close(roco_engine *engine); /* every cache must be closed */
/* Valid until close. Any thread. */
const roco_engine_info *roco_engine_describe(const roco_engine *engine);

/* Budgets go by head from now on (profile.h): scores [n_layers * n_kv_heads], layer-major; the better a head retrieves,
 * the higher. Copies. Before the first cache and the first question for pages. ROCO_NO_MEMORY. */
roco_status roco_engine_use_profile(roco_engine *engine, const float *scores, roco_error *error);

/* Tokens of the longest sequence whose positions are ranks in the cache. */
#define ROCO_MAX_STREAM (1u << 30)

/* What a sequence's cache must be able to hold. */
typedef struct roco_cache_spec {
    const roco_policy *policy;
    uint32_t budget; /* average tokens a head may hold; ignored by policies that do not evict */
    uint32_t length; /* prompt + max_tokens, 1..n_context, by rank 1..ROCO_MAX_STREAM */
    uint32_t sink, recent;
    uint32_t uncapped;    /* tokens at the end, the answer's, that are kept on top of the budget; < length */
    const roco_pin *pins; /* [n_pins] never evicted, but by a sliding window. Borrowed for the call. */
    uint32_t n_pins;
    uint32_t stride;              /* prompt tokens between two evictions, 1 up to the engine's; 0: the engine's */
    bool by_rank;                 /* positions are ranks in the cache: `length` may pass n_context, slots and a stride
                                     may not. Implies uniform. */
    bool compensate;              /* heads that evict keep one slot of their budget for the mean of what they evicted,
                                     but those with a sliding window. The policy keeps S; not by rank. */
    bool uniform;                 /* all heads get `budget`, though the engine has a head profile */
    const uint32_t *head_budgets; /* [n_layers * n_kv_heads], layer-major: the heads' own budgets. NULL: by the engine's
                                     profile, else all equal to budget. Borrowed for the call. */
    const roco_kv_type *head_types; /* [n_layers * n_kv_heads], layer-major: how each head's K and V are stored; f32
                                       only when the engine's is. NULL: all as the engine's. Borrowed for the call. */
} roco_cache_spec;

/* Pages the cache will hold from open to close: sum over layers and heads of ceil(min(length, budget) / slots), where
 * slots are a page's at the head's type (roco_engine_slots). With a
 * head profile never more than without. */
uint32_t roco_cache_pages(const roco_engine *engine, const roco_cache_spec *spec);
/* Whether the backend has what the cache needs. ROCO_UNSUPPORTED, naming kv_policy, kv_positions or kv_compensation;
 * ROCO_INVALID when the policy or positions do not go with compensation. */
roco_status roco_cache_serves(const roco_engine *engine, const roco_cache_spec *spec, roco_error *error);
/* Slots of one page for a head whose K and V are of that type. */
uint32_t roco_engine_slots(const roco_engine *engine, roco_kv_type type);
/* Copies the block table pages[roco_cache_pages()]. ROCO_INVALID when sink, pins and recent leave no room in a head's
 * budget. Returns owned. */
roco_status roco_cache_open(roco_engine *engine, const roco_cache_spec *spec, const uint32_t *pages, roco_cache **out,
                            roco_error *error);
void roco_cache_close(roco_engine *engine, roco_cache *cache);
/* `to`, opened by the same spec and fed nothing, goes on as `from` would. For benchmarks. ROCO_NO_MEMORY. */
roco_status roco_cache_copy(roco_engine *engine, const roco_cache *from, roco_cache *to);

typedef struct roco_cache_usage {
    uint32_t length;        /* tokens fed so far */
    uint32_t held;          /* what a head holds now, in tokens of the pool's type: one at q8 takes 32 / 56 of one at
                               f16; the mean over layers and heads, rounded to nearest */
    uint32_t evicted;       /* tokens a head gave up, likewise a mean */
    uint64_t slots_evicted; /* over all layers and heads */
} roco_cache_usage;
void roco_cache_measure(const roco_cache *cache, roco_cache_usage *out);

/* The share of a query's attention that the evicted tokens drew: M / (1 + M) with M the sum over a head's evicted
 * tokens of p that the last query before paid to them, where what the head holds draws 1; the mean over all heads,
 * 0..1. What falls out of a sliding window does not count. NaN with a policy that looks at no attention. Waits for the
 * device. */
double roco_cache_evicted_mass(const roco_engine *engine, const roco_cache *cache);

/* What one head holds: positions into out[budget], returns how many; without a slot that compensates. For traces, tests
 * and a later live view. */
uint32_t roco_cache_positions(const roco_engine *engine, const roco_cache *cache, uint32_t layer, uint32_t head,
                              int32_t *out);
/* Checks the slots against the invariants (dense, positions distinct and below length, held <= budget); aborts when
 * broken. Tests. */
void roco_cache_check(const roco_engine *engine, const roco_cache *cache);

/* One sequence's part of a step. */
typedef struct roco_step_item {
    roco_cache *cache;
    const int32_t *tokens; /* borrowed for the call */
    uint32_t
        n_tokens; /* prompt: whole strides of the cache counted from position 0, or up to the prompt's end; decode: 1 */
    bool decode;
    const roco_sampling *sampling; /* NULL: no token is wanted (the prompt goes on) */
    uint64_t sample_index;         /* number of the token to be drawn, from 0 */
    const uint32_t *allowed;       /* see roco_draw; NULL: all tokens */
    const roco_logit_rules *rules; /* NULL: none */
    float *logits;                 /* NULL, or [n_tokens, n_vocab] to be filled (tests, evaluation) */
    /* NULL, or a row of 1 + n_top entries to be filled for each target and, when sampling, the drawn token: the token
     * itself, then the most probable ones at its place. Targets are the tokens that follow the first n_targets rows. */
    roco_logprob *logprobs;
    const int32_t *targets; /* borrowed; n_targets is n_tokens, or one less where the last row draws or is not wanted */
    uint32_t n_targets, n_top;
    int32_t token;      /* out: the drawn token, when sampling */
    roco_status status; /* out: ROCO_OK, or ROCO_NUMERIC for this sequence alone */
} roco_step_item;

/* Runs one step: sum of n_tokens <= step_tokens, each cache at most once. ROCO_DEVICE when the backend failed: all
 * items are lost. */
roco_status roco_engine_step(roco_engine *engine, roco_step_item *items, uint32_t n_items, roco_error *error);

/* --- where a step's time goes --- */

enum { ROCO_OP_TIMES = 16 };
typedef struct roco_op_time {
    const char *name; /* "attention", "gate, up" */
    uint64_t ns, n_calls;
} roco_op_time;
/* From now on each operation of the backend is timed, and waited for; until then none of it costs anything. Allocates.
 * ROCO_NO_MEMORY. */
roco_status roco_engine_time(roco_engine *engine, roco_error *error);
/* What was measured since then or since the last call, in a step's order, into out[ROCO_OP_TIMES]. Returns how many. */
uint32_t roco_engine_times(roco_engine *engine, roco_op_time *out);

/* Test switch (`--fault nan:N`): the N-th sampled token of the process sees a NaN logit. No-op unless built with
 * ROCO_FAULTS. */
void roco_engine_fault_nan(roco_engine *engine, uint64_t countdown);

#endif
