/* Loading the template and trying it out. */
#include "server/chat_template.h"

#include "config/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_FUNCTION  "probe_function"
#define PROBE_ARGUMENTS "{\"probe_argument\": \"probe_value\"}"
#define PROBE_RESULT    "probe_result"

/* A conversation of four messages costs next to nothing; a template that does not end must not hold up the start. */
static const roco_render_limits probe_limits = {
    .steps = 200000, .depth = 400, .output_bytes = 1u << 20, .time_ns = 500000000u};

/* --- trying --- */

static roco_value text(roco_region *region, const char *data)
{
    roco_value value = roco_none();
    roco_value_string(region, data, strlen(data), 0, &value);
    return value;
}

static roco_dict *dict(roco_region *region)
{
    roco_value value = roco_none();
    return roco_value_dict(region, 4, &value) ? value.dict : NULL;
}

static void put(roco_region *region, roco_dict *into, const char *name, roco_value value)
{
    if (into)
        roco_dict_put_named(region, into, name, value);
}

static roco_value as_value(roco_dict *from)
{
    return from ? (roco_value){.kind = ROCO_VALUE_DICT, .dict = from} : roco_none();
}

static roco_value list_of_one(roco_region *region, roco_value item)
{
    roco_value list = roco_none();
    if (roco_value_list(region, 1, &list))
        roco_list_add(region, list.list, item);
    return list;
}

static roco_dict *message(roco_region *region, const char *role, const char *content)
{
    roco_dict *made = dict(region);
    put(region, made, "role", text(region, role));
    put(region, made, "content", text(region, content));
    return made;
}

static roco_value probe_tool(roco_region *region)
{
    roco_dict *tool = dict(region), *function = dict(region), *parameters = dict(region);
    put(region, parameters, "type", text(region, "object"));
    put(region, parameters, "properties", as_value(dict(region)));
    put(region, function, "name", text(region, PROBE_FUNCTION));
    put(region, function, "description", text(region, "probe"));
    put(region, function, "parameters", as_value(parameters));
    put(region, tool, "type", text(region, "function"));
    put(region, tool, "function", as_value(function));
    return as_value(tool);
}

typedef enum probe { TOOLS, TOOLS_IN_SYSTEM, CALLS } probe;

static void add_calls(roco_region *region, const roco_chat_template *chat, roco_list *messages)
{
    roco_dict *assistant = message(region, "assistant", ""), *call = dict(region), *function = dict(region);
    roco_dict *arguments = dict(region), *result = message(region, "tool", PROBE_RESULT);
    if (chat->calls_without_content)
        put(region, assistant, "content", roco_none());
    put(region, arguments, "probe_argument", text(region, "probe_value"));
    put(region, function, "name", text(region, PROBE_FUNCTION));
    put(region, function, "arguments", chat->arguments_as_text ? text(region, PROBE_ARGUMENTS) : as_value(arguments));
    put(region, call, "id", text(region, "probe0001"));
    put(region, call, "type", text(region, "function"));
    put(region, call, "function", as_value(function));
    put(region, assistant, "tool_calls", list_of_one(region, as_value(call)));
    put(region, result, "tool_call_id", text(region, "probe0001"));
    put(region, result, "name", text(region, PROBE_FUNCTION));
    roco_list_add(region, messages, as_value(assistant));
    roco_list_add(region, messages, as_value(result));
}

static roco_dict *probe_globals(roco_region *region, const roco_chat_template *chat, probe what)
{
    roco_value messages = list_of_one(region, as_value(message(region, "user", "probe")));
    roco_dict *globals = dict(region);
    if (messages.kind != ROCO_VALUE_LIST)
        return NULL;
    if (what == TOOLS_IN_SYSTEM) {
        roco_dict *system = message(region, "system", "probe");
        put(region, system, "tools", text(region, PROBE_FUNCTION));
        messages = list_of_one(region, as_value(system));
    }
    if (what == CALLS)
        add_calls(region, chat, messages.list);
    put(region, globals, "messages", messages);
    bool with_tools = what == TOOLS || (what == CALLS && chat->writes_tools); /* some are never without */
    put(region, globals, "tools", with_tools ? list_of_one(region, probe_tool(region)) : roco_none());
    put(region, globals, "documents", roco_none());
    put(region, globals, "add_generation_prompt", roco_bool(true));
    put(region, globals, "bos_token", text(region, ""));
    put(region, globals, "eos_token", text(region, ""));
    return globals;
}

