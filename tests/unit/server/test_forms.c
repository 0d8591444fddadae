/* The other forms of a chat when all does not go well: failures before and in a stream, silence, clients that leave,
 * and what is counted. The clients' own libraries test what goes well (tests/http). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_scheduler.h"
#include "support_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESPONSES "/v1/responses"
#define MESSAGES  "/v1/messages"

static const char template[] = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{# <think></think> #}";

static int open_app(void **state)
{
    char path[] = "/tmp/roco-template-XXXXXX";
    int file = mkstemp(path);
    ROCO_CHECK(file >= 0 && write(file, template, sizeof template - 1) == sizeof template - 1);
    close(file);
    char *flags[] = {"--chat-template", path, "--keep-alive", "1", NULL};
    *state = support_app_open(SUPPORT_READY, flags);
    unlink(path);
    return 0;
}

static int close_app(void **state)
{
    support_app_close(*state);
    return 0;
}

/* A request of either form that asks "hi", with more members. */
static char *body_of(const char *path, const char *members)
{
    roco_json_out body = {0};
    roco_json_format(&body, "{%s%s%s}",
                     strcmp(path, RESPONSES) == 0 ? "\"input\":\"hi\""
                                                  : "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]",
                     *members ? "," : "", members);
    return body.buffer.data;
}

static support_reply post(void **state, const char *path, const char *members)
{
    char *body = body_of(path, members);
    support_reply reply = support_post(*state, path, body);
    free(body);
    return reply;
}

static void has(const support_reply *reply, const char *text)
{
    if (!strstr(reply->body, text))
        fail_msg("\"%s\" is not in %s", text, reply->body);
}

/* Five tokens, then a device fault: an event that says so, and no end that looks like success. */
static void test_failure_in_a_stream(void **state)
{
    support_reply reply = post(state, RESPONSES, "\"stream\":true,\"top_k\":1001");
    assert_int_equal(reply.status, 200);
    assert_false(reply.complete);
    has(&reply, "event: response.output_text.delta\n");
    has(&reply, "event: response.failed\n");
    has(&reply, "\"status\":\"failed\"");
    has(&reply, "\"error\":{\"code\":\"device_failed\",\"message\":\"");
    assert_null(strstr(reply.body, "response.completed"));
    support_reply_free(&reply);

    reply = post(state, MESSAGES, "\"stream\":true,\"top_k\":1001");
    assert_int_equal(reply.status, 200);
    assert_false(reply.complete);
    has(&reply, "event: content_block_delta\n");
    has(&reply, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"");
    assert_null(strstr(reply.body, "message_stop"));
    support_reply_free(&reply);
}

static void test_failure_before_an_answer(void **state)
{
    static const struct {
        const char *members, *type;
        int status;
    } cases[] = {
        {"\"top_k\":1002", "api_error", 500},
        {"\"top_k\":1006", "rate_limit_error", 429},
        {"\"top_k\":1007", "invalid_request_error", 400},
        {"\"top_k\":1004", "overloaded_error", 503},
        {"\"temperature\":3", "invalid_request_error", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = body_of(MESSAGES, cases[i].members);
        cJSON *json = api_post(*state, MESSAGES, body, cases[i].status);
        assert_string_equal(api_text(json, "type"), "error");
        assert_string_equal(api_text(api_at(json, "error"), "type"), cases[i].type);
        cJSON_Delete(json);
        free(body);
        body = body_of(RESPONSES, cases[i].members);
        json = api_post(*state, RESPONSES, body, cases[i].status);
        api_at(api_at(json, "error"), "code");
        cJSON_Delete(json);
        free(body);
    }
}

/* Silence is told in the form of the endpoint; the stream's first events are there at once. */
static void test_silence(void **state)
{
    static const char *const wanted[][2] = {{RESPONSES, ": keep-alive\n\n"},
                                            {MESSAGES, "event: ping\ndata: {\"type\":\"ping\"}\n\n"}};
    for (size_t i = 0; i < 2; i++) {
        char *body = body_of(wanted[i][0], "\"stream\":true,\"top_k\":1003"), seen[4096];
        int descriptor = support_begin_post(*state, wanted[i][0], body, strlen(body));
        size_t size = 0;
        for (ssize_t n; size < sizeof seen - 1 && (n = read(descriptor, seen + size, sizeof seen - 1 - size)) > 0;) {
            seen[size += (size_t)n] = '\0';
            if (strstr(seen, wanted[i][1]))
                break;
        }
        assert_non_null(strstr(seen, wanted[i][1]));
        assert_non_null(strstr(seen, i ? "event: message_start" : "event: response.in_progress"));
        close(descriptor);
        free(body);
        assert_true(support_app_idle(*state));
    }
}

static void test_empty_answers(void **state)
{
    /* A stop string at the very start. */
    char *body = body_of(MESSAGES, "\"stop_sequences\":[\"user\"]");
    cJSON *json = api_post(*state, MESSAGES, body, 200);
    assert_int_equal(cJSON_GetArraySize(api_at(json, "content")), 0);
    cJSON_Delete(json);
    free(body);
    body = body_of(RESPONSES, "\"stop\":\"user\"");
    json = api_post(*state, RESPONSES, body, 200);
    assert_string_equal(api_text(json, "status"), "completed");
    assert_int_equal(cJSON_GetArraySize(api_at(json, "output")), 0);
    cJSON_Delete(json);
    free(body);
}

static void test_reasoning_is_given_to_who_asks(void **state)
{
    char *body = strdup("{\"messages\":[{\"role\":\"user\",\"content\":\"<think>Hm</think>Yes\"}]}");
    cJSON *json = api_post(*state, MESSAGES, body, 200), *content = api_at(json, "content");
    assert_int_equal(cJSON_GetArraySize(content), 2);
    assert_string_equal(api_text(content->child, "text"), "user:");
    cJSON_Delete(json);
    free(body);
    body = strdup("{\"messages\":[{\"role\":\"user\",\"content\":\"<think>Hm</think>Yes\"}],\"thinking\":{\"type\":"
                  "\"enabled\",\"budget_tokens\":1024}}");
    json = api_post(*state, MESSAGES, body, 200);
    content = api_at(json, "content");
    assert_int_equal(cJSON_GetArraySize(content), 3);
    assert_string_equal(api_text(content->child->next, "thinking"), "Hm");
    assert_string_equal(api_text(content->child->next->next, "text"), "Yes;");
    cJSON_Delete(json);
    free(body);
    json = api_post(*state, RESPONSES, "{\"input\":\"<think>Hm</think>Yes\"}", 200);
    const cJSON *item = api_at(json, "output")->child->next;
    assert_string_equal(api_text(item, "type"), "reasoning");
    assert_string_equal(api_text(api_at(item, "content")->child, "text"), "Hm");
    assert_true(api_int(api_at(api_at(json, "usage"), "output_tokens_details"), "reasoning_tokens") > 0);
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failure_in_a_stream),
        cmocka_unit_test(test_failure_before_an_answer),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_empty_answers),
        cmocka_unit_test(test_reasoning_is_given_to_who_asks),
    };
    return cmocka_run_group_tests(tests, open_app, close_app);
}
