/* Monotonic time in nanoseconds. Any thread. */
#ifndef ROCO_CONFIG_CLOCK_H
#define ROCO_CONFIG_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t roco_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