static bool holds(const roco_buffer *buffer, const char *word)
{
    return memmem(buffer->data ? buffer->data : "", buffer->size, word, strlen(word)) != NULL;
}

/* Does the template say what it is given? */
static bool tells(const roco_chat_template *chat, const roco_template *template, probe what)
{
    roco_region region = {.limit = (size_t)16 << 20};
    roco_rendering out = {0};
    roco_error error;
    const roco_dict *globals = probe_globals(&region, chat, what);
    bool good = globals && roco_template_render(template, globals, &region, &probe_limits, 0, &out, &error) == ROCO_OK;
    good = good && holds(&out.text, PROBE_FUNCTION);
    if (what == CALLS)
        good = good && holds(&out.text, "probe_value") && holds(&out.text, PROBE_RESULT);
    roco_rendering_free(&out);
    roco_region_free(&region);
    return good;
}

static void try_calls(roco_chat_template *chat, const roco_template *template)
{
    for (int as_text = 0; as_text < 2; as_text++) {
        for (int without_content = 0; without_content < 2; without_content++) {
            chat->arguments_as_text = as_text;
            chat->calls_without_content = without_content;
            chat->writes_calls = tells(chat, template, CALLS);
            if (chat->writes_calls)
                return;
        }
    }
    chat->arguments_as_text = chat->calls_without_content = false;
}

/* --- what its text says --- */

static bool shows(roco_text source, const char *mark)
{
    return memmem(source.data, source.size, mark, strlen(mark)) != NULL;
}

/* The newest marks first: some templates hold the older ones too, to take them out. */
static void find_reasoning(roco_chat_template *chat, roco_text source)
{
    static const char *const marks[][2] = {
        {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}, {"<think>", "</think>"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (!shows(source, marks[i][1]))
            continue;
        chat->think = marks[i][0];
        chat->answer = marks[i][1];
        return;
    }
}

int32_t roco_control_token(const roco_tokenizer *tokenizer, const char *text)
{
    roco_ids ids = {0};
    roco_error error;
    bool one = roco_tokenizer_encode(tokenizer, text, strlen(text), ROCO_ENCODE_SPECIAL, 2, &ids, &error) == ROCO_OK &&
               ids.size == 1 && roco_tokenizer_is_control(tokenizer, ids.data[0]);
    int32_t id = one ? ids.data[0] : -1;
    roco_ids_free(&ids);
    return id;
}

static void show(roco_chat_template *chat, const roco_tokenizer *tokenizer, const char *mark)
{
    int32_t id = mark ? roco_control_token(tokenizer, mark) : -1;
    if (id >= 0 && chat->n_shown < sizeof chat->shown / sizeof *chat->shown)
        chat->shown[chat->n_shown++] = id;
}

/* Control tokens have no text in an answer, but for these: without them a call could not be told from text. */
static void find_shown(roco_chat_template *chat, const roco_tokenizer *tokenizer)
{
    const roco_call_form *calls = chat->calls;
    show(chat, tokenizer, chat->think);
    show(chat, tokenizer, chat->answer);
    for (size_t i = 0; calls && i < ROCO_CALL_MARKS; i++)
        show(chat, tokenizer, calls->open[i]);
    if (!calls)
        return;
    show(chat, tokenizer, calls->close);
    show(chat, tokenizer, calls->inner[0]);
    show(chat, tokenizer, calls->inner[1]);
}

static void learn(roco_chat_template *chat, roco_text source, roco_text for_tools, const roco_tokenizer *tokenizer)
{
    const roco_template *template = chat->for_tools ? chat->for_tools : chat->plain;
    roco_text shown = chat->for_tools ? for_tools : source;
    chat->writes_tools = tells(chat, template, TOOLS);
    chat->tools_in_system = !chat->writes_tools && tells(chat, template, TOOLS_IN_SYSTEM);
    try_calls(chat, template);
    chat->calls = roco_call_form_find(shown.data, shown.size);
    if (chat->calls && chat->calls->shape == ROCO_CALLS_TAGGED && !chat->writes_calls)
        chat->calls = NULL; /* the server has no words for such calls */
    if (!chat->calls && !chat->writes_tools && !chat->tools_in_system)
        chat->calls = roco_call_form_general();
    find_reasoning(chat, source);
    find_shown(chat, tokenizer);
    roco_log(ROCO_LOG_INFO, "chat template: tools %s, calls %s, reasoning %s",
             chat->writes_tools || chat->tools_in_system ? "shown" : "described by the server",
             chat->calls ? chat->calls->name : "in a form that is not known", chat->think ? chat->think : "not marked");
}

/* --- loading --- */

static roco_status read_file(const char *path, roco_buffer *out, roco_error *error)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return roco_fail(error, ROCO_IO, "chat-template", "cannot open %s: %s", path, strerror(errno));
    char block[4096];
    roco_status status = ROCO_OK;
    for (size_t size; !status && (size = fread(block, 1, sizeof block, file)) > 0;)
        status = out->size > ROCO_TEMPLATE_MAX_BYTES ? ROCO_TOO_LARGE : roco_buffer_append(out, block, size);
    bool failed = ferror(file);
    fclose(file);
    if (failed || status)
        return roco_fail(error, status ? status : ROCO_IO, "chat-template", "%s: %s", path,
                         status ? roco_status_text(status) : "cannot be read");
    return ROCO_OK;
}

