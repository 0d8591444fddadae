/* Scoring: given tokens through the engine, many sequences at a time, and what the model thought of each of them. Main
 * thread. */
#ifndef ROCO_EVAL_SCORE_H
#define ROCO_EVAL_SCORE_H

#include "eval/cases.h"

typedef struct roco_score_run {
    roco_eval_case how;
    const int32_t *ids;
    uint32_t n_ids;
    double *nll;           /* [n_ids - 1] out: -log p of ids[1..] */
    roco_cache_usage kept; /* out: the cache after the last token */
} roco_score_run;

/* Runs all, in waves of as many as steps and pool hold. Prints progress to stderr. ROCO_TOO_LARGE when one does not fit
 * into the pool alone. */
roco_status roco_score(const roco_eval_setup *setup, roco_score_run *runs, uint32_t n_runs, roco_error *error);

/* exp of the mean of nll[from..to). */
double roco_perplexity(const double *nll, uint32_t from, uint32_t to);

#endif
