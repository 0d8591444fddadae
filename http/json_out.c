/* Writing replies. Text per token is the hot case, so runs without a character to escape are copied whole. */
#include "http/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(roco_json_out *out, const char *data, size_t size)
{
    if (roco_buffer_append(&out->buffer, data, size))
        out->failed = true;
}

void roco_json_raw(roco_json_out *out, const char *text)
{
    append(out, text, strlen(text));
}

void roco_json_format(roco_json_out *out, const char *format, ...)
{
    char small[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof small) {
        append(out, small, (size_t)length);
        return;
    }
    char *large = NULL;
    va_start(args, format);
    length = vasprintf(&large, format, args);
    va_end(args);
    if (length < 0) {
        out->failed = true;
        return;
    }
    append(out, large, (size_t)length);
    free(large);
}

static void escape(roco_json_out *out, unsigned char c)
{
    switch (c) {
    case '"': append(out, "\\\"", 2); return;
    case '\\': append(out, "\\\\", 2); return;
    case '\n': append(out, "\\n", 2); return;
    case '\r': append(out, "\\r", 2); return;
    case '\t': append(out, "\\t", 2); return;
    default: roco_json_format(out, "\\u%04x", c); return;
    }
}

void roco_json_string(roco_json_out *out, const char *data, size_t size)
{
    append(out, "\"", 1);
    size_t start = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        append(out, data + start, i - start);
        escape(out, c);
        start = i + 1;
    }
    append(out, data + start, size - start);
    append(out, "\"", 1);
}

void roco_json_out_free(roco_json_out *out)
{
    roco_buffer_free(&out->buffer);
    out->failed = false;
}
