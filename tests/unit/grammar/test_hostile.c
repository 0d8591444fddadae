/* Grammars that mean harm: each is refused with a limit, or works within bounds; none takes long or crashes. */
#include "support_grammar.h"

#include "config/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* `times` of text in a row behind `begin`, then `back`. */
static char *repeat(const char *begin, const char *text, unsigned times, const char *back)
{
    const size_t size = strlen(begin) + strlen(text) * times + strlen(back) + 1;
    char *out = malloc(size), *at = out + sprintf(out, "%s", begin);
    for (unsigned i = 0; i < times; i++)
        at += sprintf(at, "%s", text);
    strcpy(at, back);
    return out;
}

static void expect(const fixture *f, source_kind kind, char *source, roco_status expected, const char *name)
{
    roco_constraint *c = NULL;
    roco_error error = {0};
    const uint64_t begin_ns = roco_now_ns();
    const roco_status status = compile(f, kind, source, &c, &error);
    if (status != expected)
        fail_msg("%s: %d, %s", name, status, error.message);
    /* Ten times the limit for slow machines and sanitizers. */
    assert_in_range(roco_now_ns() - begin_ns, 0, 20000000000u);
    if (!status) {
        uint32_t *mask = calloc(roco_mask_words(f->vocabulary), sizeof *mask);
        roco_matcher *m = roco_matcher_open(c, f->masks);
        for (unsigned i = 0; i < 50; i++) {
            const roco_status next = roco_matcher_mask(m, mask);
            if (next != ROCO_OK && next != ROCO_TOO_LARGE)
                fail_msg("%s: token %u: %d", name, i, next);
            if (next || !(mask['a' / 32] >> 'a' % 32 & 1) || roco_matcher_advance(m, 'a'))
                break;
        }
        roco_matcher_close(m);
        roco_constraint_release(c);
        free(mask);
    }
    free(source);
}

/* A class of many characters, none beside another, which as many alternatives begin with. */
static char *wide_alternatives(unsigned n_characters, unsigned n_alternatives)
{
    char *out = malloc(4u * n_characters + 16u * n_alternatives + 64u), *at = out;
    at += sprintf(at, "c ::= [");
    for (unsigned i = 0; i < n_characters; i++) {
        const unsigned code = 0x4000 + 2 * i;
        at += sprintf(at, "%c%c%c", 0xE0 | code >> 12, 0x80 | (code >> 6 & 63), 0x80 | (code & 63));
    }
    at += sprintf(at, "]\nroot ::= \"a\"");
    for (unsigned i = 0; i < n_alternatives; i++)
        at += sprintf(at, " | c \"%04u\"", i);
    return out;
}

