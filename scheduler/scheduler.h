/* The scheduler: a thread that turns submitted sequences into events, step by step.
 *
 * It owns the engine thread, the queue, the running sequences and the page pool. Its rule: a sequence is admitted when
 * the pages that hold it to its end are free; then it always finishes. Nothing is preempted. Each step takes cancels
 * and new sequences, admits in order, packs one mixed batch (every decoding sequence one token, then prompt strides,
 * oldest first), runs it, and delivers.
 *
 * Threads: submit, cancel, take_events and the counters may be called from any one other thread (the server's loop);
 * the rest before the thread starts or after it ended.
 */
#ifndef ROCO_SCHEDULER_SCHEDULER_H
#define ROCO_SCHEDULER_SCHEDULER_H

#include "config/status.h"
#include "engine/engine.h"
#include "grammar/constraint.h"
#include "scheduler/counters.h"
#include "scheduler/share.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct roco_scheduler roco_scheduler;

#define ROCO_MAX_PINS 64u

typedef enum roco_finish {
    ROCO_FINISH_NONE,
    ROCO_FINISH_STOP,   /* an end or stop token was drawn (it is the last TOKEN event) */
    ROCO_FINISH_LENGTH, /* max_tokens reached */
    ROCO_FINISH_CANCELLED,
    ROCO_FINISH_ERROR, /* event.status says why: TIMEOUT, NUMERIC, DEVICE, SHUTDOWN, NO_MEMORY; a constraint's:
                          TOO_LARGE, INVALID */
} roco_finish;

/* One sequence to generate: a request's choice. */
typedef struct roco_job {
    void *user;          /* the server's; comes back in every event */
    uint64_t id;         /* set by submit; names the job in cancel, log and trace */
    const char *label;   /* the request's id for log and trace; borrowed until the job's FINISHED event was taken */
    roco_share *share;   /* whose limits it counts to; borrowed likewise; NULL: nobody's */
    int32_t *prompt;     /* owned; freed with free() by roco_job_free */
    uint32_t n_prompt;   /* 1.. */
    uint32_t max_tokens; /* 0: the prompt is only read; n_prompt + max_tokens <= n_context */
    roco_sampling sampling;
    bool ignore_eos;
    const int32_t *stop_tokens; /* [n_stop_tokens] end it as end tokens do. Borrowed as `label` */
    uint32_t n_stop_tokens;
    const int32_t *ends; /* [n_ends] may not be drawn before min_tokens were, each once. Borrowed as `label` */
    uint32_t n_ends, min_tokens;
    roco_logit_rules rules; /* bias, borrowed as `label`, and penalties are the submitter's; repetition is 1 when off */
    /* NULL, or room for the log-probabilities: rows of 1 + n_top entries, the token itself and the most probable ones.
     * With score_prompt the first n_prompt are the prompt's, of which row 0 stays as it is; then max_tokens rows of the
     * answer. Borrowed as `label`; a TOKEN event says that all rows up to its own are written. */
    roco_logprob *logprobs;
    uint32_t n_top;
    bool score_prompt;
    roco_constraint *constraint; /* what the answer must satisfy; a reference, owned; NULL: nothing. Not with
                                    ignore_eos. */
    const roco_policy *policy;
    uint32_t budget, sink, recent;
    uint32_t uncapped; /* 0, or max_tokens: the budget caps the prompt alone */
    roco_pin pins[ROCO_MAX_PINS];
    uint32_t n_pins;            /* prompt tokens that are never evicted; ranges that do not overlap */
    uint32_t stride;            /* prompt tokens between two evictions; 0: the engine's */
    bool by_rank;               /* positions are ranks in the cache: n_prompt + max_tokens may pass n_context */
    bool compensate;            /* heads keep a slot for the mean of what they evicted */
    bool uniform;               /* every head gets `budget`, whatever the engine's head profile says */
    uint64_t arrival_ns;        /* roco_now_ns() when the request came in */
    uint64_t queue_deadline_ns; /* must be admitted by then; 0: no limit */
    uint64_t deadline_ns;       /* must be finished by then; 0: no limit */

    struct roco_job *next; /* from here on the scheduler's own */
    roco_seen_token *seen; /* owned; NULL without penalties */
    bool ruled;            /* `rules` changes something now */
    uint32_t pages;        /* what its cache will hold */
    roco_status ending;    /* why it must end; ROCO_OK while it may go on */
    bool complete;         /* it ends since its text is complete, not since nobody wants it */
} roco_job;

roco_job *roco_job_open(void); /* zeroed, rules off; NULL when out of memory */
void roco_job_free(roco_job *job);
/* Makes room for counting tokens, if the job's penalties need it, and reads the prompt. Once, when prompt, max_tokens
 * and penalties are set. ROCO_NO_MEMORY. Any thread. */
