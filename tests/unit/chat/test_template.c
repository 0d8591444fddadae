/* What goldens do not show: where bytes come from, limits, and what errors say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chat/template.h"
#include "config/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Renders with `user` (foreign), `word` (foreign, of another origin) and `role` (own). */
static roco_status render(const char *source, const char *user, const roco_render_limits *limits, size_t memory,
                          roco_rendering *out, roco_error *error)
{
    roco_template *template = NULL;
    roco_status status = roco_template_open(source, strlen(source), &template, error);
    if (status)
        return status;
    roco_region region = {.limit = memory};
    roco_value globals, value;
    assert_true(roco_value_dict(&region, 4, &globals));
    assert_true(roco_value_string(&region, user, strlen(user), 1, &value));
    assert_true(roco_dict_put_named(&region, globals.dict, "user", value));
    assert_true(roco_value_string(&region, "word", 4, 2, &value));
    assert_true(roco_dict_put_named(&region, globals.dict, "word", value));
    assert_true(roco_value_string(&region, "role", 4, 0, &value));
    assert_true(roco_dict_put_named(&region, globals.dict, "role", value));
    status = roco_template_render(template, globals.dict, &region, limits, 0, out, error);
    roco_region_free(&region);
    roco_template_close(template);
    return status;
}

/* --- origin --- */

/* `wanted` has the mark of each byte: '.' own, '1' and '2' foreign. */
static void check_marks(const char *source, const char *user, const char *text, const char *wanted)
{
    roco_rendering out = {0};
    roco_error error = {0};
    if (render(source, user, &ROCO_RENDER_LIMITS, ROCO_RENDER_MEMORY, &out, &error))
        fail_msg("%s: %s", source, error.message);
    assert_string_equal(out.text.data, text);
    assert_int_equal(out.foreign.size, out.text.size);
    for (size_t i = 0; i < out.text.size; i++) {
        char mark = out.foreign.data[i] ? (char)('0' + out.foreign.data[i]) : '.';
        if (mark != wanted[i])
            fail_msg("%s: byte %zu of \"%s\" is '%c', not '%c'", source, i, text, mark, wanted[i]);
    }
    roco_rendering_free(&out);
}

static void test_origin_is_kept(void **state)
{
    check_marks("<{{ role }}>{{ user }}</>", "abc", "<role>abc</>", "......111...");
    check_marks("{{ '<' + user + '>' + word }}", "abc", "<abc>word", ".111.2222");
    check_marks("{{ '<' ~ user ~ 1 ~ word ~ none }}", "ab", "<ab1wordNone", ".11.2222....");
    check_marks("{{ ('<' ~ user)[1:3] }}{{ ('<' ~ user)[::-1] }}", "abc", "abcba<", "11111.");
    check_marks("{{ ('(' ~ user ~ ')')[-1] }}", "abc", ")", ".");
    check_marks("{{ user | upper }}{{ user | trim }}{{ user | title }}", " a b ", " A B a b A B ", "1111111111111");
    check_marks("{{ 'x-x'.replace('-', user) }}", "ab", "xabx", ".11.");
    check_marks("{{ user.replace('b', '<>') }}", "abc", "a<>c", "1..1");
    check_marks("{{ [user, 'x', word] | join('|') }}", "ab", "ab|x|word", "11...2222");
    check_marks("{{ user.split(',') | join(';') }}", "a,b", "a;b", "1.1");
    check_marks("{{ {'k': user} | tojson }}", "a\"b", "{\"k\": \"a\\\"b\"}", ".......1111..");
    check_marks("{{ [user] }}{{ (user,) }}", "a\n", "['a\\n']('a\\n',)", "..111....111...");
    check_marks("{{ '%s=%s' % ('a', user) }}{{ '{}!'.format(user) }}", "b", "a=bb!", "..11.");
    check_marks("{{ 'a' * 2 }}{{ user * 2 }}", "b", "aabb", "..11");
    check_marks("{% set x %}[{{ user }}]{% endset %}{{ x }}", "a", "[a]", ".1.");
    check_marks("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(user) | indent(2, true) }}", "a\nb", "  <a\n  b>",
                "...1...1.");
    check_marks("{{ user | length }}{{ user is string }}{{ user == 'abc' }}", "abc", "3TrueTrue", ".........");
    check_marks("{% for c in user %}{{ c }},{% endfor %}", "ab", "a,b,", "1.1.");
    check_marks("{{ dict(a=user).a }}{{ namespace(b=word).b }}{{ dict([('k', user)]) }}", "x", "xword{'k': 'x'}",
                "12222.......1..");
    check_marks("{{ (user ~ '-').strip('-') ~ ('-' ~ user ~ '-').strip() }}", "a", "a-a-", "1.1.");
    check_marks("{{ user | default('x') }}{{ nothing | default(user) }}{{ user | first }}{{ user | last }}", "ab",
                "ababab", "111111");
}

