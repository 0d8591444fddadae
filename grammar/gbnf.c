/* GBNF, llama.cpp's notation for grammars: rules `name ::= alternatives`, of literals, classes, groups, names and
 * repetitions. Comments begin with #. A rule ends with its line, unless a parenthesis is open or an alternative goes on
 * in the next. */
#include "grammar/parts.h"

#include "config/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct rule {
    const char *name;
    size_t size;
    roco_expr expr;
    unsigned line; /* where it is first met */
    bool defined;
} rule;

typedef struct parser {
    roco_grammar *grammar;
    const char *field, *text;
    size_t size, at;
    unsigned line, depth;
    rule *rules;
    uint32_t n_rules, rules_capacity;
    uint32_t *slots; /* hash table of rules, by name; 0: free, else index + 1 */
    uint32_t n_slots;
    roco_status status;
    roco_error *error;
} parser;

static roco_expr fail(parser *p, roco_status status, const char *message)
{
    if (!p->status)
        p->status = roco_fail(p->error, status, p->field, "%s: line %u: %s", p->field, p->line, message);
    return 0;
}

/* --- characters --- */

static char peek(const parser *p)
{
    return p->at < p->size ? p->text[p->at] : '\0';
}

static bool accept(parser *p, const char *text)
{
    const size_t size = strlen(text);
    if (p->size - p->at < size || memcmp(p->text + p->at, text, size) != 0)
        return false;
    p->at += size;
    return true;
}

