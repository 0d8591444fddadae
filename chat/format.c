/* "%s of %d" % values and "{} of {name}".format(...): the plain forms of both. */
#include "chat/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One conversion of '%', after its flags: `spec` is "%", flags, width and precision. */
static void convert(roco_run *run, roco_builder *out, char *spec, size_t size, char how, roco_value value)
{
    char text[128];
    switch (how) {
    case 's': roco_print(run, out, value); return;
    case 'r': roco_print_quoted(run, out, value); return;
    case 'd':
    case 'i':
    case 'x':
    case 'X':
        if (value.kind == ROCO_VALUE_FLOAT && value.number > -9e18 && value.number < 9e18)
            value = roco_int((int64_t)value.number);
        if (value.kind != ROCO_VALUE_INT)
            roco_run_fail(run, ROCO_INVALID, "%%%c wants a number, not %s", how, roco_value_kind_name(value));
        snprintf(spec + strlen(spec), size - strlen(spec), "ll%c", how);
        break;
    case 'f':
    case 'e':
    case 'g':
        if (value.kind == ROCO_VALUE_INT)
            value = roco_float((double)value.integer);
        if (value.kind != ROCO_VALUE_FLOAT)
            roco_run_fail(run, ROCO_INVALID, "%%%c wants a number, not %s", how, roco_value_kind_name(value));
        snprintf(spec + strlen(spec), size - strlen(spec), "%c", how);
        break;
    default: roco_run_fail(run, ROCO_INVALID, "a format with a conversion roco does not know");
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* made here: flags, digits, one known letter */
    int length = value.kind == ROCO_VALUE_INT ? snprintf(text, sizeof text, spec, (long long)value.integer)
                                              : snprintf(text, sizeof text, spec, value.number);
#pragma GCC diagnostic pop
    if (length < 0 || (size_t)length >= sizeof text)
        roco_run_fail(run, ROCO_INVALID, "a number formatted to more than %zu characters", sizeof text - 1);
    roco_builder_text(run, out, text);
}

roco_value roco_format_percent(roco_run *run, const roco_string *format, roco_value values)
{
    bool tuple = values.kind == ROCO_VALUE_LIST && values.list->tuple;
    size_t n = tuple ? values.list->size : 1, used = 0, start = 0;
    roco_builder out = {0};
    for (size_t at = 0; at < format->size;) {
        if (format->data[at] != '%') {
            at++;
            continue;
        }
        roco_builder_add(run, &out, roco_string_part(run, format, start, at - start).string);
        char spec[24] = "%";
        size_t length = 1;
        at++;
        while (at < format->size && length < 12 && strchr("0123456789.+- #", format->data[at]))
            spec[length++] = format->data[at++];
        if (at == format->size)
            roco_run_fail(run, ROCO_INVALID, "the format ends in the middle");
        char how = format->data[at++];
        start = at;
        if (how == '%') {
            roco_builder_text(run, &out, "%");
            continue;
        }
        if (used == n)
            roco_run_fail(run, ROCO_INVALID, "the format wants more values than there are");
        convert(run, &out, spec, sizeof spec, how, tuple ? values.list->items[used] : values);
        used++;
    }
    if (tuple && used < n)
        roco_run_fail(run, ROCO_INVALID, "the format wants fewer values than there are");
    roco_builder_add(run, &out, roco_string_part(run, format, start, format->size - start).string);
    return roco_builder_value(run, &out);
}

static roco_value placed(roco_run *run, const roco_string *name, const roco_arguments *arguments, size_t *next)
{
    if (name->size == 0 && *next < arguments->n)
        return arguments->values[(*next)++];
    size_t index = 0, at = 0;
    while (at < name->size && at < 6 && name->data[at] >= '0' && name->data[at] <= '9')
        index = 10 * index + (size_t)(name->data[at++] - '0');
    if (name->size && at == name->size && index < arguments->n)
        return arguments->values[index];
    for (size_t i = 0; i < arguments->n_named; i++)
        if (arguments->names[i]->size == name->size && memcmp(arguments->names[i]->data, name->data, name->size) == 0)
            return arguments->named[i];
    roco_run_fail(run, ROCO_INVALID, "the format names a value that is not there, or in a way roco does not know");
}

roco_value roco_format_braces(roco_run *run, const roco_string *format, const roco_arguments *arguments)
{
    roco_builder out = {0};
    size_t start = 0, next = 0;
    for (size_t at = 0; at < format->size;) {
        char c = format->data[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        bool twice = at + 1 < format->size && format->data[at + 1] == c;
        roco_builder_add(run, &out, roco_string_part(run, format, start, at - start + twice).string);
        if (twice) {
            start = at += 2;
            continue;
        }
        const char *end = c == '{' ? memchr(format->data + at, '}', format->size - at) : NULL;
        if (!end)
            roco_run_fail(run, ROCO_INVALID, "a single brace in the format");
        size_t size = (size_t)(end - format->data) - at - 1;
        roco_print(run, &out, placed(run, roco_string_part(run, format, at + 1, size).string, arguments, &next));
        start = at += size + 2;
    }
    roco_builder_add(run, &out, roco_string_part(run, format, start, format->size - start).string);
    return roco_builder_value(run, &out);
}
