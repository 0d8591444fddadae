/* One-line log records on stderr. The level is roco's only mutable global; set once at start. Any thread. */
#ifndef ROCO_CONFIG_LOG_H
#define ROCO_CONFIG_LOG_H

typedef enum roco_log_level { ROCO_LOG_ERROR, ROCO_LOG_WARN, ROCO_LOG_INFO, ROCO_LOG_DEBUG } roco_log_level;

void roco_log_set_level(roco_log_level level);
/* Writes "2026-11-30T12:00:00.123Z LEVEL text\n" in one write(2); control characters in the text become '?'. */
void roco_log(roco_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