/* --- limits --- */

static const roco_render_limits small = {
    .steps = 1000000, .depth = 200, .output_bytes = 1 << 20, .time_ns = 2000000000};

static void check_refused(const char *source, const char *words)
{
    roco_rendering out = {0};
    roco_error error = {0};
    uint64_t start = roco_now_ns();
    if (render(source, "x", &small, 64 << 20, &out, &error) == ROCO_OK)
        fail_msg("rendered: %.100s", source);
    if (!strstr(error.message, words))
        fail_msg("%.100s: \"%s\" does not say \"%s\"", source, error.message, words);
    assert_true(roco_now_ns() - start < 10000000000);
    roco_rendering_free(&out);
}

static void test_too_much_work_is_refused(void **state)
{
    check_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps");
    check_refused("{% for a in range(100001) %}{% endfor %}", "range");
    check_refused("{% for a in range(99999) %}twenty bytes of text{% endfor %}", "over 1048576 bytes");
    check_refused("{{ 'x' * 1000000000000 }}", "steps");
    check_refused("{{ ('x' * 100000) * 1000000 }}", "bytes");
    check_refused("{{ [0] * 1000000000000 }}", "steps");
    check_refused("{% set ns = namespace(x='ab') %}{% for a in range(99999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
                  "bytes");
    check_refused("{% macro f() %}{% endmacro %}"
                  "{% for a in range(99999) %}{% set x = [f(), f(), f()] %}{% endfor %}",
                  "memory");
    check_refused("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "levels");
    check_refused("{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(0) }}", "levels");
    check_refused("{% set ns = namespace() %}{% set ns.x = [ns] %}{% for i in range(99) %}{% set ns.x = [ns.x] %}"
                  "{% endfor %}{% for i in range(999) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
                  "levels");
    check_refused("{% set ns = namespace(a=1, b=1) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
                  "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
                  "steps");
    check_refused("{{ 2 ** 63 }}", "64 bits");
    check_refused("{{ 9223372036854775807 + 1 }}", "64 bits");
    check_refused("{{ (-9223372036854775807 - 1) // -1 }}", "64 bits");
    check_refused("{{ 9223372036854775808 }}", "64 bits");
    check_refused("{{ '%9999999999d' % 1 }}", "characters");
    check_refused("{{ '%200d' % 1 }}", "characters");
    check_refused("{{ 'x'.center(99999999999) }}", "");
    check_refused("{{ 'aaaaaaaaaa'.split('') }}", "empty");
    check_refused("{% set ns = namespace(x='a') %}{% for i in range(17) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
                  "{% for i in range(99999) %}{% set y = ns.x.replace('a', 'b') %}{% endfor %}",
                  "steps");
}

static void test_deep_sources_are_refused(void **state)
{
    static const struct {
        const char *before, *again, *after, *words;
    } deep[] = {
        {"{{ ", "(", "", "brackets are open"},
        {"{{ ", "[", "", "brackets are open"},
        {"{{ ", "{1:", "", "brackets are open"},
        {"{{ ", "not ", "1 }}", "levels inside each other"},
        {"{{ ", "-", "1 }}", "levels inside each other"},
        {"{{ 1", " if 1 else 1", " }}", "levels inside each other"},
        {"", "{% if 1 %}", "", "levels inside each other"},
        {"", "{% for x in y %}", "", "levels inside each other"},
    };
    enum { TIMES = 20000 };
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        size_t size = strlen(deep[i].again), at = strlen(deep[i].before);
        char *source = calloc(1, 16 + TIMES * size);
        memcpy(source, deep[i].before, at);
        for (size_t k = 0; k < TIMES; k++, at += size)
            memcpy(source + at, deep[i].again, size);
        memcpy(source + at, deep[i].after, strlen(deep[i].after));
        check_refused(source, deep[i].words);
        free(source);
    }
    /* A chain is no depth to the parser, but is one to what walks the tree. */
    char *chain = calloc(1, 2 * TIMES + 16);
    strcpy(chain, "{{ 1");
    for (size_t k = 0; k < TIMES; k++)
        memcpy(chain + 4 + 2 * k, "+1", 2);
    memcpy(chain + 4 + 2 * TIMES, " }}", 3);
    check_refused(chain, "levels");
    free(chain);
}

static void test_time_is_limited(void **state)
{
    const roco_render_limits brief = {.steps = UINT64_MAX, .depth = 200, .output_bytes = 1 << 20, .time_ns = 50000000};
    roco_rendering out = {0};
    roco_error error = {0};
    uint64_t start = roco_now_ns();
    assert_int_equal(render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "x",
                            &brief, ROCO_RENDER_MEMORY, &out, &error),
                     ROCO_TOO_LARGE);
    assert_non_null(strstr(error.message, "too long"));
    assert_true(roco_now_ns() - start < 2000000000);
    roco_rendering_free(&out);
}

