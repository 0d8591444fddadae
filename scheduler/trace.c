#include "scheduler/trace.h"

#include "config/clock.h"
#include "config/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

roco_status roco_trace_open(roco_trace *trace, const char *path, roco_error *error)
{
    *trace = (roco_trace){.start_ns = roco_now_ns()};
    if (!path)
        return ROCO_OK;
    trace->file = fopen(path, "we");
    if (!trace->file)
        return roco_fail(error, ROCO_IO, "trace", "the trace file cannot be written: %s", strerror(errno));
    return ROCO_OK;
}

void roco_trace_close(roco_trace *trace)
{
    roco_trace_flush(trace);
    if (trace->file)
        fclose(trace->file);
    roco_buffer *parts[] = {&trace->admitted, &trace->decode, &trace->prefill, &trace->drawn, &trace->finished};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        roco_buffer_free(parts[i]);
    *trace = (roco_trace){0};
}

/* A trace is an aid: when memory or disk runs out it ends, and the service goes on. */
static void give_up(roco_trace *trace, const char *why)
{
    roco_log(ROCO_LOG_WARN, "trace ended: %s", why);
    fclose(trace->file);
    trace->file = NULL;
}

static void add(roco_trace *trace, roco_buffer *list, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(roco_trace *trace, roco_buffer *list, const char *format, ...)
{
    char text[96];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if ((list->size && roco_buffer_append_text(list, ",") != ROCO_OK) || roco_buffer_append_text(list, text) != ROCO_OK)
        give_up(trace, "out of memory");
}

static roco_status append_string(roco_buffer *out, const char *text)
{
    roco_status status = roco_buffer_append_text(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c && status == ROCO_OK; c++) {
        /* Bytes over 126 are escaped one by one: the line stays valid JSON whatever a label holds. */
        if (*c == '"' || *c == '\\')
            status = roco_buffer_append_format(out, "\\%c", *c);
        else if (*c < 0x20 || *c > 0x7e)
            status = roco_buffer_append_format(out, "\\u%04x", *c);
        else
            status = roco_buffer_append(out, c, 1);
    }
    return status == ROCO_OK ? roco_buffer_append_text(out, "\"") : status;
}

void roco_trace_admitted(roco_trace *trace, uint64_t id)
{
    if (trace->file)
        add(trace, &trace->admitted, "%" PRIu64, id);
}

void roco_trace_decode(roco_trace *trace, uint64_t id)
{
    if (trace->file)
        add(trace, &trace->decode, "%" PRIu64, id);
}

void roco_trace_prefill(roco_trace *trace, uint64_t id, uint32_t position, uint32_t n_tokens)
{
    if (trace->file)
        add(trace, &trace->prefill, "{\"id\":%" PRIu64 ",\"position\":%u,\"tokens\":%u}", id, position, n_tokens);
}

void roco_trace_drawn(roco_trace *trace, uint64_t id, int32_t token)
{
    if (trace->file)
        add(trace, &trace->drawn, "{\"id\":%" PRIu64 ",\"token\":%d}", id, token);
}

void roco_trace_finished(roco_trace *trace, uint64_t id, const char *label, const char *why)
{
    if (!trace->file)
        return;
    roco_buffer *list = &trace->finished;
    roco_status status = list->size ? roco_buffer_append_text(list, ",") : ROCO_OK;
    if (status == ROCO_OK)
        status = roco_buffer_append_format(list, "{\"id\":%" PRIu64 ",\"label\":", id);
    if (status == ROCO_OK)
        status = append_string(list, label ? label : "");
    if (status == ROCO_OK)
        status = roco_buffer_append_text(list, ",\"why\":");
    if (status == ROCO_OK)
        status = append_string(list, why);
    if (status == ROCO_OK)
        status = roco_buffer_append_text(list, "}");
    if (status != ROCO_OK)
        give_up(trace, "out of memory");
}

static const char *text_of(const roco_buffer *list)
{
    return list->size ? list->data : "";
}

void roco_trace_write(roco_trace *trace, const roco_trace_step *step)
{
    if (!trace->file || (step->rows == 0 && trace->admitted.size == 0 && trace->finished.size == 0))
        return;
    fprintf(trace->file,
            "{\"step\":%" PRIu64 ",\"time_ns\":%" PRIu64 ",\"queued\":%u,\"running\":%u,\"free_pages\":%u,\"rows\":%u,"
            "\"admitted\":[%s],\"decode\":[%s],\"prefill\":[%s],\"drawn\":[%s],\"evicted_slots\":%" PRIu64
            ",\"finished\":[%s],\"step_us\":%" PRIu64 "}\n",
            step->number, roco_now_ns() - trace->start_ns, step->queued, step->running, step->free_pages, step->rows,
            text_of(&trace->admitted), text_of(&trace->decode), text_of(&trace->prefill), text_of(&trace->drawn),
            step->evicted_slots, text_of(&trace->finished), step->step_ns / 1000u);
    roco_buffer *parts[] = {&trace->admitted, &trace->decode, &trace->prefill, &trace->drawn, &trace->finished};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        roco_buffer_clear(parts[i]);
    if (ferror(trace->file))
        give_up(trace, "the file cannot be written");
}

void roco_trace_flush(roco_trace *trace)
{
    if (trace->file && fflush(trace->file) != 0)
        give_up(trace, "the file cannot be written");
}
