#include "tests/unit/scheduler/support_harness.h"

#include "config/clock.h"
#include "config/log.h"
#include "scheduler/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const roco_policy harness_full = {.name = "full", .id = 0};
const roco_policy harness_evicting = {.name = "roco", .id = 1, .evicts = true, .needs_statistics = true};

uint32_t harness_random(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

uint64_t harness_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

uint64_t harness_count(const roco_histogram *histogram)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < ROCO_HISTOGRAM_BUCKETS; i++)
        n += harness_counter(&histogram->buckets[i]);
    return n;
}

static bool is_end(const void *context, int32_t token)
{
    return token == HARNESS_END_TOKEN;
}

static void wake(void *context)
{
    harness *h = context;
    pthread_mutex_lock(&h->mutex);
    h->n_wakes++;
    pthread_cond_signal(&h->wakes);
    pthread_mutex_unlock(&h->mutex);
}

void harness_init(harness *h)
{
    *h = (harness){.fake = fake_config_default()};
    h->config = (roco_scheduler_config){.is_end = is_end, .max_seqs = 8, .queue = 64, .wake = wake, .wake_context = h};
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->wakes, NULL);
    roco_log_set_level(ROCO_LOG_ERROR);
}

void harness_start(harness *h)
{
    roco_error error = {0};
    h->engine = fake_engine_open(&h->fake);
    h->config.engine = h->engine;
    if (roco_scheduler_open(&h->config, &h->scheduler, &error) != ROCO_OK)
        fail_msg("open: %s", error.message);
}

roco_job *harness_job_open(const harness *h, const harness_ask *ask, harness_job *tracked)
{
    roco_job *job = roco_job_open();
    assert_non_null(job);
    *tracked = (harness_job){.n_prompt = ask->n_prompt,
                             .max_tokens = ask->max_tokens,
                             .n_vocab = h->fake.n_vocab,
                             .stop_token = ask->stop_token,
                             .ignore_eos = !ask->use_eos};
    uint64_t random = ask->seed * 77u + 1u;
    job->prompt = malloc((ask->n_prompt + 1u) * sizeof *job->prompt);
    assert_non_null(job->prompt);
    for (uint32_t i = 0; i < ask->n_prompt; i++) {
        job->prompt[i] = 1 + (int32_t)harness_random(&random, h->fake.n_vocab - 2u);
        if (i == 0 && ask->first_token > 0)
            job->prompt[0] = ask->first_token;
        else if (i == 0 && job->prompt[0] == h->fake.nan_token)
            job->prompt[0]++;
        tracked->hash = fake_feed(tracked->hash, job->prompt[i]);
    }
    if (ask->stop_token > 0) {
        job->stop_tokens = &tracked->stop_token;
        job->n_stop_tokens = 1;
    }
    if (ask->n_top) {
        tracked->logprobs = calloc((size_t)(ask->n_prompt + ask->max_tokens) * (1 + ask->n_top), sizeof(roco_logprob));
        assert_non_null(tracked->logprobs);
        job->logprobs = tracked->logprobs;
        job->n_top = ask->n_top;
        job->score_prompt = true;
    }
    job->user = tracked;
    job->label = "test";
    job->n_prompt = ask->n_prompt;
    job->max_tokens = ask->max_tokens;
    job->ignore_eos = !ask->use_eos;
    job->policy = ask->budget ? &harness_evicting : &harness_full;
    job->budget = ask->budget;
    job->sink = 4;
    job->recent = 10;
    job->arrival_ns = roco_now_ns();
    job->queue_deadline_ns = ask->queue_deadline_ns;
    job->deadline_ns = ask->deadline_ns;
    job->share = ask->share;
    return job;
}

roco_status harness_submit(harness *h, const harness_ask *asks, harness_job *tracked, uint32_t n, roco_error *error)
{
    roco_job **jobs = calloc(n, sizeof(roco_job *));
    assert_non_null(jobs);
    for (uint32_t i = 0; i < n; i++)
        jobs[i] = harness_job_open(h, &asks[i], &tracked[i]);
    roco_status status = roco_scheduler_submit(h->scheduler, jobs, n, error);
    for (uint32_t i = 0; i < n; i++) {
        if (status != ROCO_OK)
            roco_job_free(jobs[i]);
        else
            tracked[i].id = jobs[i]->id; /* readable until its FINISHED event is taken */
    }
    h->n_submitted += status == ROCO_OK ? n : 0;
    free(jobs);
    return status;
}

