/* Text of a choice: characters, stop strings, and that fetching it bit by bit gives the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/choice.h"

#include <stdlib.h>
#include <string.h>

static roco_stop_set stops_of(const char *const *texts)
{
    roco_stop_set set = {0};
    for (; *texts; texts++)
        roco_stop_add(&set, *texts, strlen(*texts));
    return set;
}

/* Feeds `size` bytes in pieces of `step`; returns the whole text (owned) and whether a stop was found. With `stream`
 * the ready text is taken after each piece. */
static char *run(const roco_stop_set *set, const char *data, size_t size, size_t step, bool stream, bool *stopped)
{
    roco_choice choice;
    roco_choice_init(&choice, set);
    roco_buffer all = {0};
    roco_buffer_append_text(&all, "");
    *stopped = false;
    for (size_t at = 0; at < size && !*stopped; at += step) {
        size_t n = size - at < step ? size - at : step;
        assert_int_equal(roco_choice_append(&choice, data + at, n, stopped), ROCO_OK);
        if (stream) {
            roco_buffer_append(&all, choice.text.data, choice.ready);
            roco_choice_sent(&choice);
        }
    }
    if (!*stopped)
        assert_int_equal(roco_choice_flush(&choice), ROCO_OK);
    roco_buffer_append(&all, choice.text.data, choice.ready);
    roco_choice_free(&choice);
    return all.data;
}

static void expect(const char *const *stops, const char *data, size_t size, const char *wanted, bool wants_stop)
{
    roco_stop_set set = stops_of(stops);
    for (size_t step = 1; step <= size + 1; step++) {
        for (int stream = 0; stream < 2; stream++) {
            bool stopped;
            char *text = run(&set, data, size, step, stream, &stopped);
            assert_string_equal(text, wanted);
            assert_int_equal(stopped, wants_stop);
            free(text);
        }
    }
}

static void test_text_passes(void **state)
{
    const char *none[] = {NULL};
    expect(none, "hello", 5, "hello", false);
    expect(none, "a\xf0\x9f\x98\x80z", 6, "a\xf0\x9f\x98\x80z", false);
}

static void test_ill_formed(void **state)
{
    const char *none[] = {NULL};
#define FFFD "\xef\xbf\xbd"
    expect(none,
           "a\xff"
           "b",
           3, "a" FFFD "b", false);
    expect(none, "\xf0\x9f\x98", 3, FFFD, false); /* cut short at the end: one maximal part */
    expect(none,
           "\xf0\x9f"
           "A",
           3, FFFD "A", false); /* cut short by another character */
    expect(none, "\xe2\x28\xa1", 3, FFFD "(" FFFD, false);
    expect(none, "\xed\xa0\x80", 3, FFFD FFFD FFFD, false); /* a surrogate */
    expect(none, "\xc0\xaf", 2, FFFD FFFD, false);          /* overlong */
    expect(none, "\x80\x80", 2, FFFD FFFD, false);
    expect(none, "\xf4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD, false);
}

static void test_stops(void **state)
{
    const char *across[] = {"O P Q", NULL};
    expect(across, " L M N O P Q R", 14, " L M N ", true);
    const char *dots[] = {"..", NULL};
    expect(dots, "a...b", 5, "a", true);
    const char *several[] = {"xyz", "yz", "z", "abcd", NULL};
    expect(several, "1xyz", 4, "1", true);
    expect(several, "abcz", 4, "abc", true);
    expect(several, "ababc", 5, "ababc", false);
    const char *overlap[] = {"aab", NULL};
    expect(overlap, "aaab", 4, "a", true);
    const char *inner[] = {"abcde", "bc", NULL};
    expect(inner, "abcde", 5, "a", true);
    const char *smile[] = {"\xf0\x9f\x98\x80", NULL};
    expect(smile, "hi\xf0\x9f\x98\x80!", 7, "hi", true);
    expect(smile, "hi\xf0\x9f\x98\x81!", 7, "hi\xf0\x9f\x98\x81!", false);
}

/* Only what may still become a stop waits, whatever the stops' lengths. */
static void test_held_back(void **state)
{
    char long_stop[201];
    memset(long_stop, 'q', 200);
    long_stop[200] = '\0';
    const char *stops[] = {long_stop, "end.", NULL};
    roco_stop_set set = stops_of(stops);
    roco_choice choice;
    roco_choice_init(&choice, &set);
    bool stopped;
    static const struct {
        const char *piece;
        size_t ready; /* of the whole text so far */
    } steps[] = {{"hello ", 6}, {"e", 6},    {"n", 6},         {"t", 9},
                 {"qq", 9},     {"qqx", 14}, {"\xf0\x9f", 14}, {"\x98\x80", 18}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_int_equal(roco_choice_append(&choice, steps[i].piece, strlen(steps[i].piece), &stopped), ROCO_OK);
        assert_false(stopped);
        assert_int_equal(choice.ready, steps[i].ready);
    }
    roco_choice_free(&choice);
}

/* Random texts over a small alphabet against the plainest search there is. */
static void test_stops_random(void **state)
{
    uint32_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        char stop[2][5], data[25];
        for (int s = 0; s < 2; s++) {
            random = random * 1664525u + 1013904223u;
            size_t length = 1 + (random >> 24) % 4;
            for (size_t i = 0; i < length; i++) {
                random = random * 1664525u + 1013904223u;
                stop[s][i] = (char)('a' + (random >> 28) % 2);
            }
            stop[s][length] = '\0';
        }
        for (size_t i = 0; i < 24; i++) {
            random = random * 1664525u + 1013904223u;
            data[i] = (char)('a' + (random >> 27) % 3);
        }
        data[24] = '\0';
        /* The stop that ends first wins; of two that end together the longer. */
        char wanted[25];
        strcpy(wanted, data);
        bool found = false;
        for (size_t end = 1; end <= 24 && !found; end++) {
            size_t best = 0;
            for (int s = 0; s < 2; s++) {
                size_t length = strlen(stop[s]);
                if (length <= end && memcmp(data + end - length, stop[s], length) == 0 && length > best)
                    best = length;
            }
            if (best) {
                wanted[end - best] = '\0';
                found = true;
            }
        }
        const char *stops[] = {stop[0], stop[1], NULL};
        roco_stop_set set = stops_of(stops);
        bool stopped;
        char *text = run(&set, data, 24, 1 + (size_t)round % 5, round & 1, &stopped);
        assert_string_equal(text, wanted);
        assert_int_equal(stopped, found);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_passes), cmocka_unit_test(test_ill_formed),   cmocka_unit_test(test_stops),
        cmocka_unit_test(test_held_back),   cmocka_unit_test(test_stops_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
