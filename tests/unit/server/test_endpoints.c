/* The small endpoints: models, health, ready, metrics, tokenize, detokenize. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_app(void **state)
{
    *state = support_app_open(SUPPORT_READY, NULL);
    return 0;
}

static int close_app(void **state)
{
    support_app_close(*state);
    return 0;
}

static void test_models(void **state)
{
    cJSON *json = api_get(*state, "/v1/models", 200);
    assert_string_equal(api_text(json, "object"), "list");
    cJSON *model = api_at(json, "data")->child, *meta = api_at(model, "meta");
    assert_null(model->next);
    assert_string_equal(api_text(model, "id"), SUPPORT_MODEL_ID);
    assert_string_equal(api_text(model, "object"), "model");
    assert_int_equal(api_int(meta, "n_vocab"), SUPPORT_N_VOCAB);
    assert_int_equal(api_int(meta, "n_context"), SUPPORT_CONTEXT);
    assert_string_equal(api_text(meta, "kv_policy"), "roco");
    assert_int_equal(api_int(meta, "kv_budget"), SUPPORT_CONTEXT); /* 1024 is over the ceiling, the context */
    cJSON_Delete(json);
}

static void test_health(void **state)
{
    cJSON *json = api_get(*state, "/health", 200);
    assert_string_equal(api_text(json, "status"), "ok");
    cJSON_Delete(json);
    json = api_get(*state, "/ready", 200);
    assert_string_equal(api_text(json, "status"), "ready");
    cJSON_Delete(json);
}

static void test_metrics_count(void **state)
{
    cJSON_Delete(api_post(*state, COMPLETIONS, "{\"prompt\":\"ab\"}", 200));
    cJSON_Delete(api_post(*state, COMPLETIONS, "{\"prompt\":\"ab\",\"max_tokens\":1}", 200));
    cJSON_Delete(api_post(*state, COMPLETIONS, "{\"prompt\":7}", 400));
    cJSON_Delete(api_post(*state, COMPLETIONS, "{\"prompt\":\"a\",\"top_k\":1002}", 500));
    support_reply reply = support_get(*state, "/metrics");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.head, "Content-Type: text/plain; version=0.0.4"));
    assert_non_null(strstr(reply.body, "roco_requests_total{outcome=\"stop\"} 1\n"));
    assert_non_null(strstr(reply.body, "roco_requests_total{outcome=\"length\"} 1\n"));
    assert_non_null(strstr(reply.body, "roco_requests_total{outcome=\"rejected\"} 1\n"));
    assert_non_null(strstr(reply.body, "roco_requests_total{outcome=\"error\"} 1\n"));
    assert_non_null(strstr(reply.body, "model=\"" SUPPORT_MODEL_ID "\""));
    support_reply_free(&reply);
}

static void expect_ids(support_app *app, const char *body, const char *ids, int count)
{
    cJSON *json = api_post(app, "/tokenize", body, 200);
    char *text = cJSON_PrintUnformatted(api_at(json, "tokens"));
    assert_string_equal(text, ids);
    assert_int_equal(api_int(json, "count"), count);
    free(text);
    cJSON_Delete(json);
}

static void test_tokenize(void **state)
{
    expect_ids(*state, "{\"text\":\"ab\"}", "[100,101]", 2);
    expect_ids(*state, "{\"content\":\"\"}", "[]", 0);
    expect_ids(*state, "{\"text\":\"a<|im_end|>\"}", "[100,2]", 2);
    expect_ids(*state, "{\"text\":\"<|\",\"special\":false}", "[63,127]", 2);
    cJSON *json = api_post(*state, "/tokenize", "{\"text\":\"<|im_end|>\",\"special\":false}", 200);
    assert_true(api_int(json, "count") > 1);
    cJSON_Delete(json);
    static const char *const bad[] = {
        "{}", "{\"text\":7}", "{\"text\":\"a\",\"content\":\"b\"}", "{\"text\":\"a\",\"special\":1}", "[]", "{"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cJSON_Delete(api_post(*state, "/tokenize", bad[i], 400));
}

static void test_detokenize(void **state)
{
    cJSON *json = api_post(*state, "/detokenize", "{\"tokens\":[100,2,243,162,155,131,101]}", 200);
    assert_string_equal(api_text(json, "text"), "a<|im_end|>\xf0\x9f\x98\x80"
                                                "b");
    cJSON_Delete(json);
    json = api_post(*state, "/detokenize", "{\"tokens\":[258,100]}", 200);
    assert_string_equal(api_text(json, "text"), "\xef\xbf\xbd"
                                                "a");
    cJSON_Delete(json);
    json = api_post(*state, "/detokenize", "{\"tokens\":[]}", 200);
    assert_string_equal(api_text(json, "text"), "");
    cJSON_Delete(json);
    static const char *const bad[] = {"{}",
                                      "{\"tokens\":\"a\"}",
                                      "{\"tokens\":[-1]}",
                                      "{\"tokens\":[320]}",
                                      "{\"tokens\":[1.5]}",
                                      "{\"tokens\":[null]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cJSON_Delete(api_post(*state, "/detokenize", bad[i], 400));
}

/* Over the size that is worked on off the loop. */
static void test_large_text(void **state)
{
    enum { SIZE = 200000 };
    char *body = malloc(SIZE + 32);
    assert_non_null(body);
    memcpy(body, "{\"text\":\"", 9);
    memset(body + 9, 'q', SIZE);
    strcpy(body + 9 + SIZE, "\"}");
    cJSON *json = api_post(*state, "/tokenize", body, 200);
    assert_int_equal(api_int(json, "count"), SIZE);
    cJSON_Delete(json);
    for (int i = 0; i < 10; i++)
        support_reset(support_begin_post(*state, "/tokenize", body, strlen(body)));
    assert_true(support_app_idle(*state));
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),   cmocka_unit_test(test_health),     cmocka_unit_test(test_metrics_count),
        cmocka_unit_test(test_tokenize), cmocka_unit_test(test_detokenize), cmocka_unit_test(test_large_text),
    };
    return cmocka_run_group_tests(tests, open_app, close_app);
}
