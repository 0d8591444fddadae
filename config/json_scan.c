/* A lexer: how values nest into each other stays cJSON's business. */
#include "config/json_scan.h"

#include "config/utf8.h"

#include <stdbool.h>

#include <string.h>

typedef struct scanner {
    const char *what;
    const char *text;
    size_t size, at;
    roco_error *error;
} scanner;

static roco_status bad(const scanner *s, const char *fault)
{
    return roco_fail(s->error, ROCO_INVALID, NULL, "%s is not valid JSON: %s at byte %zu", s->what, fault, s->at);
}

static int peek(const scanner *s)
{
    return s->at < s->size ? (unsigned char)s->text[s->at] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(int c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* At the character after a backslash. */
static roco_status scan_escape(scanner *s)
{
    int c = peek(s);
    if (c < 0 || !c || !strchr("\"\\/bfnrtu", c))
        return bad(s, "an unknown escape");
    s->at++;
    if (c != 'u')
        return ROCO_OK;
    bool zero = true;
    for (int i = 0; i < 4; i++, s->at++) {
        if (!is_hex(peek(s)))
            return bad(s, "an escape without four hexadecimal digits");
        zero = zero && peek(s) == '0';
    }
    if (zero) /* cJSON's strings end at a NUL, so the rest of the text would be lost without a word */
        return roco_fail(s->error, ROCO_INVALID, NULL, "%s holds \\u0000 before byte %zu, which is not supported",
                         s->what, s->at);
    return ROCO_OK;
}

static roco_status scan_string(scanner *s)
{
    s->at++;
    for (;;) {
        int c = peek(s);
        if (c < 0)
            return bad(s, "a string that does not end");
        if (c < 0x20)
            return bad(s, "a control character in a string");
        s->at++;
        if (c == '"')
            return ROCO_OK;
        if (c == '\\') {
            roco_status status = scan_escape(s);
            if (status)
                return status;
        }
    }
}

static bool scan_digits(scanner *s)
{
    size_t start = s->at;
    while (is_digit(peek(s)))
        s->at++;
    return s->at > start;
}

static roco_status scan_number(scanner *s)
{
    size_t start = s->at;
    if (peek(s) == '-')
        s->at++;
    bool leading_zero = peek(s) == '0';
    size_t first = s->at;
    if (!scan_digits(s) || (leading_zero && s->at - first > 1))
        return bad(s, "a malformed number");
    if (peek(s) == '.') {
        s->at++;
        if (!scan_digits(s))
            return bad(s, "a malformed number");
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (!scan_digits(s))
            return bad(s, "a malformed number");
    }
    if (s->at - start > ROCO_JSON_MAX_NUMBER)
        return roco_fail(s->error, ROCO_INVALID, NULL,
                         "%s: the number before byte %zu has %zu characters, %u are allowed", s->what, s->at,
                         s->at - start, ROCO_JSON_MAX_NUMBER);
    return ROCO_OK;
}

static roco_status scan_word(scanner *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (s->size - s->at >= length && memcmp(s->text + s->at, words[i], length) == 0) {
            s->at += length;
            return ROCO_OK;
        }
    }
    return bad(s, "something that is no value");
}

static roco_status scan_value(scanner *s, int c)
{
    if (c == '"')
        return scan_string(s);
    if (c == '-' || is_digit(c))
        return scan_number(s);
    return scan_word(s);
}

roco_status roco_json_scan(const char *what, const char *text, size_t size, uint32_t max_values, roco_error *error)
{
    if (!roco_utf8_valid(text, size))
        return roco_fail(error, ROCO_INVALID, NULL, "%s is not valid UTF-8", what);
    scanner s = {what, text, size, 0, error};
    uint32_t depth = 0, n_values = 0;
    while (s.at < size) {
        int c = (unsigned char)text[s.at];
        switch (c) {
        case ' ':
        case '\t':
        case '\n':
        case '\r':
        case ',':
        case ':': s.at++; continue;
        case ']':
        case '}':
            depth -= depth > 0;
            s.at++;
            continue;
        case '[':
        case '{':
            if (++depth > ROCO_JSON_MAX_DEPTH)
                return roco_fail(error, ROCO_INVALID, NULL, "%s nests deeper than %u levels", what,
                                 ROCO_JSON_MAX_DEPTH);
            s.at++;
            break;
        default: {
            roco_status status = scan_value(&s, c);
            if (status)
                return status;
        }
        }
        if (++n_values > max_values)
            return roco_fail(error, ROCO_INVALID, NULL, "%s holds more than %u values", what, max_values);
    }
    return ROCO_OK;
}
