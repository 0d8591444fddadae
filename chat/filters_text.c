/* Filters that make text: value|upper, value|tojson, ... What is no string is printed first, as Jinja does. */
#include "chat/string_parts.h"

#include <string.h>

static roco_value apply_trim(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_strip(run, roco_to_string(run, value), roco_string_argument(run, arguments, 0, "chars"), 3);
}

static roco_value apply_upper(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_change_case(run, roco_to_string(run, value), 'u');
}

static roco_value apply_lower(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_change_case(run, roco_to_string(run, value), 'l');
}

static roco_value apply_capitalize(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_change_case(run, roco_to_string(run, value), 'c');
}

static bool divides_words(const roco_string *s, size_t at, size_t *size)
{
    *size = roco_string_step(s, at);
    if (*size == 1 && strchr("-({[<", s->data[at]))
        return true;
    size_t space;
    return roco_is_space(s, at, &space);
}

/* Unlike str.title(), a word goes on after an apostrophe. */
static roco_value apply_title(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_string *s = roco_to_string(run, value);
    roco_builder out = {0};
    size_t start = 0;
    for (size_t at = 0, size = 0; at <= s->size; at += size) {
        bool divides = at == s->size || divides_words(s, at, &size);
        if (!divides)
            continue;
        roco_value word = roco_string_part(run, s, start, at - start);
        roco_builder_add(run, &out, roco_change_case(run, word.string, 'c').string);
        if (at == s->size)
            break;
        roco_builder_add(run, &out, roco_string_part(run, s, at, size).string);
        start = at + size;
    }
    return roco_builder_value(run, &out);
}

static const roco_string *text_argument(roco_run *run, const roco_arguments *arguments, size_t index, const char *name)
{
    const roco_value *value = roco_argument(arguments, index, name);
    if (!value)
        roco_run_fail(run, ROCO_INVALID, "the argument %s is missing", name);
    return roco_to_string(run, *value);
}

static roco_value apply_replace(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_replace(run, roco_to_string(run, value), text_argument(run, arguments, 0, "old"),
                        text_argument(run, arguments, 1, "new"), roco_int_argument(run, arguments, 2, "count", -1));
}

static const roco_string *spaces(roco_run *run, int64_t width)
{
    return roco_operate(run, ROCO_OP1('*'), roco_text_value(run, " "), roco_int(width)).string;
}

static roco_value apply_indent(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_string *s = roco_to_string(run, value);
    const roco_value *width = roco_argument(arguments, 0, "width");
    const roco_string *indent = width && width->kind == ROCO_VALUE_STRING
                                    ? width->string
                                    : spaces(run, roco_int_argument(run, arguments, 0, "width", 4));
    bool first = roco_bool_argument(arguments, 1, "first", false);
    bool blank = roco_bool_argument(arguments, 2, "blank", false);
    roco_builder out = {0};
    if (first)
        roco_builder_add(run, &out, indent);
    /* A line end more, so that one at the end of the text stays. */
    roco_value whole = roco_operate(run, ROCO_OP1('+'), (roco_value){.kind = ROCO_VALUE_STRING, .string = s},
                                    roco_text_value(run, "\n"));
    const roco_list *lines = roco_split_lines(run, whole.string, false);
    for (size_t i = 0; i < lines->size; i++) {
        if (i)
            roco_builder_text(run, &out, "\n");
        if (i && (blank || lines->items[i].string->size))
            roco_builder_add(run, &out, indent);
        roco_builder_add(run, &out, lines->items[i].string);
    }
    return roco_builder_value(run, &out);
}

static roco_value apply_escape(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        value = roco_replace(run, roco_to_string(run, value), roco_text_value(run, pairs[i][0]).string,
                             roco_text_value(run, pairs[i][1]).string, -1);
    return value;
}

static roco_value apply_string(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_to_text(run, value);
}

static roco_value apply_format(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    roco_list *list = roco_new_list(run, arguments->n);
    list->tuple = true;
    for (size_t i = 0; i < arguments->n; i++)
        roco_list_add(run->region, list, arguments->values[i]);
    return roco_format_percent(run, roco_to_string(run, value), roco_list_value(list));
}

static roco_value apply_center(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const roco_string *s = roco_to_string(run, value);
    int64_t room = roco_int_argument(run, arguments, 0, "width", 80) - (int64_t)roco_string_length(s);
    if (room <= 0)
        return roco_to_text(run, value);
    int64_t width = room + (int64_t)roco_string_length(s), left = room / 2 + (room & width & 1);
    roco_builder out = {0};
    roco_builder_add(run, &out, spaces(run, left));
    roco_builder_add(run, &out, s);
    roco_builder_add(run, &out, spaces(run, room - left));
    return roco_builder_value(run, &out);
}

static roco_value apply_wordcount(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    return roco_int((int64_t)roco_split(run, roco_to_string(run, value), NULL, -1)->size);
}

/* json.dumps(value, ensure_ascii=False), as transformers has it; not the HTML-safe one of Jinja itself. */
static roco_value apply_tojson(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    roco_json_style style = {
        .ascii = roco_bool_argument(arguments, 0, "ensure_ascii", false),
        .sort = roco_bool_argument(arguments, 3, "sort_keys", false),
    };
    const roco_value *indent = roco_argument(arguments, 1, "indent");
    const roco_value *separators = roco_argument(arguments, 2, "separators");
    if (indent && indent->kind == ROCO_VALUE_STRING)
        style.indent = indent->string;
    else if (indent && indent->kind != ROCO_VALUE_NONE)
        style.indent = spaces(run, roco_int_argument(run, arguments, 1, "indent", 0));
    if (separators && separators->kind == ROCO_VALUE_LIST && separators->list->size == 2) {
        style.item_separator = roco_to_string(run, separators->list->items[0]);
        style.key_separator = roco_to_string(run, separators->list->items[1]);
    }
    roco_builder out = {0};
    roco_print_json(run, &out, value, &style);
    return roco_builder_value(run, &out);
}

const roco_filter roco_text_filters[] = {
    {"trim", apply_trim},     {"upper", apply_upper},
    {"lower", apply_lower},   {"capitalize", apply_capitalize},
    {"title", apply_title},   {"replace", apply_replace},
    {"indent", apply_indent}, {"escape", apply_escape},
    {"e", apply_escape},      {"safe", apply_string},
    {"string", apply_string}, {"format", apply_format},
    {"center", apply_center}, {"wordcount", apply_wordcount},
    {"tojson", apply_tojson}, {0},
};
