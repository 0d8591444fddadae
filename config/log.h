/* One-line log records on stderr. Level and form are roco's only mutable globals; set at start and at SIGHUP. Any
 * thread. */
#ifndef ROCO_CONFIG_LOG_H
#define ROCO_CONFIG_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum roco_log_level { ROCO_LOG_ERROR, ROCO_LOG_WARN, ROCO_LOG_INFO, ROCO_LOG_DEBUG } roco_log_level;

/* What a record tells besides its message. */
typedef struct roco_log_value {
    const char *name; /* words; in JSON, unit included, joined by _ */
    const char *text; /* NULL: it is the number */
    double number;
    int decimals;
    const char *unit; /* NULL: none */
} roco_log_value;

void roco_log_set_level(roco_log_level level);
void roco_log_set_json(bool json);
/* Writes "2026-11-30T12:00:00.123Z LEVEL text\n", or {"time":"...","level":"...","message":"text"}, in one write(2);
 * control characters in the text become '?'. */
void roco_log(roco_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with values behind: "message: name text, name 1.5 unit" or as members of the JSON object. All of it is meant
 * to be short: a record has 4096 bytes. */
void roco_log_values(roco_log_level level, const char *message, const roco_log_value *values, size_t n_values);

#endif
