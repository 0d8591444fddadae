/* An engine without a model: it stands in for engine/engine.h at link time and holds the scheduler to its contract.
 *
 * A drawn token is a hash of the sequence's own tokens, so a test can say beforehand what must come out, and any
 * mix-up between sequences shows. Every call checks what the engine's header asks of the caller and aborts when it is
 * broken: one thread, block tables disjoint and of the right size, each cache once a step, rows under the limit,
 * strides cut only where they end, sample numbers in order. Log-probabilities are minus the token's position, and the
 * most probable tokens are 0, 1, 2, ...
 */
#ifndef ROCO_TESTS_FAKE_ENGINE_H
#define ROCO_TESTS_FAKE_ENGINE_H

#include "engine/engine.h"

typedef struct fake_config {
    uint32_t n_vocab, n_context;
    uint32_t n_layers, n_kv_heads;
    uint32_t stride, step_tokens, n_pages;
    uint32_t sleep_us;   /* time a step takes */
    bool gated;          /* steps wait for fake_engine_allow */
    bool record;         /* keep every step for fake_engine_step_at */
    int32_t nan_token;   /* a sequence whose first token this is fails with NUMERIC; -1 none */
    uint32_t nan_index;  /* ... at this drawn token */
    uint64_t fail_step;  /* this step (from 1) fails with DEVICE; 0 none */
    bool no_ranks;       /* the backend takes no sequences by rank */
    int32_t refuse_open; /* a sequence of this length gets no cache; 0 none */
} fake_config;

/* 4 heads, pages of 32 slots, stride 16, 64 rows a step, vocabulary 101, context 4096. */
fake_config fake_config_default(void);
roco_engine *fake_engine_open(const fake_config *config);

/* One item of a recorded step. */
typedef struct fake_item {
    uint32_t cache; /* number of the cache, in order of opening, from 0 */
    uint32_t position, n_tokens;
    bool decode, sampled;
} fake_item;
typedef struct fake_step {
    fake_item *items;
    uint32_t n_items, rows;
} fake_step;

/* After the scheduler stopped, or while it is held at the gate. */
uint64_t fake_engine_n_steps(const roco_engine *engine);
const fake_step *fake_engine_step_at(const roco_engine *engine, uint64_t index);
uint32_t fake_engine_most_open(const roco_engine *engine);

/* The gate, any thread. Lets n steps more through; waits until the engine stands at the gate with its packed batch and
 * none is allowed; opens it for good. */
void fake_engine_allow(roco_engine *engine, uint64_t n);
void fake_engine_wait_held(roco_engine *engine);
void fake_engine_open_gate(roco_engine *engine);

/* The hash: start with 0, feed every token; the next drawn token follows from it. */
uint64_t fake_feed(uint64_t hash, int32_t token);
int32_t fake_draw(uint64_t hash, uint32_t n_vocab);

#endif
