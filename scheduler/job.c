#include "scheduler/job.h"

#include <stdlib.h>

roco_job *roco_job_open(void)
{
    roco_job *job = calloc(1, sizeof *job);
    if (job)
        job->rules.repetition = 1.0f;
    return job;
}

void roco_job_free(roco_job *job)
{
    if (!job)
        return;
    free(job->prompt);
    free(job->seen);
    roco_constraint_release(job->constraint);
    free(job);
}

roco_cache_spec roco_job_spec(const roco_job *job)
{
    return (roco_cache_spec){
        .policy = job->policy,
        .budget = job->budget,
        .length = job->n_prompt + job->max_tokens,
        .sink = job->sink,
        .recent = job->recent,
        .stride = job->stride,
        .by_rank = job->by_rank,
        .compensate = job->compensate,
        .uniform = job->uniform,
        .uncapped = job->uncapped,
        .pins = job->pins,
        .n_pins = job->n_pins,
    };
}

static roco_status check_length(const roco_engine_info *info, const roco_job *job, roco_error *error)
{
    if (job->n_prompt == 0 || !job->prompt)
        return roco_fail(error, ROCO_INVALID, "prompt", "the prompt is empty; at least one token is needed");
    const uint64_t length = (uint64_t)job->n_prompt + job->max_tokens;
    if (job->by_rank && length > ROCO_MAX_STREAM)
        return roco_fail(error, ROCO_TOO_LARGE, "prompt", "prompt and answer may be at most %u tokens together",
                         ROCO_MAX_STREAM);
    if (!job->by_rank && length > info->n_context)
        return roco_fail(error, ROCO_TOO_LARGE, "prompt",
                         "the prompt has %u tokens and max_tokens asks for %u more; together they may be at most %u, "
                         "the context length",
                         job->n_prompt, job->max_tokens, info->n_context);
    return ROCO_OK;
}

static roco_status check_tokens(const roco_engine_info *info, const roco_job *job, roco_error *error)
{
    for (uint32_t i = 0; i < job->n_prompt; i++) {
        if (job->prompt[i] < 0 || (uint32_t)job->prompt[i] >= info->n_vocab)
            return roco_fail(error, ROCO_INVALID, "prompt", "token %u of the prompt is %d; token ids are 0 to %u", i,
                             job->prompt[i], info->n_vocab - 1u);
    }
    return ROCO_OK;
}

static roco_status check_cache(const roco_engine *engine, roco_job *job, roco_error *error)
{
    if (!job->policy)
        return roco_fail(error, ROCO_INVALID, "kv_policy", "no eviction policy was chosen");
    uint64_t pinned = 0;
    for (uint32_t i = 0; i < job->n_pins; i++)
        pinned += job->pins[i].end - job->pins[i].first;
    if (job->policy->evicts && pinned + job->sink + job->recent + job->compensate >= job->budget)
        return roco_fail(error, ROCO_INVALID, "kv_budget",
                         "kv_budget is %u; it must be more than kv_sink, kv_recent and the pinned tokens together, "
                         "which are %u, %u and %llu%s",
                         job->budget, job->sink, job->recent, (unsigned long long)pinned,
                         job->compensate ? ", and one slot for kv_compensation" : "");
    roco_cache_spec spec = roco_job_spec(job);
    roco_status status = roco_cache_serves(engine, &spec, error);
    if (status)
        return status;
    const roco_engine_info *info = roco_engine_describe(engine);
    const uint64_t wanted = job->policy->evicts ? (uint64_t)job->budget + job->uncapped : spec.length;
    const uint64_t slots = wanted < spec.length ? wanted : spec.length;
    if (job->by_rank && slots + info->stride > info->n_context)
        return roco_fail(error, ROCO_TOO_LARGE, "kv_budget",
                         "with kv_positions \"cache\" what a head holds (%llu tokens) and a stride (%u) must fit into "
                         "the context of %u; choose a smaller kv_budget, and a kv_policy that evicts",
                         (unsigned long long)slots, info->stride, info->n_context);
    uint32_t n_pages = info->n_pages;
    job->pages = roco_cache_pages(engine, &spec);
    if (job->pages > n_pages)
        return roco_fail(error, ROCO_TOO_LARGE, "kv_budget",
                         "the request needs %u pages of the KV pool, which has %u in all; lower max_tokens or "
                         "kv_budget%s",
                         job->pages, n_pages, job->policy->evicts ? "" : " (with a kv_policy that evicts)");
    return ROCO_OK;
}

roco_status roco_job_check(const roco_engine *engine, roco_job *job, roco_error *error)
{
    const roco_engine_info *info = roco_engine_describe(engine);
    roco_status status = check_length(info, job, error);
    if (status == ROCO_OK)
        status = check_tokens(info, job, error);
    if (status == ROCO_OK)
        status = check_cache(engine, job, error);
    return status;
}
