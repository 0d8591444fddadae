/* POST /v1/completions over loopback: forms of prompts, plain and streamed answers, and every way to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/clock.h"
#include "fake_scheduler.h"
#include "support_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH "/v1/completions"

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

/* `text` as the ids of its bytes: "[107,108]". Owned. */
static char *ids_of(const char *text, size_t size)
{
    roco_json_out out = {0};
    for (size_t i = 0; i < size; i++)
        roco_json_format(&out, "%c%d", i ? ',' : '[', (unsigned char)text[i] + SUPPORT_FIRST_BYTE);
    roco_json_raw(&out, "]");
    return out.buffer.data;
}

/* The body of a request whose answer is `text`. Owned. */
static char *body_for(const char *text, size_t size, const char *members)
{
    char *ids = ids_of(text, size);
    roco_json_out out = {0};
    roco_json_format(&out, "{\"prompt\":%s,%s}", ids, members);
    free(ids);
    return out.buffer.data;
}

/* Posts and parses; the status must be as given. Owned (cJSON_Delete). */
static cJSON *post(support_app *app, const char *body, int status)
{
    support_reply reply = support_post(app, PATH, body);
    if (reply.status != status)
        fail_msg("%d instead of %d: %s -> %s", reply.status, status, body, reply.body ? reply.body : "");
    assert_true(reply.complete);
    assert_non_null(strstr(reply.head, "Content-Type: application/json\r\n"));
    cJSON *json = cJSON_Parse(reply.body);
    assert_non_null(json);
    support_reply_free(&reply);
    return json;
}

static cJSON *at(const cJSON *json, const char *name)
{
    cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    assert_non_null(value);
    return value;
}

static const char *text_at(const cJSON *json, const char *name)
{
    return at(json, name)->valuestring;
}

static int int_at(const cJSON *json, const char *name)
{
    return at(json, name)->valueint;
}

static void expect_error(support_app *app, const char *body, int status, const char *param, const char *code,
                         const char *words)
{
    cJSON *json = post(app, body, status), *error = at(json, "error");
    assert_string_equal(text_at(error, "type"), status == 429  ? "rate_limit_error"
                                                : status < 500 ? "invalid_request_error"
                                                               : "server_error");
    if (param)
        assert_string_equal(text_at(error, "param"), param);
    else
        assert_true(cJSON_IsNull(at(error, "param")));
    assert_string_equal(text_at(error, "code"), code);
    if (!strstr(text_at(error, "message"), words))
        fail_msg("\"%s\" does not say \"%s\"", text_at(error, "message"), words);
    cJSON_Delete(json);
}

/* --- plain --- */

static void test_plain(void **state)
{
    char *body = body_for(" Paris", 6, "\"max_tokens\":20,\"kv_budget\":32");
    cJSON *json = post(*state, body, 200);
    assert_string_equal(text_at(json, "object"), "text_completion");
    assert_string_equal(text_at(json, "model"), SUPPORT_MODEL_ID);
    assert_int_equal(strncmp(text_at(json, "id"), "cmpl-", 5), 0);
    assert_true(at(json, "created")->valuedouble > 1.6e9);
    cJSON *choice = at(json, "choices")->child;
    assert_null(choice->next);
    assert_string_equal(text_at(choice, "text"), " Paris");
    assert_string_equal(text_at(choice, "finish_reason"), "stop");
    assert_int_equal(int_at(choice, "index"), 0);
    assert_true(cJSON_IsNull(at(choice, "logprobs")));
    cJSON *usage = at(json, "usage"), *kv = at(usage, "kv");
    assert_int_equal(int_at(usage, "prompt_tokens"), 6);
    assert_int_equal(int_at(usage, "completion_tokens"), 7); /* the end token counts */
    assert_int_equal(int_at(usage, "total_tokens"), 13);
    assert_string_equal(text_at(kv, "policy"), "roco");
    assert_int_equal(int_at(kv, "budget"), 32);
    assert_int_equal(int_at(kv, "held"), 13);
    assert_int_equal(int_at(kv, "evicted"), 0);
    cJSON_Delete(json);
    free(body);
}

