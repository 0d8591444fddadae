/* API keys: what a key file may hold, and which Authorization values are accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static roco_status read_text(const char *text, size_t size, roco_api_keys **keys, roco_error *error)
{
    char path[] = "/tmp/roco-keys-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, text, size), size);
    close(file);
    roco_status status = roco_api_keys_read(path, keys, error);
    unlink(path);
    return status;
}

static void test_file_forms(void **state)
{
    static const char text[] = "# who may use it\n\n  alpha \t\r\nbeta\n\tgamma-with=odd/chars+";
    roco_api_keys *keys;
    assert_int_equal(read_text(text, sizeof text - 1, &keys, NULL), ROCO_OK);
    assert_int_equal(roco_api_keys_count(keys), 3);
    assert_true(roco_api_keys_accept(keys, "Bearer alpha"));
    assert_true(roco_api_keys_accept(keys, "bearer  beta "));
    assert_true(roco_api_keys_accept(keys, "BEARER gamma-with=odd/chars+"));
    assert_false(roco_api_keys_accept(keys, "Bearer # who may use it"));
    roco_api_keys_free(keys);
}

static void test_file_faults(void **state)
{
    roco_api_keys *keys;
    roco_error error;
    char longest[ROCO_API_KEY_MAX + 2];
    memset(longest, 'k', sizeof longest);
    assert_int_equal(read_text("", 0, &keys, &error), ROCO_INVALID);
    assert_string_equal(error.field, "api-key-file");
    assert_int_equal(read_text("# only\n\n", 8, &keys, &error), ROCO_INVALID);
    assert_int_equal(read_text("two words\n", 10, &keys, &error), ROCO_INVALID);
    assert_int_equal(read_text("caf\xc3\xa9\n", 6, &keys, &error), ROCO_INVALID);
    assert_int_equal(read_text("a\0b\n", 4, &keys, &error), ROCO_INVALID);
    assert_int_equal(read_text(longest, ROCO_API_KEY_MAX + 1, &keys, &error), ROCO_INVALID);
    assert_null(keys);
    assert_int_equal(read_text(longest, ROCO_API_KEY_MAX, &keys, &error), ROCO_OK);
    roco_api_keys_free(keys);
    assert_int_equal(roco_api_keys_read("/nonexistent/keys", &keys, &error), ROCO_IO);
    assert_int_equal(roco_api_keys_read("/", &keys, &error), ROCO_IO);
}

static void test_refused_values(void **state)
{
    roco_api_keys *keys;
    assert_int_equal(read_text("secret-key\nother\n", 17, &keys, NULL), ROCO_OK);
    static const char *const refused[] = {
        "",
        "Bearer",
        "Bearer ",
        "Bearer      ",
        "Bearer xecret-key",
        "Bearer secret-kex",
        "secret-key",
        "Bearersecret-key",
        "Bearer secret-key1",
        "Bearer secret-ke",
        "Basic secret-key",
        "Bearer secret-key other",
        "Bearer, x",
        "Bearer \x01",
        "Bearer sec\xc3\xa9",
        "Bearer  secret-KEY",
    };
    assert_false(roco_api_keys_accept(keys, NULL));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (roco_api_keys_accept(keys, refused[i]))
            fail_msg("accepted: %s", refused[i]);
    char endless[4096];
    memset(endless, 'a', sizeof endless);
    memcpy(endless, "Bearer ", 7);
    endless[sizeof endless - 1] = '\0';
    assert_false(roco_api_keys_accept(keys, endless));
    assert_true(roco_api_keys_accept(keys, "Bearer secret-key"));
    assert_true(roco_api_keys_accept(keys, "Bearer other"));
    roco_api_keys_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_forms),
        cmocka_unit_test(test_file_faults),
        cmocka_unit_test(test_refused_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
