/* The engine thread: one step after the other, sleeping when there is nothing to run.
 *
 *   sweep    cancels, deadlines, drain: what must end, ends
 *   admit    in order of arrival while seats and pages last; only those whose share is used up are overtaken, so a
 *            large request waits its turn but is never starved
 *   pack     batch.c
 *   step     the engine, without the lock
 *   harvest  tokens out; what is over gives its pages back
 */
#include "scheduler/constrain.h"
#include "scheduler/job.h"
#include "scheduler/rules.h"
#include "scheduler/state.h"

#include "config/clock.h"
#include "config/log.h"

#include <stdlib.h>

/* Tokens between two looks at what was evicted: it has to come from the device, and nobody asks before the end. */
#define MASS_EVERY 16u

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- sweep ---- */

typedef struct sweep_context {
    const roco_scheduler *scheduler;
    uint64_t now_ns;
} sweep_context;

/* What ends a job from outside, or ROCO_OK. Mutex held. */
static roco_status outside_reason(const sweep_context *context, const roco_job *job, bool queued)
{
    const roco_scheduler *s = context->scheduler;
    if (job->ending != ROCO_OK)
        return job->ending;
    if (s->failed != ROCO_OK)
        return s->failed;
    if (s->stopping || (s->draining && queued))
        return ROCO_SHUTDOWN;
    bool late = job->deadline_ns && context->now_ns >= job->deadline_ns;
    bool waited_too_long = queued && job->queue_deadline_ns && context->now_ns >= job->queue_deadline_ns;
    return late || waited_too_long ? ROCO_TIMEOUT : ROCO_OK;
}

static bool must_leave_queue(void *context, roco_job *job)
{
    job->ending = outside_reason(context, job, true);
    return job->ending != ROCO_OK;
}

static void sweep(roco_scheduler *s, uint64_t now_ns)
{
    sweep_context context = {s, now_ns};
    pthread_mutex_lock(&s->mutex);
    for (uint32_t i = 0; i < s->n_running; i++) {
        roco_status reason = outside_reason(&context, s->running[i].job, false);
        if (reason != ROCO_OK)
            roco_sequence_fail(&s->running[i], reason);
    }
    roco_job *job = roco_queue_sweep(&s->queue, must_leave_queue, &context);
    for (const roco_job *over = job; over; over = over->next)
        roco_scheduler_share(over, 0, -1);
    roco_scheduler_gauge(s);
    pthread_mutex_unlock(&s->mutex);
    while (job) {
        roco_job *next = job->next; /* finish gives the job away */
        roco_sequence never_ran = {.job = job};
        roco_sequence_fail(&never_ran, job->ending);
        roco_scheduler_finish(s, &never_ran, now_ns);
        job = next;
    }
}

/* ---- leaving ---- */

/* Pages go back before FINISHED goes out: who has seen a sequence end may count on its pages. */
static void leave(roco_scheduler *s, uint32_t index, uint64_t now_ns)
{
    roco_sequence gone = s->running[index];
    if (gone.cache)
        roco_cache_close(s->config.engine, gone.cache);
    roco_constrain_end(&gone);
    pthread_mutex_lock(&s->mutex);
    roco_page_pool_give(&s->pool, gone.pages, gone.n_pages);
    roco_scheduler_share(gone.job, -1, 0);
    s->n_running--;
    for (uint32_t i = index; i < s->n_running; i++)
        s->running[i] = s->running[i + 1u];
    roco_scheduler_gauge(s);
    pthread_mutex_unlock(&s->mutex);
    free(gone.pages);
    roco_scheduler_finish(s, &gone, now_ns);
}

static void release_finished(roco_scheduler *s, uint64_t now_ns)
{
    for (uint32_t i = 0; i < s->n_running;) {
        if (s->running[i].finish != ROCO_FINISH_NONE)
            leave(s, i, now_ns);
        else
            i++;
    }
}

/* ---- admit ---- */

/* The first in the queue whose share lets it run. Mutex held. */
static roco_job *next_in_queue(const roco_scheduler *s)
{
    roco_job *job = s->queue.head;
    while (job && !roco_share_has_seat(job->share, 0))
        job = job->next;
    return job;
}

/* Moves the next of the queue to the running sequences when a seat and its pages are free; NULL when not. */
static roco_sequence *seat_next(roco_scheduler *s, uint64_t now_ns)
{
    roco_sequence *sequence = NULL;
    pthread_mutex_lock(&s->mutex);
    roco_job *job = s->draining || s->stopping ? NULL : next_in_queue(s);
    if (job && s->n_running < s->config.max_seqs && job->pages <= s->pool.n_free) {
        roco_queue_remove(&s->queue, job);
        roco_scheduler_share(job, 1, -1);
        sequence = &s->running[s->n_running++];
        *sequence = (roco_sequence){.job = job, .admitted_ns = now_ns};
        sequence->pages = malloc(job->pages * sizeof *sequence->pages);
        if (sequence->pages && roco_page_pool_take(&s->pool, job->pages, sequence->pages))
            sequence->n_pages = job->pages;
        roco_scheduler_gauge(s);
    } else {
        /* Alone it fits, or submit would have refused it: so something always runs. */
        ROCO_CHECK(!job || s->n_running > 0);
    }
    pthread_mutex_unlock(&s->mutex);
    return sequence;
}