static void test_hostile(void **state)
{
    static const char *const texts[] = {"aaaa", "aaaaaaaaaaaaaaaaaaaaaaaa"};
    fixture f = fixture_open(texts, 2, 0);
    expect(&f, REGEX, repeat("", "(", 100000, ""), ROCO_TOO_LARGE, "deep groups");
    expect(&f, REGEX, repeat("", "(a|", 150, "b"), ROCO_INVALID, "open groups");
    expect(&f, REGEX, strdup("a{1000}{1000}"), ROCO_INVALID, "two counts");
    expect(&f, REGEX, strdup("((a{1000}){1000}){1000}"), ROCO_OK, "counts of counts");
    expect(&f, REGEX, strdup("(((a{0,1000}){0,1000}){0,1000}){0,1000}"), ROCO_OK, "counts that may be nothing");
    expect(&f, REGEX, strdup("((((a?b?){100}c?){100}d?){100}){100}"), ROCO_OK, "counts of little");
    expect(&f, REGEX, repeat("(", "(a|a)", 200, ")*"), ROCO_OK, "alternatives, exponentially many");
    expect(&f, REGEX, repeat("", "(a*)*", 100, "b"), ROCO_OK, "stars of stars");
    expect(&f, REGEX, strdup("(a|aa|aaa|aaaa){0,100000}(a|aa|aaa){0,100000}b"), ROCO_OK, "ambiguous counts");
    expect(&f, REGEX, repeat("", "a", 300000, ""), ROCO_TOO_LARGE, "long source");
    expect(&f, REGEX, repeat("(", "[a-z]|", 40000, "b)"), ROCO_TOO_LARGE, "many alternatives");
    expect(&f, GBNF, strdup("root ::= root \"a\" | \"a\""), ROCO_INVALID, "left recursion");
    expect(&f, GBNF, strdup("root ::= x\nx ::= \"\" y\ny ::= z? x \"a\"\nz ::= \"b\""), ROCO_INVALID,
           "hidden left recursion");
    expect(&f, GBNF, strdup("root ::= (root?){2,9} \"a\""), ROCO_INVALID, "left recursion through a count");
    expect(&f, GBNF, strdup("root ::= \"a\" root"), ROCO_INVALID, "without an end");
    expect(&f, GBNF, strdup("root ::= \"a\" x | \"b\"\nx ::= \"c\" x"), ROCO_OK, "a branch without an end");
    expect(&f, GBNF, strdup("root ::= \"a\" (root | root root)?"), ROCO_OK, "ambiguous recursion");
    expect(&f, GBNF, strdup("root ::= \"a\" root root | \"a\""), ROCO_OK, "stacks without end");
    expect(&f, GBNF, strdup("root ::= ([ \\t] root)?"), ROCO_OK, "right recursion");
    expect(&f, GBNF, strdup("root ::= x"), ROCO_INVALID, "no such rule");
    expect(&f, GBNF, strdup("root ::= \n"), ROCO_INVALID, "no body");
    expect(&f, GBNF, strdup("root ::= \"\""), ROCO_OK, "the empty text");
    expect(&f, GBNF, strdup("x ::= \"a\""), ROCO_INVALID, "no root");
    expect(&f, GBNF, strdup("root ::= \"a\"\nroot ::= \"b\""), ROCO_INVALID, "two roots");
    expect(&f, GBNF, repeat("root ::= ", "(", 100000, ""), ROCO_TOO_LARGE, "deep groups");
    expect(&f, GBNF, strdup("root ::= \"\\q\""), ROCO_INVALID, "escape");
    expect(&f, GBNF, strdup("root ::= <tool>"), ROCO_UNSUPPORTED, "tokens");
    expect(&f, GBNF, wide_alternatives(18000, 2000), ROCO_OK, "wide classes in many alternatives");
    expect(&f, GBNF, strdup(""), ROCO_INVALID, "nothing");
    fixture_close(&f);
}

/* A branch that cannot end is never entered. */
static void test_dead_branches(void **state)
{
    fixture f = fixture_open(NULL, 0, 0);
    roco_constraint *c = NULL;
    assert_int_equal(compile(&f, GBNF, "root ::= \"a\" x | \"b\"\nx ::= \"c\" x", &c, NULL), ROCO_OK);
    assert_true(matches(&f, c, "b"));
    roco_matcher *m = roco_matcher_open(c, f.masks);
    assert_int_equal(roco_matcher_advance(m, 'a'), ROCO_INVALID);
    roco_matcher_close(m);
    roco_constraint_release(c);
    fixture_close(&f);
}

static void test_gbnf(void **state)
{
    static const char arithmetic[] = "# sums\n"
                                     "root  ::= (expr \"=\" ws term \"\\n\")+\n"
                                     "expr  ::= term ([-+*/] term)*\n"
                                     "term  ::= ident | num |\n  \"(\" ws expr \")\" ws\n"
                                     "ident ::= [a-z] [a-z0-9_]* ws # a name\n"
                                     "num   ::= [0-9]{1,3} ws\n"
                                     "ws    ::= [ \\t\\n]*\n";
    fixture f = fixture_open(NULL, 0, 0);
    roco_constraint *c = NULL;
    roco_error error = {0};
    if (compile(&f, GBNF, arithmetic, &c, &error))
        fail_msg("%s", error.message);
    assert_true(matches(&f, c, "a +(b1*22) = 7\n"));
    assert_true(matches(&f, c, "((((x)))) =y\n1=2\n"));
    assert_false(matches(&f, c, "a + = 7\n"));
    assert_false(matches(&f, c, "1234=1\n"));
    assert_false(matches(&f, c, "(a=1\n"));
    roco_constraint_release(c);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_dead_branches),
        cmocka_unit_test(test_gbnf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
