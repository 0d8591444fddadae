/* UTF-8 validity and character boundaries, over every class of malformed sequence. */
#include "config/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static size_t encode(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6) {
        out[i] = (char)(0x80 | (code & 0x3F));
    }
    static const unsigned char mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(mark[length] | code);
    return length;
}

static void every_code_point_is_read_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char text[4];
        uint32_t got = UINT32_MAX;
        size_t length = encode(code, text);
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        assert_int_equal(roco_utf8_next(text, length, &got), surrogate ? 0 : length);
        assert_int_equal(got, surrogate ? UINT32_MAX : code);
        assert_int_equal(roco_utf8_valid(text, length), !surrogate);
    }
}

static void malformed_sequences_are_refused(void **state)
{
    (void)state;
    static const char *bad[] = {"\x80",
                                "\xBF",
                                "\xC0\x80",
                                "\xC1\xBF",
                                "\xC2",
                                "\xC2\x41",
                                "\xE0\x80\x80",
                                "\xE0\x9F\xBF",
                                "\xED\xA0\x80",
                                "\xED\xBF\xBF",
                                "\xE2\x82",
                                "\xE2\x41\x82",
                                "\xF0\x80\x80\x80",
                                "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80",
                                "\xF0\x9F\x98",
                                "\xF5\x80",
                                "\xFE",
                                "\xFF"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(roco_utf8_valid(bad[i], strlen(bad[i])));
        char text[32] = "0123456789";
        strcpy(text + 10, bad[i]);
        assert_int_equal(roco_utf8_valid_prefix(text, strlen(text)), 10);
    }
    assert_true(roco_utf8_valid("", 0));
    assert_true(roco_utf8_valid("a\0b", 3));
}

static void check_complete(const char *text, size_t want)
{
    assert_int_equal(roco_utf8_complete_prefix(text, strlen(text)), want);
}

static void only_an_end_that_can_still_become_valid_is_held_back(void **state)
{
    (void)state;
    check_complete("", 0);
    check_complete("abc", 3);
    check_complete("ab\xC3\xA9", 4);
    check_complete("ab\xC3", 2);
    check_complete("ab\xE2\x82", 2);
    check_complete("ab\xE2\x82\xAC", 5);
    check_complete("ab\xF0\x9F\x98", 2);
    check_complete("\xF0", 0);
    check_complete("ab\xF0\x9F\x98\x80", 6);
    check_complete("ab\xE0\x80", 4); /* overlong: no third byte can mend it */
    check_complete("ab\xED\xA0", 4); /* surrogate */
    check_complete("ab\xF4\x90", 4); /* above U+10FFFF */
    check_complete("ab\xFF", 3);
    check_complete("ab\x80\x80\x80\x80", 6);
    check_complete("ab\xC3\x28", 4);
    check_complete("\x80", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_read_back),
        cmocka_unit_test(malformed_sequences_are_refused),
        cmocka_unit_test(only_an_end_that_can_still_become_valid_is_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
