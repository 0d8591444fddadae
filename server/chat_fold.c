#include "server/chat_fold.h"

#include "server/messages.h"

#include <stdlib.h>
#include <string.h>

/* --- text of mixed origin --- */

typedef struct weave {
    roco_region *region;
    char *data;
    uint8_t *marks;
    size_t size, capacity;
    bool failed;
} weave;

static bool reserve(weave *w, size_t extra)
{
    if (w->failed || w->capacity - w->size >= extra)
        return !w->failed;
    size_t capacity = 2 * w->capacity + extra + 256;
    char *data = roco_region_alloc(w->region, capacity, 1);
    uint8_t *marks = roco_region_alloc(w->region, capacity, 1);
    w->failed = !data || !marks;
    if (w->failed)
        return false;
    if (w->size) {
        memcpy(data, w->data, w->size);
        memcpy(marks, w->marks, w->size);
    }
    w->data = data;
    w->marks = marks;
    w->capacity = capacity;
    return true;
}

static void add(weave *w, const char *data, size_t size, const uint8_t *marks, uint8_t foreign)
{
    if (size == 0 || !reserve(w, size))
        return;
    memcpy(w->data + w->size, data, size);
    if (marks)
        memcpy(w->marks + w->size, marks, size);
    else
        memset(w->marks + w->size, foreign, size);
    w->size += size;
}

static void add_own(weave *w, const char *text)
{
    add(w, text, strlen(text), NULL, 0);
}

static void add_string(weave *w, const roco_value *value)
{
    if (value && value->kind == ROCO_VALUE_STRING)
        add(w, value->string->data, value->string->size, value->string->marks, value->string->foreign);
}

static void add_json(weave *w, const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    w->failed = w->failed || !text;
    if (text)
        add(w, text, strlen(text), NULL, ROCO_FROM_REQUEST);
    cJSON_free(text);
}

static bool finish(weave *w, roco_value *out)
{
    roco_string *string = roco_region_alloc(w->region, 1, sizeof *string);
    if (w->failed || !string)
        return false;
    *string = (roco_string){.data = w->data ? w->data : "", .size = w->size, .marks = w->marks};
    *out = (roco_value){.kind = ROCO_VALUE_STRING, .string = string};
    return true;
}

/* --- messages --- */

static bool has_role(const roco_dict *message, const char *role)
{
    const roco_value *value = roco_dict_find(message, "role", 4);
    return value && value->string->size == strlen(role) && memcmp(value->string->data, role, strlen(role)) == 0;
}

static bool is_empty(const roco_value *content)
{
    return !content || content->kind != ROCO_VALUE_STRING || content->string->size == 0;
}

static const roco_list *calls_of(const roco_dict *message)
{
    const roco_value *calls = roco_dict_find(message, "tool_calls", 10);
    return calls && calls->kind == ROCO_VALUE_LIST && has_role(message, "assistant") ? calls->list : NULL;
}

/* A message of nothing but a role, the program's own, and a content. */
static bool make_message(roco_region *region, const char *role, roco_value content, roco_value *out)
{
    roco_value value;
    return roco_value_dict(region, 2, out) && roco_value_string(region, role, strlen(role), 0, &value) &&
           roco_dict_put_named(region, out->dict, "role", value) &&
           roco_dict_put_named(region, out->dict, "content", content);
}

static void spell_calls(weave *w, const roco_call_spelling *s, const roco_list *calls)
{
    for (size_t i = 0; i < calls->size; i++) {
        const roco_value *function = roco_dict_find(calls->items[i].dict, "function", 8);
        add_own(w, i ? s->join : s->lead);
        add_string(w, roco_dict_find(function->dict, "name", 4));
        add_own(w, s->middle);
        const roco_value *arguments = roco_dict_find(function->dict, "arguments", 9);
        if (is_empty(arguments))
            add_own(w, "{}");
        add_string(w, arguments);
        add_own(w, s->tail);
    }
    add_own(w, s->last);
}

static bool fold_calls(roco_region *region, const roco_chat_template *chat, roco_value *message)
{
    const roco_value *content = roco_dict_find(message->dict, "content", 7);
    weave w = {.region = region};
    roco_value text;
    add_string(&w, content);
    if (w.size)
        add_own(&w, "\n");
    spell_calls(&w, &chat->calls->spelling, calls_of(message->dict));
    return finish(&w, &text) && make_message(region, "assistant", text, message);
}

/* A result becomes the user's; several in a row become one message, as many templates want the roles to alternate. */
static bool fold_result(roco_region *region, const roco_value *message, roco_value *before, bool joins, roco_value *out)
{
    weave w = {.region = region};
    roco_value text;
    if (joins) {
        add_string(&w, roco_dict_find(before->dict, "content", 7));
        add_own(&w, "\n");
    }
    add_own(&w, "<tool_response>\n");
    add_string(&w, roco_dict_find(message->dict, "content", 7));
    add_own(&w, "\n</tool_response>");
    return finish(&w, &text) && make_message(region, "user", text, joins ? before : out);
}

