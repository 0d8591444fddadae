/* Filters over lists, dicts and numbers. Where Jinja gives a generator, a list is given. */
#include "chat/string_parts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- attributes by path --- */

/* "a.b.0" from an item; a path that is an integer is an index. */
static roco_value by_path(roco_run *run, roco_value item, roco_value path)
{
    if (path.kind != ROCO_VALUE_STRING)
        return roco_get_item(run, item, path);
    const roco_list *parts = roco_split(run, path.string, roco_text_value(run, ".").string, -1);
    for (size_t i = 0; i < parts->size; i++) {
        const roco_string *part = parts->items[i].string;
        char digits[12] = "";
        bool index = part->size > 0 && part->size < 10;
        for (size_t k = 0; index && k < part->size; k++) {
            index = part->data[k] >= '0' && part->data[k] <= '9';
            digits[k] = part->data[k];
        }
        item = roco_get_item(run, item, index ? roco_int(atoi(digits)) : parts->items[i]);
    }
    return item;
}

/* What sorting and comparing goes by: an attribute, and text without its case. */
static roco_value sort_key(roco_run *run, roco_value item, const roco_value *path, bool cased)
{
    if (path && path->kind != ROCO_VALUE_NONE)
        item = by_path(run, item, *path);
    return item.kind == ROCO_VALUE_STRING && !cased ? roco_change_case(run, item.string, 'l') : item;
}

/* --- choosing --- */

static roco_value rest_arguments(const roco_arguments *all, size_t from, roco_arguments *rest)
{
    *rest = *all;
    from = from < all->n ? from : all->n;
    rest->values += from;
    rest->n -= from;
    return from ? all->values[from - 1] : roco_none();
}

/* What select, reject and map go over: false values of any kind hold nothing. */
static const roco_list *chosen_from(roco_run *run, roco_value value)
{
    return roco_value_true(value) ? roco_iterate(run, value) : roco_new_list(run, 0);
}

/* `first`: the argument that names the test; the one before it, if any, the attribute. */
static roco_value choose(roco_run *run, roco_value value, const roco_arguments *arguments, size_t first, bool wanted)
{
    if (arguments->n < first)
        roco_run_fail(run, ROCO_INVALID, "the attribute is missing");
    const roco_list *items = chosen_from(run, value);
    roco_list *kept = roco_new_list(run, 0);
    roco_arguments rest;
    rest_arguments(arguments, first + 1, &rest);
    for (size_t i = 0; i < items->size; i++) {
        roco_run_charge(run, 1);
        roco_value item = first ? by_path(run, items->items[i], arguments->values[0]) : items->items[i];
        bool passes = arguments->n > first
                          ? roco_apply_test(run, roco_to_string(run, arguments->values[first]), item, &rest)
                          : roco_value_true(item);
        if (passes == wanted)
            roco_list_add(run->region, kept, items->items[i]);
    }
    return roco_list_value(kept);
}

static roco_value apply_select(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return choose(run, value, arguments, 0, true);
}

static roco_value apply_reject(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return choose(run, value, arguments, 0, false);
}

static roco_value apply_selectattr(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return choose(run, value, arguments, 1, true);
}

static roco_value apply_rejectattr(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return choose(run, value, arguments, 1, false);
}

static roco_value apply_map(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = chosen_from(run, value);
    const roco_value *path = roco_argument(arguments, SIZE_MAX, "attribute");
    const roco_value *absent = roco_argument(arguments, SIZE_MAX, "default");
    roco_list *list = roco_new_list(run, items->size);
    roco_arguments rest;
    roco_value name = rest_arguments(arguments, 1, &rest);
    if (!path && name.kind != ROCO_VALUE_STRING)
        roco_run_fail(run, ROCO_INVALID, "map wants the name of a filter, or attribute=");
    for (size_t i = 0; i < items->size; i++) {
        roco_run_charge(run, 1);
        roco_value item =
            path ? by_path(run, items->items[i], *path) : roco_apply_filter(run, name.string, items->items[i], &rest);
        roco_list_add(run->region, list, path && absent && item.kind == ROCO_VALUE_UNDEFINED ? *absent : item);
    }
    return roco_list_value(list);
}

