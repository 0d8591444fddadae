/* Log-probabilities of a row of logits: of the model's own distribution, before any rule, temperature or filter.
 * Any thread; no state. */
#ifndef ROCO_ENGINE_LOGPROBS_H
#define ROCO_ENGINE_LOGPROBS_H

#include <stdint.h>

#define ROCO_MAX_TOP_LOGPROBS 20u

typedef struct roco_logprob {
    int32_t token; /* -1: none */
    float value;   /* natural logarithm, <= 0; -infinity where the model's logit is */
} roco_logprob;

/* Fills top[n_top], n_top <= ROCO_MAX_TOP_LOGPROBS, with the most probable tokens, the best first, the lower id among
 * equals; {-1, -infinity} where there are fewer with a finite logit. Returns the logarithm of the sum of exp(logits):
 * a token's log-probability is its logit less that. Its relative error is below 1e-6. NaN when a logit is NaN or none
 * is finite. */
double roco_logprobs_top(const float *logits, uint32_t n_vocab, uint32_t n_top, roco_logprob *top);

#endif
