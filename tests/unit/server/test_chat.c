/* POST /v1/chat/completions over loopback: what the template makes of messages, and every way to be refused.
 *
 * The fake scheduler answers with the prompt itself, so a reply shows what was rendered; control tokens have no text.
 */
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

#define CHAT "/v1/chat/completions"

/* The mark is a control token of the tiny model that ends no answer. */
static const char template[] =
    "{% if bare %}{{ bos_token if bare == 'begun' }}{{ messages[0].content }}{% else %}"
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system comes first') }}"
    "{% endif %}<|im_start|>{{ m.role }}:{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}{% endif %}{% if m.name %}({{ m.name }}){% "
    "endif "
    "%}"
    "<|im_start|>{% endfor %}{% if add_generation_prompt %}<|im_start|>go{% endif %}{{ extra }}"
    "{% if tools is none %}.{% endif %}{% endif %}";

static char path[] = "/tmp/roco-template-XXXXXX";

static int open_app(void **state)
{
    int file = mkstemp(path);
    ROCO_CHECK(file >= 0 && write(file, template, sizeof template - 1) == sizeof template - 1);
    close(file);
    char *flags[] = {"--chat-template", path, NULL};
    *state = support_app_open(SUPPORT_READY, flags);
    return 0;
}

static int close_app(void **state)
{
    support_app_close(*state);
    unlink(path);
    return 0;
}

static cJSON *post(void **state, const char *messages, const char *members, int status)
{
    roco_json_out body = {0};
    roco_json_format(&body, "{\"messages\":[%s]%s%s}", messages, *members ? "," : "", members);
    cJSON *json = api_post(*state, CHAT, body.buffer.data, status);
    roco_json_out_free(&body);
    return json;
}

/* The prompt is `text`, with a control token wherever the template has a mark. */
static void renders(void **state, const char *messages, const char *members, const char *text)
{
    cJSON *json = post(state, messages, members, 200);
    cJSON *message = api_at(api_at(json, "choices")->child, "message");
    assert_string_equal(api_text(message, "content"), text);
    assert_string_equal(api_text(message, "role"), "assistant");
    cJSON_Delete(json);
}

static void refused(void **state, const char *messages, const char *members, const char *param, const char *words)
{
    cJSON *json = post(state, messages, members, 400), *error = api_at(json, "error");
    assert_string_equal(api_text(error, "param"), param);
    assert_string_equal(api_text(error, "type"), "invalid_request_error");
    if (!strstr(api_text(error, "message"), words))
        fail_msg("\"%s\" does not say \"%s\"", api_text(error, "message"), words);
    cJSON_Delete(json);
}

#define USER "{\"role\":\"user\",\"content\":\"hi\"}"

static void test_plain(void **state)
{
    cJSON *json = post(state, USER, "\"max_tokens\":100", 200);
    assert_string_equal(api_text(json, "object"), "chat.completion");
    assert_int_equal(strncmp(api_text(json, "id"), "chatcmpl-", 9), 0);
    cJSON *choice = api_at(json, "choices")->child;
    assert_string_equal(api_text(api_at(choice, "message"), "content"), "user:higo.");
    assert_true(cJSON_IsNull(api_at(api_at(choice, "message"), "refusal")));
    assert_true(cJSON_IsNull(api_at(choice, "logprobs")));
    assert_string_equal(api_text(choice, "finish_reason"), "stop");
    assert_non_null(api_at(api_at(json, "usage"), "kv"));
    cJSON_Delete(json);
}

static void test_messages(void **state)
{
    renders(state, USER, "", "user:higo.");
    renders(state, "{\"role\":\"developer\",\"content\":\"x\"}," USER, "", "system:xuser:higo.");
    renders(state, USER ",{\"role\":\"assistant\",\"content\":null}," USER, "", "user:hiassistant:user:higo.");
    renders(state, USER ",{\"role\":\"assistant\"}", "", "user:hiassistant:go.");
    renders(state,
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}",
            "", "user:a\nbgo.");
    renders(state,
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\"}]}",
            "", "user:\nbgo.");
    renders(state, "{\"role\":\"user\",\"content\":[]}", "", "user:go.");
    renders(state, "{\"role\":\"user\",\"content\":\"hi\",\"name\":\"Al\",\"refusal\":null}", "", "user:hi(Al)go.");
    renders(state,
            "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
            "{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": \\\"y\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\","
            "\"content\":\"z\"}",
            "", "assistant:[f {\"x\": \"y\"}]tool:zgo.");
    renders(state, USER, "\"add_generation_prompt\":false", "user:hi.");
    renders(state, USER, "\"chat_template_kwargs\":{\"extra\":\"more\"}", "user:higomore.");
}

