#include "config/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_fail_fills_the_record_and_returns_the_status(void **state)
{
    roco_error error;
    assert_int_equal(roco_fail(&error, ROCO_TOO_LARGE, "n", "n is %d, allowed: 1 to %d", 9, 8), ROCO_TOO_LARGE);
    assert_int_equal(error.status, ROCO_TOO_LARGE);
    assert_string_equal(error.field, "n");
    assert_string_equal(error.message, "n is 9, allowed: 1 to 8");
}

static void test_fail_without_record_or_field(void **state)
{
    roco_error error;
    assert_int_equal(roco_fail(NULL, ROCO_IO, "x", "gone"), ROCO_IO);
    assert_int_equal(roco_fail(&error, ROCO_IO, NULL, "gone"), ROCO_IO);
    assert_string_equal(error.field, "");
}

static void test_long_words_are_cut(void **state)
{
    roco_error error;
    char name[200];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    roco_fail(&error, ROCO_INVALID, name, "%0*d", 2000, 1);
    assert_int_equal(strlen(error.field), sizeof error.field - 1);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
}

static void test_every_status_has_a_text_and_an_http_status(void **state)
{
#define X(name, value, text, http)                                                                                     \
    assert_string_equal(roco_status_text(ROCO_##name), text);                                                          \
    assert_int_equal(roco_status_http(ROCO_##name), http);
    ROCO_STATUS_MAP(X)
#undef X
    assert_string_equal(roco_status_text((roco_status)-99), "unknown status");
    assert_int_equal(roco_status_http((roco_status)-99), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_fills_the_record_and_returns_the_status),
        cmocka_unit_test(test_fail_without_record_or_field),
        cmocka_unit_test(test_long_words_are_cut),
        cmocka_unit_test(test_every_status_has_a_text_and_an_http_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
