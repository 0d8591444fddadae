/* The way out: events from the engine thread to the loop, under a lock of its own that is never held for long.
 *
 * A job's STARTED and FINISHED must not get lost for want of memory, since the reply hangs on them. So room for both
 * is promised when the job is submitted, where a refusal is still possible; a TOKEN may fail, and then its job does.
 * Finished jobs travel along and are freed when their FINISHED event is taken: the submitter may read its jobs until
 * then.
 */
#ifndef ROCO_SCHEDULER_EVENTS_H
#define ROCO_SCHEDULER_EVENTS_H

#include "scheduler/scheduler.h"

#include <pthread.h>

#define ROCO_PROMISES_PER_JOB 2u /* STARTED and FINISHED */

typedef struct roco_events {
    pthread_mutex_t mutex;
    roco_event_list ready; /* capacity >= size + promised, always */
    size_t promised;       /* events that must find room */
    roco_job *retired;     /* jobs whose FINISHED is in `ready` */
} roco_events;

void roco_events_init(roco_events *events);
/* Frees what nobody took. */
void roco_events_free(roco_events *events);

/* Makes room for n events more. Any thread. ROCO_NO_MEMORY changes nothing. */
roco_status roco_events_promise(roco_events *events, size_t n);
/* Queues an event, using up `promises` of the promised ones; with none it may fail with ROCO_NO_MEMORY. `retired`:
 * the job, taken, when this is its FINISHED event; else NULL. Engine thread. */
roco_status roco_events_push(roco_events *events, const roco_event *event, size_t promises, roco_job *retired);
/* See roco_scheduler_take_events. */
void roco_events_take(roco_events *events, roco_event_list *list);

#endif