static roco_status load_file(const char *path, const roco_tokenizer *tokenizer, roco_chat_template *out,
                             roco_error *error)
{
    roco_buffer source = {0};
    roco_error inner = {0};
    roco_status status = read_file(path, &source, error);
    if (!status) {
        const roco_text given = {source.data ? source.data : "", source.size};
        status = roco_template_open(given.data, given.size, &out->plain, &inner);
        if (status)
            roco_fail(error, status, "chat-template", "%s: %s", path, inner.message);
        else
            learn(out, given, (roco_text){"", 0}, tokenizer);
    }
    roco_buffer_free(&source);
    return status;
}

/* Some files hold a second template for requests with tools. */
static void load_variant(const roco_source *source, roco_chat_template *out, roco_text *text_out)
{
    roco_error error;
    if (roco_source_string(source, "tokenizer.chat_template.tool_use", text_out, NULL) != ROCO_OK)
        return;
    if (roco_template_open(text_out->data, text_out->size, &out->for_tools, &error) != ROCO_OK)
        roco_log(ROCO_LOG_WARN, "the chat template for tools in the model's file cannot be read: %s", error.message);
}

roco_status roco_chat_template_load(const roco_options *options, const roco_source *source,
                                    const roco_tokenizer *tokenizer, roco_chat_template *out, char why[512],
                                    roco_error *error)
{
    *out = (roco_chat_template){0};
    if (options->chat_template[0])
        return load_file(options->chat_template, tokenizer, out, error);
    roco_text plain, for_tools = {"", 0};
    roco_error inner = {0};
    if (roco_source_string(source, "tokenizer.chat_template", &plain, NULL) != ROCO_OK) {
        snprintf(why, 512, "the model's file has no chat template");
        return ROCO_OK;
    }
    if (roco_template_open(plain.data, plain.size, &out->plain, &inner) != ROCO_OK) {
        snprintf(why, 512, "the chat template in the model's file cannot be read: %s", inner.message);
        roco_log(ROCO_LOG_WARN, "%s", why);
        return ROCO_OK;
    }
    load_variant(source, out, &for_tools);
    learn(out, plain, for_tools, tokenizer);
    return ROCO_OK;
}

void roco_chat_template_free(roco_chat_template *chat)
{
    roco_template_close(chat->plain);
    roco_template_close(chat->for_tools);
    *chat = (roco_chat_template){0};
}