void harness_must_submit(harness *h, harness_ask ask, harness_job *tracked)
{
    roco_error error = {0};
    if (harness_submit(h, &ask, tracked, 1, &error) != ROCO_OK)
        fail_msg("submit: %s", error.message);
}

static void see_token(harness_job *job, const roco_event *event)
{
    assert_true(job->started);
    assert_int_equal(job->announced, ROCO_FINISH_NONE);
    assert_int_equal(event->n_generated, ++job->n_tokens);
    assert_int_equal(event->token, fake_draw(job->hash, job->n_vocab));
    job->hash = fake_feed(job->hash, event->token);
    assert_int_equal(event->kv.length, job->n_prompt + job->n_tokens - 1u);
    const bool stops =
        (!job->ignore_eos && event->token == HARNESS_END_TOKEN) || (job->stop_token && event->token == job->stop_token);
    roco_finish expected = stops                              ? ROCO_FINISH_STOP
                           : job->n_tokens == job->max_tokens ? ROCO_FINISH_LENGTH
                                                              : ROCO_FINISH_NONE;
    assert_int_equal(event->finish, expected);
    job->announced = event->finish;
}

static void see_end(harness *h, harness_job *job, const roco_event *event)
{
    job->finished = true;
    job->last = *event;
    job->order = ++h->n_finished;
    assert_int_equal(event->n_generated, job->n_tokens);
    assert_int_equal(event->first_token_ns > 0, job->n_tokens > 0);
    if (job->announced != ROCO_FINISH_NONE)
        assert_int_equal(event->finish, job->announced);
    else if (job->complete)
        assert_int_equal(event->finish, ROCO_FINISH_STOP);
    else if (job->max_tokens == 0)
        assert_int_equal(event->finish, ROCO_FINISH_LENGTH);
    else
        assert_true(event->finish == ROCO_FINISH_CANCELLED || event->finish == ROCO_FINISH_ERROR);
    if (event->finish == ROCO_FINISH_ERROR)
        assert_int_not_equal(event->status, ROCO_OK);
}

void harness_take(harness *h)
{
    roco_scheduler_take_events(h->scheduler, &h->events);
    for (size_t i = 0; i < h->events.size; i++) {
        const roco_event *event = &h->events.data[i];
        harness_job *job = event->user;
        assert_false(job->finished);
        assert_int_equal(event->job, job->id);
        h->n_events++;
        if (event->kind == ROCO_EVENT_STARTED) {
            assert_false(job->started);
            job->started = true;
        } else if (event->kind == ROCO_EVENT_TOKEN) {
            see_token(job, event);
        } else {
            see_end(h, job, event);
        }
    }
}

void harness_wait(harness *h)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&h->mutex);
    int late = 0;
    while (h->n_wakes == h->n_wakes_seen && late == 0)
        late = pthread_cond_timedwait(&h->wakes, &h->mutex, &until);
    /* Many wakes may be answered by one look, as uv_async_send merges them. */
    h->n_wakes_seen = h->n_wakes;
    pthread_mutex_unlock(&h->mutex);
    if (late)
        fail_msg("no wake-up: %llu of %llu jobs finished", (unsigned long long)h->n_finished,
                 (unsigned long long)h->n_submitted);
    harness_take(h);
}

void harness_finish_all(harness *h)
{
    while (h->n_finished < h->n_submitted)
        harness_wait(h);
}

void harness_close(harness *h)
{
    roco_scheduler_stop(h->scheduler);
    harness_close_stopped(h);
}

void harness_close_stopped(harness *h)
{
    harness_take(h);
    assert_int_equal(h->n_finished, h->n_submitted);
    const roco_counters *c = roco_scheduler_counters(h->scheduler);
    assert_int_equal(harness_counter(&c->running), 0);
    assert_int_equal(harness_counter(&c->queued), 0);
    assert_int_equal(harness_counter(&c->pages_held), 0);
    assert_int_equal(harness_counter(&c->finished_stop) + harness_counter(&c->finished_length) +
                         harness_counter(&c->finished_cancelled) + harness_counter(&c->finished_error),
                     h->n_finished);
    assert_int_equal(h->scheduler->events.promised, 0);
    roco_scheduler_close(h->scheduler);
    roco_engine_close(h->engine);
    roco_event_list_free(&h->events);
    pthread_mutex_destroy(&h->mutex);
    pthread_cond_destroy(&h->wakes);
}
