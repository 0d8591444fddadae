/* What the server finds out about published templates by trying them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/chat_template.h"
#include "support_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct template_case {
    const char *file, *calls; /* NULL: in a form that is not known */
    bool tools, shown_calls;
    const char *think;
} template_case;

static const template_case cases[] = {
    {"HuggingFaceTB-SmolLM2-135M-Instruct", "hermes", false, false, NULL},
    {"HuggingFaceTB-SmolLM3-3B", "hermes", false, false, "<think>"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", true, true, NULL},
    {"Qwen-Qwen3-0.6B", "hermes", true, true, "<think>"},
    {"Qwen-QwQ-32B", "hermes", true, true, "<think>"},
    {"Qwen3-Coder", "qwen-xml", true, true, NULL},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite", true, false, "<think>"},
    {"ibm-granite-granite-4.0", "hermes", true, true, NULL},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-list", true, true, NULL},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", true, true, NULL},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", true, true, "[THINK]"},
    {"unsloth-mistral-Devstral-Small-2507", "mistral", true, true, NULL},
    {"openai-gpt-oss-120b", NULL, true, true, NULL},
    {"ByteDance-Seed-OSS", "seed", true, true, "<seed:think>"},
    {"Apertus-8B-Instruct", NULL, true, true, NULL},
};

static void test_published_templates(void **state)
{
    char path[] = "/tmp/roco-test-XXXXXX";
    roco_source *source;
    roco_tokenizer *tokenizer;
    roco_error error;
    tiny_model model = tiny_model_default();
    int file = mkstemp(path);
    (void)state;
    assert_true(file >= 0);
    close(file);
    tiny_model_save(&model, path);
    assert_int_equal(roco_source_open(path, &source, &error), ROCO_OK);
    assert_int_equal(roco_tokenizer_open(source, &tokenizer, &error), ROCO_OK);
    unlink(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const template_case *c = &cases[i];
        roco_options options = {0};
        roco_chat_template chat;
        char why[512], name[512];
        snprintf(name, sizeof name, ROCO_SOURCE_DIR "/tests/golden/chat/%s.jinja", c->file);
        options.chat_template = name;

        assert_int_equal(roco_chat_template_load(&options, source, tokenizer, &chat, why, &error), ROCO_OK);
        if ((chat.calls ? !c->calls || strcmp(chat.calls->name, c->calls) != 0 : c->calls != NULL) ||
            chat.writes_tools != c->tools || chat.writes_calls != c->shown_calls ||
            (c->think ? !chat.think || strcmp(c->think, chat.think) != 0 : chat.think != NULL))
            fail_msg("%s: calls %s, tools %d, calls shown %d, reasoning %s", c->file,
                     chat.calls ? chat.calls->name : "unknown", chat.writes_tools, chat.writes_calls,
                     chat.think ? chat.think : "none");
        assert_false(chat.arguments_as_text || chat.calls_without_content);
        roco_chat_template_free(&chat);
    }
    roco_tokenizer_close(tokenizer);
    roco_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
