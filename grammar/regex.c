/* Regular expressions: what ECMA-262, PCRE and Python have in common, without what is not regular.
 *
 * Known: literals, `.`, classes, \d \w \s and their opposites, groups of any kind but assertions, alternatives,
 * quantifiers (greedy or lazy is all the same for what matches), anchors at the ends of the whole. Not known, and said
 * so: back references, lookaround, word boundaries, flags, Unicode properties.
 */
#include "grammar/parts.h"

#include "config/utf8.h"

#include <stdio.h>
#include <string.h>

typedef struct parser {
    roco_grammar *grammar;
    const char *field, *what, *text;
    size_t size, at;
    bool json;
    unsigned depth;
    roco_status status;
    roco_error *error;
} parser;

static roco_expr fail(parser *p, roco_status status, const char *message)
{
    if (!p->status)
        p->status = roco_fail(p->error, status, p->field, "%s: byte %zu: %s", p->what, p->at, message);
    return 0;
}

static bool looking_at(const parser *p, const char *text)
{
    const size_t size = strlen(text);
    return p->size - p->at >= size && memcmp(p->text + p->at, text, size) == 0;
}

static bool accept(parser *p, const char *text)
{
    if (!looking_at(p, text))
        return false;
    p->at += strlen(text);
    return true;
}

static uint32_t next_code(parser *p)
{
    uint32_t code = 0;
    const size_t n = roco_utf8_next(p->text + p->at, p->size - p->at, &code);
    if (n == 0) {
        fail(p, ROCO_INVALID, p->at < p->size ? "it is not UTF-8" : "it ends too early");
        p->at = p->size;
    }
    p->at += n;
    return code;
}

/* --- classes --- */

static void add_digits(roco_charset *set)
{
    roco_charset_add(set, '0', '9');
}

static void add_word(roco_charset *set)
{
    add_digits(set);
    roco_charset_add(set, 'A', 'Z');
    roco_charset_add(set, '_', '_');
    roco_charset_add(set, 'a', 'z');
}

