/* POST /v1/completions over loopback, plain: forms of prompts, lengths, budgets, and every way to be refused. */
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

/* --- plain --- */

static void test_plain(void **state)
{
    char *body = api_body(" Paris", 6, "\"max_tokens\":20,\"kv_budget\":32");
    cJSON *json = api_post(*state, COMPLETIONS, body, 200);
    assert_string_equal(api_text(json, "object"), "text_completion");
    assert_string_equal(api_text(json, "model"), SUPPORT_MODEL_ID);
    assert_int_equal(strncmp(api_text(json, "id"), "cmpl-", 5), 0);
    assert_true(api_at(json, "created")->valuedouble > 1.6e9);
    cJSON *choice = api_at(json, "choices")->child;
    assert_null(choice->next);
    assert_string_equal(api_text(choice, "text"), " Paris");
    assert_string_equal(api_text(choice, "finish_reason"), "stop");
    assert_int_equal(api_int(choice, "index"), 0);
    assert_true(cJSON_IsNull(api_at(choice, "logprobs")));
    cJSON *usage = api_at(json, "usage"), *kv = api_at(usage, "kv");
    assert_int_equal(api_int(usage, "prompt_tokens"), 6);
    assert_int_equal(api_int(usage, "completion_tokens"), 7); /* the end token counts */
    assert_int_equal(api_int(usage, "total_tokens"), 13);
    assert_string_equal(api_text(kv, "policy"), "roco");
    assert_int_equal(api_int(kv, "budget"), 32);
    assert_int_equal(api_int(kv, "held"), 13);
    assert_int_equal(api_int(kv, "evicted"), 0);
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
        cJSON *json = api_post(*state, COMPLETIONS, body, 200);
        int index = 0;
        for (cJSON *choice = api_at(json, "choices")->child; choice; choice = choice->next, index++) {
            assert_int_equal(api_int(choice, "index"), index);
            assert_string_equal(api_text(choice, "text"), cases[i].texts[index]);
        }
        assert_int_equal(index, cases[i].n_choices);
        assert_int_equal(api_int(api_at(json, "usage"), "prompt_tokens"), cases[i].prompt_tokens);
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
        char *body = api_body(prompt, (size_t)cases[i].n_prompt, members);
        cJSON *json = api_post(*state, COMPLETIONS, body, 200);
        assert_int_equal(api_int(api_at(json, "usage"), "completion_tokens"), cases[i].n_generated);
        assert_string_equal(api_text(api_at(json, "choices")->child, "finish_reason"), "length");
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
        char *body = api_body(prompt, sizeof prompt, members);
        if (cases[i].budget) {
            cJSON *json = api_post(*state, COMPLETIONS, body, 200), *kv = api_at(api_at(json, "usage"), "kv");
            assert_int_equal(api_int(kv, "budget"), cases[i].budget);
            assert_int_equal(api_int(kv, "held"), cases[i].budget < 116 ? cases[i].budget : 116);
            assert_int_equal(api_int(kv, "evicted"), cases[i].budget < 116 ? 116 - cases[i].budget : 0);
            cJSON_Delete(json);
        } else {
            cJSON *json = api_post(*state, COMPLETIONS, body, 400);
            assert_non_null(strstr(api_text(api_at(json, "error"), "message"), cases[i].words));
            cJSON_Delete(json);
        }
        free(body);
    }
}

/* --- refusals --- */

