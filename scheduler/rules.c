/* The logit rules of a sequence as they change from token to token. See rules.h. */
#include "scheduler/rules.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* The distinct tokens of the prompt into job->seen. */
static roco_status note_prompt(roco_job *job)
{
    int32_t *sorted = malloc(job->n_prompt * sizeof *sorted);
    if (!sorted)
        return ROCO_NO_MEMORY;
    memcpy(sorted, job->prompt, job->n_prompt * sizeof *sorted);
    qsort(sorted, job->n_prompt, sizeof *sorted, by_value);
    for (uint32_t i = 0; i < job->n_prompt; i++)
        if (i == 0 || sorted[i] != sorted[i - 1])
            job->seen[job->rules.n_seen++] = (roco_seen_token){.token = sorted[i]};
    free(sorted);
    return ROCO_OK;
}

roco_status roco_job_track_tokens(roco_job *job)
{
    const roco_logit_rules *rules = &job->rules;
    const bool in_prompt = rules->repetition != 1.0f;
    if (!in_prompt && rules->frequency == 0.0f && rules->presence == 0.0f)
        return ROCO_OK;
    job->seen = malloc(((size_t)(in_prompt ? job->n_prompt : 0) + job->max_tokens + 1) * sizeof *job->seen);
    return !job->seen ? ROCO_NO_MEMORY : in_prompt ? note_prompt(job) : ROCO_OK;
}

static void update(roco_job *job, uint32_t n_generated)
{
    job->rules.banned = job->ends;
    job->rules.n_banned = n_generated < job->min_tokens ? job->n_ends : 0;
    job->rules.seen = job->seen;
    job->ruled = job->rules.n_bias || job->rules.n_banned || job->seen;
}

void roco_rules_begin(roco_job *job)
{
    update(job, 0);
}

void roco_rules_note(roco_job *job, int32_t token, uint32_t n_generated)
{
    if (job->seen) {
        uint32_t at = 0;
        while (at < job->rules.n_seen && job->seen[at].token != token)
            at++;
        if (at == job->rules.n_seen)
            job->seen[job->rules.n_seen++] = (roco_seen_token){.token = token};
        job->seen[at].n_generated++;
    }
    update(job, n_generated);
}

const roco_logit_rules *roco_rules_of(const roco_job *job)
{
    return job->ruled ? &job->rules : NULL;
}
