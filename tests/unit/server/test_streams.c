/* POST /v1/completions over loopback, streamed: same bytes as plain, shape, failures, silence, clients that leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/clock.h"
#include "fake_scheduler.h"
#include "support_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_app(void **state)
{
    static char *flags[] = {"--keep-alive", "1", "--kv-budget", "40", "--kv-budget-max", "300", NULL};
    *state = support_app_open(SUPPORT_READY, flags);
    return 0;
}

static int close_app(void **state)
{
    support_app_close(*state);
    return 0;
}

typedef struct stream {
    char *text[4]; /* joined deltas by index */
    char finish[4][16];
    int n_events, n_texts;
    bool done;
    cJSON *usage, *error; /* owned */
    char id[64];
} stream;

static void take_event(stream *s, const char *data)
{
    assert_false(s->done || s->error);
    if (strcmp(data, "[DONE]") == 0) {
        s->done = true;
        return;
    }
    cJSON *json = cJSON_Parse(data);
    assert_non_null(json);
    if (cJSON_HasObjectItem(json, "error")) {
        s->error = json;
        return;
    }
    s->n_events++;
    if (!s->id[0])
        snprintf(s->id, sizeof s->id, "%s", api_text(json, "id"));
    assert_string_equal(s->id, api_text(json, "id"));
    assert_string_equal(api_text(json, "object"), "text_completion");
    cJSON *choice = api_at(json, "choices")->child;
    if (!choice) {
        assert_null(s->usage);
        s->usage = cJSON_Duplicate(api_at(json, "usage"), true);
    } else {
        assert_null(s->usage);
        assert_false(cJSON_HasObjectItem(json, "usage"));
        int i = api_int(choice, "index");
        assert_string_equal(s->finish[i], "");
        size_t old = s->text[i] ? strlen(s->text[i]) : 0, more = strlen(api_text(choice, "text"));
        s->text[i] = realloc(s->text[i], old + more + 1);
        memcpy(s->text[i] + old, api_text(choice, "text"), more + 1);
        s->n_texts += more > 0;
        if (!cJSON_IsNull(api_at(choice, "finish_reason")))
            snprintf(s->finish[i], sizeof s->finish[i], "%s", api_text(choice, "finish_reason"));
    }
    cJSON_Delete(json);
}

/* Every line of an event stream is data, a comment, or the end of an event. */
static stream parse_stream(char *body)
{
    stream s = {0};
    for (char *line = body, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        if (strncmp(line, "data: ", 6) == 0)
            take_event(&s, line + 6);
        else if (line[0] != ':')
            assert_string_equal(line, "");
    }
    return s;
}

static stream post_stream(support_app *app, const char *body, bool complete)
{
    support_reply reply = support_post(app, COMPLETIONS, body);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.complete, complete);
    assert_non_null(strstr(reply.head, "Content-Type: text/event-stream; charset=utf-8\r\n"));
    assert_non_null(strstr(reply.head, "Cache-Control: no-cache\r\n"));
    assert_non_null(strstr(reply.head, "X-Accel-Buffering: no\r\n"));
    stream s = parse_stream(reply.body);
    support_reply_free(&reply);
    return s;
}

static void stream_free(stream *s)
{
    for (int i = 0; i < 4; i++)
        free(s->text[i]);
    cJSON_Delete(s->usage);
    cJSON_Delete(s->error);
}

static void expect_same(support_app *app, const char *text, size_t size, const char *members, const char *wanted,
                        const char *finish)
{
    char with[512];
    char *body = api_body(text, size, members);
    cJSON *plain = api_post(app, COMPLETIONS, body, 200);
    free(body);
    snprintf(with, sizeof with, "%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}", members);
    body = api_body(text, size, with);
    stream s = post_stream(app, body, true);
    free(body);
    assert_true(s.done);
    int index = 0;
    for (cJSON *choice = api_at(plain, "choices")->child; choice; choice = choice->next, index++) {
        assert_string_equal(api_text(choice, "text"), wanted);
        assert_string_equal(s.text[index], wanted);
        assert_string_equal(api_text(choice, "finish_reason"), finish);
        assert_string_equal(s.finish[index], finish);
    }
    char *one = cJSON_PrintUnformatted(api_at(plain, "usage")), *two = cJSON_PrintUnformatted(s.usage);
    assert_string_equal(one, two);
    free(one);
    free(two);
    cJSON_Delete(plain);
    stream_free(&s);
}

