#include "config/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *roco_status_text(roco_status status)
{
    switch (status) {
#define X(name, value, text, http)                                                                                     \
    case ROCO_##name: return text;
        ROCO_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

int roco_status_http(roco_status status)
{
    switch (status) {
#define X(name, value, text, http)                                                                                     \
    case ROCO_##name: return http;
        ROCO_STATUS_MAP(X)
#undef X
    }
    return 500;
}

roco_status roco_fail(roco_error *error, roco_status status, const char *field, const char *format, ...)
{
    if (!error)
        return status;
    error->status = status;
    snprintf(error->field, sizeof error->field, "%s", field ? field : "");
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return status;
}

void roco_check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
    abort();
}
