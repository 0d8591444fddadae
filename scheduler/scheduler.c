/* The public calls: they check, queue, mark and wake. The engine thread (step.c) does the rest. */
#include "scheduler/scheduler.h"

#include "scheduler/constrain.h"
#include "scheduler/job.h"
#include "scheduler/state.h"

#include <stdlib.h>

/* Prompts must go on however many sequences decode: one row for each, and a stride. */
static roco_status check_config(const roco_scheduler_config *config, uint32_t step_tokens, roco_error *error)
{
    const roco_engine_info *info = roco_engine_describe(config->engine);
    if (config->max_seqs == 0)
        return roco_fail(error, ROCO_INVALID, "max-seqs", "max-seqs is 0; at least 1 is needed");
    if (step_tokens > info->step_tokens)
        return roco_fail(error, ROCO_INVALID, "step-tokens",
                         "step-tokens is %u; the engine was opened for at most %u rows in a step", step_tokens,
                         info->step_tokens);
    uint64_t needed = (uint64_t)config->max_seqs + info->stride;
    if (step_tokens < needed)
        return roco_fail(error, ROCO_INVALID, "step-tokens",
                         "step-tokens is %u; %llu are needed, one for each of the %u sequences of max-seqs and %u for "
                         "one evict-stride",
                         step_tokens, (unsigned long long)needed, config->max_seqs, info->stride);
    return ROCO_OK;
}

static roco_status allocate(roco_scheduler *s, roco_error *error)
{
    uint32_t n_pages = roco_engine_describe(s->config.engine)->n_pages;
    s->running = calloc(s->config.max_seqs, sizeof *s->running);
    if (!s->running || roco_page_pool_init(&s->pool, n_pages) != ROCO_OK ||
        roco_batch_init(&s->batch, s->config.max_seqs) != ROCO_OK)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the scheduler");
    return ROCO_OK;
}

static void destroy(roco_scheduler *s)
{
    roco_trace_close(&s->trace);
    roco_constrain_close(s);
    roco_batch_free(&s->batch);
    roco_page_pool_free(&s->pool);
    free(s->running);
    roco_events_free(&s->events);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

roco_status roco_scheduler_open(const roco_scheduler_config *config, roco_scheduler **out, roco_error *error)
{
    const roco_engine_info *info = roco_engine_describe(config->engine);
    uint32_t step_tokens = config->step_tokens ? config->step_tokens : info->step_tokens;
    roco_status status = check_config(config, step_tokens, error);
    if (status != ROCO_OK)
        return status;
    roco_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the scheduler");
    s->config = *config;
    s->config.step_tokens = step_tokens;
    s->stride = info->stride;
    s->next_id = 1;
    ROCO_CHECK(pthread_mutex_init(&s->mutex, NULL) == 0 && pthread_cond_init(&s->work, NULL) == 0);
    roco_events_init(&s->events);
    roco_counters_init(&s->counters);
    status = allocate(s, error);
    if (status == ROCO_OK)
        status = roco_trace_open(&s->trace, config->trace, error);
    if (status == ROCO_OK)
        status = roco_constrain_open(s, error);
    if (status == ROCO_OK) {
        roco_scheduler_gauge(s);
        if (pthread_create(&s->thread, NULL, roco_scheduler_run, s) != 0)
            status = roco_fail(error, ROCO_NO_MEMORY, NULL, "the engine thread could not be started");
    }
    if (status != ROCO_OK) {
        destroy(s);
        return status;
    }
    pthread_setname_np(s->thread, "roco-engine");
    *out = s;
    return ROCO_OK;
}

void roco_scheduler_gauge(roco_scheduler *s)
{
    roco_counters *c = &s->counters;
    atomic_store_explicit(&c->running, s->n_running, memory_order_relaxed);
    atomic_store_explicit(&c->queued, s->queue.size, memory_order_relaxed);
    atomic_store_explicit(&c->pages_total, s->pool.total, memory_order_relaxed);
    atomic_store_explicit(&c->pages_held, s->pool.total - s->pool.n_free, memory_order_relaxed);
}

void roco_scheduler_share(const roco_job *job, int running, int queued)
{
    if (!job->share)
        return;
    atomic_fetch_add_explicit(&job->share->running, (uint32_t)running, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->share->queued, (uint32_t)queued, memory_order_relaxed);
}

/* What the next step can admit as things are, as step.c does it. */
typedef struct plan {
    uint32_t seats, pages; /* left */
    uint32_t n;            /* would start */
    bool full;             /* the next in turn does not fit; nobody overtakes it */
} plan;

static void plan_job(plan *p, const roco_job *job)
{
    if (p->full || !roco_share_has_seat(job->share, job->share ? job->share->planned : 0))
        return;
    p->full = p->n >= p->seats || job->pages > p->pages;
    if (p->full)
        return;
    p->n++;
    p->pages -= job->pages;
    if (job->share)
        job->share->planned++;
}

/* How many of the queue and, behind it, of the new jobs can start; shares have their own part in `planned`. Mutex held.
 */
static uint32_t count_startable(const roco_scheduler *s, roco_job *const *jobs, uint32_t n)
{
    plan p = {.seats = s->config.max_seqs - s->n_running, .pages = s->pool.n_free};
    for (const roco_job *job = s->queue.head; job; job = job->next)
        if (job->share)
            job->share->planned = 0;
    for (uint32_t i = 0; i < n; i++)
        if (jobs[i]->share)
            jobs[i]->share->planned = 0;
    for (const roco_job *job = s->queue.head; job && !p.full; job = job->next)
        plan_job(&p, job);
    for (uint32_t i = 0; i < n; i++)
        plan_job(&p, jobs[i]);
    return p.n;
}

/* The jobs of one request have one share. Mutex held; count_startable was called. */
static roco_status check_share(const roco_share *share, uint32_t n, roco_error *error)
{
    if (!share)
        return ROCO_OK;
    uint32_t running = share->max_running, queued = share->max_queued;
    if (n > (uint64_t)running + queued)
        return roco_fail(error, ROCO_TOO_LARGE, "n",
                         "the request asks for %u sequences; %u may run and %u wait at most for the key %s", n, running,
                         queued, share->name);
    if ((uint64_t)share->queued + n > (uint64_t)queued + share->planned)
        return roco_fail(error, ROCO_BUSY, "share", "at most %u sequences may run and %u wait for the key %s", running,
                         queued, share->name);
    return ROCO_OK;
}

/* Mutex held. */
static roco_status check_room(const roco_scheduler *s, roco_job *const *jobs, uint32_t n, roco_error *error)
{
    if (s->failed != ROCO_OK)
        return roco_fail(error, ROCO_DEVICE, NULL, "the device failed; the server must be restarted");
    if (s->draining || s->stopping)
        return roco_fail(error, ROCO_SHUTDOWN, NULL, "the server is shutting down");
    if (n > (uint64_t)s->config.max_seqs + s->config.queue)
        return roco_fail(error, ROCO_TOO_LARGE, "n",
                         "the request asks for %u sequences; the server runs %u and queues %u at most", n,
                         s->config.max_seqs, s->config.queue);
    uint64_t waiting = (uint64_t)s->queue.size + n - count_startable(s, jobs, n);
    roco_status status = check_share(jobs[0]->share, n, error);
    if (status != ROCO_OK)
        return status;
    if (waiting > s->config.queue)
        return roco_fail(error, ROCO_BUSY, NULL, "the queue is full: at most %u sequences may wait", s->config.queue);
    return ROCO_OK;
}

static roco_status enqueue(roco_scheduler *s, roco_job **jobs, uint32_t n, roco_error *error)
{
    pthread_mutex_lock(&s->mutex);
    roco_status status = check_room(s, jobs, n, error);
    if (status == ROCO_OK && roco_events_promise(&s->events, (size_t)n * ROCO_PROMISES_PER_JOB) != ROCO_OK)
        status = roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for the request's events");
    if (status == ROCO_OK) {
        for (uint32_t i = 0; i < n; i++) {
            jobs[i]->id = s->next_id++;
            jobs[i]->ending = ROCO_OK;
            jobs[i]->complete = false;
            roco_queue_push(&s->queue, jobs[i]);
            roco_scheduler_share(jobs[i], 0, 1);
        }
        roco_scheduler_gauge(s);
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->mutex);
    return status;
}

roco_status roco_scheduler_submit(roco_scheduler *s, roco_job **jobs, uint32_t n, roco_error *error)
{
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i < n && status == ROCO_OK; i++)
        status = roco_job_check(s->config.engine, jobs[i], error);
    if (status == ROCO_OK)
        status = enqueue(s, jobs, n, error);
    if (status != ROCO_OK)
        atomic_fetch_add_explicit(&s->counters.rejected, n, memory_order_relaxed);
    return status;
}

