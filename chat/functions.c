/* Names that are always there: range, dict, namespace, raise_exception, strftime_now. */
#include "chat/run.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RANGE = 100000 };

typedef struct function {
    const char *name;
    roco_value (*call)(roco_run *run, const roco_arguments *arguments);
} function;

static roco_value call_range(roco_run *run, const roco_arguments *arguments)
{
    int64_t start = 0, stop = roco_int_argument(run, arguments, 0, "stop", 0), step = 1;
    if (arguments->n > 1) {
        start = stop;
        stop = roco_int_argument(run, arguments, 1, "stop", 0);
        step = roco_int_argument(run, arguments, 2, "step", 1);
    }
    if (step == 0)
        roco_run_fail(run, ROCO_INVALID, "range in steps of 0");
    roco_list *list = roco_new_list(run, 0);
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (list->size == MAX_RANGE)
            roco_run_fail(run, ROCO_TOO_LARGE, "a range of more than %d", MAX_RANGE);
        roco_run_charge(run, 1);
        roco_list_add(run->region, list, roco_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return roco_list_value(list);
}

/* A dict of the first argument's entries and the named ones. */
static roco_value new_dict(roco_run *run, const roco_arguments *arguments)
{
    roco_value value;
    roco_value_dict(run->region, arguments->n_named, &value);
    if (arguments->n && arguments->values[0].kind == ROCO_VALUE_DICT) {
        const roco_dict *dict = arguments->values[0].dict;
        for (size_t i = 0; i < dict->size; i++)
            roco_dict_put(run->region, value.dict, dict->entries[i].key, dict->entries[i].value);
    } else if (arguments->n) {
        const roco_list *pairs = roco_iterate(run, arguments->values[0]);
        for (size_t i = 0; i < pairs->size; i++) {
            const roco_list *pair = roco_iterate(run, pairs->items[i]);
            if (pair->size != 2 || pair->items[0].kind > ROCO_VALUE_STRING)
                roco_run_fail(run, ROCO_INVALID, "a dict is made of pairs of a key and a value");
            roco_dict_put(run->region, value.dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; i < arguments->n_named; i++)
        roco_dict_put(run->region, value.dict, (roco_value){.kind = ROCO_VALUE_STRING, .string = arguments->names[i]},
                      arguments->named[i]);
    return value;
}

static roco_value call_namespace(roco_run *run, const roco_arguments *arguments)
{
    roco_value value = new_dict(run, arguments);
    value.kind = ROCO_VALUE_NAMESPACE;
    return value;
}

/* The template's way to say that it cannot take these messages; the client is told why. */
static roco_value call_raise(roco_run *run, const roco_arguments *arguments)
{
    const roco_value *message = roco_argument(arguments, 0, "message");
    const roco_string *text = roco_to_string(run, message ? *message : roco_none());
    roco_run_fail(run, ROCO_INVALID, "%.*s", text->size < 300 ? (int)text->size : 300, text->data);
}

static roco_value call_strftime(roco_run *run, const roco_arguments *arguments)
{
    const roco_string *format = roco_string_argument(run, arguments, 0, "format");
    char text[64], out[512];
    struct tm local;
    if (!format || format->size >= sizeof text)
        roco_run_fail(run, ROCO_INVALID, "strftime_now wants a format of less than %zu bytes", sizeof text);
    memcpy(text, format->data, format->size);
    text[format->size] = '\0';
    if (!localtime_r(&run->now, &local))
        roco_run_fail(run, ROCO_INVALID, "there is no local time");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* strftime cannot read or write beyond what it is given */
    size_t size = strftime(out, sizeof out, text, &local);
#pragma GCC diagnostic pop
    roco_builder builder = {0};
    roco_builder_bytes(run, &builder, out, size, false);
    return roco_builder_value(run, &builder);
}

static const function functions[] = {
    {"range", call_range},           {"dict", new_dict}, {"namespace", call_namespace}, {"raise_exception", call_raise},
    {"strftime_now", call_strftime},
};

roco_value roco_find_function(const roco_string *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (roco_string_is(name, functions[i].name))
            return (roco_value){.kind = ROCO_VALUE_FUNCTION, .other = &functions[i]};
    return (roco_value){.kind = ROCO_VALUE_UNDEFINED};
}

roco_value roco_call_function(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return ((const function *)value.other)->call(run, arguments);
}
