/* Strings and how they are put together, with the origin of each byte kept.
 *
 * Bytes are UTF-8; what templates count and cut are code points.
 */
#include "chat/run.h"

#include "config/utf8.h"

#include <string.h>

/* --- building --- */

static void reserve(roco_run *run, roco_builder *builder, size_t extra)
{
    if (extra > run->max_output - builder->size)
        roco_run_fail(run, ROCO_TOO_LARGE, "the text is over %zu bytes", run->max_output);
    size_t needed = builder->size + extra;
    if (needed <= builder->capacity)
        return;
    size_t capacity = builder->capacity < 32 ? 32 : 2 * builder->capacity;
    capacity = capacity < needed ? needed : capacity;
    char *data = roco_region_alloc(run->region, capacity, 1);
    if (builder->size)
        memcpy(data, builder->data, builder->size);
    builder->data = data;
    if (builder->marks) {
        uint8_t *marks = roco_region_alloc(run->region, capacity, 1);
        memcpy(marks, builder->marks, builder->size);
        builder->marks = marks;
    }
    builder->capacity = capacity;
}

static void mark(roco_run *run, roco_builder *builder)
{
    builder->marks = roco_region_alloc(run->region, builder->capacity, 1);
    memset(builder->marks, builder->foreign, builder->size);
}

void roco_builder_add(roco_run *run, roco_builder *builder, const roco_string *string)
{
    if (string->size == 0)
        return;
    roco_run_charge(run, string->size / 256);
    reserve(run, builder, string->size);
    memcpy(builder->data + builder->size, string->data, string->size);
    if (builder->size == 0 && !string->marks)
        builder->foreign = string->foreign;
    if (!builder->marks && (string->marks || builder->foreign != string->foreign))
        mark(run, builder);
    if (builder->marks && string->marks)
        memcpy(builder->marks + builder->size, string->marks, string->size);
    else if (builder->marks)
        memset(builder->marks + builder->size, string->foreign, string->size);
    builder->size += string->size;
}

void roco_builder_bytes(roco_run *run, roco_builder *builder, const char *data, size_t size, uint8_t foreign)
{
    roco_string string = {.data = data, .size = size, .foreign = foreign};
    roco_builder_add(run, builder, &string);
}

void roco_builder_text(roco_run *run, roco_builder *builder, const char *text)
{
    roco_builder_bytes(run, builder, text, strlen(text), false);
}

roco_value roco_builder_value(roco_run *run, const roco_builder *builder)
{
    roco_string *string = roco_region_alloc(run->region, 1, sizeof *string);
    *string = (roco_string){builder->size ? builder->data : "", builder->size, builder->marks, builder->foreign};
    return (roco_value){.kind = ROCO_VALUE_STRING, .string = string};
}

roco_value roco_text_value(roco_run *run, const char *text)
{
    roco_value value;
    roco_value_string(run->region, text, strlen(text), false, &value);
    return value;
}

roco_value roco_string_part(roco_run *run, const roco_string *string, size_t start, size_t size)
{
    roco_string *part = roco_region_alloc(run->region, 1, sizeof *part);
    *part = (roco_string){string->data + start, size, string->marks ? string->marks + start : NULL, string->foreign};
    return (roco_value){.kind = ROCO_VALUE_STRING, .string = part};
}

/* --- looking --- */

bool roco_string_is(const roco_string *string, const char *text)
{
    return string->size == strlen(text) && memcmp(string->data, text, string->size) == 0;
}

uint8_t roco_string_mark(const roco_string *string, size_t at)
{
    return string->marks ? string->marks[at] : string->foreign;
}

size_t roco_string_length(const roco_string *string)
{
    size_t length = 0;
    for (size_t i = 0; i < string->size; i++)
        length += ((unsigned char)string->data[i] & 0xc0) != 0x80;
    return length;
}

size_t roco_string_step(const roco_string *string, size_t at)
{
    size_t size = roco_utf8_next(string->data + at, string->size - at, NULL);
    return size ? size : 1;
}

size_t roco_string_find(roco_run *run, const roco_string *string, const roco_string *needle, size_t from)
{
    if (from > string->size)
        return SIZE_MAX;
    roco_run_charge(run, (string->size - from) / 256);
    if (needle->size == 0)
        return from;
    const char *found = memmem(string->data + from, string->size - from, needle->data, needle->size);
    return found ? (size_t)(found - string->data) : SIZE_MAX;
}

bool roco_is_space(const roco_string *string, size_t at, size_t *size)
{
    uint32_t code = 0;
    *size = roco_utf8_next(string->data + at, string->size - at, &code);
    if (!*size)
        return false;
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}