static void open_cache(roco_scheduler *s, roco_sequence *sequence)
{
    roco_error error = {.status = ROCO_NO_MEMORY, .message = "out of memory for the block table"};
    roco_cache_spec spec = roco_job_spec(sequence->job);
    if (sequence->pages &&
        roco_cache_open(s->config.engine, &spec, sequence->pages, &sequence->cache, &error) == ROCO_OK)
        return;
    roco_log(ROCO_LOG_ERROR, "the cache of a sequence could not be opened: %s", error.message);
    sequence->cache = NULL;
    roco_sequence_fail(sequence, error.status);
}

static void admit(roco_scheduler *s, uint64_t now_ns)
{
    for (roco_sequence *sequence = seat_next(s, now_ns); sequence; sequence = seat_next(s, now_ns)) {
        roco_job *job = sequence->job;
        roco_rules_begin(job);
        open_cache(s, sequence);
        roco_constrain_begin(s, sequence);
        roco_event event = {.kind = ROCO_EVENT_STARTED, .user = job->user, .job = job->id};
        ROCO_CHECK(roco_events_push(&s->events, &event, 1, NULL) == ROCO_OK);
        s->wake_due = true;
        roco_trace_admitted(&s->trace, job->id);
        if (now_ns > job->arrival_ns)
            roco_histogram_add(&s->counters.queue_seconds, seconds(now_ns - job->arrival_ns));
    }
}

/* ---- step ---- */

static void trace_batch(roco_scheduler *s)
{
    for (uint32_t i = 0; i < s->batch.n_items; i++) {
        const roco_step_item *item = &s->batch.items[i];
        const roco_sequence *sequence = &s->running[s->batch.source[i]];
        if (item->decode)
            roco_trace_decode(&s->trace, sequence->job->id);
        else
            roco_trace_prefill(&s->trace, sequence->job->id, sequence->position, item->n_tokens);
    }
}

/* The device is gone: what runs fails with it now, what waits in the next sweep. */
static void fail_all(roco_scheduler *s, roco_status status, const roco_error *error)
{
    roco_log(ROCO_LOG_ERROR, "the device failed, no sequence can run any more: %s", error->message);
    pthread_mutex_lock(&s->mutex);
    s->failed = status;
    pthread_mutex_unlock(&s->mutex);
    atomic_store_explicit(&s->counters.device_failed, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < s->n_running; i++)
        roco_sequence_fail(&s->running[i], status);
}

static void measure(roco_scheduler *s, roco_sequence *sequence)
{
    roco_cache_usage before = sequence->kv;
    roco_cache_measure(sequence->cache, &sequence->kv);
    int policy = sequence->job->policy->id;
    ROCO_CHECK(policy >= 0 && policy < (int)ROCO_MAX_POLICIES);
    count(&s->counters.slots_evicted[policy], sequence->kv.slots_evicted - before.slots_evicted);
    /* Rounded to whole tokens, so it may stand still while slots go; it never falls. */
    if (sequence->kv.evicted > before.evicted)
        count(&s->counters.tokens_evicted[policy], sequence->kv.evicted - before.evicted);
    s->traced.evicted_slots += sequence->kv.slots_evicted - before.slots_evicted;
}

static roco_finish finish_after(const roco_scheduler *s, const roco_sequence *sequence, int32_t token)
{
    const roco_job *job = sequence->job;
    if (!job->ignore_eos && s->config.is_end && s->config.is_end(s->config.is_end_context, token))
        return ROCO_FINISH_STOP;
    for (uint32_t i = 0; i < job->n_stop_tokens; i++)
        if (job->stop_tokens[i] == token)
            return ROCO_FINISH_STOP;
    return sequence->n_generated >= job->max_tokens ? ROCO_FINISH_LENGTH : ROCO_FINISH_NONE;
}

