/* Who a request counts to: the name behind API keys (http/auth.h), its limits, and what it has used.
 *
 * It is held by the key file's contents, by exchanges and by completions, and freed by the last of them, so a reload of
 * the keys ends nobody's request. Loop thread, but for the scheduler's part of `share`.
 */
#ifndef ROCO_HTTP_ACCOUNT_H
#define ROCO_HTTP_ACCOUNT_H

#include "scheduler/share.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCO_ACCOUNT_NAME_MAX 64 /* bytes of [A-Za-z0-9._-] */

/* How a request for an answer ended. With several choices the first of these that one of them has, from the right. */
typedef enum roco_outcome {
    ROCO_OUTCOME_STOP,
    ROCO_OUTCOME_LENGTH,
    ROCO_OUTCOME_CANCELLED, /* the client went away */
    ROCO_OUTCOME_REJECTED,  /* refused before a token was generated */
    ROCO_OUTCOME_ERROR,
    ROCO_N_OUTCOMES,
} roco_outcome;

typedef struct roco_account_limits {
    uint32_t running, queued;   /* sequences; ROCO_SHARE_UNLIMITED */
    uint32_t tokens_per_minute; /* of prompts and answers; 0: no limit */
} roco_account_limits;

typedef struct roco_account {
    char name[ROCO_ACCOUNT_NAME_MAX + 1];
    uint32_t n_holders;
    roco_account_limits limits;
    roco_share share;
    double tokens_left; /* of tokens_per_minute; negative while an answer goes on that began when some were left */
    uint64_t refilled_ns;

    uint64_t n_outcomes[ROCO_N_OUTCOMES];
    uint64_t n_over_share, n_over_tokens; /* requests answered with 429 for a limit of its own */
    uint64_t prompt_tokens, answer_tokens;
} roco_account;

/* With one holder and all its tokens. NULL when out of memory. */
roco_account *roco_account_open(const char *name, const roco_account_limits *limits, uint64_t now_ns);
void roco_account_hold(roco_account *account);
void roco_account_release(roco_account *account); /* NULL does nothing */

/* Other limits from now on. What is used stays used. */
void roco_account_set_limits(roco_account *account, const roco_account_limits *limits, uint64_t now_ns);

/* Seconds until it may ask again; 0: it may now. A request may begin while any token is left and is charged for what
 * it really uses, so what comes over a long time is the limit exactly, and no request is too long to ever begin. */
uint32_t roco_account_wait_s(roco_account *account, uint64_t now_ns);
void roco_account_charge(roco_account *account, uint64_t prompt_tokens, uint64_t answer_tokens);

#endif