/* Blanks and comments; ends of lines, too, with `lines`. */
static void skip(parser *p, bool lines)
{
    for (; p->at < p->size; p->at++) {
        const char c = p->text[p->at];
        if (c == '#') {
            while (p->at + 1 < p->size && p->text[p->at + 1] != '\n')
                p->at++;
        } else if (c == '\n' || c == '\r') {
            if (!lines)
                return;
            p->line += c == '\n';
        } else if (c != ' ' && c != '\t') {
            return;
        }
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static uint32_t read_hex(parser *p, unsigned digits)
{
    uint32_t code = 0;
    for (unsigned i = 0; i < digits; i++, p->at++) {
        const char c = peek(p);
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
            return fail(p, ROCO_INVALID, "a hexadecimal digit is missing");
        code = code << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return code;
}

static uint32_t read_code(parser *p)
{
    if (accept(p, "\\")) {
        const char c = peek(p);
        p->at += p->at < p->size;
        switch (c) {
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        case 'x': return read_hex(p, 2);
        case 'u': return read_hex(p, 4);
        case 'U': return read_hex(p, 8);
        case '"':
        case '\\':
        case '[':
        case ']':
        case '-':
        case '^': return (uint32_t)c;
        default: return fail(p, ROCO_INVALID, "this escape is not known");
        }
    }
    uint32_t code = 0;
    const size_t n = roco_utf8_next(p->text + p->at, p->size - p->at, &code);
    if (n == 0)
        return fail(p, ROCO_INVALID, p->at < p->size ? "it is not UTF-8" : "it ends too early");
    p->line += code == '\n';
    p->at += n;
    return code;
}

/* --- names --- */

static uint32_t hash_name(const char *name, size_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash;
}

static uint32_t *find_slot(const parser *p, const char *name, size_t size)
{
    uint32_t at = hash_name(name, size) & (p->n_slots - 1);
    for (; p->slots[at]; at = (at + 1) & (p->n_slots - 1)) {
        const rule *r = &p->rules[p->slots[at] - 1];
        if (r->size == size && memcmp(r->name, name, size) == 0)
            break;
    }
    return &p->slots[at];
}

static bool grow_slots(parser *p)
{
    const uint32_t n = p->n_slots ? 2 * p->n_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    free(p->slots);
    p->slots = slots;
    p->n_slots = n;
    for (uint32_t i = 0; i < p->n_rules; i++)
        *find_slot(p, p->rules[i].name, p->rules[i].size) = i + 1;
    return true;
}

/* The rule of this name, declared if need be; NULL with the parser failed. */
static rule *get_rule(parser *p, const char *name, size_t size)
{
    if (p->n_rules >= p->n_slots / 2 && !grow_slots(p)) {
        fail(p, ROCO_NO_MEMORY, "out of memory");
        return NULL;
    }
    uint32_t *slot = find_slot(p, name, size);
    if (*slot)
        return &p->rules[*slot - 1];
    if (!roco_grow(&p->rules, p->n_rules, &p->rules_capacity, sizeof *p->rules)) {
        fail(p, ROCO_NO_MEMORY, "out of memory");
        return NULL;
    }
    p->rules[p->n_rules] =
        (rule){.name = name, .size = size, .expr = roco_grammar_declare(p->grammar), .line = p->line};
    *slot = ++p->n_rules;
    return &p->rules[p->n_rules - 1];
}

static rule *read_name(parser *p)
{
    const size_t first = p->at;
    while (p->at < p->size && is_name(p->text[p->at]))
        p->at++;
    if (p->at == first) {
        fail(p, ROCO_INVALID, "the name of a rule is expected here");
        return NULL;
    }
    return get_rule(p, p->text + first, p->at - first);
}

/* --- what alternatives are made of --- */

static roco_expr parse_alternatives(parser *p);

static roco_expr parse_literal(parser *p)
{
    roco_buffer bytes = {0};
    while (!p->status && !accept(p, "\"")) {
        uint32_t code = read_code(p);
        char utf8[4];
        size_t n = 1;
        if (code < 0x80) {
            utf8[0] = (char)code;
        } else {
            n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
            for (size_t i = n; i-- > 1; code >>= 6)
                utf8[i] = (char)(0x80 | (code & 0x3F));
            utf8[0] = (char)(code | (0xF00u >> n & 0xFFu));
        }
        if (!p->status && (code > ROCO_MAX_CODE || !roco_utf8_valid(utf8, n)))
            fail(p, ROCO_INVALID, "this is not a character");
        if (roco_buffer_append(&bytes, utf8, n))
            fail(p, ROCO_NO_MEMORY, "out of memory");
    }
    const roco_expr expr = p->status ? 0 : roco_grammar_text(p->grammar, bytes.data ? bytes.data : "", bytes.size);
    roco_buffer_free(&bytes);
    return expr;
}

static roco_expr parse_class(parser *p)
{
    roco_charset set = {0};
    const bool negated = accept(p, "^");
    while (!p->status && !accept(p, "]")) {
        const uint32_t low = read_code(p);
        uint32_t high = low;
        if (peek(p) == '-' && p->at + 1 < p->size && p->text[p->at + 1] != ']') {
            p->at++;
            high = read_code(p);
        }
        if (!p->status && (high < low || high > ROCO_MAX_CODE))
            fail(p, ROCO_INVALID, "a range of characters is out of order");
        roco_charset_add(&set, low, high);
    }
    if (negated)
        roco_charset_negate(&set);
    else
        roco_charset_sort(&set);
    const roco_expr expr = p->status ? 0 : roco_grammar_chars(p->grammar, &set, false);
    roco_charset_free(&set);
    return expr;
}

static roco_expr parse_group(parser *p)
{
    if (++p->depth > p->grammar->limits.depth)
        return fail(p, ROCO_TOO_LARGE, "groups are nested too deeply");
    const roco_expr expr = parse_alternatives(p);
    if (!p->status && !accept(p, ")"))
        fail(p, ROCO_INVALID, "a group is not closed");
    p->depth--;
    return expr;
}

static roco_expr parse_atom(parser *p)
{
    if (accept(p, "\""))
        return parse_literal(p);
    if (accept(p, "["))
        return parse_class(p);
    if (accept(p, "("))
        return parse_group(p);
    if (accept(p, ".")) {
        roco_charset set = {0};
        roco_charset_add(&set, 0, ROCO_MAX_CODE);
        roco_charset_sort(&set);
        const roco_expr expr = roco_grammar_chars(p->grammar, &set, false);
        roco_charset_free(&set);
        return expr;
    }
    if (peek(p) == '<' || peek(p) == '!')
        return fail(p, ROCO_UNSUPPORTED, "tokens in grammars are not supported; write their text");
    const rule *named = read_name(p);
    return named ? named->expr : 0;
}

static bool read_number(parser *p, uint32_t *out)
{
    const size_t first = p->at;
    uint64_t n = 0;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        n = n > UINT32_MAX ? n : n * 10 + (uint64_t)(peek(p) - '0');
    *out = n > ROCO_GRAMMAR_MAX_REPEAT ? ROCO_GRAMMAR_MAX_REPEAT + 1 : (uint32_t)n;
    return p->at > first;
}

static void read_braces(parser *p, uint32_t *min, uint32_t *max)
{
    skip(p, false);
    if (!read_number(p, min))
        *min = 0;
    *max = *min;
    skip(p, false);
    if (accept(p, ",")) {
        skip(p, false);
        if (!read_number(p, max))
            *max = ROCO_UNLIMITED;
        skip(p, false);
    }
    if (!accept(p, "}") || *min > *max)
        fail(p, ROCO_INVALID, "a repetition is written {m}, {m,} or {m,n}, with m at most n");
}

static roco_expr parse_repeated(parser *p)
{
    roco_expr atom = parse_atom(p);
    while (!p->status) {
        uint32_t min = 0, max = ROCO_UNLIMITED;
        skip(p, p->depth > 0);
        if (accept(p, "?"))
            max = 1;
        else if (accept(p, "+"))
            min = 1;
        else if (accept(p, "{"))
            read_braces(p, &min, &max);
        else if (!accept(p, "*"))
            break;
        if (!p->status)
            atom = roco_grammar_repeat(p->grammar, atom, min, max);
    }
    return atom;
}

static bool ends_alternative(const parser *p)
{
    const char c = peek(p);
    return p->at >= p->size || c == '|' || c == ')' || c == '\n' || c == '\r';
}

static roco_expr parse_alternatives(parser *p)
{
    roco_expr_list choices = {0}, list = {0};
    do {
        list.n = 0;
        skip(p, true);
        while (!p->status && !p->grammar->status && !ends_alternative(p)) {
            roco_expr_push(p->grammar, &list, parse_repeated(p));
            skip(p, p->depth > 0);
        }
        roco_expr_push(p->grammar, &choices, roco_grammar_sequence(p->grammar, list.data, list.n));
    } while (!p->status && !p->grammar->status && accept(p, "|"));
    const roco_expr expr = p->status ? 0 : roco_grammar_choice(p->grammar, choices.data, choices.n);
    roco_expr_list_free(&list);
    roco_expr_list_free(&choices);
    return expr;
}

/* --- rules --- */

static void parse_rule(parser *p)
{
    rule *found = read_name(p);
    if (!found)
        return;
    const uint32_t index = (uint32_t)(found - p->rules);
    skip(p, false);
    if (!accept(p, "::="))
        fail(p, ROCO_INVALID, "::= is expected here");
    else if (found->defined)
        fail(p, ROCO_INVALID, "the rule is defined twice");
    skip(p, true);
    if (!p->status && p->at >= p->size)
        fail(p, ROCO_INVALID, "the rule has no body; \"\" stands for the empty text");
    if (p->status)
        return;
    const roco_expr body = parse_alternatives(p);
    if (!p->status && peek(p) == ')')
        fail(p, ROCO_INVALID, "a group is closed that was not opened");
    if (p->status)
        return;
    p->rules[index].defined = true; /* the array may have moved */
    roco_grammar_define(p->grammar, p->rules[index].expr, body);
}

static roco_expr parse_rules(parser *p)
{
    for (skip(p, true); p->at < p->size && !p->status && !p->grammar->status; skip(p, true))
        parse_rule(p);
    for (uint32_t i = 0; i < p->n_rules && !p->status; i++) {
        p->line = p->rules[i].line;
        if (!p->rules[i].defined)
            fail(p, ROCO_INVALID, "a rule is used here that is not defined");
    }
    uint32_t *slot = p->n_slots ? find_slot(p, "root", 4) : NULL;
    if (!p->status && !(slot && *slot))
        p->status = roco_fail(p->error, ROCO_INVALID, p->field, "%s: there is no rule named root", p->field);
    return p->status ? 0 : p->rules[*slot - 1].expr;
}

roco_status roco_grammar_gbnf(roco_grammar *grammar, const char *field, const char *source, size_t size, roco_expr *out,
                              roco_error *error)
{
    parser p = {.grammar = grammar, .field = field, .text = source, .size = size, .line = 1, .error = error};
    *out = 0;
    if (size > grammar->limits.source_bytes)
        return roco_fail(error, ROCO_TOO_LARGE, field, "%s has %zu bytes; at most %zu are allowed", field, size,
                         grammar->limits.source_bytes);
    const roco_expr root = parse_rules(&p);
    free(p.rules);
    free(p.slots);
    if (p.status)
        return p.status;
    *out = root;
    return grammar->status ? roco_grammar_report(grammar, field, error) : ROCO_OK;
}
