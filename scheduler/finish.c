/* How a job ends: told to the counters, the log, the trace and, last, to the one who submitted it. */
#include "scheduler/state.h"

#include "config/log.h"

#include <math.h>

static const char *reason_text(const roco_sequence *sequence)
{
    switch (sequence->finish) {
    case ROCO_FINISH_NONE: break;
    case ROCO_FINISH_STOP: return "stop";
    case ROCO_FINISH_LENGTH: return "length";
    case ROCO_FINISH_CANCELLED: return "cancelled";
    case ROCO_FINISH_ERROR: return roco_status_text(sequence->status);
    }
    return "none";
}

static void count(roco_counters *counters, roco_finish finish)
{
    _Atomic uint64_t *outcome = &counters->finished_error;
    if (finish == ROCO_FINISH_STOP)
        outcome = &counters->finished_stop;
    else if (finish == ROCO_FINISH_LENGTH)
        outcome = &counters->finished_length;
    else if (finish == ROCO_FINISH_CANCELLED)
        outcome = &counters->finished_cancelled;
    atomic_fetch_add_explicit(outcome, 1, memory_order_relaxed);
}

/* Time from arrival to a moment; 0 when the moment never came. */
static uint64_t since(uint64_t arrival_ns, uint64_t moment_ns)
{
    return moment_ns > arrival_ns ? moment_ns - arrival_ns : 0;
}

/* Tokens a second while tokens came; the first token's wait is its own number. */
static double token_rate(const roco_sequence *sequence)
{
    uint64_t ns = since(sequence->first_token_ns, sequence->last_token_ns);
    return sequence->n_generated > 1 && ns > 0 ? (sequence->n_generated - 1) * 1e9 / (double)ns : 0.0;
}

static void log_line(const roco_sequence *sequence, const roco_event *event)
{
    const roco_job *job = sequence->job;
    const roco_log_value values[] = {
        {.name = "id", .text = job->label ? job->label : "-"},
        {.name = "prompt", .number = job->n_prompt},
        {.name = "generated", .number = sequence->n_generated},
        {.name = "policy", .text = job->policy->name},
        {.name = "budget", .number = job->budget},
        {.name = "held", .number = sequence->kv.held},
        {.name = "evicted", .number = sequence->kv.evicted},
        {.name = "queue", .number = (double)event->queue_ns / 1e6, .decimals = 1, .unit = "ms"},
        {.name = "first token", .number = (double)event->first_token_ns / 1e6, .decimals = 1, .unit = "ms"},
        {.name = "tokens per s", .number = token_rate(sequence), .decimals = 1},
        {.name = "finish", .text = reason_text(sequence)},
        {.name = "key", .text = job->share ? job->share->name : NULL}, /* last: only where there is one */
    };
    size_t n = sizeof values / sizeof values[0];
    roco_log_values(ROCO_LOG_INFO, "request", values, job->share ? n : n - 1);
}

void roco_scheduler_finish(roco_scheduler *s, const roco_sequence *sequence, uint64_t now_ns)
{
    roco_job *job = sequence->job;
    roco_event event = {
        .kind = ROCO_EVENT_FINISHED,
        .user = job->user,
        .job = job->id,
        .finish = sequence->finish,
        .status = sequence->status,
        .n_generated = sequence->n_generated,
        .kv = sequence->kv,
        .evicted_mass = sequence->evicted_mass,
        .queue_ns = since(job->arrival_ns, sequence->admitted_ns),
        .first_token_ns = since(job->arrival_ns, sequence->first_token_ns),
        .total_ns = since(job->arrival_ns, now_ns),
    };
    count(&s->counters, sequence->finish);
    if (sequence->first_token_ns && job->policy->evicts && !isnan(sequence->evicted_mass))
        roco_histogram_add(&s->counters.evicted_mass, sequence->evicted_mass);
    log_line(sequence, &event);
    roco_trace_finished(&s->trace, job->id, job->label, reason_text(sequence));
    /* The event is the last word: once it is out, the label and the job belong to the other side. */
    size_t promises = sequence->admitted_ns ? 1u : ROCO_PROMISES_PER_JOB;
    ROCO_CHECK(roco_events_push(&s->events, &event, promises, job) == ROCO_OK);
    s->wake_due = true;
}
