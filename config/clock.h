/* Time in nanoseconds. Any thread. */
#ifndef ROCO_CONFIG_CLOCK_H
#define ROCO_CONFIG_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t roco_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Monotonic. */
static inline uint64_t roco_now_ns(void)
{
    return roco_clock_ns(CLOCK_MONOTONIC);
}

/* What the calling thread has computed: limits on work go by it, so that a busy machine refuses nothing. */
static inline uint64_t roco_thread_ns(void)
{
    return roco_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
