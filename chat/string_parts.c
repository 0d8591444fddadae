/* Cutting strings apart and putting them together. */
#include "chat/string_parts.h"

#include <string.h>

static bool in_set(const roco_string *string, size_t at, const roco_string *set, size_t *size)
{
    if (!set)
        return roco_is_space(string, at, size);
    *size = roco_string_step(string, at);
    return set->size >= *size && memmem(set->data, set->size, string->data + at, *size);
}

static size_t last_character(const roco_string *string, size_t end)
{
    size_t at = end - 1;
    while (at && ((unsigned char)string->data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

roco_value roco_strip(roco_run *run, const roco_string *string, const roco_string *set, unsigned sides)
{
    size_t start = 0, end = string->size, size;
    while (sides & 1 && start < end && in_set(string, start, set, &size))
        start += size;
    while (sides & 2 && end > start && in_set(string, last_character(string, end), set, &size))
        end = last_character(string, end);
    roco_run_charge(run, (string->size - (end - start)) / 16);
    return roco_string_part(run, string, start, end - start);
}

roco_value roco_replace(roco_run *run, const roco_string *string, const roco_string *from, const roco_string *to,
                        int64_t count)
{
    roco_builder out = {0};
    size_t start = 0, at = 0;
    while (count != 0 && (at = roco_string_find(run, string, from, at)) != SIZE_MAX) {
        roco_run_charge(run, 1);
        roco_builder_add(run, &out, roco_string_part(run, string, start, at - start).string);
        roco_builder_add(run, &out, to);
        start = at += from->size;
        count -= count > 0;
        if (from->size == 0) { /* between all characters */
            if (at == string->size)
                break;
            size_t step = roco_string_step(string, at);
            roco_builder_add(run, &out, roco_string_part(run, string, at, step).string);
            start = at += step;
        }
    }
    roco_builder_add(run, &out, roco_string_part(run, string, start, string->size - start).string);
    return roco_builder_value(run, &out);
}

static void add_part(roco_run *run, roco_list *list, const roco_string *string, size_t start, size_t end)
{
    roco_run_charge(run, 1);
    roco_list_add(run->region, list, roco_string_part(run, string, start, end - start));
}

roco_list *roco_split_lines(roco_run *run, const roco_string *string, bool keep_ends)
{
    roco_list *lines = roco_new_list(run, 0);
    size_t start = 0;
    for (size_t at = 0, size; at < string->size; at += size) {
        bool space = roco_is_space(string, at, &size);
        char c = string->data[at];
        size = size ? size : 1;
        bool ends =
            space &&
            ((c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || (size == 2 && string->data[at + 1] == '\x85') ||
             (size == 3 && (unsigned char)string->data[at + 1] == 0x80 &&
              ((unsigned char)string->data[at + 2] == 0xa8 || (unsigned char)string->data[at + 2] == 0xa9)));
        if (!ends)
            continue;
        if (c == '\r' && at + 1 < string->size && string->data[at + 1] == '\n')
            size = 2;
        add_part(run, lines, string, start, keep_ends ? at + size : at);
        start = at + size;
    }
    if (start < string->size)
        add_part(run, lines, string, start, string->size);
    return lines;
}

static roco_list *split_at_space(roco_run *run, const roco_string *string, int64_t most)
{
    roco_list *parts = roco_new_list(run, 0);
    size_t at = 0, size;
    for (;;) {
        while (at < string->size && roco_is_space(string, at, &size))
            at += size;
        if (at == string->size)
            return parts;
        size_t start = at;
        if (most-- == 0) {
            roco_value rest = roco_strip(run, roco_string_part(run, string, at, string->size - at).string, NULL, 2);
            roco_list_add(run->region, parts, rest);
            return parts;
        }
        while (at < string->size && !roco_is_space(string, at, &size))
            at += size ? size : 1;
        add_part(run, parts, string, start, at);
    }
}

roco_list *roco_split(roco_run *run, const roco_string *string, const roco_string *separator, int64_t most)
{
    most = most < 0 ? INT64_MAX : most;
    if (!separator)
        return split_at_space(run, string, most);
    if (separator->size == 0)
        roco_run_fail(run, ROCO_INVALID, "split at an empty string");
    roco_list *parts = roco_new_list(run, 0);
    size_t start = 0, at;
    while (most-- > 0 && (at = roco_string_find(run, string, separator, start)) != SIZE_MAX) {
        add_part(run, parts, string, start, at);
        start = at + separator->size;
    }
    add_part(run, parts, string, start, string->size);
    return parts;
}

roco_value roco_join(roco_run *run, const roco_string *between, const roco_list *items)
{
    roco_builder out = {0};
    for (size_t i = 0; i < items->size; i++) {
        if (i && between)
            roco_builder_add(run, &out, between);
        roco_print(run, &out, items->items[i]);
    }
    return roco_builder_value(run, &out);
}
