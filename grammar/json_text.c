/* The parts of JSON texts. What a model may do without end is bounded here: blanks, digits, levels. */
#include "grammar/json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One space, or a new line with indentation. */
#define BLANK   "( |\\n[ \\t]{0,16})?"
/* Fifteen digits are exact in a double, and so are exponents of two in range. */
#define INTEGER "0|-?[1-9][0-9]{0,14}"
#define NUMBER  "-?(0|[1-9][0-9]{0,14})([.][0-9]{1,15})?([eE][-+]?[0-9]{1,2})?"
/* A character of a string but the escapes of surrogates; NUL is left out, since too much behind would end there. */
#define PLAIN                                                                                                          \
    "[^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\/bfnrt]|\\\\u(000[1-9a-fA-F]|00[1-9a-fA-F][0-9a-fA-F]|"                           \
    "0[1-9a-fA-F][0-9a-fA-F]{2}|[1-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
#define PAIR "\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}"

roco_expr roco_json_pattern(roco_grammar *g, const char *pattern)
{
    roco_expr expr = 0;
    roco_regex_parse(g, "", "", pattern, strlen(pattern), ROCO_REGEX_WHOLE, &expr, NULL);
    return expr;
}

/* What many places share is a rule: it is compiled once. */
static roco_expr shared(roco_grammar *g, roco_expr body)
{
    const roco_expr rule = roco_grammar_declare(g);
    roco_grammar_define(g, rule, body);
    return rule;
}

roco_expr roco_json_wrap(roco_grammar *g, const char *open, roco_expr items, bool empty, const char *close)
{
    const roco_expr blank = roco_grammar_json(g)->blank, end = roco_grammar_word(g, close);
    const roco_expr full = roco_grammar_sequence(g, (const roco_expr[]){blank, items, blank, end}, 4);
    const roco_expr inside = empty ? roco_grammar_choice(g, (const roco_expr[]){full, end}, 2) : full;
    return roco_grammar_pair(g, roco_grammar_word(g, open), inside);
}

roco_expr roco_json_after_comma(roco_grammar *g, roco_expr item)
{
    const roco_expr list[] = {roco_grammar_word(g, ","), roco_grammar_json(g)->blank, item};
    return roco_grammar_sequence(g, list, 3);
}

roco_expr roco_json_member(roco_grammar *g, roco_expr key, roco_expr value)
{
    const roco_expr list[] = {key, roco_grammar_word(g, ":"), roco_grammar_json(g)->blank, value};
    return roco_grammar_sequence(g, list, 4);
}

/* item, item, ...: at least one. */
static roco_expr items_of(roco_grammar *g, roco_expr item)
{
    return roco_grammar_pair(g, item, roco_grammar_repeat(g, roco_json_after_comma(g, item), 0, ROCO_UNLIMITED));
}

static void make_levels(roco_grammar *g, roco_json_text *json)
{
    const roco_expr scalars[] = {json->string, json->number, json->yes, json->no, json->null};
    json->values[0] = shared(g, roco_grammar_choice(g, scalars, 5));
    json->objects[0] = roco_grammar_word(g, "{}");
    json->arrays[0] = roco_grammar_word(g, "[]");
    for (unsigned i = 1; i < ROCO_JSON_LEVELS; i++) {
        const roco_expr below = json->values[i - 1];
        const roco_expr member = shared(g, roco_json_member(g, json->string, below));
        json->objects[i] = shared(g, roco_json_wrap(g, "{", items_of(g, member), true, "}"));
        json->arrays[i] = shared(g, roco_json_wrap(g, "[", items_of(g, below), true, "]"));
        const roco_expr kinds[] = {json->values[0], json->objects[i], json->arrays[i]};
        json->values[i] = shared(g, roco_grammar_choice(g, kinds, 3));
    }
}

