/* value is defined, is string, is eq(x), ...; and how filters and tests are found by name. */
#include "chat/run.h"

typedef bool apply_test(roco_run *run, roco_value value, const roco_arguments *arguments);

static roco_value one_argument(roco_run *run, const roco_arguments *arguments)
{
    if (arguments->n != 1)
        roco_run_fail(run, ROCO_INVALID, "the test wants one argument, not %zu", arguments->n);
    return arguments->values[0];
}

static bool is_defined(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind != ROCO_VALUE_UNDEFINED;
}

static bool is_undefined(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_UNDEFINED;
}

static bool is_none(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_NONE;
}

static bool is_boolean(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_BOOL;
}

static bool is_true(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_BOOL && value.boolean;
}

static bool is_false(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_BOOL && !value.boolean;
}

static bool is_integer(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_INT;
}

static bool is_float(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_FLOAT;
}

static bool is_number(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_INT || value.kind == ROCO_VALUE_FLOAT || value.kind == ROCO_VALUE_BOOL;
}

static bool is_string(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_STRING;
}

static bool is_mapping(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_DICT;
}

static bool is_sequence(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_STRING || value.kind == ROCO_VALUE_LIST || value.kind == ROCO_VALUE_DICT ||
           value.kind == ROCO_VALUE_UNDEFINED;
}

static bool is_callable(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return value.kind == ROCO_VALUE_MACRO || value.kind == ROCO_VALUE_FUNCTION || value.kind == ROCO_VALUE_METHOD;
}

static int64_t integer_of(roco_run *run, roco_value value)
{
    if (value.kind == ROCO_VALUE_BOOL)
        return value.boolean;
    if (value.kind != ROCO_VALUE_INT)
        roco_run_fail(run, ROCO_INVALID, "the test wants an integer, not %s", roco_value_kind_name(value));
    return value.integer;
}

static bool is_even(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return integer_of(run, value) % 2 == 0;
}

static bool is_odd(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return integer_of(run, value) % 2 != 0;
}

static bool is_divisible(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return integer_of(run, roco_operate(run, ROCO_OP1('%'), value, one_argument(run, arguments))) == 0;
}

static bool is_cased(roco_run *run, roco_value value, char how, char other)
{
    const roco_string *s = roco_to_string(run, value);
    roco_value itself = {.kind = ROCO_VALUE_STRING, .string = s};
    return roco_value_equal(itself, roco_change_case(run, s, how)) &&
           !roco_value_equal(itself, roco_change_case(run, s, other));
}

static bool is_upper(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return is_cased(run, value, 'u', 'l');
}

static bool is_lower(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return is_cased(run, value, 'l', 'u');
}

static bool is_same(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    roco_value other = one_argument(run, arguments);
    return value.kind == other.kind && roco_equal(run, value, other);
}

#define COMPARISON(name, op)                                                                                           \
    static bool name(roco_run *run, roco_value value, const roco_arguments *arguments)                                 \
    {                                                                                                                  \
        return roco_compare(run, op, value, one_argument(run, arguments));                                             \
    }
COMPARISON(is_equal, ROCO_OP2('=', '='))
COMPARISON(is_unequal, ROCO_OP2('!', '='))
COMPARISON(is_below, ROCO_OP1('<'))
COMPARISON(is_above, ROCO_OP1('>'))
COMPARISON(is_at_most, ROCO_OP2('<', '='))
COMPARISON(is_at_least, ROCO_OP2('>', '='))
COMPARISON(is_in, ROCO_OP1('@'))

static const struct {
    const char *name;
    apply_test *apply;
} tests[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", is_number},
    {"string", is_string},
    {"mapping", is_mapping},
    {"sequence", is_sequence},
    {"iterable", is_sequence},
    {"callable", is_callable},
    {"even", is_even},
    {"odd", is_odd},
    {"divisibleby", is_divisible},
    {"upper", is_upper},
    {"lower", is_lower},
    {"sameas", is_same},
    {"eq", is_equal},
    {"==", is_equal},
    {"equalto", is_equal},
    {"ne", is_unequal},
    {"!=", is_unequal},
    {"lt", is_below},
    {"<", is_below},
    {"lessthan", is_below},
    {"gt", is_above},
    {">", is_above},
    {"greaterthan", is_above},
    {"le", is_at_most},
    {"<=", is_at_most},
    {"ge", is_at_least},
    {">=", is_at_least},
    {"in", is_in},
};

bool roco_apply_test(roco_run *run, const roco_string *name, roco_value value, const roco_arguments *arguments)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (roco_string_is(name, tests[i].name))
            return tests[i].apply(run, value, arguments);
    roco_run_fail(run, ROCO_INVALID, "there is no test '%.*s'", name->size < 40 ? (int)name->size : 40, name->data);
}

roco_value roco_apply_filter(roco_run *run, const roco_string *name, roco_value value, const roco_arguments *arguments)
{
    const roco_filter *const tables[] = {roco_text_filters, roco_list_filters};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const roco_filter *filter = tables[i]; filter->name; filter++)
            if (roco_string_is(name, filter->name))
                return filter->apply(run, value, arguments);
    roco_run_fail(run, ROCO_INVALID, "there is no filter '%.*s'", name->size < 40 ? (int)name->size : 40, name->data);
}
