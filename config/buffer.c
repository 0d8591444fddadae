/* The growable byte buffer of buffer.h. Owns nothing but the block of the buffer it is given; takes no lock. */
#include "config/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_BLOCK = 64 };

roco_status roco_buffer_reserve(roco_buffer *buffer, size_t extra)
{
    /* One byte more than asked for: the terminating NUL is never counted but always has room. */
    if (extra >= SIZE_MAX / 2 - buffer->size)
        return ROCO_NO_MEMORY;
    size_t needed = buffer->size + extra + 1;
    if (needed <= buffer->capacity)
        return ROCO_OK;
    /* Doubling keeps the cost of many small appends linear in the bytes appended. */
    size_t capacity = buffer->capacity < SMALLEST_BLOCK ? SMALLEST_BLOCK : buffer->capacity;
    while (capacity < needed)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return ROCO_NO_MEMORY;
    if (!buffer->data)
        data[0] = '\0';
    buffer->data = data;
    buffer->capacity = capacity;
    return ROCO_OK;
}

roco_status roco_buffer_append(roco_buffer *buffer, const void *data, size_t size)
{
    roco_status status = roco_buffer_reserve(buffer, size);
    if (status)
        return status;
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
    return ROCO_OK;
}

roco_status roco_buffer_append_text(roco_buffer *buffer, const char *text)
{
    return roco_buffer_append(buffer, text, strlen(text));
}

roco_status roco_buffer_append_format(roco_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return ROCO_NO_MEMORY;
    roco_status status = roco_buffer_reserve(buffer, (size_t)length);
    if (status)
        return status;
    va_start(args, format);
    vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, args);
    va_end(args);
    buffer->size += (size_t)length;
    return ROCO_OK;
}

void roco_buffer_consume(roco_buffer *buffer, size_t size)
{
    if (size >= buffer->size) {
        roco_buffer_clear(buffer);
        return;
    }
    if (!size)
        return;
    buffer->size -= size;
    memmove(buffer->data, buffer->data + size, buffer->size + 1);
}

void roco_buffer_clear(roco_buffer *buffer)
{
    buffer->size = 0;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void roco_buffer_free(roco_buffer *buffer)
{
    free(buffer->data);
    *buffer = (roco_buffer){0};
}
