/* Greedy answers of many sequences at once, and how far caches differ on the same one. Main thread. */
#ifndef ROCO_EVAL_GENERATE_H
#define ROCO_EVAL_GENERATE_H

#include "eval/cases.h"

/* One prompt under one case. */
typedef struct roco_answer {
    roco_eval_case how;
    const int32_t *prompt; /* [n_prompt] */
    uint32_t n_prompt;
    int32_t *drawn; /* [n_new] out: the most likely token of each place */
    uint32_t n_drawn;
    double kl; /* out, of a follower: sum over places but the first of KL(leader || this) in nats */
    roco_cache_usage kept;
    double evicted_mass;
} roco_answer;

/* Runs in groups of `group` neighbours; n is a multiple of it. With 1 each goes on with what it draws, up to an end
 * token (which stays in `drawn`). Else the first of a group leads: the others are fed what it draws, so that all read
 * the same and places can be compared. n_new: tokens of an answer. Prints progress to stderr. ROCO_TOO_LARGE when a
 * group does not fit into a step or the pool. */
roco_status roco_generate(const roco_eval_setup *setup, roco_answer *answers, uint32_t n, uint32_t group,
                          uint32_t n_new, roco_error *error);

#endif
