/* Masks against brute force: each token tried by itself; with few masks kept, so that all ways of making one are
 * taken. */
#include "support_grammar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const texts[] = {"ab",       "abc",  "aaaa",     "aaaaaaaaaaaaaaaa",
                                    "b]",       "]]",   "],[",      "[[",
                                    "\xc3\xa9", "\xc3", "\"a",      "a\"",
                                    "ab",       "",     "}}",       "{\"",
                                    "12",       "1]",   "\xa9\xa9", "a\xff"};
enum { N_TEXTS = sizeof texts / sizeof *texts, CONTROL = 256 + N_TEXTS, END = CONTROL + 1 };

static const struct {
    source_kind kind;
    const char *source;
} grammars[] = {
    {REGEX, "[ab]{3,40}c?"},
    {REGEX, "(a{1,20}b?){2,30}"},
    {REGEX, "((a|ab)(c|bcd)?)*"},
    {REGEX, "[^a]*\xc3\xa9+"},
    {REGEX, "a{0,500}"},
    {REGEX, "(a{0,5}){0,100}b{90,100}"},
    {GBNF, "root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | [0-9]+ | \"a\""},
    {GBNF, "root ::= \"a\" root \"b\" | \"ab\""},
    {GBNF, "root ::= ([ab] root)?"},
    {GBNF, "root ::= pair{2,30}\npair ::= \"a\" (\"b\" | pair)?"},
};

static roco_matcher *at_prefix(const fixture *f, roco_constraint *c, const int32_t *prefix, unsigned n)
{
    roco_matcher *m = roco_matcher_open(c, f->masks);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(roco_matcher_advance(m, prefix[i]), ROCO_OK);
    return m;
}

/* A walk along random allowed tokens; at each step every bit is compared with a try. */
static void walk(const fixture *f, roco_constraint *c, uint64_t *seed, const char *name)
{
    uint32_t *mask = calloc(roco_mask_words(f->vocabulary), sizeof *mask);
    int32_t prefix[40], allowed[CONTROL + 3];
    for (unsigned n = 0; n < 40; n++) {
        roco_matcher *m = at_prefix(f, c, prefix, n);
        assert_int_equal(roco_matcher_mask(m, mask), ROCO_OK);
        const bool may_end = roco_matcher_may_end(m);
        roco_matcher_close(m);
        unsigned n_allowed = 0;
        for (int32_t token = 0; token < (int32_t)f->n_tokens; token++) {
            m = at_prefix(f, c, prefix, n);
            const bool bit = mask[token / 32] >> (token % 32) & 1;
            const bool expected = token >= END ? may_end : roco_matcher_advance(m, token) == ROCO_OK;
            roco_matcher_close(m);
            if (bit != expected)
                fail_msg("%s: token %d after %u tokens: the mask says %d", name, token, n, bit);
            if (bit && token < END)
                allowed[n_allowed++] = token;
        }
        if (n_allowed == 0)
            break;
        prefix[n] = allowed[random_below(seed, n_allowed)];
    }
    free(mask);
}

static void test_masks_equal_tries(void **state)
{
    uint64_t seed = 7;
    fixture f = fixture_open(texts, N_TEXTS, 0);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        roco_constraint *c = NULL;
        roco_error error = {0};
        if (compile(&f, grammars[i].kind, grammars[i].source, &c, &error))
            fail_msg("%s: %s", grammars[i].source, error.message);
        for (unsigned round = 0; round < 4; round++)
            walk(&f, c, &seed, grammars[i].source);
        roco_constraint_release(c);
    }
    fixture_close(&f);
}

/* A bound on a string costs one walk over the trie, not one for each count. */
static void test_counts_share_masks(void **state)
{
    fixture f = fixture_open(texts, N_TEXTS, 1 << 20);
    roco_constraint *c = NULL;
    assert_int_equal(compile(&f, REGEX, "[a-z]{0,5000}", &c, NULL), ROCO_OK);
    uint32_t *mask = calloc(roco_mask_words(f.vocabulary), sizeof *mask);
    roco_matcher *m = roco_matcher_open(c, f.masks);
    for (unsigned i = 0; i < 4900; i++) {
        assert_int_equal(roco_matcher_mask(m, mask), ROCO_OK);
        assert_int_equal(roco_matcher_advance(m, 'a'), ROCO_OK);
    }
    const roco_mask_stats stats = roco_masks_stats(f.masks);
    assert_int_equal(stats.masks, 4900);
    assert_in_range(stats.walks, 1, 4);
    roco_matcher_close(m);
    roco_constraint_release(c);
    free(mask);
    fixture_close(&f);
}