roco_status roco_job_track_tokens(roco_job *job);

typedef enum roco_event_kind {
    ROCO_EVENT_STARTED,  /* left the queue */
    ROCO_EVENT_TOKEN,    /* one generated token */
    ROCO_EVENT_FINISHED, /* exactly one per submitted job, its last event */
} roco_event_kind;

typedef struct roco_event {
    roco_event_kind kind;
    void *user;
    uint64_t job;         /* id */
    int32_t token;        /* TOKEN */
    roco_finish finish;   /* FINISHED; on TOKEN: STOP or LENGTH when this token is the last one, else NONE */
    roco_status status;   /* FINISHED with ERROR: why; CANCELLED with CANCELLED; else ROCO_OK */
    uint32_t n_generated; /* tokens so far, a TOKEN's own included */
    roco_cache_usage kv;  /* TOKEN, FINISHED: the cache after the step that drew this token */
    double evicted_mass;  /* likewise (roco_cache_evicted_mass); measured at the last token and some before */
    uint64_t queue_ns, first_token_ns, total_ns; /* FINISHED: since arrival; 0 when it never came so far */
} roco_event;

typedef struct roco_scheduler_config {
    roco_engine *engine;                                /* borrowed until close */
    bool (*is_end)(const void *context, int32_t token); /* end of generation? Called on the engine thread. */
    const void *is_end_context;
    const roco_vocabulary *vocabulary; /* of jobs with a constraint, borrowed until close; NULL: there are none */
    uint32_t step_tokens;              /* 0: the engine's; >= max_seqs + stride, so that prompts always go on */
    uint32_t max_seqs;                 /* 1.. */
    uint32_t queue;                    /* sequences waiting at most */
    const char *trace;                 /* path of JSON lines, one per step; NULL none */
    uint64_t fault_after;              /* test switch: a job fails with DEVICE after this many tokens; 0 off */
    void (*wake)(void *context); /* called on the engine thread after events were queued, at most twice a step, with no
                                    lock held; NULL none. It may come late: take_events drains, and may find nothing. */
    void *wake_context;
} roco_scheduler_config;

/* Starts the thread. Returns owned. Errors: ROCO_INVALID (`step-tokens` against max-seqs + evict-stride and against
 * the engine's; `max-seqs`), ROCO_IO (`trace`), ROCO_NO_MEMORY. */
roco_status roco_scheduler_open(const roco_scheduler_config *config, roco_scheduler **out, roco_error *error);

/* Checks and queues n jobs, all or none. Takes the jobs on ROCO_OK; on failure the caller still owns them. Sets
 * job->id; a taken job may be read by its submitter until its FINISHED event was taken, which frees it. Errors:
 * ROCO_INVALID; ROCO_TOO_LARGE (prompt and max_tokens against the context; pages needed against the pool; n against
 * what may ever run and wait; all with both numbers); ROCO_SHUTDOWN; ROCO_DEVICE (the device failed before);
 * ROCO_NO_MEMORY; ROCO_BUSY: more than `queue` sequences would wait, or (field `share`) more than the share lets wait.
 * Those that can start at the next step, seats and pages being free, do not count as waiting: so an idle scheduler with
 * `queue` 0 still takes max_seqs of them. */
roco_status roco_scheduler_submit(roco_scheduler *scheduler, roco_job **jobs, uint32_t n, roco_error *error);
/* Asks for an end; the FINISHED event (CANCELLED, or whatever came first) still comes. Unknown ids are ignored. */
void roco_scheduler_cancel(roco_scheduler *scheduler, uint64_t job);
/* The same for a job whose text is complete before the scheduler can know, by a stop string: it finishes with STOP. */
void roco_scheduler_complete(roco_scheduler *scheduler, uint64_t job);

typedef struct roco_event_list {
    roco_event *data;
    size_t size, capacity;
} roco_event_list;
/* Swaps all queued events into `list`, whose old array is recycled (init the first with {0}), and frees the jobs that
 * finished. Free with roco_event_list_free. */
void roco_scheduler_take_events(roco_scheduler *scheduler, roco_event_list *list);
void roco_event_list_free(roco_event_list *list);

/* Live numbers for /metrics. Any thread. */
const roco_counters *roco_scheduler_counters(const roco_scheduler *scheduler);

/* No new jobs; queued ones finish with SHUTDOWN, running ones go on. */
void roco_scheduler_drain(roco_scheduler *scheduler);
/* Ends all: running jobs finish with SHUTDOWN; the thread has ended and all events are queued when it returns. */
void roco_scheduler_stop(roco_scheduler *scheduler);
/* After stop. Checks that every page is back. */
void roco_scheduler_close(roco_scheduler *scheduler);

#endif