static void test_bad_messages(void **state)
{
    refused(state, "", "", "messages", "at least one");
    refused(state, "1", "", "messages[0]", "must be an object");
    const char *roles[] = {"\"\"", "\"User\"", "\"function\"", "1", "null"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        char message[128];
        snprintf(message, sizeof message, USER ",{\"role\":%s,\"content\":\"x\"}", roles[i]);
        refused(state, message, "", "messages[1].role", "system, developer, user, assistant, tool");
    }
    refused(state, "{\"content\":\"x\"}", "", "messages[0].role", "must be");
    refused(state, "{\"role\":\"user\"}", "", "messages[0].content", "string or an array");
    refused(state, "{\"role\":\"user\",\"content\":null}", "", "messages[0].content", "string or an array");
    refused(state, "{\"role\":\"user\",\"content\":5}", "", "messages[0].content", "string or an array");
    refused(state,
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\",\"image_url\":{"
            "}}]}",
            "", "messages[0].content[1]", "no images");
    refused(state, "{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}", "", "messages[0].content[0]", "its text");
    refused(state, "{\"role\":\"user\",\"content\":[3]}", "", "messages[0].content[0]", "type text");
    refused(state, "{\"role\":\"assistant\",\"tool_calls\":3}", "", "messages[0].tool_calls", "array");
    refused(state, "{\"role\":\"assistant\",\"function_call\":{}}", "", "messages[0].function_call", "tool_calls");
    refused(state, USER ",{\"role\":\"system\",\"content\":\"x\"}", "", "messages", "system comes first");
}

static void test_bad_fields(void **state)
{
    refused(state, USER, "\"prompt\":\"x\"", "prompt", "not supported");
    refused(state, USER, "\"response_format\":{\"type\":\"xml\"}", "response_format.type", "json_schema");
    refused(state, USER, "\"chat_template\":\"x\"", "chat_template", "not supported");
    refused(state, USER, "\"chat_template_kwargs\":{\"messages\":[]}", "chat_template_kwargs", "messages");
    refused(state, USER, "\"chat_template_kwargs\":[]", "chat_template_kwargs", "object");
    refused(state, USER, "\"add_generation_prompt\":1", "add_generation_prompt", "true or false");
    refused(state, USER, "\"add_generation_prompt\":true,\"continue_final_message\":true", "add_generation_prompt",
            "opposite");
    refused(state, USER, "\"max_tokens\":5,\"max_completion_tokens\":6", "max_completion_tokens", "differ");
    cJSON_Delete(api_post(*state, CHAT, "{}", 400));
    cJSON_Delete(api_post(*state, CHAT, "{\"messages\":\"x\"}", 400));
}

/* A control token has no text in an answer: what is seen of a mark in the request was tokenized as plain text. */
static void test_marks_of_users_are_text(void **state)
{
    renders(state, "{\"role\":\"user\",\"content\":\"<|im_end|>\"}", "", "user:<|im_end|>go.");
    renders(state, "{\"role\":\"user\",\"content\":\"\",\"name\":\"<|im_start|>\"}", "", "user:(<|im_start|>)go.");
    renders(state, USER, "\"chat_template_kwargs\":{\"extra\":\"<|im_end|>\"}", "user:higo<|im_end|>.");
    renders(state,
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"<|im\"},{\"type\":\"text\",\"text\":\"_end|>"
            "\"}]}",
            "", "user:<|im\n_end|>go.");
}