static void end_early(roco_scheduler *s, uint64_t id, bool complete)
{
    roco_job *found = NULL;
    pthread_mutex_lock(&s->mutex);
    for (uint32_t i = 0; i < s->n_running && !found; i++)
        found = s->running[i].job->id == id ? s->running[i].job : NULL;
    for (roco_job *job = s->queue.head; job && !found; job = job->next)
        found = job->id == id ? job : NULL;
    /* The engine thread is awake while any job lives; its next sweep sees the mark. */
    if (found && found->ending == ROCO_OK) {
        found->ending = ROCO_CANCELLED;
        found->complete = complete;
    }
    pthread_mutex_unlock(&s->mutex);
}

void roco_scheduler_cancel(roco_scheduler *s, uint64_t id)
{
    end_early(s, id, false);
}

void roco_scheduler_complete(roco_scheduler *s, uint64_t id)
{
    end_early(s, id, true);
}

void roco_scheduler_take_events(roco_scheduler *s, roco_event_list *list)
{
    roco_events_take(&s->events, list);
}

const roco_counters *roco_scheduler_counters(const roco_scheduler *s)
{
    return &s->counters;
}

void roco_scheduler_drain(roco_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    s->draining = true;
    pthread_mutex_unlock(&s->mutex);
}

void roco_scheduler_stop(roco_scheduler *s)
{
    if (s->joined)
        return;
    pthread_mutex_lock(&s->mutex);
    s->stopping = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
    ROCO_CHECK(pthread_join(s->thread, NULL) == 0);
    s->joined = true;
}

void roco_scheduler_close(roco_scheduler *s)
{
    if (!s)
        return;
    ROCO_CHECK(s->joined && s->n_running == 0 && s->queue.size == 0);
    ROCO_CHECK(s->pool.n_free == s->pool.total);
    roco_page_pool_check(&s->pool);
    destroy(s);
}