/* --- order --- */

static roco_value apply_sort(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    bool cased = roco_bool_argument(arguments, 1, "case_sensitive", false);
    roco_dict_entry *entries = roco_region_alloc(run->region, items->size + 1, sizeof *entries);
    roco_list *list = roco_new_list(run, items->size);
    for (size_t i = 0; i < items->size; i++)
        entries[i] = (roco_dict_entry){sort_key(run, items->items[i], roco_argument(arguments, 2, "attribute"), cased),
                                       items->items[i]};
    roco_sort_entries(run, entries, items->size, roco_bool_argument(arguments, 0, "reverse", false));
    for (size_t i = 0; i < items->size; i++)
        roco_list_add(run->region, list, entries[i].value);
    return roco_list_value(list);
}

static const roco_dict *dict_of(roco_run *run, roco_value value)
{
    if (value.kind != ROCO_VALUE_DICT)
        roco_run_fail(run, ROCO_INVALID, "a dict was expected, not %s", roco_value_kind_name(value));
    return value.dict;
}

static roco_value apply_dictsort(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_dict *dict = dict_of(run, value);
    bool cased = roco_bool_argument(arguments, 0, "case_sensitive", false);
    const roco_string *by = roco_string_argument(run, arguments, 1, "by");
    roco_dict_entry *entries = roco_region_alloc(run->region, dict->size + 1, sizeof *entries);
    for (size_t i = 0; i < dict->size; i++) {
        roco_dict_entry *e = &dict->entries[i];
        roco_value key = by && roco_string_is(by, "value") ? e->value : e->key;
        entries[i] = (roco_dict_entry){sort_key(run, key, NULL, cased), roco_pair(run, e->key, e->value)};
    }
    roco_sort_entries(run, entries, dict->size, roco_bool_argument(arguments, 2, "reverse", false));
    roco_list *list = roco_new_list(run, dict->size);
    for (size_t i = 0; i < dict->size; i++)
        roco_list_add(run->region, list, entries[i].value);
    return roco_list_value(list);
}

static roco_value apply_items(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    roco_list *list = roco_new_list(run, 0);
    if (value.kind == ROCO_VALUE_UNDEFINED)
        return roco_list_value(list);
    const roco_dict *dict = dict_of(run, value);
    for (size_t i = 0; i < dict->size; i++)
        roco_list_add(run->region, list, roco_pair(run, dict->entries[i].key, dict->entries[i].value));
    return roco_list_value(list);
}

static roco_value apply_reverse(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_value bounds[3] = {roco_none(), roco_none(), roco_int(-1)};
    if (value.kind == ROCO_VALUE_STRING || value.kind == ROCO_VALUE_LIST)
        return roco_get_slice(run, value, bounds);
    roco_list *items = roco_new_list(run, 0);
    const roco_list *given = roco_iterate(run, value);
    for (size_t i = given->size; i--;)
        roco_list_add(run->region, items, given->items[i]);
    return roco_list_value(items);
}

static roco_value apply_unique(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    bool cased = roco_bool_argument(arguments, 0, "case_sensitive", false);
    roco_list *list = roco_new_list(run, 0);
    roco_value seen;
    roco_value_dict(run->region, 0, &seen);
    for (size_t i = 0; i < items->size; i++) {
        roco_value key = sort_key(run, items->items[i], roco_argument(arguments, 1, "attribute"), cased);
        if (key.kind > ROCO_VALUE_STRING)
            roco_run_fail(run, ROCO_INVALID, "unique: %s cannot be compared", roco_value_kind_name(key));
        if (roco_dict_get(seen.dict, key))
            continue;
        roco_dict_put(run->region, seen.dict, key, key);
        roco_list_add(run->region, list, items->items[i]);
    }
    return roco_list_value(list);
}

/* --- one of all --- */

static roco_value apply_length(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_int(roco_length(run, value));
}