static void test_prompt_forms(void **state)
{
    static const struct {
        const char *prompt;
        int n, n_choices;
        const char *texts[6];
        int prompt_tokens;
    } cases[] = {
        {"\"ab\"", 1, 1, {"ab"}, 2},
        {"[\"ab\",\"c\"]", 1, 2, {"ab", "c"}, 3},
        {"[100,101]", 1, 1, {"ab"}, 2},
        {"[[100,101],[102]]", 1, 2, {"ab", "c"}, 3},
        {"\"ab\"", 3, 3, {"ab", "ab", "ab"}, 2},
        {"[\"a\",\"b\"]", 2, 4, {"a", "a", "b", "b"}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"prompt\":%s,\"n\":%d,\"temperature\":0}", cases[i].prompt, cases[i].n);
        cJSON *json = post(*state, body, 200);
        int index = 0;
        for (cJSON *choice = at(json, "choices")->child; choice; choice = choice->next, index++) {
            assert_int_equal(int_at(choice, "index"), index);
            assert_string_equal(text_at(choice, "text"), cases[i].texts[index]);
        }
        assert_int_equal(index, cases[i].n_choices);
        assert_int_equal(int_at(at(json, "usage"), "prompt_tokens"), cases[i].prompt_tokens);
        cJSON_Delete(json);
    }
}

static void test_lengths(void **state)
{
    /* default: 256, or what is left; an upper bound is cut to what is left */
    static const struct {
        int n_prompt;
        const char *members;
        int n_generated;
    } cases[] = {{100, "", 256},
                 {500, "", 12},
                 {500, ",\"max_tokens\":100000", 12},
                 {511, ",\"max_tokens\":5", 1},
                 {100, ",\"max_tokens\":5", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char prompt[512], members[128];
        memset(prompt, 'x', sizeof prompt);
        snprintf(members, sizeof members, "\"ignore_eos\":true,\"top_k\":%d%s", FAKE_FAST, cases[i].members);
        char *body = body_for(prompt, (size_t)cases[i].n_prompt, members);
        cJSON *json = post(*state, body, 200);
        assert_int_equal(int_at(at(json, "usage"), "completion_tokens"), cases[i].n_generated);
        assert_string_equal(text_at(at(json, "choices")->child, "finish_reason"), "length");
        cJSON_Delete(json);
        free(body);
    }
}

static void test_budgets(void **state)
{
    static const struct {
        const char *members;
        int budget; /* 0: refused */
        const char *words;
    } cases[] = {
        {"\"n\":1", 40, NULL},
        {"\"kv_budget\":null", 40, NULL},
        {"\"kv_budget\":300", 300, NULL},
        {"\"kv_budget\":301", 0, "from 32 to 300"},
        {"\"kv_budget\":1e9", 0, "from 32 to 300"},
        {"\"kv_budget\":0.5", 55, NULL}, /* floor of 55.5 */
        {"\"kv_budget\":0.01", 32, NULL},
        {"\"kv_budget\":1", 0, "from 32"},
        {"\"kv_policy\":\"full\"", 116, NULL}, /* the whole of it */
        {"\"kv_policy\":\"full\",\"kv_budget\":64", 116, NULL},
        {"\"kv_budget\":32,\"kv_sink\":22", 0, "less than the budget (32)"},
        {"\"kv_budget\":32,\"kv_sink\":21", 32, NULL},
        {"\"kv_recent\":36", 0, "less than the budget (40)"},
        {"\"kv_recent\":36,\"kv_policy\":\"full\"", 116, NULL},
    };
    char prompt[111];
    memset(prompt, 'x', sizeof prompt);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char members[128];
        snprintf(members, sizeof members, "\"max_tokens\":5,%s", cases[i].members);
        char *body = body_for(prompt, sizeof prompt, members);
        if (cases[i].budget) {
            cJSON *json = post(*state, body, 200), *kv = at(at(json, "usage"), "kv");
            assert_int_equal(int_at(kv, "budget"), cases[i].budget);
            assert_int_equal(int_at(kv, "held"), cases[i].budget < 116 ? cases[i].budget : 116);
            assert_int_equal(int_at(kv, "evicted"), cases[i].budget < 116 ? 116 - cases[i].budget : 0);
            cJSON_Delete(json);
        } else {
            cJSON *json = post(*state, body, 400);
            assert_non_null(strstr(text_at(at(json, "error"), "message"), cases[i].words));
            cJSON_Delete(json);
        }
        free(body);
    }
}