/* `wide`: what any dialect calls a space, for sets that shall hold none; else what all of them do. */
static void add_space(roco_charset *set, bool wide)
{
    static const roco_range more[] = {{0x1C, 0x1F},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                      {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                      {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    roco_charset_add(set, '\t', '\r');
    roco_charset_add(set, ' ', ' ');
    for (size_t i = 0; wide && i < sizeof more / sizeof *more; i++)
        roco_charset_add(set, more[i].low, more[i].high);
}

/* \d and its like: true when `letter` is one. `negated`: the set it goes into will be turned around. */
static bool add_class(roco_charset *set, char letter, bool negated)
{
    roco_charset inner = {0};
    const bool opposite = letter == 'D' || letter == 'W' || letter == 'S';
    switch (letter) {
    case 'd':
    case 'D': add_digits(&inner); break;
    case 'w':
    case 'W': add_word(&inner); break;
    case 's':
    case 'S': add_space(&inner, opposite != negated); break;
    default: return false;
    }
    if (opposite)
        roco_charset_negate(&inner);
    for (uint32_t i = 0; i < inner.n; i++)
        roco_charset_add(set, inner.data[i].low, inner.data[i].high);
    set->failed = set->failed || inner.failed;
    roco_charset_free(&inner);
    return true;
}

static uint32_t hex(parser *p, unsigned digits)
{
    uint32_t code = 0;
    for (unsigned i = 0; i < digits; i++) {
        const char c = p->at < p->size ? p->text[p->at] : '\0';
        const uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                               : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                               : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                      : 16;
        if (digit > 15)
            return fail(p, ROCO_INVALID, "a hexadecimal digit is missing");
        code = code << 4 | digit;
        p->at++;
    }
    return code;
}

static uint32_t braced_hex(parser *p)
{
    uint32_t code = 0;
    for (unsigned digits = 0; !accept(p, "}"); digits++) {
        if (digits == 6)
            return fail(p, ROCO_INVALID, "a code point has at most six hexadecimal digits");
        code = code << 4 | hex(p, 1);
        if (p->status)
            return 0;
    }
    return code <= ROCO_MAX_CODE ? code : fail(p, ROCO_INVALID, "this is not a character");
}

/* \uXXXX, of which two in a row may be one character. */
static uint32_t unicode_escape(parser *p)
{
    if (accept(p, "{"))
        return braced_hex(p);
    const uint32_t code = hex(p, 4);
    if (code < 0xD800 || code > 0xDBFF || !accept(p, "\\u"))
        return code;
    const uint32_t low = hex(p, 4);
    if (!p->status && (low < 0xDC00 || low > 0xDFFF))
        return fail(p, ROCO_INVALID, "the second half of a character is missing");
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

/* The character of an escape whose letter was read. */
static uint32_t escaped_code(parser *p, uint32_t letter, bool in_class)
{
    switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'a': return '\a';
    case '0': return 0;
    case 'x': return hex(p, 2);
    case 'u': return unicode_escape(p);
    case 'b':
        if (in_class)
            return '\b';
        break;
    case 'c': return next_code(p) & 31;
    default: break;
    }
    const bool plain = letter >= 0x80 || !((letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                                           (letter >= 'a' && letter <= 'z'));
    if (!plain)
        fail(p, ROCO_UNSUPPORTED,
             "this escape is not supported (word boundaries, back references and Unicode "
             "properties are not)");
    return letter;
}

/* One end of a range; *single: it is a character, else a class that was added. */
static uint32_t class_atom(parser *p, roco_charset *set, bool negated, bool *single)
{
    *single = true;
    if (looking_at(p, "[:")) {
        *single = false;
        return fail(p, ROCO_UNSUPPORTED, "named classes are not supported");
    }
    uint32_t code = next_code(p);
    if (code != '\\' || p->status)
        return code;
    code = next_code(p);
    if (code < 0x80 && add_class(set, (char)code, negated)) {
        *single = false;
        return 0;
    }
    return escaped_code(p, code, true);
}

static roco_expr parse_class(parser *p)
{
    roco_charset set = {0};
    const bool negated = accept(p, "^");
    while (!p->status && !accept(p, "]")) {
        bool single, single_end;
        const uint32_t low = class_atom(p, &set, negated, &single);
        uint32_t high = low;
        if (single && looking_at(p, "-") && p->at + 1 < p->size && p->text[p->at + 1] != ']') {
            p->at++;
            high = class_atom(p, &set, negated, &single_end);
            if (!single_end || high < low)
                fail(p, ROCO_INVALID, "a range of characters is out of order");
        }
        if (single)
            roco_charset_add(&set, low, high);
    }
    if (negated)
        roco_charset_negate(&set);
    else
        roco_charset_sort(&set);
    const roco_expr expr = p->status ? 0 : roco_grammar_chars(p->grammar, &set, p->json);
    roco_charset_free(&set);
    return expr;
}

/* --- atoms --- */

static roco_expr one_char(parser *p, uint32_t code)
{
    roco_charset set = {0};
    roco_charset_add(&set, code, code);
    roco_charset_sort(&set);
    const roco_expr expr = roco_grammar_chars(p->grammar, &set, p->json);
    roco_charset_free(&set);
    return expr;
}

static roco_expr any_char(parser *p, bool lines)
{
    roco_charset set = {0};
    if (!lines) {
        roco_charset_add(&set, '\n', '\n');
        roco_charset_add(&set, '\r', '\r');
        roco_charset_add(&set, 0x2028, 0x2029);
    }
    roco_charset_negate(&set);
    const roco_expr expr = roco_grammar_chars(p->grammar, &set, p->json);
    roco_charset_free(&set);
    return expr;
}

static roco_expr parse_escape(parser *p)
{
    const uint32_t letter = next_code(p);
    roco_charset set = {0};
    if (letter >= 0x80 || !add_class(&set, (char)letter, false))
        return one_char(p, escaped_code(p, letter, false));
    roco_charset_sort(&set);
    const roco_expr expr = roco_grammar_chars(p->grammar, &set, p->json);
    roco_charset_free(&set);
    return expr;
}

/* --- alternatives; `top`: their ends are those of the whole --- */

static roco_expr parse_alternatives(parser *p, roco_regex_use use, bool top);

static void skip_group_name(parser *p)
{
    if (accept(p, "?:"))
        return;
    if (looking_at(p, "?<=") || looking_at(p, "?<!") || looking_at(p, "?=") || looking_at(p, "?!")) {
        fail(p, ROCO_UNSUPPORTED, "lookahead and lookbehind are not supported");
    } else if (accept(p, "?<") || accept(p, "?P<")) {
        while (p->at < p->size && p->text[p->at] != '>')
            p->at++;
        if (!accept(p, ">"))
            fail(p, ROCO_INVALID, "the name of a group is not closed");
    } else if (looking_at(p, "?")) {
        fail(p, ROCO_UNSUPPORTED, "groups of this kind and flags are not supported");
    }
}

static roco_expr parse_group(parser *p, roco_regex_use use, bool top)
{
    if (++p->depth > p->grammar->limits.depth)
        return fail(p, ROCO_TOO_LARGE, "groups are nested too deeply");
    skip_group_name(p);
    const roco_expr expr = p->status ? 0 : parse_alternatives(p, use, top);
    if (!p->status && !accept(p, ")"))
        fail(p, ROCO_INVALID, "a group is not closed");
    p->depth--;
    return expr;
}

static roco_expr parse_atom(parser *p)
{
    if (accept(p, "("))
        return parse_group(p, ROCO_REGEX_WHOLE, false);
    if (accept(p, "["))
        return parse_class(p);
    if (accept(p, "."))
        return any_char(p, false);
    if (accept(p, "\\"))
        return parse_escape(p);
    if (looking_at(p, "^") || looking_at(p, "$"))
        return fail(p, ROCO_UNSUPPORTED, "anchors are supported at the ends of the whole pattern only");
    if (looking_at(p, "*") || looking_at(p, "+") || looking_at(p, "?"))
        return fail(p, ROCO_INVALID, "there is nothing to repeat");
    return one_char(p, next_code(p));
}

/* --- quantifiers --- */

static bool read_number(parser *p, uint32_t *out)
{
    const size_t first = p->at;
    uint64_t n = 0;
    for (; p->at < p->size && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        n = n > UINT32_MAX ? n : n * 10 + (uint64_t)(p->text[p->at] - '0');
    *out = n > ROCO_GRAMMAR_MAX_REPEAT ? ROCO_GRAMMAR_MAX_REPEAT + 1 : (uint32_t)n;
    return p->at > first;
}

/* {m}, {m,} or {m,n}; anything else is text, as the dialects have it. */
static bool read_braces(parser *p, uint32_t *min, uint32_t *max)
{
    const size_t first = p->at;
    if (!accept(p, "{"))
        return false;
    bool good = read_number(p, min);
    *max = *min;
    if (good && accept(p, ",") && !read_number(p, max))
        *max = ROCO_UNLIMITED;
    good = good && accept(p, "}");
    if (!good)
        p->at = first;
    return good;
}

static roco_expr parse_quantified(parser *p)
{
    roco_expr atom = parse_atom(p);
    for (unsigned n = 0; !p->status; n++) {
        uint32_t min = 0, max = ROCO_UNLIMITED;
        if (accept(p, "?"))
            max = 1;
        else if (accept(p, "+"))
            min = 1;
        else if (!accept(p, "*") && !read_braces(p, &min, &max))
            return atom;
        if (n > 0)
            return fail(p, ROCO_INVALID, "what is repeated already needs a group to be repeated again");
        if (min > max)
            return fail(p, ROCO_INVALID, "a repetition has its bounds out of order");
        atom = roco_grammar_repeat(p->grammar, atom, min, max);
        accept(p, "?"); /* lazy: the same texts */
        if (looking_at(p, "+"))
            return fail(p, ROCO_UNSUPPORTED, "possessive repetitions are not supported");
    }
    return 0;
}

/* A group that is a whole alternative may hold the anchors. */
static bool is_whole_group(const parser *p)
{
    unsigned depth = 0;
    if (!looking_at(p, "("))
        return false;
    for (size_t i = p->at; i < p->size; i++) {
        if (p->text[i] == '\\' || p->text[i] == '[')
            return false; /* not worth telling what is escaped: then anchors stand outside or are refused */
        depth += p->text[i] == '(';
        depth -= p->text[i] == ')';
        if (depth == 0)
            return i + 1 == p->size || p->text[i + 1] == '|' || p->text[i + 1] == ')';
    }
    return false;
}

static bool at_end(const parser *p)
{
    return p->at >= p->size || looking_at(p, "|") || looking_at(p, ")");
}

static roco_expr parse_alternative(parser *p, roco_regex_use use, bool top)
{
    if (top && is_whole_group(p)) {
        p->at++;
        return parse_group(p, use, true);
    }
    roco_expr_list list = {0};
    bool open_start = top && use != ROCO_REGEX_WHOLE, open_end = open_start;
    while (top && accept(p, "^"))
        open_start = false;
    if (open_start)
        roco_expr_push(p->grammar, &list, roco_grammar_repeat(p->grammar, any_char(p, true), 0, ROCO_UNLIMITED));
    while (!p->status && !at_end(p)) {
        if (top && accept(p, "$")) {
            open_end = false;
            if (!at_end(p))
                fail(p, ROCO_UNSUPPORTED, "anchors are supported at the ends of the whole pattern only");
        } else {
            roco_expr_push(p->grammar, &list, parse_quantified(p));
        }
    }
    if (open_end)
        roco_expr_push(p->grammar, &list, roco_grammar_repeat(p->grammar, any_char(p, true), 0, ROCO_UNLIMITED));
    const roco_expr expr = p->status ? 0 : roco_grammar_sequence(p->grammar, list.data, list.n);
    roco_expr_list_free(&list);
    return expr;
}

static roco_expr parse_alternatives(parser *p, roco_regex_use use, bool top)
{
    roco_expr_list list = {0};
    do
        roco_expr_push(p->grammar, &list, parse_alternative(p, use, top));
    while (!p->status && !p->grammar->status && accept(p, "|"));
    const roco_expr expr = p->status ? 0 : roco_grammar_choice(p->grammar, list.data, list.n);
    roco_expr_list_free(&list);
    return expr;
}

roco_status roco_regex_parse(roco_grammar *grammar, const char *field, const char *what, const char *pattern,
                             size_t size, roco_regex_use use, roco_expr *out, roco_error *error)
{
    parser p = {.grammar = grammar,
                .field = field,
                .what = what,
                .text = pattern,
                .size = size,
                .json = use == ROCO_REGEX_SEARCH_JSON,
                .error = error};
    *out = 0;
    if (size > grammar->limits.source_bytes)
        return roco_fail(error, ROCO_TOO_LARGE, field, "%s has %zu bytes; at most %zu are allowed", what, size,
                         grammar->limits.source_bytes);
    const roco_expr expr = parse_alternatives(&p, use, true);
    if (!p.status && p.at < p.size)
        fail(&p, ROCO_INVALID, "a group is closed that was not opened");
    if (p.status)
        return p.status;
    *out = expr;
    return grammar->status ? roco_grammar_report(grammar, field, error) : ROCO_OK;
}

roco_status roco_grammar_regex(roco_grammar *grammar, const char *field, const char *pattern, size_t size,
                               roco_expr *out, roco_error *error)
{
    return roco_regex_parse(grammar, field, field, pattern, size, ROCO_REGEX_WHOLE, out, error);
}
