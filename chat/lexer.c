/* Jinja's lexer with trim_blocks and lstrip_blocks on, as chat templates are written for.
 *
 * Between tags the text is data; a tag's own '-' or '+' and the two settings decide what white space around it goes.
 */
#include "chat/lexer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 256 };

typedef struct lexer {
    const roco_source *source;
    const char *text; /* the source with '\n' as its only line ends, and without the last one */
    size_t size, at;
    uint32_t line;
    roco_token *tokens;
    size_t n, capacity;
    char brackets[MAX_BRACKETS]; /* closing ones that are owed */
    size_t n_brackets;
} lexer;

void roco_source_fail(const roco_source *source, uint32_t line, const char *format, ...)
{
    char words[256];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    source->region->status = roco_fail(source->error, ROCO_FORMAT, NULL, "line %u: %s", line, words);
    longjmp(*source->region->escape, 1);
}

static roco_token *push(lexer *l, roco_token_kind kind)
{
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 256;
        roco_token *tokens = roco_region_alloc(l->source->region, capacity, sizeof *tokens);
        if (l->n)
            memcpy(tokens, l->tokens, l->n * sizeof *tokens);
        l->tokens = tokens;
        l->capacity = capacity;
    }
    roco_token *token = &l->tokens[l->n++];
    *token = (roco_token){.kind = (uint8_t)kind, .line = l->line};
    return token;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static char peek(const lexer *l, size_t ahead)
{
    return l->at + ahead < l->size ? l->text[l->at + ahead] : '\0';
}

static void advance(lexer *l, size_t count)
{
    for (; count; count--)
        l->line += l->text[l->at++] == '\n';
}

static void skip_space(lexer *l)
{
    while (l->at < l->size && is_space(l->text[l->at]))
        advance(l, 1);
}

static bool has(const lexer *l, size_t at, const char *text)
{
    size_t size = strlen(text);
    return size <= l->size - at && memcmp(l->text + at, text, size) == 0;
}

/* --- between tags --- */

/* After the closing brackets: '-' takes all white space, else a block or comment takes one line end, but for '+'. */
static void close_tag(lexer *l, char sign, bool print)
{
    advance(l, sign == '-' || sign == '+' ? 3 : 2);
    if (sign == '-')
        skip_space(l);
    else if (sign != '+' && !print && peek(l, 0) == '\n')
        advance(l, 1);
}

/* The data in front of a tag that opens at `end`. */
static void push_data(lexer *l, size_t start, size_t end, bool print)
{
    char sign = end + 2 < l->size ? l->text[end + 2] : '\0';
    size_t size = end - start;
    const char *data = l->text + start;
    if (sign == '-') {
        while (size && is_space(data[size - 1]))
            size--;
    } else if (sign != '+' && !print) {
        size_t from = size;
        while (from && data[from - 1] != '\n' && is_space(data[from - 1]))
            from--;
        if (from ? data[from - 1] == '\n' : start == 0 || l->text[start - 1] == '\n')
            size = from;
    }
    if (size)
        roco_value_string(l->source->region, data, size, false, &push(l, ROCO_TOKEN_DATA)->value);
}

static void skip_comment(lexer *l)
{
    uint32_t line = l->line;
    advance(l, 2);
    while (!has(l, l->at, "#}")) {
        if (l->at == l->size)
            roco_source_fail(l->source, line, "the comment has no end");
        if ((peek(l, 0) == '-' || peek(l, 0) == '+') && has(l, l->at + 1, "#}")) {
            close_tag(l, peek(l, 0), false);
            return;
        }
        advance(l, 1);
    }
    close_tag(l, '\0', false);
}

/* {% raw %} or {% endraw %} at `at`: the bytes it takes without what follows, or 0. */
static size_t raw_tag(const lexer *l, size_t at, const char *name, char *end_sign)
{
    size_t p = at;
    if (!has(l, p, "{%"))
        return 0;
    p += 2;
    if (p < l->size && (l->text[p] == '-' || l->text[p] == '+'))
        p++;
    while (p < l->size && is_space(l->text[p]))
        p++;
    if (!has(l, p, name))
        return 0;
    p += strlen(name);
    while (p < l->size && is_space(l->text[p]))
        p++;
    *end_sign = p < l->size ? l->text[p] : '\0';
    size_t sign = *end_sign == '-' || *end_sign == '+';
    return has(l, p + sign, "%}") ? p - at : 0;
}