/* --- refusals --- */

static void test_refused(void **state)
{
    support_app *app = *state;
    expect_error(app, "{", 400, NULL, "invalid_value", "JSON");
    expect_error(app, "{\"prompt\":\"\xff\xfe\"}", 400, NULL, "invalid_value", "UTF-8");
    expect_error(app, "{\"prompt\":\"a\\u0000\"}", 400, NULL, "invalid_value", "u0000");
    expect_error(app, "{\"prompt\":\"a\",\"model\":\"gpt-9-unknown\"}", 404, "model", "model_not_found", "exist");
    expect_error(app, "{\"prompt\":\"a\",\"echo\":true}", 400, "echo", "unsupported_parameter", "not supported");
    expect_error(app, "{\"prompt\":\"a\",\"n\":1.5}", 400, "n", "invalid_value", "from 1 to 16");
    expect_error(app, "{\"prompt\":\"\"}", 400, "prompt", "invalid_value", "no tokens");
    expect_error(app, "{\"prompt\":[]}", 400, "prompt", "invalid_value", "empty");
    expect_error(app, "{\"prompt\":[[]]}", 400, "prompt", "invalid_value", "no tokens");
    expect_error(app, "{\"prompt\":[100,-1]}", 400, "prompt", "invalid_value", "entry 1");
    expect_error(app, "{\"prompt\":[320]}", 400, "prompt", "invalid_value", "0 to 319");
    expect_error(app, "{\"prompt\":[1.5]}", 400, "prompt", "invalid_value", "entry 0");
    expect_error(app, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "invalid_value", "entry 1");
    expect_error(app, "{\"prompt\":[\"a\",[1]]}", 400, "prompt", "invalid_value", "entry 1");
    expect_error(app, "{\"prompt\":[null]}", 400, "prompt", "invalid_value", "entry 0");
    expect_error(app, "{\"prompt\":[\"a\",\"a\",\"a\",\"a\",\"a\"],\"n\":13}", 400, "prompt", "invalid_value", "64");
    expect_error(app, "{\"prompt\":\"a\",\"top_k\":1006}", 429, NULL, "queue_full", "full");
    expect_error(app, "{\"prompt\":\"a\",\"top_k\":1007}", 400, "kv_budget", "request_too_large", "64");
    expect_error(app, "{\"prompt\":\"a\",\"top_k\":1002}", 500, NULL, "numeric_failure", "not a number");
    expect_error(app, "{\"prompt\":\"a\",\"top_k\":1004}", 503, NULL, "queue_timeout", "seconds");
    expect_error(app, "{\"prompt\":\"abc\",\"top_k\":1005}", 503, NULL, "request_timeout", "seconds");
    expect_error(app, "{\"prompt\":\"abcdefgh\",\"top_k\":1001}", 500, NULL, "device_failed", "device");
    assert_true(support_app_idle(app));
    cJSON_Delete(post(app, "{\"prompt\":\"a\",\"model\":\"" SUPPORT_MODEL_ID "\"}", 200));
}