static void test_refused(void **state)
{
    support_app *app = *state;
    api_expect_error(app, "{", 400, NULL, "invalid_value", "JSON");
    api_expect_error(app, "{\"prompt\":\"\xff\xfe\"}", 400, NULL, "invalid_value", "UTF-8");
    api_expect_error(app, "{\"prompt\":\"a\\u0000\"}", 400, NULL, "invalid_value", "u0000");
    api_expect_error(app, "{\"prompt\":\"a\",\"model\":\"gpt-9-unknown\"}", 404, "model", "model_not_found", "exist");
    api_expect_error(app, "{\"prompt\":\"a\",\"suffix\":\"x\"}", 400, "suffix", "unsupported_parameter", "not");
    api_expect_error(app, "{\"prompt\":\"a\",\"n\":1.5}", 400, "n", "invalid_value", "from 1 to 16");
    api_expect_error(app, "{\"prompt\":\"\"}", 400, "prompt", "invalid_value", "no tokens");
    api_expect_error(app, "{\"prompt\":[]}", 400, "prompt", "invalid_value", "empty");
    api_expect_error(app, "{\"prompt\":[[]]}", 400, "prompt", "invalid_value", "no tokens");
    api_expect_error(app, "{\"prompt\":[100,-1]}", 400, "prompt", "invalid_value", "entry 1");
    api_expect_error(app, "{\"prompt\":[320]}", 400, "prompt", "invalid_value", "0 to 319");
    api_expect_error(app, "{\"prompt\":[1.5]}", 400, "prompt", "invalid_value", "entry 0");
    api_expect_error(app, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "invalid_value", "entry 1");
    api_expect_error(app, "{\"prompt\":[\"a\",[1]]}", 400, "prompt", "invalid_value", "entry 1");
    api_expect_error(app, "{\"prompt\":[null]}", 400, "prompt", "invalid_value", "entry 0");
    api_expect_error(app, "{\"prompt\":[\"a\",\"a\",\"a\",\"a\",\"a\"],\"n\":13}", 400, "prompt", "invalid_value",
                     "64");
    api_expect_error(app, "{\"prompt\":\"a\",\"top_k\":1006}", 429, NULL, "queue_full", "full");
    api_expect_error(app, "{\"prompt\":\"a\",\"top_k\":1007}", 400, "kv_budget", "request_too_large", "64");
    api_expect_error(app, "{\"prompt\":\"a\",\"top_k\":1002}", 500, NULL, "numeric_failure", "not a number");
    api_expect_error(app, "{\"prompt\":\"a\",\"top_k\":1004}", 503, NULL, "queue_timeout", "seconds");
    api_expect_error(app, "{\"prompt\":\"abc\",\"top_k\":1005}", 503, NULL, "request_timeout", "seconds");
    api_expect_error(app, "{\"prompt\":\"abcdefgh\",\"top_k\":1001}", 500, NULL, "device_failed", "device");
    assert_true(support_app_idle(app));
    cJSON_Delete(api_post(app, COMPLETIONS, "{\"prompt\":\"a\",\"model\":\"" SUPPORT_MODEL_ID "\"}", 200));
}

static void test_context_exceeded(void **state)
{
    char prompt[4 * SUPPORT_CONTEXT + 200], *body;
    memset(prompt, 'x', sizeof prompt);
    body = api_body(prompt, SUPPORT_CONTEXT + 186, "\"n\":1");
    api_expect_error(*state, body, 400, "prompt", "context_length_exceeded",
                     "698 tokens, but the context is 512 tokens");
    free(body);
    body = api_body(prompt, SUPPORT_CONTEXT, "\"n\":1");
    api_expect_error(*state, body, 400, "prompt", "context_length_exceeded", "has 512 tokens");
    free(body);
    char text[sizeof prompt + 32];
    snprintf(text, sizeof text, "{\"prompt\":\"%.*s\"}", SUPPORT_CONTEXT + 186, prompt);
    api_expect_error(*state, text, 400, "prompt", "context_length_exceeded",
                     "698 tokens, but the context is 512 tokens");
    snprintf(text, sizeof text, "{\"prompt\":\"%.*s\"}", (int)sizeof prompt, prompt);
    api_expect_error(*state, text, 400, "prompt", "context_length_exceeded", "more than 2048 tokens");
}

static void test_hostile_bodies(void **state)
{
    size_t size = 100000;
    char *deep = malloc(size + 1);
    assert_non_null(deep);
    memset(deep, '[', size);
    deep[size] = '\0';
    uint64_t start = roco_now_ns();
    api_expect_error(*state, deep, 400, NULL, "invalid_value", "64 levels");
    assert_true(roco_now_ns() - start < 1000000000u);
    /* A text of this size is worked on off the loop. */
    memset(deep, 'a', size);
    memcpy(deep, "{\"prompt\":\"", 11);
    memcpy(deep + size - 2, "\"}", 2);
    api_expect_error(*state, deep, 400, "prompt", "context_length_exceeded", "context");
    /* Its client may be gone before that is done. */
    for (int i = 0; i < 20; i++)
        support_reset(support_begin_post(*state, COMPLETIONS, deep, size));
    free(deep);
    assert_true(support_app_idle(*state));
}

/* --- phases --- */

static void test_loading(void **state)
{
    support_app *app = support_app_open(SUPPORT_LOADING, NULL);
    api_expect_error(app, "{\"prompt\":\"a\"}", 503, NULL, "loading", "loaded");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),          cmocka_unit_test(test_prompt_forms),
        cmocka_unit_test(test_lengths),        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_context_exceeded),
        cmocka_unit_test(test_hostile_bodies), cmocka_unit_test(test_loading),
    };
    return cmocka_run_group_tests(tests, open_app, close_app);
}
