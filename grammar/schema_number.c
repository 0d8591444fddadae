/* Numbers: bounds and multiples as automata over decimal digits.
 *
 * A bound is compared digit by digit with its own shortest decimal text. Reading decimals as doubles keeps their order,
 * so what is between the texts is between the numbers. Within bounds a number has at most fifteen digits on each side
 * of its point and no exponent.
 */
#include "grammar/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 15, MAX_MULTIPLE = 10000 };

/* A number without its sign. */
typedef struct magnitude {
    char whole[32], part[32]; /* digits before and behind the point; "0" and "" for 0 */
} magnitude;

/* The shortest decimal text of a number below 10^17, which fits. */
static magnitude magnitude_of(double number)
{
    magnitude m = {"0", ""};
    char text[64];
    for (int digits = 0; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*f", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    const char *point = strchr(text, '.');
    const size_t n_whole = point ? (size_t)(point - text) : strlen(text);
    memcpy(m.whole, text, n_whole < sizeof m.whole ? n_whole : sizeof m.whole - 1);
    if (point)
        snprintf(m.part, sizeof m.part, "%s", point + 1);
    for (size_t n = strlen(m.part); n > 0 && m.part[n - 1] == '0'; n--)
        m.part[n - 1] = '\0';
    return m;
}

/* --- digits --- */

static roco_expr digits(roco_grammar *g, char low, char high)
{
    roco_charset set = {0};
    roco_charset_add(&set, (uint8_t)low, (uint8_t)high);
    const roco_expr expr = low <= high ? roco_grammar_chars(g, &set, false) : 0;
    roco_charset_free(&set);
    return expr;
}

static roco_expr any_digits(roco_grammar *g, uint32_t min, uint32_t max)
{
    return roco_grammar_repeat(g, digits(g, '0', '9'), min, max);
}

static roco_expr digit(roco_grammar *g, char c)
{
    return digits(g, c, c);
}

static roco_expr sequence3(roco_grammar *g, roco_expr a, roco_expr b, roco_expr c)
{
    return roco_grammar_sequence(g, (const roco_expr[]){a, b, c}, 3);
}

/* Any part behind a whole number, or none. */
static roco_expr any_part(roco_grammar *g, bool integer)
{
    if (integer)
        return roco_grammar_empty(g);
    return roco_grammar_optional(g, roco_grammar_pair(g, digit(g, '.'), any_digits(g, 1, MOST_DIGITS)));
}

/* Parts that are more than m's (or, `less`, less), or as much unless `open`; behind the same whole number. `at` digits
 * are the same already. */
static roco_expr part_from(roco_grammar *g, const magnitude *m, uint32_t at, bool less, bool open)
{
    const uint32_t n = (uint32_t)strlen(m->part), room = at < MOST_DIGITS ? MOST_DIGITS - at : 0;
    const roco_expr zeros = roco_grammar_repeat(g, digit(g, '0'), 0, room);
    if (at == n) { /* all behind are zeros */
        const roco_expr more =
            sequence3(g, zeros, digits(g, '1', '9'), any_digits(g, 0, room)); /* a digit or two more do no harm */
        const roco_expr same = open ? 0 : zeros;
        return less ? same : roco_grammar_choice(g, (const roco_expr[]){more, same}, 2);
    }
    const char c = m->part[at];
    const roco_expr off = less ? digits(g, '0', (char)(c - 1)) : digits(g, (char)(c + 1), '9');
    const roco_expr list[] = {
        roco_grammar_pair(g, off, any_digits(g, 0, room)),
        roco_grammar_pair(g, digit(g, c), part_from(g, m, at + 1, less, open)),
        less ? roco_grammar_empty(g) : 0, /* nothing more is less: some digit here is not 0 */
    };
    return roco_grammar_choice(g, list, 3);
}

/* The same, with its point, or nothing where that is right. */
static roco_expr part(roco_grammar *g, const magnitude *m, bool less, bool open, bool integer)
{
    const bool zero = m->part[0] == '\0', none = less ? !(zero && open) : zero && !open;
    const roco_expr nothing = none ? roco_grammar_empty(g) : 0;
    if (integer)
        return nothing;
    /* At least one digit: what is optional inside is cut off by the automaton of all numbers. */
    const roco_expr some = roco_grammar_pair(g, digit(g, '.'), part_from(g, m, 0, less, open));
    return roco_grammar_choice(g, (const roco_expr[]){some, nothing}, 2);
}

/* Whole numbers of as many digits as m's that are more (or less), then any part; `at` digits are the same already. */
static roco_expr whole_from(roco_grammar *g, const magnitude *m, uint32_t at, bool less, roco_expr end, roco_expr any)
{
    const uint32_t n = (uint32_t)strlen(m->whole);
    if (at == n)
        return end;
    const char c = m->whole[at], lowest = at == 0 && n > 1 ? '1' : '0';
    const roco_expr off = less ? digits(g, lowest, (char)(c - 1)) : digits(g, (char)(c + 1), '9');
    const roco_expr list[] = {
        sequence3(g, off, any_digits(g, n - at - 1, n - at - 1), any),
        roco_grammar_pair(g, digit(g, c), whole_from(g, m, at + 1, less, end, any)),
    };
    return roco_grammar_choice(g, list, 2);
}

/* Numbers without a sign from m on, or up to m. */
static roco_expr beyond(roco_grammar *g, double bound, bool less, bool open, bool integer)
{
    const magnitude m = magnitude_of(bound);
    const uint32_t n = (uint32_t)strlen(m.whole);
    const roco_expr any = any_part(g, integer), end = part(g, &m, less, open, integer);
    roco_expr other = 0; /* of fewer digits, or of more */
    if (less && n > 1) {
        const roco_expr longer = roco_grammar_pair(g, digits(g, '1', '9'), any_digits(g, 0, n - 2));
        other = roco_grammar_pair(g, roco_grammar_choice(g, (const roco_expr[]){digit(g, '0'), longer}, 2), any);
    } else if (!less && n < MOST_DIGITS) {
        other = sequence3(g, digits(g, '1', '9'), any_digits(g, n, MOST_DIGITS - 1), any);
    }
    return roco_grammar_choice(g, (const roco_expr[]){other, whole_from(g, &m, 0, less, end, any)}, 2);
}

/* Numbers with their sign from `bound` on (low), or up to it. On the other side of zero than the bound's all do. */
static roco_expr half(roco_grammar *g, const roco_bound *bound, bool low, bool integer)
{
    const bool negative = bound->value < 0;
    const roco_expr minus = digit(g, '-');
    const roco_expr all = roco_grammar_pair(g, any_digits(g, 1, MOST_DIGITS), any_part(g, integer));
    const roco_expr near = beyond(g, fabs(bound->value), low == negative, bound->open, integer);
    if (low)
        return negative ? roco_grammar_choice(g, (const roco_expr[]){all, roco_grammar_pair(g, minus, near)}, 2) : near;
    /* Below zero is everything with a sign, but for -0 where 0 itself is out: that is left out by `base`. */
    return negative ? roco_grammar_pair(g, minus, near)
                    : roco_grammar_choice(g, (const roco_expr[]){near, roco_grammar_pair(g, minus, all)}, 2);
}

/* --- put together --- */

/* The texts of all numbers; no minus in front of zero, which would be beside some bounds and not others. */
static roco_expr base(roco_grammar *g, bool integer, uint32_t decimals)
{
    char pattern[32 * MOST_DIGITS + 160];
    int n = snprintf(pattern, sizeof pattern, "0|-?[1-9][0-9]{0,14}");
    if (integer || decimals == 0)
        return roco_json_pattern(g, pattern);
    n = snprintf(pattern, sizeof pattern, "(0|-?[1-9][0-9]{0,14})([.][0-9]{1,%u})?", decimals);
    for (uint32_t zeros = 0; zeros < decimals; zeros++)
        n += snprintf(pattern + n, sizeof pattern - (size_t)n, "|-0[.]0{%u}[1-9][0-9]{0,%u}", zeros,
                      decimals - 1 - zeros);
    return roco_json_pattern(g, pattern);
}

static roco_dfa *narrow(roco_schema *s, roco_dfa *dfa, roco_dfa *more)
{
    roco_dfa *both = dfa && more ? roco_dfa_both(s->grammar, dfa, more) : NULL;
    roco_dfa_close(dfa);
    roco_dfa_close(more);
    return both;
}

/* Tenths, hundredths, ... : how many digits behind the point; -1: none of those. */
static int decimals_of(double multiple)
{
    double power = 1;
    for (int n = 0; n <= MOST_DIGITS; n++, power *= 10)
        if (fabs(multiple * power - 1) < 1e-9)
            return n;
    return -1;
}

static bool is_whole(double number)
{
    return number == floor(number);
}

static roco_dfa *narrow_multiple(roco_schema *s, roco_dfa *dfa, const roco_json_value *multiple)
{
    const double m = multiple->number;
    if (m == 1 || decimals_of(m) > 0) /* by the digits alone */
        return dfa;
    if (is_whole(m) && m <= MAX_MULTIPLE)
        return narrow(s, dfa, roco_dfa_multiples(s->grammar, (uint32_t)m));
    roco_dfa_close(dfa);
    roco_schema_fail(s, ROCO_UNSUPPORTED, multiple, "",
                     "this is supported for whole numbers up to 10000, and for 0.1, 0.01 and so on");
    return NULL;
}

/* A bound that no number of fifteen digits reaches says nothing. */
static void drop_far(roco_bound *bound, bool low)
{
    if (bound->at && (low ? bound->value <= -1e15 : bound->value >= 1e15))
        bound->at = NULL;
}

roco_expr roco_schema_number(roco_schema *s, const roco_facts *facts, bool integer)
{
    roco_grammar *g = s->grammar;
    roco_bound low = facts->low, high = facts->high;
    uint32_t decimals = MOST_DIGITS;
    drop_far(&low, true);
    drop_far(&high, false);
    if (!low.at && !high.at && facts->n_multiples == 0)
        return integer ? roco_grammar_json(g)->integer : roco_grammar_json(g)->number;
    for (unsigned i = 0; i < 2; i++) {
        const roco_bound *bound = i ? &high : &low;
        if (bound->at && fabs(bound->value) >= 1e15)
            return roco_schema_fail(s, ROCO_UNSUPPORTED, bound->at, "", "it has more than 15 digits");
    }
    for (uint32_t i = 0; i < facts->n_multiples; i++) {
        const int n = decimals_of(facts->multiples[i]->number);
        decimals = (uint32_t)(n < 0 ? 0 : n) < decimals ? (uint32_t)(n < 0 ? 0 : n) : decimals;
    }
    const bool whole = integer || decimals == 0;
    roco_dfa *dfa = roco_dfa_from_expr(g, base(g, whole, decimals));
    if (low.at)
        dfa = narrow(s, dfa, roco_dfa_from_expr(g, half(g, &low, true, whole)));
    if (high.at)
        dfa = narrow(s, dfa, roco_dfa_from_expr(g, half(g, &high, false, whole)));
    for (uint32_t i = 0; dfa && i < facts->n_multiples; i++)
        dfa = narrow_multiple(s, dfa, facts->multiples[i]);
    return dfa ? roco_grammar_graph(g, dfa, false) : 0;
}

bool roco_number_fits(const roco_facts *facts, double number)
{
    if (facts->low.at && (facts->low.open ? number <= facts->low.value : number < facts->low.value))
        return false;
    if (facts->high.at && (facts->high.open ? number >= facts->high.value : number > facts->high.value))
        return false;
    for (uint32_t i = 0; i < facts->n_multiples; i++) {
        const double times = number / facts->multiples[i]->number;
        if (fabs(times - floor(times + 0.5)) > 1e-9 * fabs(times))
            return false;
    }
    return true;
}
