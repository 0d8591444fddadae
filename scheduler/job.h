/* What a job must satisfy before it may wait. */
#ifndef ROCO_SCHEDULER_JOB_H
#define ROCO_SCHEDULER_JOB_H

#include "scheduler/scheduler.h"

/* The cache a job asks for. Borrows the job's policy. */
roco_cache_spec roco_job_spec(const roco_job *job);

/* Checks the job against the model's context and vocabulary and against the whole pool, and sets job->pages. Errors:
 * ROCO_INVALID, ROCO_TOO_LARGE, with the request's field, what was found and what is allowed. Any thread: it reads
 * nothing of the engine that changes. */
roco_status roco_job_check(const roco_engine *engine, roco_job *job, roco_error *error);

#endif