static void test_context_exceeded(void **state)
{
    char prompt[4 * SUPPORT_CONTEXT + 200], *body;
    memset(prompt, 'x', sizeof prompt);
    body = body_for(prompt, SUPPORT_CONTEXT + 186, "\"n\":1");
    expect_error(*state, body, 400, "prompt", "context_length_exceeded", "698 tokens, but the context is 512 tokens");
    free(body);
    body = body_for(prompt, SUPPORT_CONTEXT, "\"n\":1");
    expect_error(*state, body, 400, "prompt", "context_length_exceeded", "has 512 tokens");
    free(body);
    char text[sizeof prompt + 32];
    snprintf(text, sizeof text, "{\"prompt\":\"%.*s\"}", SUPPORT_CONTEXT + 186, prompt);
    expect_error(*state, text, 400, "prompt", "context_length_exceeded", "698 tokens, but the context is 512 tokens");
    snprintf(text, sizeof text, "{\"prompt\":\"%.*s\"}", (int)sizeof prompt, prompt);
    expect_error(*state, text, 400, "prompt", "context_length_exceeded", "more than 2048 tokens");
}

static void test_hostile_bodies(void **state)
{
    size_t size = 100000;
    char *deep = malloc(size + 1);
    assert_non_null(deep);
    memset(deep, '[', size);
    deep[size] = '\0';
    uint64_t start = roco_now_ns();
    expect_error(*state, deep, 400, NULL, "invalid_value", "64 levels");
    assert_true(roco_now_ns() - start < 1000000000u);
    /* A text of this size is worked on off the loop. */
    memset(deep, 'a', size);
    memcpy(deep, "{\"prompt\":\"", 11);
    memcpy(deep + size - 2, "\"}", 2);
    expect_error(*state, deep, 400, "prompt", "context_length_exceeded", "context");
    /* Its client may be gone before that is done. */
    for (int i = 0; i < 20; i++)
        support_reset(support_begin_post(*state, PATH, deep, size));
    free(deep);
    assert_true(support_app_idle(*state));
}

/* --- streams --- */

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
        snprintf(s->id, sizeof s->id, "%s", text_at(json, "id"));
    assert_string_equal(s->id, text_at(json, "id"));
    assert_string_equal(text_at(json, "object"), "text_completion");
    cJSON *choice = at(json, "choices")->child;
    if (!choice) {
        assert_null(s->usage);
        s->usage = cJSON_Duplicate(at(json, "usage"), true);
    } else {
        assert_null(s->usage);
        assert_false(cJSON_HasObjectItem(json, "usage"));
        int i = int_at(choice, "index");
        assert_string_equal(s->finish[i], "");
        size_t old = s->text[i] ? strlen(s->text[i]) : 0, more = strlen(text_at(choice, "text"));
        s->text[i] = realloc(s->text[i], old + more + 1);
        memcpy(s->text[i] + old, text_at(choice, "text"), more + 1);
        s->n_texts += more > 0;
        if (!cJSON_IsNull(at(choice, "finish_reason")))
            snprintf(s->finish[i], sizeof s->finish[i], "%s", text_at(choice, "finish_reason"));
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
    support_reply reply = support_post(app, PATH, body);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.complete, complete);
    assert_non_null(strstr(reply.head, "Content-Type: text/event-stream"));
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
    char *body = body_for(text, size, members);
    cJSON *plain = post(app, body, 200);
    free(body);
    snprintf(with, sizeof with, "%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}", members);
    body = body_for(text, size, with);
    stream s = post_stream(app, body, true);
    free(body);
    assert_true(s.done);
    int index = 0;
    for (cJSON *choice = at(plain, "choices")->child; choice; choice = choice->next, index++) {
        assert_string_equal(text_at(choice, "text"), wanted);
        assert_string_equal(s.text[index], wanted);
        assert_string_equal(text_at(choice, "finish_reason"), finish);
        assert_string_equal(s.finish[index], finish);
    }
    char *one = cJSON_PrintUnformatted(at(plain, "usage")), *two = cJSON_PrintUnformatted(s.usage);
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
    char *body = body_for("ab\xf0\x9f\x98\x80", 6, "\"stream\":true");
    stream s = post_stream(*state, body, true);
    assert_true(s.done);
    assert_null(s.usage);            /* nobody asked */
    assert_int_equal(s.n_texts, 3);  /* a, b and the whole character */
    assert_int_equal(s.n_events, 4); /* and the last one, which says why */
    stream_free(&s);
    free(body);
}