static void lex_raw(lexer *l)
{
    char sign = '\0';
    uint32_t line = l->line;
    advance(l, raw_tag(l, l->at, "raw", &sign));
    close_tag(l, sign, true); /* its line end is text */
    size_t start = l->at, size;
    while ((size = raw_tag(l, l->at, "endraw", &sign)) == 0) {
        if (l->at == l->size)
            roco_source_fail(l->source, line, "raw has no endraw");
        advance(l, 1);
    }
    push_data(l, start, l->at, false);
    advance(l, size);
    close_tag(l, sign, false);
}

/* --- inside tags --- */

static void lex_name(lexer *l)
{
    size_t start = l->at;
    while (is_name(peek(l, 0)))
        l->at++;
    roco_value_string(l->source->region, l->text + start, l->at - start, false, &push(l, ROCO_TOKEN_NAME)->value);
}

/* Copies digits without their '_' and moves on. */
static void copy_digits(lexer *l, char *out, size_t *n, size_t size)
{
    while (is_digit(peek(l, 0)) || (peek(l, 0) == '_' && is_digit(peek(l, 1)))) {
        if (*n + 4 > size)
            roco_source_fail(l->source, l->line, "the number is too long");
        if (peek(l, 0) != '_')
            out[(*n)++] = peek(l, 0);
        l->at++;
    }
}

static void lex_radix(lexer *l, int base)
{
    char *end;
    errno = 0;
    long long integer = strtoll(l->text + l->at + 2, &end, base);
    if (errno || end == l->text + l->at + 2)
        roco_source_fail(l->source, l->line, "the number cannot be read");
    l->at = (size_t)(end - l->text);
    push(l, ROCO_TOKEN_INT)->value = roco_int(integer);
}

static void lex_number(lexer *l)
{
    char digits[64], c = peek(l, 1);
    size_t n = 0;
    if (peek(l, 0) == '0' && (c == 'x' || c == 'X' || c == 'o' || c == 'O' || c == 'b' || c == 'B')) {
        lex_radix(l, c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : 2);
        return;
    }
    bool after_dot = l->n && l->tokens[l->n - 1].op == '.', real = false;
    copy_digits(l, digits, &n, sizeof digits);
    if (!after_dot && peek(l, 0) == '.' && is_digit(peek(l, 1))) {
        real = true;
        digits[n++] = '.';
        l->at++;
        copy_digits(l, digits, &n, sizeof digits);
    }
    size_t sign = peek(l, 1) == '-' || peek(l, 1) == '+';
    if (!after_dot && (peek(l, 0) == 'e' || peek(l, 0) == 'E') && is_digit(peek(l, 1 + sign))) {
        real = true;
        digits[n++] = 'e';
        if (sign)
            digits[n++] = peek(l, 1);
        l->at += 1 + sign;
        copy_digits(l, digits, &n, sizeof digits);
    }
    digits[n] = '\0';
    errno = 0;
    roco_value value = real ? roco_float(strtod(digits, NULL)) : roco_int(strtoll(digits, NULL, 10));
    if (errno && !real)
        roco_source_fail(l->source, l->line, "the integer is over 64 bits");
    push(l, real ? ROCO_TOKEN_FLOAT : ROCO_TOKEN_INT)->value = value;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> size & 0xf0u) | code);
    return size;
}

/* \xHH, \uHHHH, \UHHHHHHHH: the digits at l->at. */
static uint32_t lex_code(lexer *l, size_t n_digits)
{
    uint32_t code = 0;
    for (size_t i = 0; i < n_digits; i++) {
        char c = peek(l, 0);
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            roco_source_fail(l->source, l->line, "an escape in a string is cut short");
        code = code << 4 | (uint32_t)digit;
        l->at++;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        roco_source_fail(l->source, l->line, "an escape in a string is no character");
    return code;
}

static size_t lex_escape(lexer *l, char *out)
{
    static const char from[] = "ntr\\'\"abfv", to[] = "\n\t\r\\'\"\a\b\f\v";
    char c = peek(l, 0);
    const char *simple = c ? strchr(from, c) : NULL;
    advance(l, 1);
    if (simple) {
        out[0] = to[simple - from];
        return 1;
    }
    if (c == '\n')
        return 0;
    if (c == 'x' || c == 'u' || c == 'U')
        return put_utf8(out, lex_code(l, c == 'x' ? 2 : c == 'u' ? 4 : 8));
    if (c >= '0' && c <= '7') {
        uint32_t code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && peek(l, 0) >= '0' && peek(l, 0) <= '7'; i++, l->at++)
            code = code << 3 | (uint32_t)(peek(l, 0) - '0');
        return put_utf8(out, code);
    }
    out[0] = '\\';
    out[1] = c;
    return 2;
}

