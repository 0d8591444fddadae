/* Operators on values, with Python's rules; integers have 64 bits and fail where Python's would grow. */
#include "chat/run.h"

#include <math.h>
#include <string.h>

static bool is_number(roco_value value)
{
    return value.kind == ROCO_VALUE_INT || value.kind == ROCO_VALUE_FLOAT || value.kind == ROCO_VALUE_BOOL;
}

static int64_t integer_of(roco_value value)
{
    return value.kind == ROCO_VALUE_BOOL ? value.boolean : value.integer;
}

static double number_of(roco_value value)
{
    return value.kind == ROCO_VALUE_FLOAT ? value.number : (double)integer_of(value);
}

static _Noreturn void fail_operands(roco_run *run, uint16_t op, roco_value a, roco_value b)
{
    char text[3] = {(char)(op & 0xff), (char)(op >> 8), '\0'};
    roco_run_fail(run, ROCO_INVALID, "%s %s %s cannot be done", roco_value_kind_name(a), text, roco_value_kind_name(b));
}

static _Noreturn void fail_overflow(roco_run *run)
{
    roco_run_fail(run, ROCO_INVALID, "an integer of more than 64 bits");
}

static _Noreturn void fail_zero(roco_run *run)
{
    roco_run_fail(run, ROCO_INVALID, "division by zero");
}

/* --- numbers --- */

static int64_t floor_divide(roco_run *run, int64_t a, int64_t b)
{
    if (b == 0)
        fail_zero(run);
    if (a == INT64_MIN && b == -1)
        fail_overflow(run);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_modulo(roco_run *run, int64_t a, int64_t b)
{
    if (b == 0)
        fail_zero(run);
    if (b == -1)
        return 0;
    int64_t rest = a % b;
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t power(roco_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    while (exponent) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            fail_overflow(run);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base))
            fail_overflow(run);
    }
    return result;
}

static double real_modulo(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static roco_value operate_reals(roco_run *run, uint16_t op, double a, double b)
{
    if ((op == '/' || op == '%' || op == ROCO_OP2('/', '/')) && b == 0)
        fail_zero(run);
    switch (op) {
    case '+': return roco_float(a + b);
    case '-': return roco_float(a - b);
    case '*': return roco_float(a * b);
    case '/': return roco_float(a / b);
    case '%': return roco_float(real_modulo(a, b));
    case ROCO_OP2('/', '/'): return roco_float(floor(a / b));
    default: return roco_float(pow(a, b));
    }
}

static roco_value operate_integers(roco_run *run, uint16_t op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
    case '+': overflow = __builtin_add_overflow(a, b, &result); break;
    case '-': overflow = __builtin_sub_overflow(a, b, &result); break;
    case '*': overflow = __builtin_mul_overflow(a, b, &result); break;
    case '%': result = floor_modulo(run, a, b); break;
    case ROCO_OP2('/', '/'): result = floor_divide(run, a, b); break;
    case ROCO_OP2('*', '*'):
        if (b < 0)
            return operate_reals(run, op, (double)a, (double)b);
        result = power(run, a, b);
        break;
    default: return operate_reals(run, op, (double)a, (double)b);
    }
    if (overflow)
        fail_overflow(run);
    return roco_int(result);
}

/* --- sequences --- */

static roco_value repeat(roco_run *run, roco_value value, int64_t count)
{
    if (value.kind == ROCO_VALUE_STRING) {
        roco_builder out = {0};
        for (int64_t i = 0; i < count; i++) {
            roco_run_charge(run, 1);
            roco_builder_add(run, &out, value.string);
        }
        return roco_builder_value(run, &out);
    }
    roco_list *list = roco_new_list(run, 0);
    list->tuple = value.list->tuple;
    for (int64_t i = 0; i < count; i++) {
        roco_run_charge(run, 1 + value.list->size);
        for (size_t k = 0; k < value.list->size; k++)
            roco_list_add(run->region, list, value.list->items[k]);
    }
    return roco_list_value(list);
}

static roco_value join_lists(roco_run *run, const roco_list *a, const roco_list *b)
{
    roco_run_charge(run, a->size + b->size);
    roco_list *list = roco_new_list(run, a->size + b->size);
    list->tuple = a->tuple;
    for (size_t i = 0; i < a->size; i++)
        roco_list_add(run->region, list, a->items[i]);
    for (size_t i = 0; i < b->size; i++)
        roco_list_add(run->region, list, b->items[i]);
    return roco_list_value(list);
}

static bool is_sequence(roco_value value)
{
    return value.kind == ROCO_VALUE_STRING || value.kind == ROCO_VALUE_LIST;
}

roco_value roco_operate(roco_run *run, uint16_t op, roco_value a, roco_value b)
{
    if (a.kind == ROCO_VALUE_UNDEFINED || b.kind == ROCO_VALUE_UNDEFINED)
        roco_run_fail_undefined(run, a.kind == ROCO_VALUE_UNDEFINED ? a : b);
    if (is_number(a) && is_number(b)) {
        if (a.kind == ROCO_VALUE_FLOAT || b.kind == ROCO_VALUE_FLOAT)
            return operate_reals(run, op, number_of(a), number_of(b));
        return operate_integers(run, op, integer_of(a), integer_of(b));
    }
    if (op == '+' && a.kind == ROCO_VALUE_STRING && b.kind == ROCO_VALUE_STRING) {
        roco_builder out = {0};
        roco_builder_add(run, &out, a.string);
        roco_builder_add(run, &out, b.string);
        return roco_builder_value(run, &out);
    }
    if (op == '+' && a.kind == ROCO_VALUE_LIST && b.kind == ROCO_VALUE_LIST && a.list->tuple == b.list->tuple)
        return join_lists(run, a.list, b.list);
    if (op == '*' && is_sequence(a) && (b.kind == ROCO_VALUE_INT || b.kind == ROCO_VALUE_BOOL))
        return repeat(run, a, integer_of(b));
    if (op == '*' && is_sequence(b) && (a.kind == ROCO_VALUE_INT || a.kind == ROCO_VALUE_BOOL))
        return repeat(run, b, integer_of(a));
    if (op == '%' && a.kind == ROCO_VALUE_STRING)
        return roco_format_percent(run, a.string, b);
    fail_operands(run, op, a, b);
}

