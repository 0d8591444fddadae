/* From the body of a request for text to the jobs the scheduler takes: JSON, fields, tokens, budgets.
 *
 * It knows neither the exchange nor the loop, so that large prompts can be worked on by libuv's pool.
 */
#ifndef ROCO_SERVER_COMPLETION_JOBS_H
#define ROCO_SERVER_COMPLETION_JOBS_H

#include "scheduler/scheduler.h"
#include "server/app_state.h"
#include "server/chat_turn.h"
#include "server/fields_completion.h"
#include "server/job_rules.h"

typedef struct roco_completion_jobs {
    roco_stop_set stops;
    roco_job_rules rules; /* the jobs borrow from it */
    bool deferred;        /* not read: a constraint or a template takes long; call again where that does not matter */
    bool stream, include_usage;
    bool echo, logprobs;       /* wanted in the reply */
    uint32_t n_top;            /* most probable tokens beside each */
    uint32_t n_asked, n_tried; /* answers for each prompt: of the tried ones the best are returned */
    const roco_policy *policy;
    uint32_t budget; /* tokens; the largest when a share of several prompts gives several; a policy that does not
                         evict: the largest sequence */
    uint32_t pinned; /* tokens that are never evicted; of several prompts the most */
    uint32_t n;      /* jobs, prompt by prompt, n_tried for each */
    uint32_t unsaid[ROCO_MAX_SEQUENCES]; /* bytes at the start of the prompt's tokens that its text did not have */
    uint64_t prompt_tokens;              /* each prompt once */
    roco_chat_turn turn;                 /* of a chat */
    roco_buffer repeated;                /* of /v1/responses: members of the reply that are the request's own */
    roco_job *jobs[ROCO_MAX_SEQUENCES];
} roco_completion_jobs;

/* `out` stays where it is; it is initialised in any case; on failure, or deferred, it holds no jobs and `problem` says
 * why. `may_wait`: it may take seconds. Any thread. */
roco_status roco_completion_jobs_read(const roco_served_model *model, roco_endpoint endpoint, const char *body,
                                      size_t size, bool may_wait, roco_completion_jobs *out, roco_problem *problem);
/* Frees the jobs that are still there, and what all jobs borrowed. */
void roco_completion_jobs_free(roco_completion_jobs *jobs);

#endif
