/* A job's logit rules from one token to the next: which tokens were seen, and how long its ends are banned.
 *
 * Seen tokens are a list: the sampler walks it anyway, so a search by walking costs no more, and it is as long as there
 * are different tokens. All its room is there before the job is submitted. Engine thread.
 */
#ifndef ROCO_SCHEDULER_RULES_H
#define ROCO_SCHEDULER_RULES_H

#include "scheduler/scheduler.h"

/* When the job is admitted, and after each drawn token, of which there are n_generated now. */
void roco_rules_begin(roco_job *job);
void roco_rules_note(roco_job *job, int32_t token, uint32_t n_generated);
/* For the next step; NULL when nothing changes. */
const roco_logit_rules *roco_rules_of(const roco_job *job);

#endif