static void lex_string(lexer *l)
{
    uint32_t line = l->line;
    char quote = peek(l, 0);
    size_t end = l->at + 1, n = 0;
    while (end < l->size && l->text[end] != quote)
        end += l->text[end] == '\\' ? 2 : 1;
    if (end >= l->size)
        roco_source_fail(l->source, line, "the string has no end");
    advance(l, 1);
    char *out = roco_region_alloc(l->source->region, end - l->at + 4, 1); /* an escape is never longer than its text */
    while (l->at < end) {
        char c = peek(l, 0);
        advance(l, 1);
        if (c == '\\')
            n += lex_escape(l, out + n);
        else
            out[n++] = c;
    }
    advance(l, 1);
    roco_value_string(l->source->region, out, n, false, &push(l, ROCO_TOKEN_STRING)->value);
}

static void balance(lexer *l, char c)
{
    const char *pair = strchr("()[]{}", c);
    if (!pair || !*pair)
        return;
    bool opens = c == '(' || c == '[' || c == '{';
    if (opens && l->n_brackets == MAX_BRACKETS)
        roco_source_fail(l->source, l->line, "more than %d brackets are open", MAX_BRACKETS);
    if (opens)
        l->brackets[l->n_brackets++] = pair[1];
    else if (l->n_brackets == 0 || l->brackets[--l->n_brackets] != c)
        roco_source_fail(l->source, l->line, "'%c' closes nothing", c);
}

static void lex_operator(lexer *l)
{
    static const char *const pairs[] = {"**", "//", "==", "!=", "<=", ">="};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (has(l, l->at, pairs[i])) {
            push(l, ROCO_TOKEN_OPERATOR)->op = ROCO_OP2(pairs[i][0], pairs[i][1]);
            l->at += 2;
            return;
        }
    }
    char c = peek(l, 0);
    if (!c || !strchr("+-*/%~<>=.,:|()[]{};", c))
        roco_source_fail(l->source, l->line, "a character that no expression has (0x%02x)", (unsigned char)c);
    balance(l, c);
    push(l, ROCO_TOKEN_OPERATOR)->op = ROCO_OP1(c);
    l->at++;
}

/* From the opening brackets to the closing ones. */
static void lex_tag(lexer *l, bool print)
{
    uint32_t line = l->line;
    const char *end = print ? "}}" : "%}";
    push(l, print ? ROCO_TOKEN_PRINT_BEGIN : ROCO_TOKEN_BLOCK_BEGIN);
    char sign = peek(l, 2);
    advance(l, sign == '-' || sign == '+' ? 3 : 2);
    for (;;) {
        skip_space(l);
        if (l->at == l->size)
            roco_source_fail(l->source, line, "the tag has no end");
        char c = peek(l, 0);
        size_t signed_end = c == '-' || (c == '+' && !print);
        if (l->n_brackets == 0 && has(l, l->at + signed_end, end)) {
            push(l, print ? ROCO_TOKEN_PRINT_END : ROCO_TOKEN_BLOCK_END);
            close_tag(l, signed_end ? c : '\0', print);
            return;
        }
        if (is_digit(c))
            lex_number(l);
        else if (is_name(c))
            lex_name(l);
        else if (c == '"' || c == '\'')
            lex_string(l);
        else
            lex_operator(l);
    }
}

/* One kind of line end, and not at the very end, as Jinja does. */
static void normalize(lexer *l)
{
    const roco_source *source = l->source;
    char *text = roco_region_alloc(source->region, source->size + 1, 1);
    for (size_t i = 0; i < source->size; i++) {
        char c = source->data[i];
        if (c == '\r' && i + 1 < source->size && source->data[i + 1] == '\n')
            continue;
        text[l->size++] = c == '\r' ? '\n' : c;
    }
    if (l->size && text[l->size - 1] == '\n')
        l->size--;
    text[l->size] = '\0';
    l->text = text;
}

roco_token *roco_lex(const roco_source *source)
{
    lexer *l = roco_region_alloc(source->region, 1, sizeof *l);
    l->source = source;
    l->line = 1;
    normalize(l);
    size_t start = 0;
    while (l->at < l->size) {
        char kind = peek(l, 0) == '{' ? peek(l, 1) : '\0';
        if (kind != '{' && kind != '%' && kind != '#') {
            advance(l, 1);
            continue;
        }
        char sign;
        push_data(l, start, l->at, kind == '{');
        if (kind == '#')
            skip_comment(l);
        else if (kind == '%' && raw_tag(l, l->at, "raw", &sign))
            lex_raw(l);
        else
            lex_tag(l, kind == '{');
        start = l->at;
    }
    if (start < l->size)
        roco_value_string(source->region, l->text + start, l->size - start, false, &push(l, ROCO_TOKEN_DATA)->value);
    push(l, ROCO_TOKEN_END);
    return l->tokens;
}
