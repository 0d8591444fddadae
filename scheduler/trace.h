/* `--trace FILE`: what each step decided, one JSON object a line.
 *
 *   {"step":7, "time_ns":..., "queued":1, "running":2, "free_pages":40, "rows":65, "admitted":[3], "decode":[1],
 *    "prefill":[{"id":3,"position":0,"tokens":64}], "drawn":[{"id":1,"token":42}], "evicted_slots":0,
 *    "finished":[{"id":2,"label":"cmpl-x","why":"stop"}], "step_us":812}
 *
 * queued, running and free_pages are as they were when the step began; time_ns is the step's end since the trace was
 * opened; `why` of an error is its status text. A line with rows 0 tells of sequences that left without a step. Parts
 * are collected while the step goes on and written at its end. Closed (a NULL path), every call does nothing. Engine
 * thread.
 */
#ifndef ROCO_SCHEDULER_TRACE_H
#define ROCO_SCHEDULER_TRACE_H

#include "config/buffer.h"
#include "scheduler/scheduler.h"

#include <stdio.h>

typedef struct roco_trace {
    FILE *file; /* NULL: closed */
    uint64_t start_ns;
    roco_buffer admitted, decode, prefill, drawn, finished; /* the lists' elements, comma-separated */
} roco_trace;

typedef struct roco_trace_step {
    uint64_t number;
    uint32_t queued, running, free_pages, rows;
    uint64_t evicted_slots, step_ns;
} roco_trace_step;

/* path NULL: stays closed. ROCO_IO naming `trace`. */
roco_status roco_trace_open(roco_trace *trace, const char *path, roco_error *error);
void roco_trace_close(roco_trace *trace);

void roco_trace_admitted(roco_trace *trace, uint64_t id);
void roco_trace_decode(roco_trace *trace, uint64_t id);
void roco_trace_prefill(roco_trace *trace, uint64_t id, uint32_t position, uint32_t n_tokens);
void roco_trace_drawn(roco_trace *trace, uint64_t id, int32_t token);
void roco_trace_finished(roco_trace *trace, uint64_t id, const char *label, const char *why);
/* Writes the line, unless nothing at all happened. */
void roco_trace_write(roco_trace *trace, const roco_trace_step *step);
void roco_trace_flush(roco_trace *trace);

#endif
