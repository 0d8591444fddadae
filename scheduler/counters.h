/* What /metrics shows of the engine side. Written by the engine thread, read by any: relaxed atomics, no lock.
 * Counters only grow; gauges move. */
#ifndef ROCO_SCHEDULER_COUNTERS_H
#define ROCO_SCHEDULER_COUNTERS_H

#include "engine/policies.h"

#include <stdatomic.h>
#include <stdint.h>

/* A histogram in seconds (or in plain counts): bucket i counts values <= bound(i); the last is +Inf. Not cumulative in
 * memory. */
#define ROCO_HISTOGRAM_BUCKETS 18u
typedef struct roco_histogram {
    const double *bounds; /* [ROCO_HISTOGRAM_BUCKETS - 1], ascending */
    _Atomic uint64_t buckets[ROCO_HISTOGRAM_BUCKETS];
    _Atomic uint64_t sum_nano; /* sum of values, in 1e-9; wraps, which a scraper takes for a restart */
} roco_histogram;

typedef struct roco_counters {
    _Atomic uint64_t running, queued;                                                    /* gauges, sequences */
    _Atomic uint64_t pages_total, pages_held;                                            /* gauges */
    _Atomic uint64_t finished_stop, finished_length, finished_cancelled, finished_error; /* sequences by outcome */
    _Atomic uint64_t rejected;      /* sequences refused at submit, whatever the reason */
    _Atomic uint64_t device_failed; /* gauge: 1 once the device failed; nothing runs after that */
    _Atomic uint64_t tokens_prompt, tokens_generated;
    _Atomic uint64_t slots_evicted[ROCO_MAX_POLICIES];  /* over all layers and heads, by policy id */
    _Atomic uint64_t tokens_evicted[ROCO_MAX_POLICIES]; /* mean over heads, by policy id */
    _Atomic uint64_t steps;
    _Atomic uint64_t masks, mask_walks, mask_ns; /* of constrained answers; see roco_mask_stats */
    roco_histogram queue_seconds, first_token_seconds, inter_token_seconds, step_seconds, step_rows;
    roco_histogram evicted_mass; /* of finished sequences, a share */
} roco_counters;

void roco_counters_init(roco_counters *counters);
/* seconds, or a count for step_rows. */
void roco_histogram_add(roco_histogram *histogram, double value);

#endif
