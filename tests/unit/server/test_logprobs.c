/* Log-probabilities over loopback: shapes, tokens that are no text, stop strings, echo, streams, the best of several.
 */
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

/* The "logprobs" member of the first choice, or of all events of a stream, as text with the numbers made whole. */
static char *logprobs_of(support_app *app, const char *text, size_t size, const char *members)
{
    char *body = api_body(text, size, members);
    support_reply reply = support_post(app, COMPLETIONS, body);
    assert_int_equal(reply.status, 200);
    roco_json_out all = {0};
    roco_json_raw(&all, "");
    for (const char *at = reply.body; (at = strstr(at, "\"logprobs\":")); at++) {
        const char *end = strstr(at, ",\"finish_reason\"");
        assert_non_null(end);
        if (strncmp(at + 11, "null", 4) != 0)
            roco_json_format(&all, "%.*s", (int)(end - at - 11), at + 11);
    }
    support_reply_free(&reply);
    free(body);
    return all.buffer.data;
}

static void test_shapes(void **state)
{
    static const struct {
        const char *text, *members, *expected;
    } cases[] = {
        {"xy", "\"logprobs\":0",
         "{\"tokens\":[\"x\",\"y\"],\"token_logprobs\":[-2,-3],\"top_logprobs\":[{\"x\":-2},{\"y\":-3}],"
         "\"text_offset\":[0,1]}"},
        /* the token itself is told once, though it is among the best */
        {"bz", "\"logprobs\":2",
         "{\"tokens\":[\"b\",\"z\"],\"token_logprobs\":[-2,-3],\"top_logprobs\":[{\"b\":-2,\"a\":-0.125},"
         "{\"z\":-3,\"a\":-0.125,\"b\":-0.25}],\"text_offset\":[0,1]}"},
        /* three bytes of one character are three tokens, which begin where it does */
        {"\xe2\x82\xacg", "\"logprobs\":0",
         "{\"tokens\":[\"bytes:\\\\xe2\",\"bytes:\\\\x82\",\"bytes:\\\\xac\",\"g\"],\"token_logprobs\":[-4,-5,-6,-7],"
         "\"top_logprobs\":[{\"bytes:\\\\xe2\":-4},{\"bytes:\\\\x82\":-5},{\"bytes:\\\\xac\":-6},{\"g\":-7}],"
         "\"text_offset\":[0,0,0,1]}"},
        /* what a stop string cuts has no entry */
        {"abcd", "\"logprobs\":0,\"stop\":\"cd\"",
         "{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-4,-5],\"top_logprobs\":[{\"a\":-4},{\"b\":-5}],"
         "\"text_offset\":[0,1]}"},
        {"xyz", "\"logprobs\":0,\"echo\":true,\"max_tokens\":1",
         "{\"tokens\":[\"x\",\"y\",\"z\",\"x\"],\"token_logprobs\":[null,-1,-2,-3],\"top_logprobs\":[null,{\"y\":-1},"
         "{\"z\":-2},{\"x\":-3}],\"text_offset\":[0,1,2,3]}"},
        {"xyz", "\"logprobs\":1,\"echo\":true,\"max_tokens\":0",
         "{\"tokens\":[\"x\",\"y\",\"z\"],\"token_logprobs\":[null,-1,-2],\"top_logprobs\":[null,"
         "{\"y\":-1,\"a\":-0.125},{\"z\":-2,\"a\":-0.125}],\"text_offset\":[0,1,2]}"},
        {"xyz", "\"logprobs\":1,\"max_tokens\":0",
         "{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],\"text_offset\":[]}"},
        /* JSON has no infinity */
        {"~", "\"logprobs\":0",
         "{\"tokens\":[\"~\"],\"token_logprobs\":[-9999],\"top_logprobs\":[{\"~\":-9999}],\"text_offset\":[0]}"},
        {"xyz", "\"echo\":true", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = logprobs_of(*state, cases[i].text, strlen(cases[i].text), cases[i].members);
        assert_string_equal(found, cases[i].expected);
        free(found);
    }
}

/* The events' entries, list by list, are those of the plain reply; each event has as many as its text has tokens. */
static void test_streams_tell_the_same(void **state)
{
    static const char text[] = "a\xe2\x82\xac then 12 end";
    static const char *const members[] = {
        "\"logprobs\":1,\"stop\":[\"2 e\",\"then 13\"]",
        "\"logprobs\":1,\"echo\":true",
        "\"logprobs\":0,\"max_tokens\":2", /* ends within a character */
        "\"logprobs\":2,\"echo\":true,\"max_tokens\":0",
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char streamed[256];
        char *plain = logprobs_of(*state, text, sizeof text - 1, members[i]);
        snprintf(streamed, sizeof streamed, "%s,\"stream\":true", members[i]);
        char *joined = logprobs_of(*state, text, sizeof text - 1, streamed);
        cJSON *whole = cJSON_Parse(plain), *sum = cJSON_Duplicate(whole, true);
        for (cJSON *list = sum->child; list; list = list->next)
            while (list->child)
                cJSON_DeleteItemFromArray(list, 0);
        for (const char *at = joined; *at;) {
            cJSON *part = cJSON_ParseWithOpts(at, &at, false);
            assert_non_null(part);
            for (cJSON *list = part->child, *to = sum->child; list; list = list->next, to = to->next)
                while (list->child)
                    cJSON_AddItemToArray(to, cJSON_DetachItemFromArray(list, 0));
            cJSON_Delete(part);
        }
        assert_true(cJSON_Compare(whole, sum, true));
        cJSON_Delete(whole);
        cJSON_Delete(sum);
        free(plain);
        free(joined);
    }
}

static void test_what_needs_the_vocabulary(void **state)
{
    support_app *app = *state;
    static const struct {
        const char *members, *field, *words;
    } cases[] = {
        {"\"logit_bias\":{\"320\":1}", "logit_bias", "0 to 319"},
        {"\"logit_bias\":{\"-1\":1}", "logit_bias", "key 0"},
        {"\"logit_bias\":{\"5\":1,\"05\":1}", "logit_bias", "key 1"},
        {"\"logit_bias\":{\"\":1}", "logit_bias", "key 0"},
        {"\"logit_bias\":{\"5\":1,\"5\":1}", "logit_bias", "twice"},
        {"\"logit_bias\":{\"5\":100.5}", "logit_bias", "-100 to 100"},
        {"\"logit_bias\":{\"5\":\"1\"}", "logit_bias", "-100 to 100"},
        {"\"logit_bias\":{\"99999999999999999999\":1}", "logit_bias", "key 0"},
        {"\"stop_token_ids\":[320]", "stop_token_ids", "0 to 319"},
        {"\"stop_token_ids\":[1,\"2\"]", "stop_token_ids", "entry 1"},
        {"\"best_of\":16,\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\"]", "prompt", "limit of 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        const char *prompt = strstr(cases[i].members, "prompt\"") ? "" : "\"prompt\":\"a\",";
        snprintf(body, sizeof body, "{%s%s}", prompt, cases[i].members);
        api_expect_error(app, body, 400, cases[i].field, "invalid_value", cases[i].words);
    }
    char many[8192] = "{\"prompt\":\"a\",\"logit_bias\":{";
    for (int i = 0; i <= 300; i++)
        sprintf(many + strlen(many), "%s\"%d\":1", i ? "," : "", i);
    strcat(many, "}}");
    api_expect_error(app, many, 400, "logit_bias", "invalid_value", "at most 300");
}

/* All tried answers are alike here: the first ones are returned, and all are counted. */
static void test_best_of(void **state)
{
    cJSON *json = api_post(*state, COMPLETIONS, "{\"prompt\":[\"ab\",\"c\"],\"n\":2,\"best_of\":3}", 200);
    static const char *const texts[] = {"ab", "ab", "c", "c"};
    int index = 0;
    for (cJSON *choice = api_at(json, "choices")->child; choice; choice = choice->next, index++) {
        assert_int_equal(api_int(choice, "index"), index);
        assert_string_equal(api_text(choice, "text"), texts[index]);
        assert_true(cJSON_IsNull(api_at(choice, "logprobs")));
    }
    assert_int_equal(index, 4);
    assert_int_equal(api_int(api_at(json, "usage"), "completion_tokens"), 3 * 3 + 3 * 2);
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shapes, open_app, close_app),
        cmocka_unit_test_setup_teardown(test_streams_tell_the_same, open_app, close_app),
        cmocka_unit_test_setup_teardown(test_what_needs_the_vocabulary, open_app, close_app),
        cmocka_unit_test_setup_teardown(test_best_of, open_app, close_app),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
