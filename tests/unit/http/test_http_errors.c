/* The error object's text: always JSON, whatever the words were made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/errors.h"

static void check(const char *param, const char *code, const char *message, const char *expected)
{
    roco_buffer out = {0};
    assert_int_equal(roco_http_error_body(&out, roco_http_error_type(400), param, code, message), ROCO_OK);
    assert_string_equal(out.data, expected);
    roco_buffer_free(&out);
}

static void test_text(void **state)
{
    check("n", "bad_value", "n must be 1 to 8",
          "{\"error\":{\"message\":\"n must be 1 to 8\",\"type\":\"invalid_request_error\",\"param\":\"n\","
          "\"code\":\"bad_value\"}}");
    check(NULL, NULL, NULL,
          "{\"error\":{\"message\":\"\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
    check("a\"b", NULL, "back\\slash \n \x1f \x7f \xff\xc3\xa9",
          "{\"error\":{\"message\":\"back\\\\slash \\u000a \\u001f ? ???\",\"type\":\"invalid_request_error\","
          "\"param\":\"a\\\"b\",\"code\":null}}");
}

static void test_types(void **state)
{
    assert_string_equal(roco_http_error_type(404), "invalid_request_error");
    assert_string_equal(roco_http_error_type(401), "authentication_error");
    assert_string_equal(roco_http_error_type(429), "rate_limit_error");
    assert_string_equal(roco_http_error_type(500), "server_error");
    assert_string_equal(roco_http_error_type(503), "server_error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