static roco_value apply_first(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    if (value.kind == ROCO_VALUE_STRING)
        return roco_get_item(run, value, roco_int(0));
    const roco_list *items = roco_iterate(run, value);
    return items->size ? items->items[0] : roco_undefined(run, NULL);
}

static roco_value apply_last(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    return items->size ? items->items[items->size - 1] : roco_undefined(run, NULL);
}

static roco_value extreme(roco_run *run, roco_value value, const roco_arguments *arguments, int sign)
{
    const roco_list *items = roco_iterate(run, value);
    bool cased = roco_bool_argument(arguments, 0, "case_sensitive", false);
    const roco_value *path = roco_argument(arguments, 1, "attribute");
    roco_value best = roco_undefined(run, NULL), best_key = best;
    for (size_t i = 0; i < items->size; i++) {
        roco_value key = sort_key(run, items->items[i], path, cased);
        if (i && sign * roco_order(run, key, best_key) <= 0)
            continue;
        best = items->items[i];
        best_key = key;
    }
    return best;
}

static roco_value apply_min(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return extreme(run, value, arguments, -1);
}

static roco_value apply_max(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return extreme(run, value, arguments, 1);
}

static roco_value apply_sum(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    const roco_value *path = roco_argument(arguments, 0, "attribute"), *start = roco_argument(arguments, 1, "start");
    roco_value sum = start ? *start : roco_int(0);
    for (size_t i = 0; i < items->size; i++)
        sum = roco_operate(run, ROCO_OP1('+'), sum,
                           path && path->kind != ROCO_VALUE_NONE ? by_path(run, items->items[i], *path)
                                                                 : items->items[i]);
    return sum;
}

static roco_value apply_join(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    const roco_value *between = roco_argument(arguments, 0, "d"), *path = roco_argument(arguments, 1, "attribute");
    if (path && path->kind != ROCO_VALUE_NONE) {
        roco_list *list = roco_new_list(run, items->size);
        for (size_t i = 0; i < items->size; i++)
            roco_list_add(run->region, list, by_path(run, items->items[i], *path));
        items = list;
    }
    return roco_join(run, between ? roco_to_string(run, *between) : NULL, items);
}

static roco_value apply_list(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    roco_list *list = roco_new_list(run, items->size);
    for (size_t i = 0; i < items->size; i++)
        roco_list_add(run->region, list, items->items[i]);
    return roco_list_value(list);
}

static roco_value apply_batch(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, value);
    int64_t size = roco_int_argument(run, arguments, 0, "linecount", 0);
    const roco_value *fill = roco_argument(arguments, 1, "fill_with");
    roco_list *batches = roco_new_list(run, 0), *batch = NULL;
    if (size < 1 || size > 100000)
        roco_run_fail(run, ROCO_INVALID, "batch wants a size from 1 to 100000");
    for (size_t i = 0; i < items->size; i++) {
        if (i % (size_t)size == 0) {
            batch = roco_new_list(run, 0);
            roco_list_add(run->region, batches, roco_list_value(batch));
        }
        roco_list_add(run->region, batch, items->items[i]);
    }
    while (batch && fill && fill->kind != ROCO_VALUE_NONE && batch->size < (size_t)size)
        roco_list_add(run->region, batch, *fill);
    return roco_list_value(batches);
}

static roco_value apply_attr(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_string *name = roco_string_argument(run, arguments, 0, "name");
    return name && value.kind == ROCO_VALUE_NAMESPACE ? roco_get_attribute(run, value, name)
                                                      : roco_undefined(run, name);
}

static roco_value apply_default(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_value *other = roco_argument(arguments, 0, "default_value");
    bool falsy = roco_bool_argument(arguments, 1, "boolean", false) && !roco_value_true(value);
    if (value.kind != ROCO_VALUE_UNDEFINED && !falsy)
        return value;
    return other ? *other : roco_text_value(run, "");
}

/* --- numbers --- */

