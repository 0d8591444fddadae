/* A share of the scheduler: the jobs that name it run, and wait, in bounded numbers, so that one of many users takes
 * neither all seats nor the whole queue. Jobs behind one whose share is used up overtake it.
 *
 * The submitter owns it and keeps it until the last FINISHED event of its jobs was taken. The limits may be changed at
 * any time, by any thread; what runs already goes on.
 */
#ifndef ROCO_SCHEDULER_SHARE_H
#define ROCO_SCHEDULER_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ROCO_SHARE_UNLIMITED UINT32_MAX

typedef struct roco_share {
    const char *name;                         /* in the log */
    _Atomic uint32_t max_running, max_queued; /* sequences; ROCO_SHARE_UNLIMITED; max_running 1.. */
    _Atomic uint32_t running, queued;         /* gauges; the scheduler writes them, any thread reads */
    uint32_t planned;                         /* the scheduler's own: would start, within one look at the queue */
} roco_share;

/* May one more of it run? `share` NULL: always. */
static inline bool roco_share_has_seat(const roco_share *share, uint32_t planned)
{
    return !share || (uint64_t)share->running + planned < share->max_running;
}

#endif
