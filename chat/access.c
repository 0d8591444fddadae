/* Parts of values: attributes, items, slices, what a loop goes over; and lists made on the way. */
#include "chat/run.h"

#include <string.h>

roco_list *roco_new_list(roco_run *run, size_t capacity)
{
    roco_value value;
    roco_value_list(run->region, capacity, &value);
    return value.list;
}

roco_value roco_list_value(roco_list *list)
{
    return (roco_value){.kind = ROCO_VALUE_LIST, .list = list};
}

roco_value roco_pair(roco_run *run, roco_value a, roco_value b)
{
    roco_list *list = roco_new_list(run, 2);
    list->tuple = true;
    roco_list_add(run->region, list, a);
    roco_list_add(run->region, list, b);
    return roco_list_value(list);
}

roco_value roco_undefined(roco_run *run, const roco_string *name)
{
    return (roco_value){.kind = ROCO_VALUE_UNDEFINED, .string = name};
}

void roco_run_fail_undefined(roco_run *run, roco_value value)
{
    const roco_string *name = value.string;
    if (!name)
        roco_run_fail(run, ROCO_INVALID, "something undefined is used");
    roco_run_fail(run, ROCO_INVALID, "'%.*s' is undefined", name->size < 60 ? (int)name->size : 60, name->data);
}

/* --- attributes and items --- */

