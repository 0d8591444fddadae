/* The server's side of the scheduler, for tests: submits jobs, waits for wakes, and checks the stream of events.
 *
 * Each event is checked as it is taken: STARTED once and first, TOKEN numbers without a gap and equal to what the fake
 * engine must draw for that prompt alone, FINISHED exactly once and last.
 */
#ifndef ROCO_TESTS_SUPPORT_HARNESS_H
#define ROCO_TESTS_SUPPORT_HARNESS_H

#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/fake_engine.h"

#include <pthread.h>

#define HARNESS_END_TOKEN 0

/* Policies by shape only: the fake engine never asks one to select. */
extern const roco_policy harness_full, harness_evicting;

/* What is known of one job. */
typedef struct harness_job {
    uint64_t id, hash;
    roco_logprob *logprobs; /* the test frees them */
    uint32_t n_prompt, max_tokens, n_tokens;
    uint32_t n_vocab;
    int32_t stop_token; /* 0: none */
    bool ignore_eos, started, finished;
    roco_finish announced; /* on the last TOKEN event */
    bool complete;         /* the test called roco_scheduler_complete */
    roco_event last;       /* FINISHED */
    uint64_t order;        /* of FINISHED among all jobs, from 1 */
} harness_job;

typedef struct harness {
    fake_config fake;
    roco_engine *engine;
    roco_scheduler_config config;
    roco_scheduler *scheduler;
    roco_event_list events;
    uint64_t n_submitted, n_finished, n_events;

    pthread_mutex_t mutex;
    pthread_cond_t wakes;
    uint64_t n_wakes, n_wakes_seen;
} harness;

/* Fills in defaults: 8 sequences, 64 waiting. Change h->fake and h->config, then harness_start. */
void harness_init(harness *h);
void harness_start(harness *h);

typedef struct harness_ask {
    uint32_t n_prompt, max_tokens;
    uint32_t seed;   /* of the prompt */
    uint32_t budget; /* 0: the policy that does not evict */
    bool use_eos;
    int32_t first_token; /* when over 0, the prompt starts with it */
    int32_t stop_token;  /* when over 0, it ends the answer */
    uint32_t n_top;      /* when over 0, log-probabilities are wanted, the prompt's too */
    uint64_t queue_deadline_ns, deadline_ns;
    roco_share *share;
} harness_ask;

/* A job not yet submitted; `tracked` follows it. */
roco_job *harness_job_open(const harness *h, const harness_ask *ask, harness_job *tracked);
/* Submits n jobs as one request. On failure they are freed. */
roco_status harness_submit(harness *h, const harness_ask *asks, harness_job *tracked, uint32_t n, roco_error *error);
/* Submits one that must be accepted. */
void harness_must_submit(harness *h, harness_ask ask, harness_job *tracked);

/* Takes what is there, without waiting. */
void harness_take(harness *h);
/* Sleeps until a wake that was not answered yet, then takes. Fails after 60 s: a lost wake-up. */
void harness_wait(harness *h);
/* Until every submitted job has finished. */
void harness_finish_all(harness *h);
/* Stop, take the rest, check that nothing is left over and that the counters agree; close all. */
void harness_close(harness *h);
/* The same, without roco_scheduler_stop, which the test called. */
void harness_close_stopped(harness *h);

uint64_t harness_counter(const _Atomic uint64_t *counter);
/* Values a histogram has counted. */
uint64_t harness_count(const roco_histogram *histogram);
/* A small generator for tests: *state any value. */
uint32_t harness_random(uint64_t *state, uint32_t below);

#endif