static void deliver_token(roco_scheduler *s, roco_sequence *sequence, int32_t token, uint64_t now_ns)
{
    roco_job *job = sequence->job;
    sequence->last_token = token;
    sequence->n_generated++;
    roco_rules_note(job, token, sequence->n_generated);
    if (sequence->n_generated == 1) {
        sequence->first_token_ns = now_ns;
        if (now_ns > job->arrival_ns)
            roco_histogram_add(&s->counters.first_token_seconds, seconds(now_ns - job->arrival_ns));
    } else {
        roco_histogram_add(&s->counters.inter_token_seconds, seconds(now_ns - sequence->last_token_ns));
    }
    sequence->last_token_ns = now_ns;
    count(&s->counters.tokens_generated, 1);
    roco_trace_drawn(&s->trace, job->id, token);

    roco_finish finish = finish_after(s, sequence, token);
    if (finish != ROCO_FINISH_NONE || sequence->n_generated % MASS_EVERY == 1)
        sequence->evicted_mass = roco_cache_evicted_mass(s->config.engine, sequence->cache);
    roco_event event = {
        .kind = ROCO_EVENT_TOKEN,
        .user = job->user,
        .job = job->id,
        .token = token,
        .finish = finish,
        .n_generated = sequence->n_generated,
        .kv = sequence->kv,
        .evicted_mass = sequence->evicted_mass,
    };
    s->wake_due = true;
    if (roco_events_push(&s->events, &event, 0, NULL) != ROCO_OK)
        roco_sequence_fail(sequence, ROCO_NO_MEMORY);
    else if (finish != ROCO_FINISH_NONE)
        sequence->finish = finish;
    else if (sequence->n_generated == s->config.fault_after)
        roco_sequence_fail(sequence, ROCO_DEVICE);
    else
        roco_constrain_advance(s, sequence, token);
}

static void harvest(roco_scheduler *s, uint64_t now_ns)
{
    for (uint32_t i = 0; i < s->batch.n_items; i++) {
        const roco_step_item *item = &s->batch.items[i];
        roco_sequence *sequence = &s->running[s->batch.source[i]];
        if (!item->decode)
            count(&s->counters.tokens_prompt, item->n_tokens);
        sequence->position += item->n_tokens;
        measure(s, sequence);
        if (item->status != ROCO_OK)
            roco_sequence_fail(sequence, item->status);
        else if (item->sampling)
            deliver_token(s, sequence, item->token, now_ns);
        else if (!roco_sequence_in_prefill(sequence)) /* max_tokens is 0 */
            sequence->finish = ROCO_FINISH_LENGTH;
    }
}

static void run_step(roco_scheduler *s)
{
    roco_batch_pack(&s->batch, s->running, s->n_running, s->stride, s->config.step_tokens);
    ROCO_CHECK(s->batch.n_items > 0); /* every step makes progress */
    trace_batch(s);
    roco_error error = {0};
    uint64_t begin_ns = roco_now_ns();
    roco_status status = roco_engine_step(s->config.engine, s->batch.items, s->batch.n_items, &error);
    uint64_t end_ns = roco_now_ns();
    s->n_steps++;
    s->traced.number = s->n_steps;
    s->traced.rows = s->batch.rows;
    s->traced.step_ns = end_ns - begin_ns;
    count(&s->counters.steps, 1);
    roco_histogram_add(&s->counters.step_seconds, seconds(end_ns - begin_ns));
    roco_histogram_add(&s->counters.step_rows, s->batch.rows);
    if (status != ROCO_OK)
        fail_all(s, status, &error);
    else
        harvest(s, end_ns);
    release_finished(s, end_ns);
}

/* ---- the thread ---- */

static void wake(roco_scheduler *s)
{
    if (s->wake_due && s->config.wake)
        s->config.wake(s->config.wake_context);
    s->wake_due = false;
}

static bool is_idle(const roco_scheduler *s)
{
    return !s->stopping && s->n_running == 0 && s->queue.size == 0;
}

/* Sleeps while there is nothing to run; false when it is time to stop. */
static bool wait_for_work(roco_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    if (is_idle(s)) {
        ROCO_CHECK(s->pool.n_free == s->pool.total);
        pthread_mutex_unlock(&s->mutex);
        roco_trace_flush(&s->trace);
        pthread_mutex_lock(&s->mutex);
    }
    while (is_idle(s))
        pthread_cond_wait(&s->work, &s->mutex);
    bool go_on = !s->stopping;
    pthread_mutex_unlock(&s->mutex);
    return go_on;
}

static void begin_trace(roco_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    s->traced = (roco_trace_step){
        .number = s->n_steps,
        .queued = s->queue.size,
        .running = s->n_running,
        .free_pages = s->pool.n_free,
    };
    pthread_mutex_unlock(&s->mutex);
}

void *roco_scheduler_run(void *scheduler)
{
    roco_scheduler *s = scheduler;
    while (wait_for_work(s)) {
        uint64_t now_ns = roco_now_ns();
        sweep(s, now_ns);
        release_finished(s, now_ns);
        admit(s, now_ns);
        begin_trace(s);
        release_finished(s, now_ns); /* whose cache could not be opened */
        /* Before the step: what just ended or started need not wait for it. */
        wake(s);
        if (s->n_running > 0)
            run_step(s);
        roco_trace_write(&s->trace, &s->traced);
        wake(s);
    }
    sweep(s, roco_now_ns());
    release_finished(s, roco_now_ns());
    roco_trace_write(&s->trace, &(roco_trace_step){.number = s->n_steps, .free_pages = s->pool.n_free});
    wake(s);
    return NULL;
}
