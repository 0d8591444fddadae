/* The scheduler's inside, shared by scheduler.c (the public calls, from the loop thread), step.c (the engine thread)
 * and finish.c (how a job ends, engine thread).
 *
 * `mutex` is held for moments, never while a step runs. The engine thread alone changes `running`, `n_running` and
 * `pool`, always under the mutex, so it may read them without; the loop thread reads them under the mutex.
 */
#ifndef ROCO_SCHEDULER_STATE_H
#define ROCO_SCHEDULER_STATE_H

#include "scheduler/batch.h"
#include "scheduler/events.h"
#include "scheduler/page_pool.h"
#include "scheduler/queue.h"
#include "scheduler/sequence.h"
#include "scheduler/trace.h"

#include <pthread.h>

struct roco_scheduler {
    roco_scheduler_config config; /* step_tokens filled in; constant after open */
    uint32_t stride;

    pthread_mutex_t mutex;
    pthread_cond_t work; /* something for a sleeping engine thread: a job, stop */
    roco_queue queue;
    roco_sequence *running; /* [max_seqs], in order of admission */
    uint32_t n_running;
    roco_page_pool pool;
    uint64_t next_id;
    bool draining, stopping;
    roco_status failed; /* what the device failed with; ROCO_OK while it works */

    /* The engine thread's own. */
    roco_batch batch;
    roco_masks *masks; /* NULL without a vocabulary */
    roco_trace trace;
    roco_trace_step traced; /* of the step being made */
    uint64_t n_steps;
    bool wake_due; /* events were queued since the last wake */

    roco_events events; /* has its own lock, taken after `mutex` where both are */
    roco_counters counters;

    pthread_t thread;
    bool joined;
};

/* The engine thread: runs steps until `stopping`, then ends everything. `scheduler` is the roco_scheduler. */
void *roco_scheduler_run(void *scheduler);

/* Counts what a job did to the gauges of its share, if it has one. Mutex held. */
void roco_scheduler_share(const roco_job *job, int running, int queued);

/* Writes the gauges. Mutex held. */
void roco_scheduler_gauge(roco_scheduler *scheduler);

/* Ends a job: counters, log line, trace, FINISHED event; takes the job. `sequence` says how it went, with finish set;
 * a job that never ran has a zeroed one with only `job` and the reason. Engine thread, mutex not held. */
void roco_scheduler_finish(roco_scheduler *scheduler, const roco_sequence *sequence, uint64_t now_ns);

#endif