static void test_failure_in_stream(void **state)
{
    char *body = body_for("abcdefgh", 8, "\"stream\":true,\"top_k\":1001");
    stream s = post_stream(*state, body, false);
    free(body);
    assert_false(s.done);
    assert_string_equal(s.text[0], "abcde");
    assert_string_equal(s.finish[0], "");
    assert_string_equal(text_at(at(s.error, "error"), "code"), "device_failed");
    assert_string_equal(text_at(at(s.error, "error"), "type"), "server_error");
    stream_free(&s);
    /* Until something works again the server is not ready. */
    support_reply reply = support_get(*state, "/ready");
    assert_int_equal(reply.status, 503);
    support_reply_free(&reply);
    cJSON_Delete(post(*state, "{\"prompt\":\"a\"}", 200));
    reply = support_get(*state, "/ready");
    assert_int_equal(reply.status, 200);
    support_reply_free(&reply);
    /* One choice's failure ends the request, and the other's job. */
    body = body_for("abcdefgh", 8, "\"stream\":true,\"n\":2,\"top_k\":1001");
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
    int descriptor = support_begin_post(*state, PATH, body, strlen(body));
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
        descriptors[i] = support_begin_post(*state, PATH, bodies[i % 4], strlen(bodies[i % 4]));
    usleep(50000);
    for (int i = 0; i < 40; i++)
        i % 3 ? (void)close(descriptors[i]) : support_reset(descriptors[i]);
    assert_true(support_app_idle(*state));
}

/* --- phases --- */

static void test_loading(void **state)
{
    support_app *app = support_app_open(SUPPORT_LOADING, NULL);
    expect_error(app, "{\"prompt\":\"a\"}", 503, NULL, "loading", "loaded");
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/health", 200}, {"/ready", 503}, {"/v1/models", 503}, {"/metrics", 200}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        support_reply reply = support_get(app, cases[i].path);
        assert_int_equal(reply.status, cases[i].status);
        support_reply_free(&reply);
    }
    support_app_close(app);
}

static void test_drain_and_stop(void **state)
{
    support_app *app = support_app_open(SUPPORT_READY, NULL);
    char *slow = body_for("abcde", 5, "\"stream\":true,\"top_k\":1009");
    const char *stuck = "{\"prompt\":\"a\",\"top_k\":1003}";
    const char *stuck_stream = "{\"prompt\":\"a\",\"stream\":true,\"top_k\":1003}";
    int one = support_begin_post(app, PATH, slow, strlen(slow));
    int two = support_begin_post(app, PATH, stuck, strlen(stuck));
    int three = support_begin_post(app, PATH, stuck_stream, strlen(stuck_stream));
    usleep(50000);
    support_app_drain(app);
    expect_error(app, "{\"prompt\":\"a\"}", 503, NULL, "shutting_down", "shutting down");
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
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_prompt_forms),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_context_exceeded),
        cmocka_unit_test(test_hostile_bodies),
        cmocka_unit_test(test_streamed_is_plain),
        cmocka_unit_test(test_stream_shape),
        cmocka_unit_test(test_failure_in_stream),
        cmocka_unit_test(test_keep_alive_while_queued),
        cmocka_unit_test(test_gone_clients),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_drain_and_stop),
    };
    return cmocka_run_group_tests(tests, open_app, close_app);
}
