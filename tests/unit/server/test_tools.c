/* Tools over loopback: what the template sees of them, what becomes of calls in an answer, plain and streamed.
 *
 * The fake scheduler answers with the prompt itself, so the template scripts what the "model" writes.
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

/* Shows the names of the tools, of calls and of their results, then the last message. */
static const char hermes[] =
    "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}{% for c in m.tool_calls or [] "
    "%}"
    "{{ c.id }}={{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{{ m.content }}{% endfor %}"
    "{# <tool_call>arguments</tool_call> #}{% if think %}<think>\n{% endif %}{# </think> #}";
/* Writes the marks itself: they are control tokens of the tiny model. */
static const char mistral[] =
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{% for c in m.tool_calls or [] "
    "%}"
    "{{ c.id }}{{ c.function | tojson }}{% endfor %}{{ m.tool_call_id }}{{ m.content if m.role == 'tool' }}{% endfor %}"
    "[TOOL_CALLS]f[ARGS]{{ messages[-1].content }}";
/* Writes arguments between marks. */
static const char tagged[] =
    "{% if messages[0].content == 'probe' and tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}"
    "{% for c in m.tool_calls or [] %}<function={{ c.function.name }}>{% for k, v in c.function.arguments | items %}"
    "<parameter={{ k }}>{{ v }}{% endfor %}{% endfor %}{{ m.content }}{% endfor %}";
/* Whatever it is asked, its first word is an object. */
static const char object[] = "{}{{ messages[0].content }}";
/* Knows of no tools. */
static const char plain[] = "{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}{% endfor %}";
/* Shows tools and says nothing of calls. */
static const char silent[] = "{{ tools[0].function.name if tools }}{{ messages[-1].content }}";

static support_app *open_with(const char *template)
{
    char path[] = "/tmp/roco-template-XXXXXX";
    int file = mkstemp(path);
    ROCO_CHECK(file >= 0 && write(file, template, strlen(template)) == (ssize_t)strlen(template));
    close(file);
    char *flags[] = {"--chat-template", path, NULL};
    support_app *app = support_app_open(SUPPORT_READY, flags);
    unlink(path);
    return app;
}

#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":{\"type\":\"object\"}}}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"

static char *make_body(const char *messages, const char *members, bool stream)
{
    roco_json_out body = {0};
    roco_json_format(&body, "{\"messages\":[%s]%s%s%s}", messages, *members ? "," : "", members,
                     stream ? ",\"stream\":true" : "");
    return body.buffer.data;
}

/* --- what a reply says, as one text: content|reasoning|name(arguments)...|reason --- */

typedef struct summary {
    roco_buffer content, reasoning, calls;
    char reason[32], id[8][64];
    size_t n_calls;
} summary;

static void add(roco_buffer *out, const cJSON *json, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    if (cJSON_IsString(value))
        roco_buffer_append_text(out, value->valuestring);
}

/* A message, or a delta: of a call's first one there is an id, and a name. */
static void add_message(summary *s, const cJSON *message)
{
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    add(&s->content, message, "content");
    add(&s->reasoning, message, "reasoning_content");
    for (const cJSON *call = calls ? calls->child : NULL; call; call = call->next) {
        const cJSON *index = cJSON_GetObjectItemCaseSensitive(call, "index"), *function = api_at(call, "function");
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(call, "id");
        if (id) {
            assert_string_equal(api_text(call, "type"), "function");
            snprintf(s->id[s->n_calls++], 64, "%s", id->valuestring);
            roco_buffer_append_text(&s->calls, s->n_calls > 1 ? ")" : "");
            add(&s->calls, function, "name");
            roco_buffer_append_text(&s->calls, "(");
        }
        assert_true(!index || index->valueint == (int)s->n_calls - 1);
        add(&s->calls, function, "arguments");
    }
}

static void add_choice(summary *s, const cJSON *choice, const char *message)
{
    const cJSON *reason = cJSON_GetObjectItemCaseSensitive(choice, "finish_reason");
    add_message(s, api_at(choice, message));
    if (cJSON_IsString(reason))
        snprintf(s->reason, sizeof s->reason, "%s", reason->valuestring);
}

static char *tell(summary *s)
{
    roco_buffer out = {0};
    roco_buffer_append_format(&out, "%s|%s|%s%s|%s", s->content.data ? s->content.data : "",
                              s->reasoning.data ? s->reasoning.data : "", s->calls.data ? s->calls.data : "",
                              s->n_calls ? ")" : "", s->reason);
    roco_buffer_free(&s->content);
    roco_buffer_free(&s->reasoning);
    roco_buffer_free(&s->calls);
    return out.data;
}

static char *ask_plain(support_app *app, const char *body, summary *s)
{
    cJSON *json = api_post(app, CHAT, body, 200);
    add_choice(s, api_at(json, "choices")->child, "message");
    cJSON_Delete(json);
    return tell(s);
}

static char *ask_stream(support_app *app, const char *body, summary *s)
{
    support_reply reply = support_post(app, CHAT, body);
    assert_int_equal(reply.status, 200);
    for (const char *at = reply.body; (at = strstr(at, "data: {")); at++) {
        cJSON *json = cJSON_Parse(at + 6);
        assert_non_null(json);
        add_choice(s, api_at(json, "choices")->child, "delta");
        cJSON_Delete(json);
    }
    support_reply_free(&reply);
    return tell(s);
}

/* Plain and streamed alike. */
static void answers(support_app *app, const char *messages, const char *members, const char *expected)
{
    for (int stream = 0; stream < 2; stream++) {
        char *body = make_body(messages, members, stream);
        summary s = {0};
        char *told = stream ? ask_stream(app, body, &s) : ask_plain(app, body, &s);
        assert_string_equal(told, expected);
        for (size_t i = 0; i < s.n_calls; i++)
            for (size_t j = 0; j < i; j++)
                assert_string_not_equal(s.id[i], s.id[j]);
        free(told);
        free(body);
    }
}

static void refuses(support_app *app, const char *messages, const char *members, const char *param, const char *words)
{
    char *body = make_body(messages, members, false);
    cJSON *json = api_post(app, CHAT, body, 400), *error = api_at(json, "error");
    assert_string_equal(api_text(error, "param"), param);
    if (!strstr(api_text(error, "message"), words))
        fail_msg("\"%s\" does not say \"%s\"", api_text(error, "message"), words);
    cJSON_Delete(json);
    free(body);
}

/* --- the tests --- */

#define CALL(name) "<tool_call>{\\\"name\\\": \\\"" name "\\\", \\\"arguments\\\": {\\\"a\\\": 1}}</tool_call>"
#define TOOLS      "\"tools\":[" TOOL("f") "," TOOL("g") "]"

static void test_calls(void **state)
{
    support_app *app = open_with(hermes);
    (void)state;
    answers(app, USER("hi"), TOOLS, "f;g;hi|||stop");
    answers(app, USER(CALL("f")), TOOLS, "f;g;||f({\"a\": 1})|tool_calls");
    answers(app, USER("Well.\\n" CALL("f") "\\n" CALL("g") "\\n"), TOOLS,
            "f;g;Well.||f({\"a\": 1})g({\"a\": 1})|tool_calls");
    answers(app, USER(CALL("f") CALL("g")), TOOLS ",\"parallel_tool_calls\":false", "f;g;||f({\"a\": 1})|tool_calls");
    answers(app, USER("<tool_call>oops</tool_call>"), TOOLS, "f;g;<tool_call>oops</tool_call>|||stop");
    /* Without tools, and with tools that may not be called, nothing is looked for. */
    answers(app, USER("<tool_call>{}"), "", "<tool_call>{}|||stop");
    answers(app, USER(CALL("f")), TOOLS ",\"tool_choice\":\"none\"",
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>|||stop");
    answers(app, USER("hi"), "\"tools\":[],\"tool_choice\":\"auto\"", "hi|||stop");
    /* A length in the middle of a call is a length. */
    answers(app, USER("<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": 1, \\\"b\\\": 2}}"),
            "\"max_tokens\":44," TOOLS, "f;g;||f({\"a)|length");
    support_app_close(app);
}

/* The marks are control tokens, which have no text in answers but where they mark something. */
static void test_marks_that_are_control_tokens(void **state)
{
    support_app *app = open_with(mistral);
    (void)state;
    answers(app, USER("{\\\"a\\\": 1}"), "\"tools\":[" TOOL("f") "]", "f||f({\"a\": 1})|tool_calls");
    answers(app, USER("{\\\"a\\\": 1}"), "", "f{\"a\": 1}|||stop");
    /* Typed by a user they are text, which in the answer is nothing but a call's spelling. */
    summary s = {0};
    char *body = make_body(USER("{}"), "\"tools\":[" TOOL("f") "]", false), *told = ask_plain(app, body, &s);
    assert_int_equal(strlen(s.id[0]), 9);
    assert_int_equal(strspn(s.id[0], "abcdefghijklmnopqrstuvwxyz0123456789"), 9);
    free(told);
    free(body);
    /* Other servers' ids become nine letters and digits, the same for call and result. */
    const char *history =
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_1234567890\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"call_1234567890\",\"content\":\"\"}";
    summary t = {0};
    body = make_body(history, "", false);
    told = ask_plain(app, body, &t);
    const char *between = strstr(told, "{\"name\": \"f\", \"arguments\": {}}");
    assert_non_null(between);
    assert_int_equal(between - told, 9);
    assert_memory_equal(told, strchr(between, '}') + 2, 9);
    free(told);
    free(body);
    support_app_close(app);
}

static void test_reasoning(void **state)
{
    support_app *app = open_with(hermes);
    (void)state;
    const char *text = USER("<think>\\nHm.\\n</think>\\n\\nYes.");
    answers(app, text, "", "Yes.|Hm.||stop");
    answers(app, text, "\"reasoning_format\":\"none\"", "<think>\nHm.\n</think>\n\nYes.|||stop");
    answers(app, text, "\"include_reasoning\":false", "Yes.|||stop");
    refuses(app, text, "\"reasoning_format\":\"all\"", "reasoning_format", "\"auto\", \"deepseek\" or \"none\"");
    support_app_close(app);
}

/* What the text of an argument means follows from the function's schema. */
static void test_arguments_that_are_texts(void **state)
{
    static const char tools[] = "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                                "\"type\":\"object\",\"properties\":{"
                                "\"s\":{\"type\":\"string\"},\"e\":{\"enum\":[\"1\",\"2\"]},\"m\":{\"type\":["
                                "\"string\",\"null\"]},\"i\":{\"type\":"
                                "\"integer\"},\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"}}}}}]";
    static const struct {
        const char *name, *text, *json;
    } cases[] = {
        {"s", "5", "\"5\""},
        {"s", "null", "\"null\""},
        {"s", "a\\\"b\\n\\u00e9", "\"a\\\"b\\né\""},
        {"e", "1", "\"1\""},
        {"m", "None", "null"},
        {"m", "7", "\"7\""},
        {"i", "5", "5"},
        {"i", "five", "\"five\""},
        {"b", "True", "true"},
        {"o", "{\\\"x\\\": []}", "{\"x\": []}"},
        {"other", "[1]", "[1]"},
    };
    support_app *app = open_with(tagged);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[256], told[256];
        snprintf(message, sizeof message,
                 USER("<tool_call>\\n<function=f>\\n<parameter=%s>\\n%s\\n</parameter>\\n</function>\\n</tool_call>"),
                 cases[i].name, cases[i].text);
        snprintf(told, sizeof told, "||f({\"%s\": %s})|tool_calls", cases[i].name, cases[i].json);
        answers(app, message, tools, told);
    }
    support_app_close(app);
}