/* The number that a whole string is; false for anything else. */
static bool read_number(roco_run *run, const roco_string *string, double *out)
{
    const roco_string *text = roco_strip(run, string, NULL, 3).string;
    char digits[64], *end;
    if (text->size == 0 || text->size >= sizeof digits)
        return false;
    memcpy(digits, text->data, text->size);
    digits[text->size] = '\0';
    *out = strtod(digits, &end);
    return end == digits + text->size && !strpbrk(digits, "xX(");
}

static roco_value apply_int(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_value *other = roco_argument(arguments, 0, "default");
    int base = (int)roco_int_argument(run, arguments, 1, "base", 10);
    double number = value.kind == ROCO_VALUE_FLOAT ? value.number : NAN;
    if (value.kind == ROCO_VALUE_INT)
        return value;
    if (value.kind == ROCO_VALUE_BOOL)
        return roco_int(value.boolean);
    if (value.kind == ROCO_VALUE_STRING) {
        const roco_string *text = roco_strip(run, value.string, NULL, 3).string;
        char digits[72], *end = digits;
        snprintf(digits, sizeof digits, "%.*s", text->size < 70 ? (int)text->size : 70, text->data);
        errno = 0;
        long long integer = base >= 2 && base <= 36 && text->size ? strtoll(digits, &end, base) : 0;
        if (text->size && text->size == (size_t)(end - digits) && !errno)
            return roco_int(integer);
        if (!read_number(run, value.string, &number))
            number = NAN;
    }
    if (number > -9.2e18 && number < 9.2e18)
        return roco_int((int64_t)number);
    return other ? *other : roco_int(0);
}

static roco_value apply_float(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_value *other = roco_argument(arguments, 0, "default");
    double number;
    if (value.kind == ROCO_VALUE_FLOAT)
        return value;
    if (value.kind == ROCO_VALUE_INT)
        return roco_float((double)value.integer);
    if (value.kind == ROCO_VALUE_BOOL)
        return roco_float(value.boolean);
    if (value.kind == ROCO_VALUE_STRING && read_number(run, value.string, &number))
        return roco_float(number);
    return other ? *other : roco_float(0);
}

static roco_value apply_abs(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_order(run, value, roco_int(0)) < 0 ? roco_negate(run, value) : value;
}

static roco_value apply_round(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    int64_t precision = roco_int_argument(run, arguments, 0, "precision", 0);
    const roco_string *method = roco_string_argument(run, arguments, 1, "method");
    bool common = !method || roco_string_is(method, "common");
    if (precision < -15 || precision > 15)
        roco_run_fail(run, ROCO_INVALID, "round wants a precision from -15 to 15");
    if (value.kind == ROCO_VALUE_INT && common && precision >= 0)
        return value;
    double number = apply_float(run, value, &(roco_arguments){0}).number, scale = pow(10, (double)precision);
    if (!common)
        return roco_float((roco_string_is(method, "ceil") ? ceil(number * scale) : floor(number * scale)) / scale);
    if (precision < 0)
        return roco_float(rint(number * scale) / scale);
    char digits[400];
    snprintf(digits, sizeof digits, "%.*f", (int)precision, number); /* half to even, on the exact value */
    return roco_float(strtod(digits, NULL));
}

const roco_filter roco_list_filters[] = {
    {"length", apply_length},
    {"count", apply_length},
    {"first", apply_first},
    {"last", apply_last},
    {"join", apply_join},
    {"list", apply_list},
    {"map", apply_map},
    {"select", apply_select},
    {"reject", apply_reject},
    {"selectattr", apply_selectattr},
    {"rejectattr", apply_rejectattr},
    {"sort", apply_sort},
    {"dictsort", apply_dictsort},
    {"items", apply_items},
    {"reverse", apply_reverse},
    {"unique", apply_unique},
    {"min", apply_min},
    {"max", apply_max},
    {"sum", apply_sum},
    {"batch", apply_batch},
    {"attr", apply_attr},
    {"default", apply_default},
    {"d", apply_default},
    {"int", apply_int},
    {"float", apply_float},
    {"abs", apply_abs},
    {"round", apply_round},
    {0},
};
