/* Which answers the grammar of a request's tools lets through, in each form of calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/constraints.h"
#include "server/tool_grammar.h"
#include "support_gguf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STRICT                                                                                                         \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":\"object\","         \
    "\"properties\":"                                                                                                  \
    "{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],\"additionalProperties\":false}}}"
#define LOOSE "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"

typedef struct world {
    roco_source *source;
    roco_tokenizer *tokenizer;
    roco_constraints *constraints;
    roco_masks *masks;
} world;

static int open_world(void **state)
{
    static world w;
    char path[] = "/tmp/roco-test-XXXXXX";
    roco_error error;
    tiny_model model = tiny_model_default();
    int file = mkstemp(path);
    ROCO_CHECK(file >= 0);
    close(file);
    model.call_marks = true;
    tiny_model_save(&model, path);
    ROCO_CHECK(roco_source_open(path, &w.source, &error) == ROCO_OK);
    ROCO_CHECK(roco_tokenizer_open(w.source, &w.tokenizer, &error) == ROCO_OK);
    ROCO_CHECK(roco_constraints_open(w.tokenizer, model.n_vocab, &w.constraints, &error) == ROCO_OK);
    ROCO_CHECK(roco_masks_open(roco_constraints_vocabulary(w.constraints), 1 << 20, &w.masks, &error) == ROCO_OK);
    unlink(path);
    *state = &w;
    return 0;
}

static int close_world(void **state)
{
    world *w = *state;
    roco_masks_close(w->masks);
    roco_constraints_close(w->constraints);
    roco_tokenizer_close(w->tokenizer);
    roco_source_close(w->source);
    return 0;
}

/* A request with the two tools. choice NULL: auto; formed: what is no call is one of two words. */
static roco_matcher *open_matcher(world *w, const char *form, const char *choice, bool parallel, bool formed)
{
    roco_chat_template chat = {.calls = roco_call_form_named(form), .writes_tools = true};
    cJSON *tools = cJSON_Parse("[" STRICT "," LOOSE "]");
    roco_completion_params params = {.tools = tools, .parallel_tool_calls = parallel, .several_asked = true};
    roco_constraint *constraint = NULL;
    roco_error error;
    cJSON *words = cJSON_Parse("[\"yes\",\"no\"]");
    if (formed)
        params.constraint = (roco_constraint_field){ROCO_CONSTRAINT_CHOICE, words, "guided_choice"};
    if (choice) {
        params.tool_choice = ROCO_TOOLS_REQUIRED;
        params.tool_name = *choice ? choice : NULL;
    }
    assert_int_equal(roco_tools_constrain(&chat, &params, &error), ROCO_OK);
    assert_int_equal(params.constraint.kind, ROCO_CONSTRAINT_TOOLS);
    roco_status status = roco_constraints_get(w->constraints, &params.constraint, true, &constraint, &error);
    if (status)
        fail_msg("%s: %s", form, error.message);
    roco_matcher *matcher = roco_matcher_open(constraint, w->masks);
    roco_constraint_release(constraint);
    cJSON_Delete(params.made);
    cJSON_Delete(words);
    cJSON_Delete(tools);
    return matcher;
}

/* The bytes of an answer; \x01 is the control token [TOOL_CALLS], \x02 is [ARGS]. */
static bool lets_through(roco_matcher *matcher, const char *text)
{
    bool good = true;
    for (; good && *text; text++)
        good = (*text <= 2 ? roco_matcher_advance(matcher, (int32_t)TINY_MIN_VOCAB + *text - 1)
                           : roco_matcher_advance_bytes(matcher, text, 1)) == ROCO_OK;
    return good && roco_matcher_may_end(matcher);
}

typedef struct grammar_case {
    const char *form, *choice, *answer;
    bool good, single, formed;
} grammar_case;