const roco_json_text *roco_grammar_json(roco_grammar *g)
{
    static const roco_json_text none = {0};
    if (g->json || g->status)
        return g->json ? g->json : &none;
    roco_json_text *json = calloc(1, sizeof *json);
    if (!json) {
        roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
        return &none;
    }
    g->json = json;
    json->blank = shared(g, roco_json_pattern(g, BLANK));
    json->character = shared(g, roco_json_pattern(g, PLAIN "|" PAIR));
    const roco_expr quote = roco_grammar_word(g, "\"");
    const roco_expr characters = roco_grammar_repeat(g, json->character, 0, ROCO_UNLIMITED);
    json->string = shared(g, roco_grammar_sequence(g, (const roco_expr[]){quote, characters, quote}, 3));
    json->number = shared(g, roco_json_pattern(g, NUMBER));
    json->integer = shared(g, roco_json_pattern(g, INTEGER));
    json->null = roco_grammar_word(g, "null");
    json->yes = roco_grammar_word(g, "true");
    json->no = roco_grammar_word(g, "false");
    make_levels(g, json);
    return json;
}

roco_expr roco_grammar_json_object(roco_grammar *g)
{
    return roco_grammar_json(g)->objects[ROCO_JSON_LEVELS - 1];
}

/* --- values as text --- */

static void write_string(roco_buffer *out, const char *text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    roco_buffer_append(out, "\"", 1);
    for (; *text; text++) {
        const char *found = strchr(plain, *text);
        if (found)
            roco_buffer_append_format(out, "\\%c", letters[found - plain]);
        else if ((unsigned char)*text < 0x20)
            roco_buffer_append_format(out, "\\u%04x", (unsigned)*text);
        else
            roco_buffer_append(out, text, 1);
    }
    roco_buffer_append(out, "\"", 1);
}

roco_expr roco_json_string_literal(roco_grammar *g, const char *text)
{
    roco_buffer out = {0};
    if (roco_buffer_reserve(&out, 6 * strlen(text) + 2)) /* nothing after this can fail */
        return roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
    write_string(&out, text);
    const roco_expr expr = roco_grammar_text(g, out.data, out.size);
    roco_buffer_free(&out);
    return expr;
}

/* The shortest text that reads back as the same number. */
static roco_expr number_literal(roco_grammar *g, double number)
{
    char text[40];
    if (number == floor(number) && fabs(number) < 1e15) {
        snprintf(text, sizeof text, "%.0f", number == 0 ? 0.0 : number);
        return roco_grammar_word(g, text);
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    return roco_grammar_word(g, text);
}

static roco_expr container_literal(roco_grammar *g, const roco_json_value *value, unsigned depth);

static roco_expr literal(roco_grammar *g, const roco_json_value *value, unsigned depth)
{
    switch (value->kind) {
    case ROCO_JSON_NULL: return roco_grammar_json(g)->null;
    case ROCO_JSON_FALSE: return roco_grammar_json(g)->no;
    case ROCO_JSON_TRUE: return roco_grammar_json(g)->yes;
    case ROCO_JSON_NUMBER: return number_literal(g, value->number);
    case ROCO_JSON_STRING: return roco_json_string_literal(g, value->text);
    case ROCO_JSON_ARRAY:
    case ROCO_JSON_OBJECT: return container_literal(g, value, depth);
    }
    return 0;
}

static roco_expr container_literal(roco_grammar *g, const roco_json_value *value, unsigned depth)
{
    const bool object = value->kind == ROCO_JSON_OBJECT;
    if (depth > g->limits.depth)
        return roco_grammar_fail(g, ROCO_TOO_LARGE, "a value is nested too deeply");
    if (!value->child)
        return roco_grammar_word(g, object ? "{}" : "[]");
    roco_expr_list list = {0};
    for (const roco_json_value *item = value->child; item; item = item->next) {
        roco_expr expr = literal(g, item, depth + 1);
        if (object)
            expr = roco_json_member(g, roco_json_string_literal(g, item->name), expr);
        roco_expr_push(g, &list, item == value->child ? expr : roco_json_after_comma(g, expr));
    }
    const roco_expr items = roco_grammar_sequence(g, list.data, list.n);
    roco_expr_list_free(&list);
    return roco_json_wrap(g, object ? "{" : "[", items, false, object ? "}" : "]");
}

roco_expr roco_json_literal(roco_grammar *g, const roco_json_value *value)
{
    return literal(g, value, 0);
}