static bool fold_messages(roco_region *region, const roco_chat_template *chat, roco_list *messages)
{
    size_t n = 0;
    bool joins = false;
    for (size_t i = 0; i < messages->size; i++) {
        roco_value *message = &messages->items[i];
        bool result = has_role(message->dict, "tool");
        if (calls_of(message->dict) && !fold_calls(region, chat, message))
            return false;
        if (result && !fold_result(region, message, n ? &messages->items[n - 1] : NULL, joins, message))
            return false;
        if (!result || !joins)
            messages->items[n++] = *message;
        joins = result;
    }
    messages->size = n;
    return true;
}

/* --- what a template that knows calls still wants otherwise --- */

/* Nine letters and digits made of any id, the same for the same. */
static bool shorten(roco_region *region, roco_dict *dict, const char *name)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const roco_value *id = roco_dict_find(dict, name, strlen(name));
    if (!id || id->kind != ROCO_VALUE_STRING || id->string->size == 9)
        return true;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < id->string->size; i++)
        hash = (hash ^ (unsigned char)id->string->data[i]) * 0x100000001b3u;
    char *made = roco_region_alloc(region, 9, 1);
    for (size_t i = 0; made && i < 9; i++, hash /= 62)
        made[i] = digits[hash % 62];
    roco_value value;
    return made && roco_value_string(region, made, 9, ROCO_FROM_REQUEST, &value) &&
           roco_dict_put_named(region, dict, name, value);
}

static bool shorten_ids(roco_region *region, roco_dict *message)
{
    const roco_list *calls = calls_of(message);
    for (size_t i = 0; calls && i < calls->size; i++)
        if (!shorten(region, calls->items[i].dict, "id"))
            return false;
    return shorten(region, message, "tool_call_id");
}

static bool adapt_messages(roco_region *region, const roco_chat_template *chat, roco_list *messages)
{
    for (size_t i = 0; i < messages->size; i++) {
        roco_dict *message = messages->items[i].dict;
        bool bare = chat->calls_without_content && calls_of(message) && is_empty(roco_dict_find(message, "content", 7));
        if (bare && !roco_dict_put_named(region, message, "content", roco_none()))
            return false;
        if (chat->calls && chat->calls->short_ids && !shorten_ids(region, message))
            return false;
    }
    return true;
}

/* --- tools --- */

static bool insert_system(roco_region *region, roco_list *messages)
{
    roco_value content, message;
    if (messages->size && has_role(messages->items[0].dict, "system"))
        return true;
    if (!roco_value_string(region, "", 0, 0, &content) || !make_message(region, "system", content, &message) ||
        !roco_list_add(region, messages, message))
        return false;
    memmove(messages->items + 1, messages->items, (messages->size - 1) * sizeof *messages->items);
    messages->items[0] = message;
    return true;
}

static bool put_in_system(roco_region *region, const cJSON *tools, roco_list *messages)
{
    weave w = {.region = region};
    roco_value text;
    for (const cJSON *tool = tools->child; tool; tool = tool->next) {
        add_own(&w, tool == tools->child ? "[" : ", ");
        add_json(&w, cJSON_GetObjectItemCaseSensitive(tool, "function"));
    }
    add_own(&w, "]");
    return finish(&w, &text) && insert_system(region, messages) &&
           roco_dict_put_named(region, messages->items[0].dict, "tools", text);
}

static void describe(weave *w, const roco_call_spelling *s, const cJSON *tools)
{
    add_own(w, "You can call these functions:\n<tools>\n");
    for (const cJSON *tool = tools->child; tool; tool = tool->next) {
        add_json(w, cJSON_GetObjectItemCaseSensitive(tool, "function"));
        add_own(w, "\n");
    }
    add_own(w, "</tools>\nA call is written like this:\n");
    add_own(w, s->lead);
    add_own(w, "<function-name>");
    add_own(w, s->middle);
    add_own(w, "<arguments>");
    add_own(w, s->tail);
    add_own(w, s->last);
    add_own(w, "\n\n");
}

/* In front of the first system or user message: that place every template has. */
static bool describe_tools(roco_region *region, const roco_chat_template *chat, const cJSON *tools, roco_list *messages)
{
    size_t i = 0;
    while (i < messages->size && !has_role(messages->items[i].dict, "system") &&
           !has_role(messages->items[i].dict, "user"))
        i++;
    if (i == messages->size)
        return true;
    roco_dict *message = messages->items[i].dict;
    weave w = {.region = region};
    roco_value text;
    describe(&w, &chat->calls->spelling, tools);
    add_string(&w, roco_dict_find(message, "content", 7));
    return finish(&w, &text) && roco_dict_put_named(region, message, "content", text);
}

roco_status roco_chat_fold(roco_region *region, const roco_chat_template *chat, const cJSON *tools, roco_list *messages,
                           roco_error *error)
{
    bool fold = !chat->writes_calls && chat->calls;
    bool good = fold ? fold_messages(region, chat, messages) : adapt_messages(region, chat, messages);
    if (good && tools && chat->tools_in_system)
        good = put_in_system(region, tools, messages);
    else if (good && tools && !chat->writes_tools)
        good = describe_tools(region, chat, tools, messages);
    if (good)
        return ROCO_OK;
    return roco_fail(error, region->status ? region->status : ROCO_NO_MEMORY, "messages",
                     "the messages need too much memory");
}
