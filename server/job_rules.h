/* What a request says of the tokens of its answers: biases, penalties, ends. Any thread; knows no endpoint. */
#ifndef ROCO_SERVER_JOB_RULES_H
#define ROCO_SERVER_JOB_RULES_H

#include "engine/tokenizer.h"
#include "scheduler/scheduler.h"
#include "server/fields_completion.h"

/* What all jobs of a request borrow. Init with {0}. */
typedef struct roco_job_rules {
    roco_logit_bias *bias; /* owned, as the next */
    int32_t *stop_tokens, *ends;
    uint32_t n_bias, n_stop_tokens, n_ends;
} roco_job_rules;

/* Reads them. ROCO_INVALID with the field, ROCO_NO_MEMORY; what was read so far is then still to be freed. */
roco_status roco_job_rules_read(const roco_completion_params *params, const roco_tokenizer *tokenizer, uint32_t n_vocab,
                                roco_job_rules *out, roco_error *error);
/* Applies them to a job whose prompt and max_tokens are set. ROCO_NO_MEMORY. */
roco_status roco_job_rules_apply(const roco_job_rules *rules, const roco_completion_params *params, roco_job *job);
void roco_job_rules_free(roco_job_rules *rules);

#endif