static void test_streamed_is_plain(void **state)
{
    static const char emoji[] = "hi \xf0\x9f\x98\x80 there";
    static const char broken[] = "a\xff\xf0\x9f"
                                 "b\xe2\x82";
    expect_same(*state, emoji, sizeof emoji - 1, "\"max_tokens\":50", emoji, "stop");
    expect_same(*state, emoji, sizeof emoji - 1, "\"max_tokens\":5", "hi \xef\xbf\xbd", "length");
    expect_same(*state, broken, sizeof broken - 1, "\"max_tokens\":50",
                "a\xef\xbf\xbd\xef\xbf\xbd"
                "b\xef\xbf\xbd",
                "stop");
    expect_same(*state, "A B C D E F", 11, "\"stop\":[\"D E\"]", "A B C ", "stop");
    expect_same(*state, "A B C D E F", 11, "\"stop\":\"D E\",\"max_tokens\":9,\"top_k\":1008", "A B C ", "stop");
    expect_same(*state, "A B C D", 7, "\"stop\":\"D E\"", "A B C D", "stop");
    expect_same(*state, "a...b", 5, "\"stop\":[\"..\"],\"n\":3,\"top_k\":1008", "a", "stop");
    expect_same(*state, "abcabc", 6, "\"stop\":[],\"n\":2", "abcabc", "stop");
    expect_same(*state, "xyz", 3, "\"ignore_eos\":true,\"max_tokens\":8", "xyzxyzxy", "length");
    expect_same(*state, "line\n\"quoted\"\\\x01\x7f", 16, "\"temperature\":0", "line\n\"quoted\"\\\x01\x7f", "stop");
    assert_true(support_app_idle(*state));
}

static void test_stream_shape(void **state)
{
    /* Byte tokens of characters of every length: Latin, Cyrillic, Hangul, an emoji. */
    static const char text[] = "ab\xd0\x96\xed\x95\x9c\xf0\x9f\x98\x80";
    char *body = api_body(text, sizeof text - 1, "\"stream\":true");
    stream s = post_stream(*state, body, true);
    assert_true(s.done);
    assert_string_equal(s.text[0], text);
    assert_null(s.usage);            /* nobody asked */
    assert_int_equal(s.n_texts, 5);  /* each character at once and whole */
    assert_int_equal(s.n_events, 6); /* and the last one, which says why */
    stream_free(&s);
    free(body);
}

static void test_failure_in_stream(void **state)
{
    char *body = api_body("abcdefgh", 8, "\"stream\":true,\"top_k\":1001");
    stream s = post_stream(*state, body, false);
    free(body);
    assert_false(s.done);
    assert_string_equal(s.text[0], "abcde");
    assert_string_equal(s.finish[0], "");
    assert_string_equal(api_text(api_at(s.error, "error"), "code"), "device_failed");
    assert_string_equal(api_text(api_at(s.error, "error"), "type"), "server_error");
    stream_free(&s);
    /* Until something works again the server is not ready. */
    support_reply reply = support_get(*state, "/ready");
    assert_int_equal(reply.status, 503);
    support_reply_free(&reply);
    cJSON_Delete(api_post(*state, COMPLETIONS, "{\"prompt\":\"a\"}", 200));
    reply = support_get(*state, "/ready");
    assert_int_equal(reply.status, 200);
    support_reply_free(&reply);
    /* One choice's failure ends the request, and the other's job. */
    body = api_body("abcdefgh", 8, "\"stream\":true,\"n\":2,\"top_k\":1001");
    s = post_stream(*state, body, false);
    free(body);
    assert_non_null(s.error);
    stream_free(&s);
    assert_true(support_app_idle(*state));
}

