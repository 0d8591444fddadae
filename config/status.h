/* Status codes and the error record every layer reports with.
 *
 * 0 is success, a negative roco_status is failure, everywhere. Functions that can fail for a reason a person
 * must read take `roco_error *` last (NULL is allowed: the caller does not want the words) and fill it once, at
 * the place that knows the field and the limit.
 */
#ifndef ROCO_CONFIG_STATUS_H
#define ROCO_CONFIG_STATUS_H

/* name, value, text, HTTP status the server answers with */
#define ROCO_STATUS_MAP(X)                                                                                             \
    X(OK, 0, "ok", 200)                                                                                                \
    X(INVALID, -1, "invalid value", 400)                                                                               \
    X(TOO_LARGE, -2, "over a limit", 400)                                                                              \
    X(NOT_FOUND, -3, "not found", 404)                                                                                 \
    X(FORMAT, -4, "malformed data", 400)                                                                               \
    X(UNSUPPORTED, -5, "not supported", 400)                                                                           \
    X(IO, -6, "input or output failed", 500)                                                                           \
    X(NO_MEMORY, -7, "out of memory", 500)                                                                             \
    X(BUSY, -8, "queue full", 503)                                                                                     \
    X(TIMEOUT, -9, "waited too long", 503)                                                                             \
    X(CANCELLED, -10, "cancelled", 499)                                                                                \
    X(SHUTDOWN, -11, "shutting down", 503)                                                                             \
    X(DEVICE, -12, "device failed", 500)                                                                               \
    X(NUMERIC, -13, "model produced a value that is not a number", 500)

typedef enum roco_status {
#define X(name, value, text, http) ROCO_##name = (value),
    ROCO_STATUS_MAP(X)
#undef X
} roco_status;

typedef struct roco_error {
    roco_status status;
    char field[64];    /* option, request field, tensor or key at fault; "" when none is */
    char message[448]; /* one sentence for a person: what was found, what is allowed; no raw user bytes */
} roco_error;

/* Static text of a status, never NULL. */
const char *roco_status_text(roco_status status);
int roco_status_http(roco_status status);

/* Fills `error` (may be NULL) and returns `status`, so that `return roco_fail(...)` is one line. `field` may be NULL.
 */
roco_status roco_fail(roco_error *error, roco_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A broken invariant is a bug in roco: says file and line on stderr and aborts, in every build. */
#define ROCO_CHECK(condition) ((condition) ? (void)0 : roco_check_failed(#condition, __FILE__, __LINE__))
void roco_check_failed(const char *condition, const char *file, int line) __attribute__((noreturn));

#endif