/* Rows end where the rest is nothing. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define F(arguments) "<tool_call>\n{\"name\": \"f\", \"arguments\": " arguments "}\n</tool_call>"
#define G(arguments) "<tool_call>\n{\"name\": \"g\", \"arguments\": " arguments "}\n</tool_call>"

static const grammar_case cases[] = {
    /* A call that must come was begun in the prompt. */
    {"hermes", "f", "{\"a\": 1}", true, true},
    {"hermes", "f", "{}", false, true},
    {"hermes", "f", "{\"a\": \"x\"}", false, true},
    {"hermes", "f", "{\"a\": 1} and", false, true},
    {"hermes", "g", "{\"x\": [1]}", true, true},
    {"hermes", "g", "[1]", false, true},
    {"hermes", "", "f\", \"arguments\": {\"a\": 1}", true, true},
    {"hermes", "", "g\", \"arguments\": {}", true, true},
    {"hermes", "", "f\", \"arguments\": {}", false, true},
    {"hermes", "", "h\", \"arguments\": {}", false, true},
    {"mistral", "", "f\2{\"a\": 1}", true, true},
    {"mistral", "", "f[ARGS]{\"a\": 1}", false, true},
    /* More may follow it, unless it was named or is to be the only one. */
    {"hermes", "", "f\", \"arguments\": {\"a\": 1}}\n</tool_call>", true},
    {"hermes", "", "f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n" G("{\"b\": 2}") "\n" F("{\"a\": 2}"), true},
    {"hermes", "", "f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n" F("{}"), false},
    {"hermes", "", "f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n" G("{}"), false, true},
    {"hermes", "f", "{\"a\": 1}}\n</tool_call>\n" G("{}"), false},
    {"mistral", "", "f\2{\"a\": 1}\1g\2{}", true},
    {"phi", "", "f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]<|/tool_call|>", true},
    /* Calls beside a form that the text must have. */
    {"hermes", NULL, "yes", true, false, true},
    {"hermes", NULL, "maybe", false, false, true},
    {"hermes", NULL, "", false, false, true},
    {"hermes", NULL, F("{\"a\": 1}") "\n" G("{}"), true, false, true},
    {"hermes", NULL, F("{\"a\": 1}") "\n" G("{}"), false, true, true},
    {"hermes", NULL, F("{}"), false, false, true},
    {"hermes", NULL, "yes" F("{\"a\": 1}"), false, false, true},
    {"mistral", NULL, "\1f\2{\"a\": 1}", true, false, true},
    {"mistral", NULL, "no", true, false, true},
    {"granite", NULL, "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]", true, false, true},
    {"hermes", "", "g\", \"arguments\": {}}\n</tool_call>", true, false, true},
    /* Arguments between marks. */
    {"qwen-xml", "f", "<parameter=a>\n1\n</parameter>\n</function>", true, true},
    {"qwen-xml", "f", "</function>", false, true},
    {"qwen-xml", "f", "<parameter=a>\nx\n</parameter>\n</function>", false, true},
    {"qwen-xml", "f", "<parameter=b>\n1\n</parameter>\n</function>", false, true},
    {"qwen-xml", "g", "<parameter=any>\n<text>\n\n</parameter>\n</function>", true, true},
    {"qwen-xml", "", "f>\n<parameter=a>\n1\n</parameter>\n</function>", true, true},
    {"qwen-xml", NULL, "So.<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", true},
    {"qwen-xml", NULL, "<tool_call>\n<function=f>\n</function>\n</tool_call>", false},
    {"seed", "f", "<parameter=a>1</parameter>\n</function>", true, true},
    {"glm", "f", "<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", true, true},
    {"glm", NULL, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>null</arg_value>\n</tool_call>", false},
    /* What may be a call. */
    {"hermes", NULL, "", true, false},
    {"hermes", NULL, "Just <text>.", true, false},
    {"hermes", NULL, "Well.\n" F("{\"a\": 1}"), true, false},
    {"hermes", NULL, F("{\"a\": 1}") "\n" G("{\"b\": 2}"), true, false},
    {"hermes", NULL, F("{\"a\": 1}") "\n" G("{\"b\": 2}"), false, true},
    {"hermes", NULL, F("{\"a\": true}"), false, false},
    {"hermes", NULL, F("{\"a\": 1}") " and text", false, false},
    {"hermes", NULL, "<tool_call>soon", false, false},
    {"mistral", NULL, "Text.", true, false},
    {"mistral", NULL, "Text.\1f\2{\"a\": 1}\1g\2{}", true, false},
    {"mistral", NULL, "\1f\2{\"a\": null}", false, false},
    {"mistral-list", NULL, "\1[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
     true, false},
    {"llama", NULL, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", true, false},
    {"llama", NULL, "{\"name\": \"f\", \"parameters\": {}}", false, false},
    {"llama", NULL, "So {it} is.", true, false},
    {"granite", NULL, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", true, false},
    {"phi", NULL, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|/tool_call|>", true, false},
};

static void test_answers(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const grammar_case *c = &cases[i];
        roco_matcher *matcher = open_matcher(*state, c->form, c->choice, !c->single, c->formed);
        if (lets_through(matcher, c->answer) != c->good)
            fail_msg("%s, %s: \"%s\" is %s", c->form, c->choice ? c->choice : "auto", c->answer,
                     c->good ? "refused" : "let through");
        roco_matcher_close(matcher);
    }
}

static void test_nothing_to_keep(void **state)
{
    roco_chat_template chat = {.calls = roco_call_form_general()};
    cJSON *tools = cJSON_Parse("[" LOOSE "]");
    roco_completion_params params = {.tools = tools};
    roco_error error;
    (void)state;
    assert_int_equal(roco_tools_constrain(&chat, &params, &error), ROCO_OK);
    assert_int_equal(params.constraint.kind, ROCO_CONSTRAINT_NONE);
    params.tool_choice = ROCO_TOOLS_REQUIRED;
    params.ignore_eos = true;
    assert_int_equal(roco_tools_constrain(&chat, &params, &error), ROCO_INVALID);
    cJSON_Delete(params.made);
    cJSON_Delete(tools);
}

/* JSON and calls that are JSON without a mark cannot be told apart. */
static void test_forms_that_exclude_each_other(void **state)
{
    roco_chat_template chat = {.calls = roco_call_form_named("llama")};
    cJSON *tools = cJSON_Parse("[" LOOSE "]");
    roco_completion_params params = {.tools = tools};
    roco_error error;
    (void)state;
    params.constraint = (roco_constraint_field){ROCO_CONSTRAINT_OBJECT, NULL, "response_format"};
    assert_int_equal(roco_tools_constrain(&chat, &params, &error), ROCO_UNSUPPORTED);
    assert_string_equal(error.field, "response_format");
    cJSON_Delete(params.made);
    params.made = NULL;
    params.tool_choice = ROCO_TOOLS_REQUIRED;
    assert_int_equal(roco_tools_constrain(&chat, &params, &error), ROCO_OK);
    assert_int_equal(params.constraint.kind, ROCO_CONSTRAINT_TOOLS);
    cJSON_Delete(params.made);
    cJSON_Delete(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_nothing_to_keep),
        cmocka_unit_test(test_forms_that_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
