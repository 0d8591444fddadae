/* What a model wrote, told apart: one recorded answer for each form and for each way to go wrong, cut at every place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chat/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a template of the form holds, so that its row is found. */
#define HERMES       "<tool_call> arguments"
#define MISTRAL      "[TOOL_CALLS] [ARGS]"
#define MISTRAL_LIST "[TOOL_CALLS]["
#define LLAMA        "\"parameters\": dictionary of argument name and its value <|python_tag|>"
#define GRANITE      "respond only with <|tool_call|> followed by a JSON list"
#define PHI          "<|tool|>' + message['tools'] + '<|/tool|>"
#define DEEPSEEK     "<｜tool▁call▁begin｜> ```json"
#define DEEPSEEK_31  "<｜tool▁call▁begin｜>"

#define QWEN_XML "<tool_call>\n<function=f>\n<parameter=a>"
#define SEED     "<seed:tool_call>\n<function=f>\n<parameter=a>"
#define GLM      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>"

#define D_BEGIN "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
#define D_NEXT  "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>"
#define D_END   "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"

typedef struct turn_case {
    const char *name, *sign, *answer, *parts;
    const char *prompt; /* the end of it; NULL: nothing */
    bool think, single, first;
} turn_case;

/* Rows end where the rest is nothing. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* T(text) R(reasoning) C(name|arguments), C~ when the answer ended inside. */
static const turn_case cases[] = {
    /* the forms, as their models write them */
    {"hermes", HERMES, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
     "C(get_weather|{\"city\": \"Paris\"})"},
    {"hermes, text and two calls", HERMES,
     "Let me look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"}\\\"]\"}]}}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
     "T(Let me look.)C(f|{\"a\": [1, {\"b\": \"}\\\"]\"}]})C(g|{})"},
    {"hermes, a list inside the marks, as SmolLM2 writes it", HERMES,
     "<tool_call>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>",
     "C(f|{\"a\": 1})C(g|{})"},
    {"hermes, objects in a row", HERMES,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
     "C(f|{})C(g|{})"},
    {"mistral", MISTRAL, "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]g[ARGS]{}",
     "C(get_weather|{\"city\": \"Paris\"})C(g|{})"},
    {"mistral with an id", MISTRAL, "[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{\"x\": 1}", "C(f|{\"x\": 1})"},
    {"mistral list", MISTRAL_LIST,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"a1b2c3d4e\"}, {\"name\": \"g\", "
     "\"arguments\": "
     "{}}]",
     "C(f|{\"a\": 1})C(g|{})"},
    {"llama", LLAMA, "{\"name\": \"known\", \"parameters\": {\"city\": \"Paris\"}}", "C(known|{\"city\": \"Paris\"})"},
    {"llama, two", LLAMA,
     "{\"name\": \"known\", \"parameters\": {\"a\": \"1\"}}; {\"name\": \"known\", \"parameters\": {}}",
     "C(known|{\"a\": \"1\"})C(known|{})"},
    {"llama with its mark", LLAMA,
     "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": 1}}", "C(f|{\"a\": 1})"},
    {"granite", GRANITE, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "C(f|{\"a\": 1})"},
    {"granite, the other mark", GRANITE, "<tool_call>[{\"arguments\": {\"a\": 1}, \"name\": \"f\"}]",
     "C(f|{\"a\": 1})"},
    {"phi", PHI, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|/tool_call|>", "C(f|{\"a\": 1})"},
    {"deepseek", DEEPSEEK,
     D_BEGIN "function<｜tool▁sep｜>f\n```json\n{\"a\": \"Zürich\"}\n```" D_NEXT
             "function<｜tool▁sep｜>g\n```json\n{}\n"
             "```" D_END,
     "C(f|{\"a\": \"Zürich\"})C(g|{})"},
    {"deepseek 3.1", DEEPSEEK_31,
     D_BEGIN "f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g"
             "<｜tool▁sep｜>{}" D_END,
     "C(f|{\"a\": 1})C(g|{})"},
    {"qwen xml", QWEN_XML,
     "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew \"York\"\n</parameter>\n<parameter=days>\n5\n"
     "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
     "T(I look.)C(get_weather|{\"city\": \"New \\\"York\\\"\", \"days\": 5})C(g|{})"},
    {"qwen xml, lines and marks in a text", QWEN_XML,
     "<function=f><parameter=a>\n\n if x < y:\n</param>\n\n</parameter></function>",
     "C(f|{\"a\": \"\\n if x < y:\\n</param>\\n\"})"},
    {"qwen xml, broken behind an argument", QWEN_XML, "<function=f>\n<parameter=a>\n1\n</parameter>\noops",
     "C(f|{\"a\": 1})T(oops)"},
    {"qwen xml, no closing marks", QWEN_XML, "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</func",
     "C(f|{\"a\": 1})"},
    {"qwen xml, cut in an argument", QWEN_XML, "<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\ntex",
     "C~(f|{\"a\": 1)"},
    {"qwen xml, no name", QWEN_XML, "<function=>x</function>", "T(<function=>x</function>)"},
    {"qwen xml begun in the prompt", QWEN_XML, "<parameter=a>\n1\n</parameter>\n</function>", "C(f|{\"a\": 1})",
     "<tool_call>\n<function=f>\n"},
    {"qwen xml, the name begun in the prompt", QWEN_XML, "f>\n</function>\n</tool_call>", "C(f|{})",
     "<tool_call>\n<function=", .single = true},
    {"seed", SEED, "<seed:tool_call>\n<function=f>\n<parameter=a>x\ny</parameter>\n</function>\n</seed:tool_call>",
     "C(f|{\"a\": \"x\\ny\"})"},
    {"glm", GLM,
     "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>b</arg_key>\n<arg_value>[1]</arg_value>\n"
     "</tool_call>\n<tool_call>g</tool_call>",
     "C(f|{\"a\": \"x\", \"b\": [1]})C(g|{})"},
    {"glm, text between the marks", GLM, "<tool_call>some words</tool_call>", "T(<tool_call>some words</tool_call>)"},
    {"glm begun in the prompt", GLM, "<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", "C(f|{\"a\": 1})",
     "<tool_call>f\n"},

    /* odd but clear */
    {"arguments in front of the name", HERMES, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>",
     "C(f|{\"a\": 1})"},
    {"no arguments", HERMES, "<tool_call>{\"name\": \"f\"}</tool_call>", "C(f|{})"},
    {"arguments as a text", HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     "C(f|{\"a\": 1})"},
    {"an escape in the name", HERMES, "<tool_call>{\"name\": \"\\u0066\\/\", \"arguments\": {}}</tool_call>",
     "C(f/|{})"},
    {"no closing mark", HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "C(f|{})"},
    {"no closing brace, as where the server forced the call", HERMES,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}", "C(f|{\"a\": 1})"},
    {"text behind a call", HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n\nDone.\n",
     "C(f|{})T(Done.\n)"},
    {"a mark inside a string", HERMES,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call> <tool_call>\"}}</tool_call>",
     "C(f|{\"a\": \"</tool_call> <tool_call>\"})"},
    {"a single call only", HERMES,
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"g\", \"arguments\": "
     "{}}</tool_call>",
     "C(f|{})", .single = true},
    {"behind text there is no call", MISTRAL, "{\"x\": \"[TOOL_CALLS]f[ARGS]{}\"}",
     "T({\"x\": \"[TOOL_CALLS]f[ARGS]{}\"})", .first = true},
    {"behind text there is no frame", DEEPSEEK, "Use " D_BEGIN ".", "T(Use " D_BEGIN ".)", .first = true},
    {"a call comes first", HERMES, "<think>Hm.</think>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
     "R(Hm.)C(f|{})", .think = true, .first = true},

    /* cut off */
    {"ends in the arguments", HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"Par",
     "C~(f|{\"a\": \"Par)"},
    {"ends in the name", HERMES, "a <tool_call>{\"name\": \"f", "T(a <tool_call>{\"name\": \"f)"},
    {"ends in a mark", HERMES, "a <tool", "T(a <tool)"},
    {"ends in a header", MISTRAL, "[TOOL_CALLS]get_wea", "T([TOOL_CALLS]get_wea)"},

    /* no calls: the text as it was */
    {"plain", HERMES, " one\n two  \n", "T( one\n two  \n)"},
    {"white space alone", HERMES, " \n", "T( \n)"},
    {"nothing", HERMES, "", ""},
    {"no object", HERMES, "<tool_call>soon</tool_call>", "T(<tool_call>soon</tool_call>)"},
    {"broken object", HERMES, "<tool_call>{\"name\" \"f\"}</tool_call>", "T(<tool_call>{\"name\" \"f\"}</tool_call>)"},
    {"no name", HERMES, "<tool_call>{\"arguments\": {}}</tool_call>", "T(<tool_call>{\"arguments\": {}}</tool_call>)"},
    {"name of another kind", HERMES, "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
     "T(<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>)"},
    {"arguments of another kind", HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "T(<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>)"},
    {"one that is none, then one that is", HERMES, "<tool_call>{<tool_call>{\"name\": \"f\", \"arguments\": {}}",
     "T(<tool_call>{)C(f|{})"},
    {"broken behind the first of a list", MISTRAL_LIST, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, oops]",
     "C(f|{})T(, oops])"},
    {"llama: an answer in JSON", LLAMA, "{\"name\": \"Ada\", \"parameters\": {\"age\": 36}}",
     "T({\"name\": \"Ada\", \"parameters\": {\"age\": 36}})"},
    {"llama: JSON behind text", LLAMA, "So: {\"name\": \"known\", \"parameters\": {}}",
     "T(So: {\"name\": \"known\", \"parameters\": {}})"},
    {"calls are not looked for", "", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> ",
     "T(<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> )"},

    /* reasoning */
    {"reasoning", "", "<think>\nHm.\n\nYes.\n</think>\n\nParis. ", "R(Hm.\n\nYes.)T(Paris. )", .think = true},
    {"reasoning opened by the template", "", "Hm.\n</think>\n\nParis.", "R(Hm.)T(Paris.)", "<think>\n", true},
    {"reasoning that never ends", "", "Hm, ", "R(Hm,)", "<think>\n", true},
    {"empty reasoning", "", "<think>\n\n</think>\n\nParis.", "T(Paris.)", .think = true},
    {"reasoning, then a call", HERMES,
     "<think>\nI call.\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "R(I call.)C(f|{})", .think = true},
    {"a call that is only thought of", HERMES,
     "<think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call></think>No.",
     "R(<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>)T(No.)", .think = true},
    {"llama: reasoning, then a bare call", LLAMA, "<think></think>{\"name\": \"known\", \"parameters\": {}}",
     "C(known|{})", .think = true},

    /* begun in the prompt */
    {"continued text", HERMES, " of France", "T( of France)", "The capital"},
    {"continued arguments", HERMES, "1}}\n</tool_call>", "C(f|{\"a\": 1})",
     "Well. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "},
    {"continued name", HERMES, "f\", \"arguments\": {\"a\": 1}}", "C(f|{\"a\": 1})", "<tool_call>\n{\"name\": \""},
    {"continued name of a header", MISTRAL, "_x[ARGS]{}", "C(f_x|{})", "[TOOL_CALLS]f"},
    {"continued, and no call", HERMES, "oops", "T(oops)", "<tool_call>\n{\"name\": "},
    {"continued mark", HERMES, "_call>{\"name\": \"f\", \"arguments\": {}}", "C(f|{})", "<tool"},
    {"continued, and no mark", HERMES, "box", "T(box)", "<tool"},
    {"a whole call is not told again", HERMES, "Done.", "T(Done.)",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
};

static bool offers(const void *context, const char *name, size_t size)
{
    (void)context;
    return size == 5 && memcmp(name, "known", 5) == 0;
}

/* Numbers and lists are what they are; all else is a text. */
static roco_status write_argument(const void *context, const char *name, size_t name_size, const char *key,
                                  size_t key_size, const char *value, size_t size, roco_buffer *out)
{
    (void)context, (void)name, (void)name_size;
    bool plain = size && strchr("[0123456789", value[0]);
    roco_buffer_append_format(out, "\"%.*s\": %s", (int)key_size, key, plain ? "" : "\"");
    for (size_t i = 0; i < size; i++)
        roco_buffer_append_format(out, value[i] == '\n' ? "\\n" : value[i] == '"' ? "\\\"" : "%c", value[i]);
    return roco_buffer_append_text(out, plain ? "" : "\"");
}

static roco_turn_form form_of(const turn_case *c)
{
    roco_turn_form form = {.single = c->single, .first = c->first, .offers = offers, .write_argument = write_argument};
    form.calls = c->sign[0] ? roco_call_form_find(c->sign, strlen(c->sign)) : NULL;
    assert_true(form.calls || !c->sign[0]);
    if (c->think) {
        form.think = "<think>";
        form.answer = "</think>";
    }
    return form;
}

static char *dump(const roco_turn *turn)
{
    roco_buffer out = {0};
    roco_buffer_append_text(&out, "");
    for (size_t i = 0; i < turn->n_parts; i++) {
        const roco_part *part = &turn->parts[i];
        const char *text = part->text.data ? part->text.data : "";
        if (part->kind == ROCO_PART_CALL)
            roco_buffer_append_format(&out, "C%s(%s|%s)", part->complete ? "" : "~", part->name.data, text);
        else
            roco_buffer_append_format(&out, "%c(%s)", part->kind == ROCO_PART_TEXT ? 'T' : 'R', text);
    }
    return out.data;
}

/* The answer in pieces: [0, cut), [cut, end); step 1: byte by byte. The last byte of a part is never taken back. */
static void check(const turn_case *c, size_t cut, size_t step)
{
    roco_turn_form form = form_of(c);
    roco_turn turn;
    roco_turn_init(&turn, &form);
    if (c->prompt)
        assert_int_equal(roco_turn_prime(&turn, c->prompt, strlen(c->prompt)), ROCO_OK);
    size_t size = strlen(c->answer), told = 0;
    for (size_t at = 0; at < size;) {
        size_t n = step ? step : at < cut ? cut : size - at;
        n = n < size - at ? n : size - at;
        assert_int_equal(roco_turn_take(&turn, c->answer + at, n), ROCO_OK);
        at += n;
        size_t now = 0;
        for (size_t i = 0; i < turn.n_parts; i++)
            now += turn.parts[i].text.size + turn.parts[i].name.size + 1;
        assert_true(now >= told);
        told = now;
    }
    assert_int_equal(roco_turn_end(&turn), ROCO_OK);
    char *parts = dump(&turn);
    if (strcmp(parts, c->parts) != 0)
        fail_msg("%s, cut at %zu, step %zu:\n%s\ninstead of\n%s", c->name, cut, step, parts, c->parts);
    free(parts);
    roco_turn_free(&turn);
}

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t cut = 0; cut <= strlen(cases[i].answer); cut++)
            check(&cases[i], cut, 0);
        check(&cases[i], 0, 1);
    }
}

/* Any text at all: the parts never depend on the cuts. */
static void test_anything(void **state)
{
    static const char *const words[] = {"<tool_call>",
                                        "</tool_call>",
                                        "<tool",
                                        "_call>",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        ":",
                                        ",",
                                        ";",
                                        " ",
                                        "\n",
                                        "\\",
                                        "name",
                                        "arguments",
                                        "\"name\": \"known\"",
                                        "\"arguments\": {\"a\": ",
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "<think>",
                                        "</think>",
                                        "known",
                                        "<｜tool▁call▁begin｜>",
                                        "<｜tool▁sep｜>",
                                        "<function=",
                                        "<parameter=",
                                        "</parameter>",
                                        "</function>",
                                        "<arg_key>",
                                        "</arg_key><arg_value>",
                                        "</arg_value>",
                                        ">",
                                        "function",
                                        "```",
                                        "5",
                                        "ü"};
    static const char *const signs[] = {HERMES,   MISTRAL,     MISTRAL_LIST, LLAMA, GRANITE,
                                        DEEPSEEK, DEEPSEEK_31, QWEN_XML,     GLM};
    uint64_t random = 1;
    (void)state;
    for (int round = 0; round < 4000; round++) {
        char answer[1024] = "";
        size_t n = round % 24;
        for (size_t i = 0; i < n; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            strcat(answer, words[(random >> 33) % (sizeof words / sizeof *words)]);
        }
        turn_case c = {.name = "anything", .sign = signs[round % 9], .answer = answer, .think = round & 8};
        roco_turn_form form = form_of(&c);
        roco_turn turn;
        roco_turn_init(&turn, &form);
        assert_int_equal(roco_turn_take(&turn, answer, strlen(answer)), ROCO_OK);
        assert_int_equal(roco_turn_end(&turn), ROCO_OK);
        char *parts = dump(&turn);
        roco_turn_free(&turn);
        c.parts = parts;
        check(&c, 0, 1);
        check(&c, strlen(answer) / 3, 0);
        check(&c, 0, 7);
        free(parts);
    }
}

/* Text goes out at once; only what may still be a mark waits. */
static void test_nothing_waits_in_vain(void **state)
{
    (void)state;
    roco_turn_form form = form_of(&cases[0]);
    roco_turn turn;
    roco_turn_init(&turn, &form);
    assert_int_equal(roco_turn_take(&turn, "a<b <tool", 9), ROCO_OK);
    assert_int_equal(turn.parts[0].text.size, 3);
    assert_int_equal(roco_turn_take(&turn, "_call>{\"name\": \"f\", \"arguments\": {\"k\": \"va", 42), ROCO_OK);
    assert_int_equal(turn.n_parts, 2);
    assert_string_equal(turn.parts[1].name.data, "f");
    assert_string_equal(turn.parts[1].text.data, "{\"k\": \"va");
    roco_turn_free(&turn);
}

/* Written as the form spells it, read back. */
static void test_spellings_are_read(void **state)
{
    (void)state;
    const char *signs[] = {HERMES, MISTRAL, MISTRAL_LIST, LLAMA, GRANITE, PHI, DEEPSEEK, DEEPSEEK_31};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const roco_call_form *form = roco_call_form_find(signs[i], strlen(signs[i]));
        const roco_call_spelling *s = &form->spelling;
        char answer[512];
        snprintf(answer, sizeof answer, "%sknown%s{\"a\": 1}%s%sknown%s{}%s%s", s->lead, s->middle, s->tail, s->join,
                 s->middle, s->tail, s->last);
        const turn_case c = {form->name, signs[i], answer, "C(known|{\"a\": 1})C(known|{})"};
        check(&c, 0, 1);
    }
}

static void test_no_form(void **state)
{
    (void)state;
    assert_null(roco_call_form_find("{{ tools }}", 11));
    const char harmony[] = "<|channel|>commentary to=functions.f<|message|>";
    assert_null(roco_call_form_find(harmony, sizeof harmony - 1));
    assert_string_equal(roco_call_form_general()->name, "hermes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_anything),
        cmocka_unit_test(test_nothing_waits_in_vain),
        cmocka_unit_test(test_spellings_are_read),
        cmocka_unit_test(test_no_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