static void test_history(void **state)
{
    const char *messages =
        USER("q") ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":"
                  "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": "
                  "\\\"<|im_end|>\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":"
                  "\"22 C\"}";
    support_app *app = open_with(hermes);
    (void)state;
    answers(app, messages, "", "qc1=f{\"x\": \"<|im_end|>\"}22 C|||stop");
    support_app_close(app);
    app = open_with(plain);
    answers(app, messages, "",
            "user:qassistant:<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"<|im_end|>\"}}\n</tool_call>"
            "user:<tool_response>\n22 C\n</tool_response>|||stop");
    /* Of doubled members the one that was checked is the one that is used. */
    answers(app,
            USER("q") ",{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"name\":5},"
                      "\"function\":5}],\"tool_calls\":[{\"function\":{\"name\":\"g\"}}]}",
            "", "user:qassistant:<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>|||stop");
    support_app_close(app);
}

/* A template that knows of no tools gets them in words, and their strings stay text. */
static void test_described_tools(void **state)
{
    support_app *app = open_with(plain);
    (void)state;
    char *body = make_body(USER("hi"), "\"tools\":[" TOOL("f<|im_end|>") "]", false);
    cJSON_Delete(api_post(app, CHAT, body, 400));
    free(body);
    const char *tools =
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"<|im_end|>\"}}]";
    summary s = {0};
    body = make_body(USER("hi"), tools, false);
    char *told = ask_plain(app, body, &s);
    assert_non_null(strstr(told, "<tools>\n{\"name\":\"f\",\"description\":\"<|im_end|>\"}\n</tools>"));
    assert_non_null(strstr(told, "hi|||stop"));
    free(told);
    free(body);
    support_app_close(app);
}

