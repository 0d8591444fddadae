#include "scheduler/counters.h"

/* Waits a person feels: 1 ms to two minutes. */
static const double long_seconds[ROCO_HISTOGRAM_BUCKETS - 1u] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0};
/* Times of one step: finer, from half a millisecond. */
static const double short_seconds[ROCO_HISTOGRAM_BUCKETS - 1u] = {
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5};
static const double rows[ROCO_HISTOGRAM_BUCKETS - 1u] = {1,   2,    4,    8,    16,   32,    64,    128,  256,
                                                         512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

/* Fine where most requests are, and where it starts to hurt. */
static const double shares[ROCO_HISTOGRAM_BUCKETS - 1u] = {0,   0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075,
                                                           0.1, 0.15,  0.2,   0.3,   0.4,  0.5,  0.6,  0.75};

void roco_counters_init(roco_counters *counters)
{
    *counters = (roco_counters){0};
    counters->queue_seconds.bounds = long_seconds;
    counters->first_token_seconds.bounds = long_seconds;
    counters->inter_token_seconds.bounds = short_seconds;
    counters->step_seconds.bounds = short_seconds;
    counters->step_rows.bounds = rows;
    counters->evicted_mass.bounds = shares;
}

void roco_histogram_add(roco_histogram *histogram, double value)
{
    if (!(value > 0.0))
        value = 0.0;
    uint32_t bucket = 0;
    while (bucket < ROCO_HISTOGRAM_BUCKETS - 1u && value > histogram->bounds[bucket])
        bucket++;
    atomic_fetch_add_explicit(&histogram->sum_nano, (uint64_t)(value * 1e9 + 0.5), memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
}
