/* Log records on stderr. Any thread may log; a record is one write(2), so that lines of two threads never mix and no
 * lock is held while the terminal or the pipe is slow. */
#include "config/log.h"

#include "config/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A record stays within PIPE_BUF (4096 on Linux): up to there a write to a pipe is never split. */
enum { RECORD_BYTES = 4096, TAIL_BYTES = 3 /* "} and the line's end */ };

typedef struct record {
    char bytes[RECORD_BYTES];
    size_t used;
    bool full; /* something did not fit: nothing is added any more */
    bool json;
} record;

static _Atomic roco_log_level current_level = ROCO_LOG_INFO;
static atomic_bool current_json;

void roco_log_set_level(roco_log_level level)
{
    atomic_store_explicit(&current_level, level, memory_order_relaxed);
}

void roco_log_set_json(bool json)
{
    atomic_store_explicit(&current_json, json, memory_order_relaxed);
}

/* All of it or nothing: half an escape would break the line. */
static void add(record *r, const char *bytes, size_t n)
{
    r->full = r->full || n > RECORD_BYTES - TAIL_BYTES - r->used;
    if (r->full)
        return;
    memcpy(r->bytes + r->used, bytes, n);
    r->used += n;
}

static void add_string(record *r, const char *text)
{
    add(r, text, strlen(text));
}

/* Text from outside. A line feed or an escape sequence from a client must not forge a record or drive a terminal. */
static void add_foreign(record *r, const char *text)
{
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        n = roco_utf8_next(text, left, NULL);
        if ((unsigned char)*text < 0x20 || *text == 0x7f || (n == 0 && r->json))
            add(r, "?", 1);
        else if (r->json && (*text == '"' || *text == '\\'))
            add(r, (const char[]){'\\', *text}, 2);
        else
            add(r, text, n ? n : 1);
        n = n ? n : 1;
    }
}

static void begin(record *r, roco_log_level level)
{
    static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    static const char *const json_names[] = {"error", "warn", "info", "debug"};
    char moment[64];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(moment, sizeof moment, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(moment + used, sizeof moment - used, ".%03ldZ", now.tv_nsec / 1000000);
    r->used = 0;
    r->full = false;
    r->json = atomic_load_explicit(&current_json, memory_order_relaxed);
    add_string(r, r->json ? "{\"time\":\"" : "");
    add_string(r, moment);
    add_string(r, r->json ? "\",\"level\":\"" : " ");
    add_string(r, (r->json ? json_names : names)[level]);
    add_string(r, r->json ? "\",\"message\":\"" : " ");
}

/* A record that cannot be written is lost: there is nowhere left to report it. */
static void end(record *r, const char *tail)
{
    memcpy(r->bytes + r->used, tail, strlen(tail));
    r->used += strlen(tail);
    while (write(STDERR_FILENO, r->bytes, r->used) < 0 && errno == EINTR)
        continue;
}

static bool is_shown(roco_log_level level)
{
    return level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void roco_log(roco_log_level level, const char *format, ...)
{
    if (!is_shown(level))
        return;
    int saved_errno = errno;
    char text[RECORD_BYTES];
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    record r;
    begin(&r, level);
    add_foreign(&r, text);
    end(&r, r.json ? "\"}\n" : "\n");
    errno = saved_errno;
}

/* A member's name: "first token" in ms is first_token_ms. */
static void add_key(record *r, const roco_log_value *value)
{
    add_string(r, ",\"");
    for (const char *c = value->name; *c; c++)
        add(r, *c == ' ' ? "_" : c, 1);
    add_string(r, value->unit ? "_" : "");
    add_string(r, value->unit ? value->unit : "");
    add_string(r, "\":");
}

static void add_value(record *r, const roco_log_value *value)
{
    char number[64];
    const char *quote = r->json && value->text ? "\"" : "";
    snprintf(number, sizeof number, "%.*f", value->decimals, value->number);
    add_string(r, quote);
    if (value->text)
        add_foreign(r, value->text);
    else
        add_string(r, number);
    add_string(r, quote);
}

void roco_log_values(roco_log_level level, const char *message, const roco_log_value *values, size_t n_values)
{
    if (!is_shown(level))
        return;
    int saved_errno = errno;
    record r;
    begin(&r, level);
    add_string(&r, message);
    add_string(&r, r.json ? "\"" : ":");
    for (size_t i = 0; i < n_values; i++) {
        if (r.json) {
            add_key(&r, &values[i]);
        } else {
            add_string(&r, i ? ", " : " ");
            add_string(&r, values[i].name);
            add_string(&r, " ");
        }
        add_value(&r, &values[i]);
        if (!r.json && values[i].unit) {
            add_string(&r, " ");
            add_string(&r, values[i].unit);
        }
    }
    end(&r, r.json ? "}\n" : "\n");
    errno = saved_errno;
}