static roco_value loop_attribute(roco_run *run, const roco_loop *loop, const roco_string *name)
{
    int64_t at = (int64_t)loop->at, size = (int64_t)loop->items->size;
    const struct {
        const char *name;
        roco_value value;
    } parts[] = {
        {"index", roco_int(at + 1)},
        {"index0", roco_int(at)},
        {"first", roco_bool(at == 0)},
        {"last", roco_bool(at + 1 == size)},
        {"length", roco_int(size)},
        {"revindex", roco_int(size - at)},
        {"revindex0", roco_int(size - at - 1)},
        {"depth", roco_int(1)}, /* counts recursive loops, of which there are none */
        {"depth0", roco_int(0)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (roco_string_is(name, parts[i].name))
            return parts[i].value;
    if (roco_string_is(name, "previtem"))
        return at > 0 ? loop->items->items[at - 1] : roco_undefined(run, name);
    if (roco_string_is(name, "nextitem"))
        return at + 1 < size ? loop->items->items[at + 1] : roco_undefined(run, name);
    return roco_undefined(run, name);
}

roco_value roco_get_attribute(roco_run *run, roco_value value, const roco_string *name)
{
    if (value.kind == ROCO_VALUE_UNDEFINED)
        roco_run_fail_undefined(run, value);
    if (value.kind == ROCO_VALUE_LOOP) {
        roco_value part = loop_attribute(run, value.other, name);
        return part.kind == ROCO_VALUE_UNDEFINED ? roco_find_method(run, value, name) : part;
    }
    if (value.kind != ROCO_VALUE_NAMESPACE) {
        roco_value method = roco_find_method(run, value, name);
        if (method.kind != ROCO_VALUE_UNDEFINED)
            return method;
    }
    if (value.kind == ROCO_VALUE_DICT || value.kind == ROCO_VALUE_NAMESPACE) {
        const roco_value *found = roco_dict_find(value.dict, name->data, name->size);
        if (found)
            return *found;
    }
    return roco_undefined(run, name);
}

static size_t byte_of(const roco_string *string, int64_t character)
{
    size_t at = 0;
    for (; character > 0 && at < string->size; character--)
        at += roco_string_step(string, at);
    return at;
}

int64_t roco_length(roco_run *run, roco_value value)
{
    switch (value.kind) {
    case ROCO_VALUE_UNDEFINED: return 0;
    case ROCO_VALUE_STRING:
        roco_run_charge(run, value.string->size / 256);
        return (int64_t)roco_string_length(value.string);
    case ROCO_VALUE_LIST: return (int64_t)value.list->size;
    case ROCO_VALUE_DICT: return (int64_t)value.dict->size;
    case ROCO_VALUE_LOOP: return (int64_t)((const roco_loop *)value.other)->items->size;
    default: roco_run_fail(run, ROCO_INVALID, "%s has no length", roco_value_kind_name(value));
    }
}

static roco_value get_at(roco_run *run, roco_value value, int64_t index)
{
    int64_t length = roco_length(run, value);
    index = index < 0 ? index + length : index;
    if (index < 0 || index >= length)
        return roco_undefined(run, NULL);
    if (value.kind == ROCO_VALUE_LIST)
        return value.list->items[index];
    size_t at = byte_of(value.string, index);
    return roco_string_part(run, value.string, at, roco_string_step(value.string, at));
}

roco_value roco_get_item(roco_run *run, roco_value value, roco_value key)
{
    if (value.kind == ROCO_VALUE_UNDEFINED)
        roco_run_fail_undefined(run, value);
    if (value.kind == ROCO_VALUE_DICT) {
        const roco_value *found = roco_dict_get(value.dict, key);
        if (found)
            return *found;
    }
    if ((value.kind == ROCO_VALUE_LIST || value.kind == ROCO_VALUE_STRING) &&
        (key.kind == ROCO_VALUE_INT || key.kind == ROCO_VALUE_BOOL))
        return get_at(run, value, key.kind == ROCO_VALUE_BOOL ? key.boolean : key.integer);
    if (key.kind == ROCO_VALUE_STRING)
        return roco_get_attribute(run, value, key.string);
    return roco_undefined(run, NULL);
}

/* --- slices --- */

static int64_t bound(roco_run *run, roco_value value, int64_t absent, int64_t low, int64_t high, int64_t length)
{
    if (value.kind == ROCO_VALUE_NONE)
        return absent;
    if (value.kind != ROCO_VALUE_INT)
        roco_run_fail(run, ROCO_INVALID, "a slice goes by integers, not by %s", roco_value_kind_name(value));
    int64_t at = value.integer < 0 ? value.integer + length : value.integer;
    return at < low ? low : at > high ? high : at;
}

/* Characters from..to in steps; whole stretches share the bytes. */
static roco_value slice_string(roco_run *run, const roco_string *s, int64_t from, int64_t to, int64_t step)
{
    if (step == 1) {
        size_t start = byte_of(s, from), end = start;
        for (int64_t n = to - from; n > 0 && end < s->size; n--)
            end += roco_string_step(s, end);
        return roco_string_part(run, s, start, end - start);
    }
    const roco_list *characters = roco_iterate(run, (roco_value){.kind = ROCO_VALUE_STRING, .string = s});
    roco_builder out = {0};
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        roco_builder_add(run, &out, characters->items[i].string);
    return roco_builder_value(run, &out);
}

roco_value roco_get_slice(roco_run *run, roco_value value, const roco_value bounds[3])
{
    if (value.kind == ROCO_VALUE_UNDEFINED)
        roco_run_fail_undefined(run, value);
    if (value.kind != ROCO_VALUE_STRING && value.kind != ROCO_VALUE_LIST)
        return roco_undefined(run, NULL);
    int64_t length = roco_length(run, value), step = 1;
    if (bounds[2].kind == ROCO_VALUE_INT)
        step = bounds[2].integer;
    if (step == 0 || step == INT64_MIN)
        roco_run_fail(run, ROCO_INVALID, "a slice in steps of %lld", (long long)step);
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    int64_t from = bound(run, bounds[0], step > 0 ? low : high, low, high, length);
    int64_t to = bound(run, bounds[1], step > 0 ? high : low, low, high, length);
    step = step > length + 1 ? length + 1 : step < -length - 1 ? -length - 1 : step;
    roco_run_charge(run, (uint64_t)length / 16);
    if (value.kind == ROCO_VALUE_STRING)
        return slice_string(run, value.string, from, to, step);
    roco_list *list = roco_new_list(run, 0);
    list->tuple = value.list->tuple;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        roco_list_add(run->region, list, value.list->items[i]);
    return roco_list_value(list);
}

/* --- loops --- */

const roco_list *roco_iterate(roco_run *run, roco_value value)
{
    if (value.kind == ROCO_VALUE_LIST)
        return value.list;
    roco_list *list = roco_new_list(run, value.kind == ROCO_VALUE_DICT ? value.dict->size : 0);
    switch (value.kind) {
    case ROCO_VALUE_UNDEFINED: return list;
    case ROCO_VALUE_DICT:
        roco_run_charge(run, value.dict->size);
        for (size_t i = 0; i < value.dict->size; i++)
            roco_list_add(run->region, list, value.dict->entries[i].key);
        return list;
    case ROCO_VALUE_STRING:
        roco_run_charge(run, value.string->size);
        for (size_t at = 0, size; at < value.string->size; at += size) {
            size = roco_string_step(value.string, at);
            roco_list_add(run->region, list, roco_string_part(run, value.string, at, size));
        }
        return list;
    default: roco_run_fail(run, ROCO_INVALID, "%s cannot be gone through", roco_value_kind_name(value));
    }
}

/* --- arguments --- */

const roco_value *roco_argument(const roco_arguments *arguments, size_t index, const char *name)
{
    if (index < arguments->n)
        return &arguments->values[index];
    for (size_t i = 0; i < arguments->n_named; i++)
        if (roco_string_is(arguments->names[i], name))
            return &arguments->named[i];
    return NULL;
}

int64_t roco_int_argument(roco_run *run, const roco_arguments *arguments, size_t index, const char *name,
                          int64_t absent)
{
    const roco_value *value = roco_argument(arguments, index, name);
    if (!value || value->kind == ROCO_VALUE_NONE)
        return absent;
    if (value->kind == ROCO_VALUE_BOOL)
        return value->boolean;
    if (value->kind != ROCO_VALUE_INT)
        roco_run_fail(run, ROCO_INVALID, "%s must be an integer, not %s", name, roco_value_kind_name(*value));
    return value->integer;
}

bool roco_bool_argument(const roco_arguments *arguments, size_t index, const char *name, bool absent)
{
    const roco_value *value = roco_argument(arguments, index, name);
    return value ? roco_value_true(*value) : absent;
}

const roco_string *roco_string_argument(roco_run *run, const roco_arguments *arguments, size_t index, const char *name)
{
    const roco_value *value = roco_argument(arguments, index, name);
    if (!value || value->kind == ROCO_VALUE_NONE)
        return NULL;
    if (value->kind != ROCO_VALUE_STRING)
        roco_run_fail(run, ROCO_INVALID, "%s must be a string, not %s", name, roco_value_kind_name(*value));
    return value->string;
}