/* Reads until `wanted` has come; false after 5 s without. */
static bool read_until(int descriptor, const char *wanted)
{
    char text[8192];
    size_t size = 0;
    uint64_t start = roco_now_ns();
    while (size + 1 < sizeof text && roco_now_ns() - start < 5000000000u) {
        ssize_t n = read(descriptor, text + size, sizeof text - 1 - size);
        if (n <= 0)
            return false;
        size += (size_t)n;
        text[size] = '\0';
        if (strstr(text, wanted))
            return true;
    }
    return false;
}

static void test_keep_alive_while_queued(void **state)
{
    const char *body = "{\"prompt\":\"a\",\"stream\":true,\"top_k\":1003}";
    int descriptor = support_begin_post(*state, COMPLETIONS, body, strlen(body));
    assert_true(read_until(descriptor, ": keep-alive\n\n"));
    close(descriptor);
    assert_true(support_app_idle(*state));
}

static void test_gone_clients(void **state)
{
    static const char *const bodies[] = {
        "{\"prompt\":\"a\",\"top_k\":1003}",
        "{\"prompt\":\"a\",\"stream\":true,\"top_k\":1003,\"n\":4}",
        "{\"prompt\":\"abc\",\"stream\":true,\"top_k\":1009,\"ignore_eos\":true,\"max_tokens\":400}",
        "{\"prompt\":\"abc\",\"top_k\":1009,\"ignore_eos\":true,\"max_tokens\":400}",
    };
    int descriptors[40];
    for (int i = 0; i < 40; i++)
        descriptors[i] = support_begin_post(*state, COMPLETIONS, bodies[i % 4], strlen(bodies[i % 4]));
    usleep(50000);
    for (int i = 0; i < 40; i++)
        i % 3 ? (void)close(descriptors[i]) : support_reset(descriptors[i]);
    assert_true(support_app_idle(*state));
}

static void test_drain_and_stop(void **state)
{
    support_app *app = support_app_open(SUPPORT_READY, NULL);
    char *slow = api_body("abcde", 5, "\"stream\":true,\"top_k\":1009");
    const char *stuck = "{\"prompt\":\"a\",\"top_k\":1003}";
    const char *stuck_stream = "{\"prompt\":\"a\",\"stream\":true,\"top_k\":1003}";
    int one = support_begin_post(app, COMPLETIONS, slow, strlen(slow));
    int two = support_begin_post(app, COMPLETIONS, stuck, strlen(stuck));
    int three = support_begin_post(app, COMPLETIONS, stuck_stream, strlen(stuck_stream));
    usleep(50000);
    support_app_drain(app);
    api_expect_error(app, "{\"prompt\":\"a\"}", 503, NULL, "shutting_down", "shutting down");
    support_reply reply = support_read(one, false); /* what runs goes on to its end */
    assert_true(reply.complete);
    stream s = parse_stream(reply.body);
    assert_string_equal(s.text[0], "abcde");
    assert_true(s.done);
    stream_free(&s);
    support_reply_free(&reply);
    support_app_close(app);
    reply = support_read(two, false);
    assert_int_equal(reply.status, 503);
    support_reply_free(&reply);
    reply = support_read(three, false);
    assert_int_equal(reply.status, 200);
    assert_false(reply.complete);
    support_reply_free(&reply);
    close(one);
    close(two);
    close(three);
    free(slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streamed_is_plain), cmocka_unit_test(test_stream_shape),
        cmocka_unit_test(test_failure_in_stream), cmocka_unit_test(test_keep_alive_while_queued),
        cmocka_unit_test(test_gone_clients),      cmocka_unit_test(test_drain_and_stop),
    };
    return cmocka_run_group_tests(tests, open_app, close_app);
}
