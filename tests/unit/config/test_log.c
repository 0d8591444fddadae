/* Reads back what the log writes on file descriptor 2, which each test points at a pipe. */
#include "config/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct capture {
    int read_end, saved_stderr;
} capture;

static capture capture_begin(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    capture c = {.read_end = ends[0], .saved_stderr = dup(STDERR_FILENO)};
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    return c;
}

static size_t capture_end(capture c, char *text, size_t room)
{
    assert_true(dup2(c.saved_stderr, STDERR_FILENO) >= 0);
    close(c.saved_stderr);
    size_t used = 0;
    for (ssize_t n; used < room - 1 && (n = read(c.read_end, text + used, room - 1 - used)) > 0;)
        used += (size_t)n;
    close(c.read_end);
    text[used] = '\0';
    return used;
}

static void test_a_record_is_one_line_with_time_and_level(void **state)
{
    char text[8192];
    capture c = capture_begin();
    roco_log(ROCO_LOG_WARN, "pages %d of %d", 3, 9);
    capture_end(c, text, sizeof text);
    int year, month, day, hour, minute, second, thousandth, length = 0;
    assert_int_equal(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ WARN %n", &year, &month, &day, &hour, &minute, &second,
                            &thousandth, &length),
                     7);
    assert_true(length > 0);
    assert_string_equal(text + length, "pages 3 of 9\n");
}

static void test_the_level_filters(void **state)
{
    char text[8192];
    roco_log_set_level(ROCO_LOG_ERROR);
    capture c = capture_begin();
    roco_log(ROCO_LOG_WARN, "hidden");
    roco_log(ROCO_LOG_ERROR, "shown");
    capture_end(c, text, sizeof text);
    roco_log_set_level(ROCO_LOG_INFO);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "ERROR shown\n"));

    c = capture_begin();
    roco_log(ROCO_LOG_DEBUG, "hidden");
    roco_log_set_level(ROCO_LOG_DEBUG);
    roco_log(ROCO_LOG_DEBUG, "shown");
    capture_end(c, text, sizeof text);
    roco_log_set_level(ROCO_LOG_INFO);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "DEBUG shown\n"));
}

static void test_control_characters_cannot_forge_a_record(void **state)
{
    char text[8192];
    capture c = capture_begin();
    roco_log(ROCO_LOG_INFO, "a\nb\tc\x1b[31md\x7f %s", "\xc3\xa9");
    capture_end(c, text, sizeof text);
    assert_non_null(strstr(text, "a?b?c?[31md? \xc3\xa9\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void test_a_long_record_is_cut_and_still_ends_its_line(void **state)
{
    char text[8192];
    capture c = capture_begin();
    roco_log(ROCO_LOG_INFO, "%0*d", 6000, 1);
    size_t size = capture_end(c, text, sizeof text);
    assert_true(size <= 4096);
    assert_int_equal(text[size - 1], '\n');
}

static void test_errno_is_left_alone(void **state)
{
    char text[8192];
    capture c = capture_begin();
    errno = ENOENT;
    roco_log(ROCO_LOG_INFO, "x");
    int after = errno;
    capture_end(c, text, sizeof text);
    assert_int_equal(after, ENOENT);
}

/* What comes after the level, with time and level checked by their places. */
static const char *after_head(const char *text)
{
    const char *head = strstr(text, "Z\",\"level\":\"warn\",\"message\":\"");
    assert_true(strncmp(text, "{\"time\":\"20", 11) == 0 && head);
    return head + strlen("Z\",\"level\":\"warn\",\"message\":\"");
}

static void test_json_escapes_and_stays_utf8(void **state)
{
    char text[8192];
    roco_log_set_json(true);
    capture c = capture_begin();
    roco_log(ROCO_LOG_WARN, "\"a\\b\"\n\x1b \xc3\xa9 \xff \xe2\x82");
    capture_end(c, text, sizeof text);
    roco_log_set_json(false);
    assert_string_equal(after_head(text), "\\\"a\\\\b\\\"?? \xc3\xa9 ? ??\"}\n");
}

static void test_a_long_json_record_is_cut_between_characters(void **state)
{
    char text[8192], quotes[5000];
    memset(quotes, '"', sizeof quotes - 1);
    quotes[sizeof quotes - 1] = '\0';
    roco_log_set_json(true);
    for (int shift = 0; shift < 2; shift++) {
        capture c = capture_begin();
        roco_log(ROCO_LOG_WARN, "%s", quotes + shift);
        size_t size = capture_end(c, text, sizeof text);
        assert_in_range(size, 4090, 4096);
        const char *end = text + size - 3;
        assert_string_equal(end, "\"}\n");
        assert_true((size_t)(end - after_head(text)) % 2 == 0);
    }
    roco_log_set_json(false);
}

static void test_values(void **state)
{
    const roco_log_value values[] = {
        {.name = "id", .text = "a\"b"},
        {.name = "prompt", .number = 4294967295.0},
        {.name = "first token", .number = 1.25, .decimals = 1, .unit = "ms"},
    };
    char text[8192];
    capture c = capture_begin();
    roco_log_values(ROCO_LOG_WARN, "request", values, 3);
    capture_end(c, text, sizeof text);
    assert_non_null(strstr(text, "Z WARN request: id a\"b, prompt 4294967295, first token 1.2 ms\n"));
    roco_log_set_json(true);
    c = capture_begin();
    roco_log_values(ROCO_LOG_WARN, "request", values, 3);
    capture_end(c, text, sizeof text);
    roco_log_set_json(false);
    assert_string_equal(after_head(text),
                        "request\",\"id\":\"a\\\"b\",\"prompt\":4294967295,\"first_token_ms\":1.2}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_one_line_with_time_and_level),
        cmocka_unit_test(test_the_level_filters),
        cmocka_unit_test(test_control_characters_cannot_forge_a_record),
        cmocka_unit_test(test_a_long_record_is_cut_and_still_ends_its_line),
        cmocka_unit_test(test_errno_is_left_alone),
        cmocka_unit_test(test_json_escapes_and_stays_utf8),
        cmocka_unit_test(test_a_long_json_record_is_cut_between_characters),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