roco_value roco_negate(roco_run *run, roco_value value)
{
    if (value.kind == ROCO_VALUE_FLOAT)
        return roco_float(-value.number);
    if (!is_number(value))
        fail_operands(run, ROCO_OP1('-'), roco_int(0), value);
    return operate_integers(run, ROCO_OP1('-'), 0, integer_of(value));
}

/* --- order --- */

bool roco_equal(roco_run *run, roco_value a, roco_value b)
{
    uint64_t most = run->max_steps - run->steps + 1, left = most;
    bool equal = roco_value_equal_within(a, b, &left);
    roco_run_charge(run, most - left);
    return equal;
}

int roco_order(roco_run *run, roco_value a, roco_value b)
{
    roco_run_charge(run, 1);
    if (is_number(a) && is_number(b)) {
        if (a.kind == ROCO_VALUE_FLOAT || b.kind == ROCO_VALUE_FLOAT) {
            double x = number_of(a), y = number_of(b);
            return (x > y) - (x < y);
        }
        int64_t x = integer_of(a), y = integer_of(b);
        return (x > y) - (x < y);
    }
    if (a.kind == ROCO_VALUE_STRING && b.kind == ROCO_VALUE_STRING) {
        /* UTF-8 sorts by bytes as its code points do. */
        size_t size = a.string->size < b.string->size ? a.string->size : b.string->size;
        int order = size ? memcmp(a.string->data, b.string->data, size) : 0;
        return order ? order : (a.string->size > b.string->size) - (a.string->size < b.string->size);
    }
    if (a.kind == ROCO_VALUE_LIST && b.kind == ROCO_VALUE_LIST) {
        for (size_t i = 0; i < a.list->size && i < b.list->size; i++) {
            if (roco_equal(run, a.list->items[i], b.list->items[i]))
                continue;
            roco_run_down(run);
            int order = roco_order(run, a.list->items[i], b.list->items[i]);
            roco_run_up(run);
            return order;
        }
        return (a.list->size > b.list->size) - (a.list->size < b.list->size);
    }
    roco_run_fail(run, ROCO_INVALID, "%s and %s have no order", roco_value_kind_name(a), roco_value_kind_name(b));
}

static void merge(roco_run *run, roco_dict_entry *a, roco_dict_entry *scratch, size_t n, bool reverse)
{
    if (n < 2)
        return;
    size_t half = n / 2, i = 0, j = half, k = 0;
    merge(run, a, scratch, half, reverse);
    merge(run, a + half, scratch, n - half, reverse);
    while (i < half && j < n) {
        int order = roco_order(run, a[i].key, a[j].key);
        scratch[k++] = (reverse ? order >= 0 : order <= 0) ? a[i++] : a[j++];
    }
    while (i < half)
        scratch[k++] = a[i++];
    memcpy(a, scratch, k * sizeof *a); /* what is left of the right half lies in place */
}

void roco_sort_entries(roco_run *run, roco_dict_entry *entries, size_t n, bool reverse)
{
    merge(run, entries, roco_region_alloc(run->region, n + 1, sizeof *entries), n, reverse);
}

/* --- comparison --- */

static bool contains(roco_run *run, roco_value part, roco_value whole)
{
    switch (whole.kind) {
    case ROCO_VALUE_UNDEFINED: return false;
    case ROCO_VALUE_STRING:
        if (part.kind != ROCO_VALUE_STRING)
            roco_run_fail(run, ROCO_INVALID, "%s in a string", roco_value_kind_name(part));
        return roco_string_find(run, whole.string, part.string, 0) != SIZE_MAX;
    case ROCO_VALUE_LIST:
        for (size_t i = 0; i < whole.list->size; i++) {
            if (roco_equal(run, whole.list->items[i], part))
                return true;
        }
        return false;
    case ROCO_VALUE_DICT: return roco_dict_get(whole.dict, part) != NULL;
    default: roco_run_fail(run, ROCO_INVALID, "%s holds nothing to look for", roco_value_kind_name(whole));
    }
}

bool roco_compare(roco_run *run, uint16_t op, roco_value a, roco_value b)
{
    switch (op) {
    case ROCO_OP2('=', '='): return roco_equal(run, a, b);
    case ROCO_OP2('!', '='): return !roco_equal(run, a, b);
    case '<': return roco_order(run, a, b) < 0;
    case '>': return roco_order(run, a, b) > 0;
    case ROCO_OP2('<', '='): return roco_order(run, a, b) <= 0;
    case ROCO_OP2('>', '='): return roco_order(run, a, b) >= 0;
    case '@': return contains(run, a, b);
    default: return !contains(run, a, b);
    }
}
