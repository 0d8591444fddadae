/* From logits to a token. One sampler per sequence; engine thread only.
 *
 * Order: mask and rules (logit_rules.h), temperature, then top_k, then top_p, then min_p, each on what the one before
 * left. Temperature 0 is greedy: the highest logit, the lowest id among equals. Draws come from a counter-based
 * generator: the i-th token of a sequence depends on (seed, i) and its logits alone.
 */
#ifndef ROCO_ENGINE_SAMPLER_H
#define ROCO_ENGINE_SAMPLER_H

#include "config/status.h"
#include "engine/logit_rules.h"

#include <stddef.h>
#include <stdint.h>

typedef struct roco_sampling {
    float temperature; /* 0..2; 0 is greedy */
    float top_p;       /* 0..1; 0 keeps one token, 1 all */
    float min_p;       /* 0..1; 0 off */
    int32_t top_k;     /* 0 off */
    uint64_t seed;
} roco_sampling;

/* One draw. All is borrowed. */
typedef struct roco_draw {
    const roco_sampling *sampling;
    const uint32_t *allowed;       /* a bit for each of n_vocab tokens, at least one set; NULL: all are allowed */
    const roco_logit_rules *rules; /* NULL: none */
    uint64_t index;                /* number of the token in the answer, from 0 */
} roco_draw;

/* Picks a token from logits[n_vocab] (may be overwritten). `scratch`: roco_sampler_scratch_bytes(n_vocab), as malloc
 * aligns. ROCO_NUMERIC when a logit is NaN or none is finite. */
roco_status roco_sample(const roco_draw *draw, float *logits, uint32_t n_vocab, void *scratch, int32_t *token);
size_t roco_sampler_scratch_bytes(uint32_t n_vocab);
/* The seed of choice number `choice` of a request. */
uint64_t roco_seed_for_choice(uint64_t seed, uint32_t choice);

#endif
