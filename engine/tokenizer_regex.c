/* Oniguruma's expressions, which tokenizer.json files hold, as PCRE2's. The thread that opens the tokenizer.
 *
 * The two agree on most of what tokenizers use. White space and word characters are spelled out, as the libraries'
 * lists differ; what means something else in PCRE2 and is not known here is refused. Source: Oniguruma's doc/RE (Ruby's
 * syntax) and the manual page pcre2pattern.
 */
#include "engine/tokenizer_parts.h"

#include <ctype.h>
#include <string.h>

#define SPACES "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define NOT_SPACES                                                                                                     \
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}!-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}"       \
    "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"
/* Alphabetic characters, with the circled and squared letters among the symbols; marks, decimal digits, connectors. */
#define WORDS                                                                                                          \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{"    \
    "1F189}"

typedef struct translation {
    roco_text from;
    size_t at;
    bool in_class;
    roco_buffer out;
    const char *unknown; /* what cannot be said in PCRE2 */
    roco_status status;
} translation;

static void put(translation *t, const char *text)
{
    t->status = t->status ? t->status : roco_buffer_append_text(&t->out, text);
}

static void copy(translation *t, size_t n)
{
    n = n < t->from.size - t->at ? n : t->from.size - t->at;
    t->status = t->status ? t->status : roco_buffer_append(&t->out, t->from.data + t->at, n);
    t->at += n;
}

static int peek(const translation *t, size_t ahead)
{
    return t->at + ahead < t->from.size ? (unsigned char)t->from.data[t->at + ahead] : -1;
}

/* A class of characters, within brackets or with its own. */
static void put_class(translation *t, const char *members, const char *others)
{
    const bool inside = t->in_class;
    put(t, inside ? "" : "[");
    put(t, members ? members : others);
    put(t, inside ? "" : "]");
    t->at += 2;
}

/* Of \p{..}, \x{..} and the like the braces too. */
static size_t escape_size(const translation *t)
{
    const char *end = peek(t, 2) == '{' ? memchr(t->from.data + t->at, '}', t->from.size - t->at) : NULL;
    return end && strchr("pPx", peek(t, 1)) ? (size_t)(end - t->from.data) - t->at + 1 : 2;
}

/* At a backslash. */
static void take_escape(translation *t)
{
    char code[16];
    switch (peek(t, 1)) {
    case 's': put_class(t, SPACES, NULL); break;
    case 'S': put_class(t, NOT_SPACES, NULL); break;
    case 'w': put_class(t, WORDS, NULL); break;
    case 'W':
        if (t->in_class)
            t->unknown = "\\W within brackets";
        else
            put_class(t, "^" WORDS, NULL);
        break;
    case 'h':
    case 'H': t->unknown = "\\h (a hexadecimal digit there, white space here)"; break;
    case 'u':
        for (size_t i = 2; i < 6; i++) {
            if (!isxdigit(peek(t, i))) {
                t->unknown = "\\u without four hexadecimal digits";
                return;
            }
        }
        memcpy(code, "\\x{", 3);
        memcpy(code + 3, t->from.data + t->at + 2, 4);
        memcpy(code + 7, "}", 2);
        put(t, code);
        t->at += 6;
        break;
    case -1: t->unknown = "a backslash at the end"; break;
    default: copy(t, escape_size(t)); break;
    }
}

/* Within brackets. */
static void take_member(translation *t)
{
    if (peek(t, 0) == ']') {
        t->in_class = false;
    } else if (peek(t, 0) == '[' && peek(t, 1) != ':') {
        t->unknown = "brackets within brackets";
    } else if (peek(t, 0) == '&' && peek(t, 1) == '&') {
        t->unknown = "&& within brackets";
    } else if (peek(t, 0) == '[') { /* [:alpha:] is the same in both */
        const char *end = memmem(t->from.data + t->at, t->from.size - t->at, ":]", 2);
        copy(t, end ? (size_t)(end - t->from.data) - t->at + 2 : 1);
        return;
    }
    copy(t, 1);
}

static void take_open(translation *t)
{
    t->in_class = true;
    copy(t, peek(t, 1) == '^' ? 2 : 1);
    if (peek(t, 0) == ']') { /* the first one stands for itself */
        put(t, "\\");
        copy(t, 1);
    }
}

/* "(?m" lets a dot match newlines there, and "{1,3}+" repeats once more instead of never giving back. */
static void look_for_others(translation *t)
{
    if (peek(t, 0) == '(' && peek(t, 1) == '?') {
        for (size_t i = 2; isalpha(peek(t, i)) || peek(t, i) == '-'; i++)
            if (peek(t, i) != 'i' && peek(t, i) != '-')
                t->unknown = "a group's option other than i";
    }
    if (peek(t, 0) == '}' && peek(t, 1) == '+')
        t->unknown = "a count in braces followed by +";
}

static roco_status translate(translation *t, roco_error *error)
{
    while (t->at < t->from.size && !t->unknown && !t->status) {
        if (peek(t, 0) == '\0') {
            t->unknown = "a NUL";
        } else if (peek(t, 0) == '\\') {
            take_escape(t);
        } else if (t->in_class) {
            take_member(t);
        } else if (peek(t, 0) == '[') {
            take_open(t);
        } else {
            look_for_others(t);
            copy(t, 1);
        }
    }
    if (t->unknown) {
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer",
                         "an expression of the pre-tokenizer has %s, which is not supported", t->unknown);
    }
    return t->status ? roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for a pre-tokenizer") : ROCO_OK;
}

/* The text itself: \Q...\E, without an \E of its own. */
static roco_status quote(translation *t, roco_error *error)
{
    if (memmem(t->from.data, t->from.size, "\\E", 2) || memchr(t->from.data, '\0', t->from.size))
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer", "a text to split at holds \\E or a NUL");
    put(t, "\\Q");
    copy(t, t->from.size);
    put(t, "\\E");
    return t->status ? roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for a pre-tokenizer") : ROCO_OK;
}

roco_status roco_pretokenizer_add_foreign(roco_pretokenizer *pre, roco_text expression, bool literal,
                                          roco_split_behavior behavior, bool invert, roco_error *error)
{
    translation t = {.from = expression};
    roco_status status = literal ? quote(&t, error) : translate(&t, error);
    if (!status)
        status = roco_pretokenizer_add(pre, t.out.data ? t.out.data : "", behavior, invert, error);
    roco_buffer_free(&t.out);
    return status;
}
