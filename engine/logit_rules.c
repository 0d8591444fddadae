/* See logit_rules.h for the order. */
#include "engine/logit_rules.h"

#include <math.h>

bool roco_logits_mask(const uint32_t *allowed, float *logits, uint32_t n_vocab)
{
    bool broken = false;
    for (uint32_t first = 0; first < n_vocab; first += 32) {
        const uint32_t word = allowed[first / 32];
        if (word == UINT32_MAX)
            continue;
        const uint32_t n = n_vocab - first < 32 ? n_vocab - first : 32;
        for (uint32_t i = 0; i < n; i++) {
            if (word >> i & 1)
                continue;
            broken |= isnan(logits[first + i]);
            logits[first + i] = -INFINITY;
        }
    }
    return !broken;
}

static bool is_allowed(const uint32_t *allowed, int32_t token)
{
    return !allowed || allowed[token / 32] >> (token % 32) & 1;
}

/* Whether the bans leave the mask any token. */
static bool leaves_some(const roco_logit_rules *rules, const uint32_t *allowed, uint32_t n_vocab)
{
    uint32_t left = 0;
    for (uint32_t first = 0; first < n_vocab; first += 32) {
        const uint32_t n = n_vocab - first;
        left += (uint32_t)__builtin_popcount(allowed[first / 32] & (n < 32 ? (1u << n) - 1 : UINT32_MAX));
    }
    for (uint32_t i = 0; i < rules->n_banned; i++)
        left -= is_allowed(allowed, rules->banned[i]);
    return left > 0;
}

void roco_logits_apply(const roco_logit_rules *rules, const uint32_t *allowed, float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < rules->n_bias; i++)
        logits[rules->bias[i].token] += rules->bias[i].bias;
    if (rules->n_banned && (!allowed || leaves_some(rules, allowed, n_vocab)))
        for (uint32_t i = 0; i < rules->n_banned; i++)
            logits[rules->banned[i]] = -INFINITY;
    for (uint32_t i = 0; i < rules->n_seen; i++) {
        const roco_seen_token *seen = &rules->seen[i];
        float *logit = &logits[seen->token];
        *logit = *logit > 0 ? *logit / rules->repetition : *logit * rules->repetition;
        *logit -= (float)seen->n_generated * rules->frequency + (seen->n_generated ? rules->presence : 0.0f);
    }
}
