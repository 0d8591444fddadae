/* What a request changes in the logits of its sequence before a token is drawn. Engine thread.
 *
 * Plain data, borrowed and read only here, so that a sampler on a device can follow the same rules. Cost: the rules'
 * own length, never the vocabulary's; only a mask looks at every token.
 *
 * Order: mask, bias, bans, repetition, frequency and presence. A token that the mask or a ban left out stays out.
 */
#ifndef ROCO_ENGINE_LOGIT_RULES_H
#define ROCO_ENGINE_LOGIT_RULES_H

#include "config/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct roco_logit_bias {
    int32_t token;
    float bias; /* added */
} roco_logit_bias;

/* A token of the sequence so far. */
typedef struct roco_seen_token {
    int32_t token;
    uint32_t n_generated; /* times in the answer; 0: in the prompt alone */
} roco_seen_token;

typedef struct roco_logit_rules {
    const roco_logit_bias *bias; /* [n_bias], each token once */
    uint32_t n_bias;
    const int32_t *banned; /* [n_banned], each token once. They yield where the mask allows nothing else. */
    uint32_t n_banned;
    const roco_seen_token *seen; /* [n_seen], each token once */
    uint32_t n_seen;
    float repetition; /* > 0; 1 off. Divides positive logits of seen tokens, multiplies others (arXiv 1909.05858) */
    float frequency;  /* times n_generated is subtracted (OpenAI's definition, as the next) */
    float presence;   /* is subtracted where n_generated > 0 */
} roco_logit_rules;

/* Logits of tokens whose bit is 0 become -infinity; bit i of the mask is bit i % 32 of word i / 32. False when one of
 * those was NaN: the row cannot be trusted. */
bool roco_logits_mask(const uint32_t *allowed, float *logits, uint32_t n_vocab);

/* Applies `rules` to logits[n_vocab]. `allowed` is the mask they went through before, or NULL. */
void roco_logits_apply(const roco_logit_rules *rules, const uint32_t *allowed, float *logits, uint32_t n_vocab);

#endif