/* The prompt ends with the call's beginning, which the reply tells too; the first object is all there is to it. */
static void test_forced_calls(void **state)
{
    support_app *app = open_with(object);
    (void)state;
    answers(app, USER("hi"), TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}",
            "||g({})|tool_calls");
    answers(app, USER("hi"), "\"tools\":[" TOOL("f") "],\"tool_choice\":\"required\"", "||f({})|tool_calls");
    support_app_close(app);
}

static void test_bad_tools(void **state)
{
    support_app *app = open_with(hermes);
    (void)state;
    const struct {
        const char *members, *param, *words;
    } cases[] = {
        {"\"tools\":5", "tools", "array"},
        {"\"tools\":[5]", "tools[0].type", "\"function\""},
        {"\"tools\":[{\"type\":\"web_search\"}]", "tools[0].type", "\"function\""},
        {"\"tools\":[{\"type\":\"function\"}]", "tools[0].function", "object"},
        {"\"tools\":[" TOOL("f") "," TOOL("a b") "]", "tools[1].function.name", "64 letters"},
        {"\"tools\":[" TOOL("") "]", "tools[0].function.name", "64 letters"},
        {"\"tools\":[" TOOL("f") "," TOOL("f") "]", "tools[1].function.name", "another tool"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]",
         "tools[0].function.parameters", "Schema"},
        {"\"tool_choice\":\"required\"", "tool_choice", "no tools"},
        {TOOLS ",\"tool_choice\":\"any\"", "tool_choice", "\"required\""},
        {TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"h\"}}", "tool_choice", "not in tools"},
        {TOOLS ",\"parallel_tool_calls\":1", "parallel_tool_calls", "true or false"},
        {"\"functions\":[{}]", "functions", "not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(app, USER("hi"), cases[i].members, cases[i].param, cases[i].words);
    const char *bad[][2] = {{"5", "messages[0].tool_calls[0].function"},
                            {"{\"function\":{\"arguments\":\"{}\"}}", "messages[0].tool_calls[0].function"},
                            {"{\"function\":{\"name\":\"f\",\"arguments\":7}}", "messages[0].tool_calls[0].function"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[256];
        snprintf(message, sizeof message, "{\"role\":\"assistant\",\"tool_calls\":[%s]}", bad[i][0]);
        refuses(app, message, "", bad[i][1], "must");
    }
    support_app_close(app);
    app = open_with(silent);
    refuses(app, USER("hi"), TOOLS, "tools", "does not know");
    support_app_close(app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),        cmocka_unit_test(test_marks_that_are_control_tokens),
        cmocka_unit_test(test_reasoning),    cmocka_unit_test(test_arguments_that_are_texts),
        cmocka_unit_test(test_history),      cmocka_unit_test(test_described_tools),
        cmocka_unit_test(test_forced_calls), cmocka_unit_test(test_bad_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
