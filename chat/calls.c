#include "chat/calls.h"

#include <string.h>

#define DEEPSEEK_CALLS_BEGIN "<｜tool▁calls▁begin｜>"
#define DEEPSEEK_CALLS_END   "<｜tool▁calls▁end｜>"
#define DEEPSEEK_CALL_BEGIN  "<｜tool▁call▁begin｜>"
#define DEEPSEEK_CALL_END    "<｜tool▁call▁end｜>"
#define DEEPSEEK_SEPARATOR   "<｜tool▁sep｜>"

/* The first that fits is taken, so what is more special comes first. */
static const roco_call_form forms[] = {
    {.name = "deepseek",
     .signs = {DEEPSEEK_CALL_BEGIN, "```json"},
     .shape = ROCO_CALLS_HEADED,
     .open = {DEEPSEEK_CALL_BEGIN},
     .close = DEEPSEEK_CALL_END,
     .frame = {DEEPSEEK_CALLS_BEGIN, DEEPSEEK_CALLS_END},
     .before_name = DEEPSEEK_SEPARATOR,
     .inner = {DEEPSEEK_SEPARATOR},
     .after_name = "\n",
     .after_arguments = "```",
     .spelling = {DEEPSEEK_CALLS_BEGIN DEEPSEEK_CALL_BEGIN "function" DEEPSEEK_SEPARATOR, "\n```json\n",
                  "\n```" DEEPSEEK_CALL_END, "\n" DEEPSEEK_CALL_BEGIN "function" DEEPSEEK_SEPARATOR,
                  DEEPSEEK_CALLS_END}},
    {.name = "deepseek-3.1",
     .signs = {DEEPSEEK_CALL_BEGIN},
     .shape = ROCO_CALLS_HEADED,
     .open = {DEEPSEEK_CALL_BEGIN},
     .close = DEEPSEEK_CALL_END,
     .frame = {DEEPSEEK_CALLS_BEGIN, DEEPSEEK_CALLS_END},
     .after_name = DEEPSEEK_SEPARATOR,
     .inner = {DEEPSEEK_SEPARATOR},
     .spelling = {DEEPSEEK_CALLS_BEGIN DEEPSEEK_CALL_BEGIN, DEEPSEEK_SEPARATOR, DEEPSEEK_CALL_END, DEEPSEEK_CALL_BEGIN,
                  DEEPSEEK_CALLS_END}},
    {.name = "mistral",
     .signs = {"[TOOL_CALLS]", "[ARGS]"},
     .shape = ROCO_CALLS_HEADED,
     .open = {"[TOOL_CALLS]"},
     .after_name = "[",
     .inner = {"[ARGS]", "[CALL_ID]"},
     .short_ids = true,
     .spelling = {"[TOOL_CALLS]", "[ARGS]", "", "[TOOL_CALLS]", ""}},
    {.name = "mistral-list",
     .signs = {"[TOOL_CALLS]"},
     .shape = ROCO_CALLS_OBJECT,
     .open = {"[TOOL_CALLS]"},
     .short_ids = true,
     .spelling = {"[TOOL_CALLS][{\"name\": \"", "\", \"arguments\": ", "}", ", {\"name\": \"", "]"}},
    {.name = "phi",
     .signs = {"<|tool|>", "<|/tool|>"},
     .shape = ROCO_CALLS_OBJECT,
     .open = {"<|tool_call|>"},
     .close = "<|/tool_call|>",
     .spelling = {"<|tool_call|>[{\"name\": \"", "\", \"arguments\": ", "}", ", {\"name\": \"", "]<|/tool_call|>"}},
    {.name = "granite",
     .signs = {"<|tool_call|>"},
     .shape = ROCO_CALLS_OBJECT,
     .open = {"<|tool_call|>", "<tool_call>"},
     .spelling = {"<|tool_call|>[{\"name\": \"", "\", \"arguments\": ", "}", ", {\"name\": \"", "]"}},
    {.name = "seed",
     .signs = {"<seed:tool_call>", "<function="},
     .shape = ROCO_CALLS_TAGGED,
     .open = {"<function="},
     .frame = {"<seed:tool_call>", "</seed:tool_call>"},
     .tags = {">", "<parameter=", ">", NULL, "</parameter>", "</function>"},
     .spelling = {"<seed:tool_call>\n<function=", ">\n", "\n</seed:tool_call>", "\n<seed:tool_call>\n<function=", "",
                  "<parameter=", ">", "</parameter>\n"}},
    {.name = "qwen-xml",
     .signs = {"<function=", "<parameter="},
     .shape = ROCO_CALLS_TAGGED,
     .open = {"<function="},
     .frame = {"<tool_call>", "</tool_call>"},
     .tags = {">", "<parameter=", ">", NULL, "</parameter>", "</function>"},
     .spelling = {"<tool_call>\n<function=", ">\n", "\n</tool_call>", "\n<tool_call>\n<function=", "",
                  "<parameter=", ">\n", "\n</parameter>\n"}},
    {.name = "glm",
     .signs = {"<arg_key>", "<arg_value>"},
     .shape = ROCO_CALLS_TAGGED,
     .open = {"<tool_call>"},
     .tags = {NULL, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"},
     .spelling = {"<tool_call>", "\n", "", "\n<tool_call>", "", "<arg_key>", "</arg_key>\n<arg_value>",
                  "</arg_value>\n"}},
    {.name = "hermes",
     .signs = {"<tool_call>", "arguments"},
     .without = {"<function=", "<arg_key>"},
     .shape = ROCO_CALLS_OBJECT,
     .open = {"<tool_call>"},
     .close = "</tool_call>",
     .spelling = {"<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>",
                  "\n<tool_call>\n{\"name\": \"", ""}},
    {.name = "llama",
     .signs = {"\"parameters\": dictionary"},
     .shape = ROCO_CALLS_OBJECT,
     .open = {"<|python_tag|>"},
     .bare = true,
     .spelling = {"{\"name\": \"", "\", \"parameters\": ", "}", "; {\"name\": \"", ""}},
};

static bool holds(const char *source, size_t size, const char *sign)
{
    return memmem(source, size, sign, strlen(sign)) != NULL;
}

const roco_call_form *roco_call_form_find(const char *source, size_t size)
{
    for (const roco_call_form *form = forms; form < forms + sizeof forms / sizeof *forms; form++) {
        bool fits = true;
        for (size_t i = 0; i < sizeof form->without / sizeof *form->without && form->without[i]; i++)
            fits = fits && !holds(source, size, form->without[i]);
        for (size_t i = 0; i < sizeof form->signs / sizeof *form->signs && form->signs[i]; i++)
            fits = fits && holds(source, size, form->signs[i]);
        if (fits)
            return form;
    }
    return NULL;
}

const roco_call_form *roco_call_form_named(const char *name)
{
    const roco_call_form *form = forms;
    while (strcmp(form->name, name) != 0)
        form++;
    return form;
}

const roco_call_form *roco_call_form_general(void)
{
    return roco_call_form_named("hermes");
}
