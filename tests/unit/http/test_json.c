/* Strict reading of bodies, and what replies look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/clock.h"
#include "http/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static roco_status parse_bytes(const char *text, size_t size, roco_error *error)
{
    /* A copy without a NUL behind it: reading past the end is then seen by the sanitizers. */
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    cJSON *value = NULL;
    roco_status status = roco_json_parse(copy, size, &value, error);
    cJSON_Delete(value);
    free(copy);
    return status;
}

static roco_status parse(const char *text, roco_error *error)
{
    return parse_bytes(text, strlen(text), error);
}

static void test_accepts(void **state)
{
    static const char *const good[] = {
        "{}",      " { \"a\" : [ 1 , -2.5e+3 , true , null , \"x\\u00e9\\n\\\"\" ] } \r\n\t",
        "[]",      "0",
        "-0.5E-7", "\"\xf0\x9f\x98\x80\\ud83d\\ude00\"",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(parse(good[i], NULL), ROCO_OK);
}

static void test_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "{\"a\":1",
        "{\"a\":1}}",
        "{\"a\":1} x",
        "{} {}",
        "[1,]",
        "{,}",
        "{\"a\"}",
        "{a:1}",
        "'a'",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "0x10",
        "NaN",
        "Infinity",
        "nul",
        "tru",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\x01\"",
        "\"a\nb\"",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "\xef\xbb\xbf{}",
        "[1\v]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        roco_error error = {0};
        if (parse(bad[i], &error) != ROCO_INVALID)
            fail_msg("accepted: %s", bad[i]);
        assert_true(error.message[0]);
    }
}

static void test_bad_bytes_are_not_repeated(void **state)
{
    roco_error error;
    assert_int_equal(parse("{\"prompt\":\"\xff\xfe\"}", &error), ROCO_INVALID);
    assert_non_null(strstr(error.message, "UTF-8"));
    for (const char *c = error.message; *c; c++)
        assert_true((unsigned char)*c < 0x80);
    assert_int_equal(parse("{\"prompt\":\"\xc4\xe3\xba\xc3\"}", &error), ROCO_INVALID); /* GBK */
    assert_int_equal(parse_bytes("{}\0", 3, &error), ROCO_INVALID);
}

static void test_nul_escape_is_named(void **state)
{
    roco_error error;
    assert_int_equal(parse("{\"prompt\":\"a\\u0000b\"}", &error), ROCO_INVALID);
    assert_non_null(strstr(error.message, "\\u0000"));
    assert_int_equal(parse("\"\\u0001\\u0010\"", &error), ROCO_OK);
    assert_int_equal(parse("\"\\\\u0000\"", &error), ROCO_OK); /* an escaped backslash, then text */
}

static void test_depth(void **state)
{
    char text[2 * (ROCO_JSON_MAX_DEPTH + 1)];
    for (uint32_t depth = ROCO_JSON_MAX_DEPTH; depth <= ROCO_JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(parse_bytes(text, 2 * (size_t)depth, NULL),
                         depth == ROCO_JSON_MAX_DEPTH ? ROCO_OK : ROCO_INVALID);
    }
    size_t size = 100000;
    char *deep = malloc(size);
    assert_non_null(deep);
    memset(deep, '[', size);
    uint64_t start = roco_now_ns();
    assert_int_equal(parse_bytes(deep, size, NULL), ROCO_INVALID);
    assert_true(roco_now_ns() - start < 50000000u);
    free(deep);
}

static void test_numbers(void **state)
{
    roco_error error;
    char digits[128];
    memset(digits, '7', 70);
    digits[70] = '\0';
    assert_int_equal(parse(digits, &error), ROCO_INVALID);
    digits[ROCO_JSON_MAX_NUMBER] = '\0';
    assert_int_equal(parse(digits, &error), ROCO_OK);

    static const struct {
        const char *text;
        bool integer;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"64.0", true, 64},
        {"1e3", true, 1000},
        {"9007199254740991", true, 9007199254740991},
        {"-9007199254740991", true, -9007199254740991},
        {"9007199254740992", false, 0},
        {"9007199254740993", false, 0},
        {"1.5", false, 0},
        {"1e400", false, 0},
        {"-1e400", false, 0},
        {"\"1\"", false, 0},
        {"true", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *value = NULL;
        int64_t integer = 0;
        assert_int_equal(roco_json_parse(cases[i].text, strlen(cases[i].text), &value, NULL), ROCO_OK);
        assert_int_equal(roco_json_integer(value, &integer), cases[i].integer);
        assert_int_equal(integer, cases[i].value);
        cJSON_Delete(value);
    }
}

static void test_value_count(void **state)
{
    size_t n = ROCO_JSON_MAX_VALUES + 1, size = 2 * n + 1;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + 1 + 2 * i, "1,", 2);
    text[0] = '[';
    text[size - 1] = ']';
    roco_error error;
    assert_int_equal(roco_json_scan("the body", text, size, ROCO_JSON_MAX_VALUES, &error), ROCO_INVALID);
    assert_non_null(strstr(error.message, "values"));
    free(text);
}

static void test_writing(void **state)
{
    roco_json_out out = {0};
    const char text[] = "a\"b\\c\n\r\t\x01\x7f\xc3\xa9</script>";
    roco_json_string(&out, text, sizeof text - 1);
    assert_string_equal(out.buffer.data, "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u007f\xc3\xa9</script>\"");
    cJSON *back = cJSON_Parse(out.buffer.data);
    assert_string_equal(back->valuestring, text);
    cJSON_Delete(back);
    roco_buffer_clear(&out.buffer);
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    roco_json_format(&out, "[%lld,\"%s\"]", 1234567890123LL, long_text);
    assert_int_equal(out.buffer.size, 999 + 13 + 5);
    assert_false(out.failed);
    roco_json_out_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_bad_bytes_are_not_repeated),
        cmocka_unit_test(test_nul_escape_is_named),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_value_count),
        cmocka_unit_test(test_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
