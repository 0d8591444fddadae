/* Regular expressions: against the C library's over random patterns and texts, and what the dialect says beyond. */
#include "support_grammar.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void put(char *out, size_t size, const char *text)
{
    strncat(out, text, size - strlen(out) - 1);
}

/* A random pattern in what both dialects know. */
static void make_pattern(uint64_t *seed, unsigned depth, char *out, size_t size)
{
    static const char *const atoms[] = {"a", "b", "c", "[ab]", "[^a]", "[a-c]"};
    static const char *const counts[] = {"*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"};
    const unsigned n = 1 + random_below(seed, 3);
    for (unsigned i = 0; i < n; i++) {
        if (depth > 0 && random_below(seed, 3) == 0) {
            put(out, size, "(");
            make_pattern(seed, depth - 1, out, size);
            if (random_below(seed, 2)) {
                put(out, size, "|");
                make_pattern(seed, depth - 1, out, size);
            }
            put(out, size, ")");
        } else {
            put(out, size, atoms[random_below(seed, 6)]);
        }
        if (random_below(seed, 3) == 0)
            put(out, size, counts[random_below(seed, 7)]);
    }
}

static void test_random_patterns(void **state)
{
    fixture f = fixture_open(NULL, 0, 0);
    uint64_t seed = 1;
    unsigned n_good = 0;
    for (unsigned round = 0; round < 400; round++) {
        char pattern[256] = "", anchored[300], text[12];
        make_pattern(&seed, 3, pattern, sizeof pattern - 8);
        snprintf(anchored, sizeof anchored, "^(%s)$", pattern);
        regex_t oracle;
        if (regcomp(&oracle, anchored, REG_EXTENDED | REG_NOSUB))
            continue;
        roco_constraint *c = NULL;
        roco_error error = {0};
        if (compile(&f, REGEX, pattern, &c, &error))
            fail_msg("%s: %s", pattern, error.message);
        for (unsigned i = 0; i < 200; i++) {
            const unsigned size = random_below(&seed, sizeof text);
            for (unsigned k = 0; k < size; k++)
                text[k] = (char)('a' + random_below(&seed, 3));
            text[size] = '\0';
            const bool expected = regexec(&oracle, text, 0, NULL, 0) == 0;
            n_good += expected;
            if (matches(&f, c, text) != expected)
                fail_msg("%s on \"%s\": expected %d", pattern, text, expected);
        }
        roco_constraint_release(c);
        regfree(&oracle);
    }
    assert_in_range(n_good, 1000, 80000); /* the comparison says something */
    fixture_close(&f);
}

static void test_dialect(void **state)
{
    static const struct {
        const char *pattern, *good, *bad;
    } cases[] = {
        {"\\d{4}-\\d{2}", "2024-01", "202-01"},
        {"\\w+\\s\\S", "a_9 !", "a_9 \t"},
        {"[^\\s]+", "a\xc3\xa9", "a\xc2\xa0"},
        {"\\D\\W", "a!", "aa"},
        {"^abc$", "abc", "abcd"},
        {"^a$|^b$", "b", "ab"},
        {"(^a|b$)", "b", "c"},
        {"(?:a|b)(?<name>c)(?P<other>d)", "acd", "abcd"},
        {"a.c",
         "a\xf0\x9f\x98\x80"
         "c",
         "a\nc"},
        {"[\\x41-\\u0043]\\u{1F600}", "B\xf0\x9f\x98\x80", "D\xf0\x9f\x98\x80"},
        {"\\ud83d\\ude00", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x81"},
        {"[\xc3\xa0-\xc3\xbf]+", "\xc3\xa9\xc3\xbf", "\xc3\x9f"},
        {"[^\xc3\xa9]", "\xe2\x82\xac", "\xc3\xa9"},
        {"a{2,3}?b*?", "aab", "ab"},
        {"a{,2}", "a{,2}", "aa"},
        {"(a{1,3}){2}", "aaaaaa", "aaaaaaa"},
        {"(a?){3}", "", "aaaa"},
        {"((ab?)*){2,4}c", "abac", "bc"},
        {"(a*b?){2,3}", "aabab", "bbbb"},
        {"[a-z]{2,300}", "zz", "z"},
        {"(?:[ab]{3,30}x){1,2}", "aaaxbbbx", "aax"},
        {"[]a", "never", "a"},
        {"[^]", "\n", "ab"},
        {"\\/\\.\\-\\[", "/.-[", "/x-["},
        {"[\\]\\-x]+", "]-x", "\\"},
    };
    fixture f = fixture_open(NULL, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        roco_constraint *c = NULL;
        roco_error error = {0};
        const roco_status status = compile(&f, REGEX, cases[i].pattern, &c, &error);
        if (strcmp(cases[i].good, "never") == 0) {
            assert_int_equal(status, ROCO_INVALID);
            continue;
        }
        if (status)
            fail_msg("%s: %s", cases[i].pattern, error.message);
        if (!matches(&f, c, cases[i].good))
            fail_msg("%s must match %s", cases[i].pattern, cases[i].good);
        if (matches(&f, c, cases[i].bad))
            fail_msg("%s must not match %s", cases[i].pattern, cases[i].bad);
        roco_constraint_release(c);
    }
    fixture_close(&f);
}

static void test_refused(void **state)
{
    static const struct {
        const char *pattern;
        roco_status status;
    } cases[] = {
        {"\\u{110000}", ROCO_INVALID},
        {"\\ud800\\u0041", ROCO_INVALID},
        {"\\udbff\\uffff", ROCO_INVALID},
        {"(a", ROCO_INVALID},
        {"a)", ROCO_INVALID},
        {"[a", ROCO_INVALID},
        {"*a", ROCO_INVALID},
        {"a**", ROCO_INVALID},
        {"[b-a]", ROCO_INVALID},
        {"a{3,2}", ROCO_INVALID},
        {"\\", ROCO_INVALID},
        {"\\x4", ROCO_INVALID},
        {"\xff", ROCO_INVALID},
        {"(?<n", ROCO_INVALID},
        {"\\bword", ROCO_UNSUPPORTED},
        {"(a)\\1", ROCO_UNSUPPORTED},
        {"(?=a)a", ROCO_UNSUPPORTED},
        {"(?<!a)b", ROCO_UNSUPPORTED},
        {"(?i)a", ROCO_UNSUPPORTED},
        {"a$b", ROCO_UNSUPPORTED},
        {"a(^b)", ROCO_UNSUPPORTED},
        {"a++", ROCO_UNSUPPORTED},
        {"\\p{L}", ROCO_UNSUPPORTED},
        {"[[:alpha:]]", ROCO_UNSUPPORTED},
        {"a{1000001}", ROCO_TOO_LARGE},
        {"[]", ROCO_INVALID},
    };
    fixture f = fixture_open(NULL, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        roco_constraint *c = NULL;
        roco_error error = {0};
        if (compile(&f, REGEX, cases[i].pattern, &c, &error) != cases[i].status)
            fail_msg("%s: %d, %s", cases[i].pattern, error.status, error.message);
        assert_true(strlen(error.message) > 0 && strlen(error.field) > 0);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_patterns),
        cmocka_unit_test(test_dialect),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
