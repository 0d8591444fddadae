/* The sequences that wait: first in, first out, linked through the jobs themselves, so nothing is allocated.
 *
 * The bound is not here: it depends on what could start at once (roco_scheduler_submit). Not thread-safe: the
 * scheduler calls it with its lock held.
 */
#ifndef ROCO_SCHEDULER_QUEUE_H
#define ROCO_SCHEDULER_QUEUE_H

#include "scheduler/scheduler.h"

typedef struct roco_queue {
    roco_job *head, *tail;
    uint32_t size;
} roco_queue; /* init with {0} */

void roco_queue_push(roco_queue *queue, roco_job *job);
/* NULL when empty. */
roco_job *roco_queue_pop(roco_queue *queue);

/* Takes out `job`, which waits. */
void roco_queue_remove(roco_queue *queue, roco_job *job);

/* Takes out every job that `is_over` says so of; returns them as a list in their order, linked by `next`. */
roco_job *roco_queue_sweep(roco_queue *queue, bool (*is_over)(void *context, roco_job *job), void *context);

#endif
