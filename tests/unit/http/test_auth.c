/* API keys: what a key file may hold, and which Authorization values are accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static roco_status read_over(const roco_api_keys *before, const char *text, size_t size, roco_api_keys **keys,
                             roco_error *error)
{
    char path[] = "/tmp/roco-keys-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, text, size), size);
    close(file);
    roco_status status = roco_api_keys_read(path, before, keys, error);
    unlink(path);
    return status;
}

static roco_status read_text(const char *text, size_t size, roco_api_keys **keys, roco_error *error)
{
    return read_over(NULL, text, size, keys, error);
}

static bool accept(const roco_api_keys *keys, const char *header)
{
    roco_account *account;
    return roco_api_keys_accept(keys, header, &account);
}

static roco_account *owner(const roco_api_keys *keys, const char *header)
{
    roco_account *account;
    assert_true(roco_api_keys_accept(keys, header, &account));
    return account;
}

static void test_file_forms(void **state)
{
    static const char text[] = "# who may use it\n\n  alpha \t\r\nbeta\n\tgamma-with=odd/chars+";
    roco_api_keys *keys;
    assert_int_equal(read_text(text, sizeof text - 1, &keys, NULL), ROCO_OK);
    assert_int_equal(roco_api_keys_count(keys), 3);
    assert_true(accept(keys, "Bearer alpha"));
    assert_true(accept(keys, "bearer  beta "));
    assert_true(accept(keys, "BEARER gamma-with=odd/chars+"));
    assert_false(accept(keys, "Bearer # who may use it"));
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
    assert_int_equal(roco_api_keys_read("/nonexistent/keys", NULL, &keys, &error), ROCO_IO);
    assert_int_equal(roco_api_keys_read("/", NULL, &keys, &error), ROCO_IO);
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
    assert_false(accept(keys, NULL));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (accept(keys, refused[i]))
            fail_msg("accepted: %s", refused[i]);
    char endless[4096];
    memset(endless, 'a', sizeof endless);
    memcpy(endless, "Bearer ", 7);
    endless[sizeof endless - 1] = '\0';
    assert_false(accept(keys, endless));
    assert_true(accept(keys, "Bearer secret-key"));
    assert_true(accept(keys, "Bearer other"));
    roco_api_keys_free(keys);
}

static void test_names_and_limits(void **state)
{
    static const char text[] = "k1 name=alice running=2 queued=0 tokens-per-minute=600\n"
                               "k2\tname=bob  \n"
                               "k3= name=alice\n"
                               "k4\n";
    roco_api_keys *keys;
    assert_int_equal(read_text(text, sizeof text - 1, &keys, NULL), ROCO_OK);
    assert_int_equal(roco_api_keys_count(keys), 4);
    assert_int_equal(roco_api_keys_count_accounts(keys), 2);
    const roco_account *alice = owner(keys, "Bearer k1"), *bob = owner(keys, "Bearer k2");
    assert_ptr_equal(alice, owner(keys, "Bearer k3="));
    assert_null(owner(keys, "Bearer k4"));
    assert_string_equal(alice->name, "alice");
    assert_int_equal(alice->share.max_running, 2);
    assert_int_equal(alice->share.max_queued, 0);
    assert_int_equal(alice->limits.tokens_per_minute, 600);
    assert_int_equal(bob->share.max_running, ROCO_SHARE_UNLIMITED);
    assert_int_equal(bob->limits.tokens_per_minute, 0);
    roco_api_keys_free(keys);
}

static void test_faults_of_names_and_limits(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"k name=\n", "line 1: name must be"},
        {"ok\nk name=a/b\n", "line 2: name must be"},
        {"k name=a running=0\n", "running must be 1 to"},
        {"k name=a queued=-1\n", "queued must be 0 to"},
        {"k name=a tokens-per-minute=99999999999\n", "tokens-per-minute must be 1 to"},
        {"k name=a running=2x\n", "running must be"},
        {"k running=2\n", "needs a name="},
        {"k name=a burst=2\n", "behind a key may stand"},
        {"k name=a running=1\nl name=a running=2\n", "line 2: the limits of a were given on an earlier line"},
        {"k\n\nk name=a\n", "line 3: the key is there twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        roco_api_keys *keys;
        roco_error error;
        assert_int_equal(read_text(rows[i].text, strlen(rows[i].text), &keys, &error), ROCO_INVALID);
        if (!strstr(error.message, rows[i].says))
            fail_msg("\"%s\" does not say \"%s\"", error.message, rows[i].says);
    }
}

/* What is used stays used under another key and other limits; who is gone from the file stays for who holds it. */
static void test_reading_again(void **state)
{
    static const char first[] = "k1 name=alice running=2\nk2 name=bob\n", wrong[] = "k3 name=alice running=7\nk4 x\n",
                      second[] = "k3 name=alice running=5\n";
    roco_api_keys *old, *keys;
    assert_int_equal(read_text(first, sizeof first - 1, &old, NULL), ROCO_OK);
    roco_account *alice = owner(old, "Bearer k1");
    roco_account *bob;
    assert_true(roco_api_keys_accept(old, "Bearer k2", &bob));
    roco_account_hold(bob);
    roco_account_charge(alice, 10, 5);
    assert_int_equal(read_over(old, wrong, sizeof wrong - 1, &keys, NULL), ROCO_INVALID);
    assert_int_equal(alice->share.max_running, 2);
    assert_int_equal(read_over(old, second, sizeof second - 1, &keys, NULL), ROCO_OK);
    roco_api_keys_free(old);
    assert_ptr_equal(owner(keys, "Bearer k3"), alice);
    assert_int_equal(alice->share.max_running, 5);
    assert_int_equal(alice->prompt_tokens, 10);
    assert_false(accept(keys, "Bearer k2"));
    assert_string_equal(bob->name, "bob");
    roco_account_release(bob);
    roco_api_keys_free(keys);
}

static void test_tokens_per_minute(void **state)
{
    const uint64_t second = 1000000000u;
    const roco_account_limits limits = {1, 1, 600};
    roco_account *a = roco_account_open("a", &limits, 5 * second);
    assert_int_equal(roco_account_wait_s(a, 5 * second), 0);
    roco_account_charge(a, 500, 99);
    assert_int_equal(roco_account_wait_s(a, 5 * second), 0); /* one is left: what begins now may go below */
    roco_account_charge(a, 100, 301);
    assert_int_equal(roco_account_wait_s(a, 5 * second), 41); /* 400 below and one to go on, at 10 a second */
    assert_int_equal(roco_account_wait_s(a, 45 * second), 1);
    assert_int_equal(roco_account_wait_s(a, 46 * second), 0);
    assert_int_equal(roco_account_wait_s(a, 1000 * second), 0);
    roco_account_charge(a, 600, 0); /* no more than a minute's worth was saved up */
    assert_int_equal(roco_account_wait_s(a, 1000 * second), 1);
    const roco_account_limits none = {1, 1, 0};
    roco_account_set_limits(a, &none, 1000 * second);
    assert_int_equal(roco_account_wait_s(a, 1000 * second), 0);
    roco_account_release(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_forms),
        cmocka_unit_test(test_file_faults),
        cmocka_unit_test(test_refused_values),
        cmocka_unit_test(test_names_and_limits),
        cmocka_unit_test(test_faults_of_names_and_limits),
        cmocka_unit_test(test_reading_again),
        cmocka_unit_test(test_tokens_per_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
