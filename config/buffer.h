/* A growable byte buffer. Embedded object: init with {0}, roco_buffer_free at the end. Not thread-safe. */
#ifndef ROCO_CONFIG_BUFFER_H
#define ROCO_CONFIG_BUFFER_H

#include "config/status.h"

#include <stddef.h>

typedef struct roco_buffer {
    char *data; /* NUL-terminated whenever size > 0 or anything was appended; the NUL is not counted */
    size_t size;
    size_t capacity;
} roco_buffer;

/* All return ROCO_OK or ROCO_NO_MEMORY; on failure the buffer is unchanged. */
roco_status roco_buffer_reserve(roco_buffer *buffer, size_t extra);
roco_status roco_buffer_append(roco_buffer *buffer, const void *data, size_t size);
roco_status roco_buffer_append_text(roco_buffer *buffer, const char *text);
roco_status roco_buffer_append_format(roco_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Drops the first `size` bytes (at most all). */
void roco_buffer_consume(roco_buffer *buffer, size_t size);
void roco_buffer_clear(roco_buffer *buffer);
void roco_buffer_free(roco_buffer *buffer);

#endif