static void test_sources_that_are_refused_whole(void **state)
{
    roco_template *template = NULL;
    roco_error error;
    char *large = calloc(1, ROCO_TEMPLATE_MAX_BYTES + 1);
    memset(large, 'x', ROCO_TEMPLATE_MAX_BYTES + 1);
    assert_int_equal(roco_template_open(large, ROCO_TEMPLATE_MAX_BYTES + 1, &template, &error), ROCO_TOO_LARGE);
    assert_int_equal(roco_template_open(large, ROCO_TEMPLATE_MAX_BYTES, &template, &error), ROCO_OK);
    roco_template_close(template);
    free(large);
    assert_int_equal(roco_template_open("\xff", 1, &template, &error), ROCO_FORMAT);
    assert_int_equal(roco_template_open("", 0, &template, &error), ROCO_OK);
    roco_template_close(template);
}

/* --- errors --- */

static void test_errors_name_the_line(void **state)
{
    check_refused("a\nb\n{{ x.y }}", "line 3: 'x' is undefined");
    check_refused("{{ raise_exception('no\\nsystem ' ~ user) }}", "line 1: no system x");
    check_refused("{% if a %}\n\n{{ 1 | nosuch }}{% endif %}{{ 1 | nosuch }}", "line 3: there is no filter 'nosuch'");
    check_refused("{{ 1 is nosuch }}", "there is no test 'nosuch'");
    check_refused("\n{% nosuch %}", "line 2: a tag roco knows was expected, not 'nosuch'");
    check_refused("{% include 'x' %}", "not 'include'");
    check_refused("\n\n{{ 'a }}", "line 3: the string has no end");
    check_refused("{{ 1 +* 2 }}", "a value was expected, not '*'");
    check_refused("{% for x in y %}", "endfor was expected");
    check_refused("{{ (1] }}", "']' closes nothing");
    check_refused("{# x", "the comment has no end");
    check_refused("{{ 1", "the tag has no end");
    check_refused("{{ user.append(1) }}", "undefined");
    check_refused("{{ [1].append(1) }}", "may not change a list");
    check_refused("{{ ''.__class__.mro() }}", "undefined");
    check_refused("{{ 1 ! 2 }}", "0x21");
}

/* A text that is cut stays UTF-8. */
static void test_long_words_of_the_template_are_cut(void **state)
{
    char source[1200] = "{{ raise_exception('";
    for (size_t i = 0; i < 500; i++)
        strcat(source, "é");
    strcat(source, "') }}");
    roco_rendering out = {0};
    roco_error error = {0};
    assert_int_equal(render(source, "x", &small, ROCO_RENDER_MEMORY, &out, &error), ROCO_INVALID);
    size_t size = strlen(error.message);
    assert_true(size > 200 && size < 400 && memcmp(error.message + size - 2, "é", 2) == 0);
}

/* --- threads --- */

typedef struct sharer {
    const roco_template *template;
    bool wrong;
} sharer;

static void *share(void *context)
{
    sharer *s = context;
    for (int i = 0; i < 200; i++) {
        roco_region region = {.limit = ROCO_RENDER_MEMORY};
        roco_rendering out = {0};
        roco_value globals;
        roco_value_dict(&region, 1, &globals);
        roco_dict_put_named(&region, globals.dict, "n", roco_int(i));
        char wanted[16];
        snprintf(wanted, sizeof wanted, "%d", 3 * i);
        if (roco_template_render(s->template, globals.dict, &region, &ROCO_RENDER_LIMITS, 0, &out, NULL) ||
            strcmp(out.text.data, wanted) != 0)
            s->wrong = true;
        roco_rendering_free(&out);
        roco_region_free(&region);
    }
    return NULL;
}

static void test_threads_share_a_template(void **state)
{
    static const char source[] =
        "{% set ns = namespace(s=0) %}{% for i in range(3) %}{% set ns.s = ns.s + n %}{% endfor %}{{ ns.s }}";
    roco_template *template = NULL;
    assert_int_equal(roco_template_open(source, strlen(source), &template, NULL), ROCO_OK);
    pthread_t threads[4];
    sharer sharers[4];
    for (int i = 0; i < 4; i++) {
        sharers[i] = (sharer){template, false};
        pthread_create(&threads[i], NULL, share, &sharers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_false(sharers[i].wrong);
    }
    roco_template_close(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origin_is_kept),
        cmocka_unit_test(test_too_much_work_is_refused),
        cmocka_unit_test(test_deep_sources_are_refused),
        cmocka_unit_test(test_time_is_limited),
        cmocka_unit_test(test_sources_that_are_refused_whole),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_long_words_of_the_template_are_cut),
        cmocka_unit_test(test_threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
