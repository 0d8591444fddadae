/* Arguments that stand between marks, each as a text of its own (chat/calls.h). */
#include "server/tool_grammar_tags.h"

#include "server/chat_turn.h"
#include "server/constraints.h"

#include <string.h>

enum { MAX_ARGUMENTS = 256 };

typedef struct writer {
    roco_grammar *grammar;
    const roco_call_form *form;
    const cJSON *schema; /* of all arguments */
    bool loose;
    roco_error *error;
} writer;

static roco_expr text(const writer *w, const char *data)
{
    return roco_grammar_text(w->grammar, data, strlen(data));
}

/* Any text, up to the first mark that ends a value, and what stands behind that. */
static roco_expr any_value(const writer *w)
{
    const char *end = w->form->tags.value_end;
    const size_t size = strlen(end);
    const roco_expr parts[] = {roco_grammar_until(w->grammar, end, size),
                               text(w, strstr(w->form->spelling.next, end) + size)};
    return roco_grammar_sequence(w->grammar, parts, 2);
}

static roco_expr one_of(const writer *w, const cJSON *values)
{
    roco_expr list[MAX_ARGUMENTS];
    size_t n = 0;
    for (const cJSON *value = values->child; value && n < MAX_ARGUMENTS; value = value->next)
        list[n++] = text(w, value->valuestring);
    return roco_grammar_choice(w->grammar, list, n);
}

/* A text that is no JSON: of what a schema can say, only a list of values is kept. */
static roco_status string_value(const writer *w, const cJSON *schema, roco_expr *out)
{
    static const char *const more[] = {"pattern", "format", "minLength", "maxLength", "allOf", "anyOf", "oneOf"};
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(schema, "enum");
    for (size_t i = 0; !w->loose && i < sizeof more / sizeof *more; i++)
        if (cJSON_GetObjectItemCaseSensitive(schema, more[i]))
            return roco_fail(w->error, ROCO_UNSUPPORTED, "tools",
                             "tools: %s of %s cannot be kept: this model writes texts as they are", more[i],
                             schema->string);
    *out = any_value(w);
    if (!values || cJSON_GetArraySize(values) > MAX_ARGUMENTS)
        return ROCO_OK;
    const roco_expr parts[] = {one_of(w, values), text(w, w->form->spelling.next)};
    *out = roco_grammar_sequence(w->grammar, parts, 2);
    return ROCO_OK;
}

/* What references in it point to comes along. */
static roco_status json_value(const writer *w, const cJSON *schema, roco_expr *out)
{
    static const char *const kept[] = {"$defs", "definitions"};
    cJSON *copy = cJSON_Duplicate(schema, true);
    for (size_t i = 0; cJSON_IsObject(copy) && i < 2; i++) {
        const cJSON *definitions = cJSON_GetObjectItemCaseSensitive(w->schema, kept[i]);
        if (definitions && !cJSON_GetObjectItemCaseSensitive(copy, kept[i]))
            cJSON_AddItemToObject(copy, kept[i], cJSON_Duplicate(definitions, true));
    }
    roco_expr parts[2];
    roco_status status = copy ? roco_schema_expr(w->grammar, "tools", copy, &parts[0], w->error)
                              : roco_fail(w->error, ROCO_NO_MEMORY, NULL, "out of memory");
    cJSON_Delete(copy);
    if (status == ROCO_UNSUPPORTED && w->loose) {
        *out = any_value(w);
        return ROCO_OK;
    }
    parts[1] = text(w, w->form->spelling.next);
    *out = roco_grammar_sequence(w->grammar, parts, 2);
    return status;
}

static bool is_required(const writer *w, const char *name)
{
    return roco_json_lists(cJSON_GetObjectItemCaseSensitive(w->schema, "required"), name);
}

static roco_status argument(const writer *w, const cJSON *schema, roco_expr *out)
{
    const roco_call_spelling *s = &w->form->spelling;
    roco_expr parts[4] = {text(w, s->key), text(w, schema->string), text(w, s->value)};
    roco_status status = roco_argument_kind_of(schema) != ROCO_ARGUMENT_JSON ? string_value(w, schema, &parts[3])
                                                                             : json_value(w, schema, &parts[3]);
    const roco_expr whole = roco_grammar_sequence(w->grammar, parts, 4);
    *out = roco_grammar_repeat(w->grammar, whole, is_required(w, schema->string) ? 1 : 0, 1);
    return status;
}

/* Of a function that says nothing of its arguments. */
static roco_status any_arguments(const writer *w, roco_expr *out)
{
    static const char name[] = "[A-Za-z_][A-Za-z0-9_]*";
    const roco_call_spelling *s = &w->form->spelling;
    roco_expr parts[4] = {text(w, s->key), 0, text(w, s->value), any_value(w)};
    roco_status status = roco_grammar_regex(w->grammar, "tools", name, sizeof name - 1, &parts[1], w->error);
    *out = roco_grammar_repeat(w->grammar, roco_grammar_sequence(w->grammar, parts, 4), 0, ROCO_UNLIMITED);
    return status;
}

roco_status roco_tagged_arguments(roco_grammar *grammar, const roco_call_form *form, const cJSON *schema, bool loose,
                                  roco_expr *out, roco_error *error)
{
    const writer w = {grammar, form, schema, loose, error};
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    roco_expr parts[MAX_ARGUMENTS + 1], all[2];
    roco_status status = ROCO_OK;
    size_t n = 0;
    if (!cJSON_IsObject(properties) || cJSON_GetArraySize(properties) > MAX_ARGUMENTS) {
        status = any_arguments(&w, &all[0]);
    } else {
        for (const cJSON *item = properties->child; item && !status; item = item->next)
            status = argument(&w, item, &parts[n++]);
        all[0] = roco_grammar_sequence(grammar, parts, n);
    }
    all[1] = text(&w, form->tags.end);
    *out = roco_grammar_sequence(grammar, all, 2);
    return status;
}
