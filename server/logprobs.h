/* The `logprobs` member of a choice, in the shapes of OpenAI's two endpoints. Loop thread. */
#ifndef ROCO_SERVER_LOGPROBS_H
#define ROCO_SERVER_LOGPROBS_H

#include "server/completion.h"

/* JSON has no infinity: what is less likely than this is given as this. */
#define ROCO_LEAST_LOGPROB (-9999.0)

/* Makes room in the slot for the log-probabilities its job shall write, the prompt's first when it is echoed; none when
 * the request needs none. Before the job is submitted. ROCO_NO_MEMORY. */
roco_status roco_logprobs_open(const roco_completion_jobs *jobs, roco_completion_slot *slot, roco_job *job);

/* Writes the entries of the tokens that go with the text that is ready and were not written yet: `null` when none were
 * asked for, or when a stream has none to tell now. */
void roco_logprobs_write(roco_completion *c, roco_completion_slot *slot);

/* What best_of compares: over all tokens drawn, the end token included. */
double roco_logprobs_mean(const roco_completion *c, const roco_completion_slot *slot);

#endif