static int prompt_tokens(void **state, const char *content, const char *bare)
{
    char message[128], members[128];
    snprintf(message, sizeof message, "{\"role\":\"user\",\"content\":\"%s\"}", content);
    snprintf(members, sizeof members, "\"max_tokens\":1,\"chat_template_kwargs\":{\"bare\":\"%s\"}", bare);
    cJSON *json = post(state, message, members, 200);
    int tokens = api_int(api_at(json, "usage"), "prompt_tokens");
    cJSON_Delete(json);
    return tokens;
}

/* The tiny model's file asks for no begin token, so only the template's counts, and never one that a user typed. */
static void test_the_begin_token_is_the_templates(void **state)
{
    assert_int_equal(prompt_tokens(state, "q", "plain"), 1);
    assert_int_equal(prompt_tokens(state, "q", "begun"), 2);
    int text = prompt_tokens(state, "<|im_start|>", "plain");
    assert_true(text > 2);
    assert_int_equal(prompt_tokens(state, "<|im_start|>", "begun"), text + 1);
}

static void test_continuing(void **state)
{
    const char *more = "\"continue_final_message\":true";
    renders(state, USER ",{\"role\":\"assistant\",\"content\":\"I am\"}", more, "user:hiassistant:I am");
    renders(state, USER ",{\"role\":\"assistant\",\"content\":\"hi\"}", more, "user:hiassistant:hi");
    renders(state, USER ",{\"role\":\"assistant\",\"content\":\"end: \"}", more, "user:hiassistant:end: ");
    refused(state, USER, more, "continue_final_message", "last message of the assistant");
    refused(state, USER ",{\"role\":\"assistant\",\"content\":\"\"}", more, "continue_final_message", "with text");
}

static void test_length(void **state)
{
    char content[SUPPORT_CONTEXT + 1], message[SUPPORT_CONTEXT + 64];
    memset(content, 'x', SUPPORT_CONTEXT);
    content[SUPPORT_CONTEXT] = '\0';
    snprintf(message, sizeof message, "{\"role\":\"user\",\"content\":\"%s\"}", content);
    refused(state, message, "", "messages", "522 tokens, but the context is 512");
    cJSON *json = post(state, USER, "\"max_completion_tokens\":100000", 200);
    cJSON_Delete(json);
    json = post(state, USER, "\"max_tokens\":3", 200);
    assert_string_equal(api_text(api_at(json, "choices")->child, "finish_reason"), "length");
    cJSON_Delete(json);
}

static void test_stream(void **state)
{
    support_reply reply = support_post(*state, CHAT, "{\"messages\":[" USER "],\"stream\":true,\"n\":2}");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.head, "text/event-stream"));
    const char *first = strstr(reply.body, "data: ");
    assert_non_null(strstr(first, "\"object\":\"chat.completion.chunk\""));
    assert_non_null(
        strstr(first, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null"));
    size_t roles = 0, ends = 0;
    for (const char *at = reply.body; (at = strstr(at, "\"role\"")); at++)
        roles++;
    for (const char *at = reply.body; (at = strstr(at, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\""));
         at++)
        ends++;
    assert_int_equal(roles, 2);
    assert_int_equal(ends, 2);
    size_t size = strlen(reply.body);
    assert_string_equal(reply.body + size - 14, "data: [DONE]\n\n");
    support_reply_free(&reply);
}

static void test_no_template(void **state)
{
    support_app *app = support_app_open(SUPPORT_READY, NULL);
    cJSON *json = api_post(app, CHAT, "{\"messages\":[" USER "]}", 400), *error = api_at(json, "error");
    assert_string_equal(api_text(error, "code"), "no_chat_template");
    assert_non_null(strstr(api_text(error, "message"), "has no chat template; start the server with --chat-template"));
    cJSON_Delete(json);
    char *body = api_body("ok", 2, "\"max_tokens\":5");
    cJSON_Delete(api_post(app, COMPLETIONS, body, 200));
    free(body);
    support_app_close(app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_marks_of_users_are_text),
        cmocka_unit_test(test_the_begin_token_is_the_templates),
        cmocka_unit_test(test_continuing),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_no_template),
    };
    return cmocka_run_group_tests(tests, open_app, close_app);
}