static void test_control_tokens(void **state)
{
    fixture f = fixture_open(texts, N_TEXTS, 0);
    roco_grammar *g = roco_grammar_open(&ROCO_GRAMMAR_LIMITS);
    roco_expr any = roco_grammar_without(g, "", 0),
              list[] = {any, roco_grammar_token(g, CONTROL), roco_grammar_text(g, "ab", 2)};
    const roco_expr root = roco_grammar_choice(g, (const roco_expr[]){any, roco_grammar_sequence(g, list, 3)}, 2);
    roco_constraint *c = NULL;
    assert_int_equal(roco_constraint_compile(g, "tools", root, f.vocabulary, &c, NULL), ROCO_OK);
    roco_grammar_close(g);
    roco_matcher *m = roco_matcher_open(c, f.masks);
    assert_int_equal(roco_matcher_advance(m, 'x'), ROCO_OK);
    assert_true(roco_matcher_may_end(m));
    assert_int_equal(roco_matcher_advance(m, CONTROL), ROCO_OK);
    assert_false(roco_matcher_may_end(m));
    assert_int_equal(roco_matcher_advance(m, 'x'), ROCO_INVALID);
    assert_int_equal(roco_matcher_advance(m, 256), ROCO_OK); /* "ab" */
    assert_true(roco_matcher_may_end(m));
    assert_int_equal(roco_matcher_advance(m, CONTROL), ROCO_INVALID);
    roco_matcher_close(m);
    roco_constraint_release(c);
    fixture_close(&f);
}

static void test_triggered(void **state)
{
    fixture f = fixture_open(texts, N_TEXTS, 0);
    roco_grammar *g = roco_grammar_open(&ROCO_GRAMMAR_LIMITS);
    const roco_expr call[] = {roco_grammar_until(g, "aab", 3), roco_grammar_text(g, "12", 2)};
    const roco_expr root = roco_grammar_choice(
        g, (const roco_expr[]){roco_grammar_without(g, "aab", 3), roco_grammar_sequence(g, call, 2)}, 2);
    roco_constraint *c = NULL;
    assert_int_equal(roco_constraint_compile(g, "tools", root, f.vocabulary, &c, NULL), ROCO_OK);
    roco_grammar_close(g);
    assert_true(matches(&f, c, ""));
    assert_true(matches(&f, c, "xaaxb"));
    assert_false(matches(&f, c, "xaaab"));
    assert_true(matches(&f, c, "xaaab12"));
    assert_false(matches(&f, c, "xaaab1"));
    assert_false(matches(&f, c, "xaaab123"));
    roco_constraint_release(c);
    fixture_close(&f);
}

/* Far more states than the store holds: it forgets, and goes on. */
static void test_store_is_bounded(void **state)
{
    fixture f = fixture_open(texts, N_TEXTS, 0);
    roco_constraint *c = NULL;
    assert_int_equal(compile(&f, REGEX, "((ab|cd|ef){1,900}x){1,900}", &c, NULL), ROCO_OK);
    roco_matcher *one = roco_matcher_open(c, f.masks), *two = roco_matcher_open(c, f.masks);
    assert_int_equal(roco_matcher_advance_bytes(two, "abcd", 4), ROCO_OK);
    for (unsigned i = 0; i < 120000; i++)
        assert_int_equal(roco_matcher_advance_bytes(one, i % 800 ? "abcdef" + i % 3 * 2 : "abx", i % 800 ? 2 : 3),
                         ROCO_OK);
    assert_int_equal(roco_matcher_advance_bytes(two, "x", 1), ROCO_OK);
    assert_true(roco_matcher_may_end(two));
    roco_matcher_close(one);
    roco_matcher_close(two);
    roco_constraint_release(c);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_equal_tries), cmocka_unit_test(test_counts_share_masks),
        cmocka_unit_test(test_control_tokens),    cmocka_unit_test(test_triggered),
        cmocka_unit_test(test_store_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
