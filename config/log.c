/* Log records on stderr. Any thread may log; a record is one write(2), so that lines of two threads never mix and no
 * lock is held while the terminal or the pipe is slow. */
#include "config/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A record stays within PIPE_BUF (4096 on Linux): up to there a write to a pipe is never split. */
enum { RECORD_BYTES = 4096 };

static _Atomic roco_log_level current_level = ROCO_LOG_INFO;

void roco_log_set_level(roco_log_level level)
{
    atomic_store_explicit(&current_level, level, memory_order_relaxed);
}

static size_t write_head(char *record, size_t room, roco_log_level level)
{
    static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(record, room, "%Y-%m-%dT%H:%M:%S", &utc);
    used += (size_t)snprintf(record + used, room - used, ".%03ldZ %s ", now.tv_nsec / 1000000, names[level]);
    return used;
}

void roco_log(roco_log_level level, const char *format, ...)
{
    if (level > atomic_load_explicit(&current_level, memory_order_relaxed))
        return;
    int saved_errno = errno;
    char record[RECORD_BYTES];
    size_t head = write_head(record, sizeof record, level);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(record + head, sizeof record - head, format, args);
    va_end(args);
    size_t text = length < 0 ? 0 : (size_t)length;
    if (text > sizeof record - head - 1)
        text = sizeof record - head - 1;
    /* A line feed or an escape sequence from a client must not forge a record or drive a terminal. */
    for (size_t i = head; i < head + text; i++)
        if ((unsigned char)record[i] < 0x20 || record[i] == 0x7f)
            record[i] = '?';
    record[head + text] = '\n';
    /* A record that cannot be written is lost: there is nowhere left to report it. */
    while (write(STDERR_FILENO, record, head + text + 1) < 0 && errno == EINTR)
        continue;
    errno = saved_errno;
}
