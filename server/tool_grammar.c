#include "server/tool_grammar.h"

#include "server/constraints.h"
#include "server/tool_grammar_tags.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOOLS = 128, MAX_PIECES = 32 };

/* --- the source --- */

static bool is_strict(const cJSON *tool)
{
    const cJSON *function = cJSON_GetObjectItemCaseSensitive(tool, "function");
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(function, "strict"));
}

static bool has_strict(const cJSON *tools)
{
    for (const cJSON *tool = tools ? tools->child : NULL; tool; tool = tool->next)
        if (is_strict(tool))
            return true;
    return false;
}

/* Beside calls the answer's own text has a form: the reader must be able to tell the two apart. */
static roco_status add_content(const roco_chat_template *chat, const roco_constraint_field *content, cJSON *source,
                               roco_error *error)
{
    if (chat->calls->bare)
        return roco_fail(error, ROCO_UNSUPPORTED, content->field,
                         "%s cannot be combined with tools: this model writes calls as JSON without a mark; set "
                         "tool_choice to \"none\" or \"required\"",
                         content->field);
    bool good = cJSON_AddNumberToObject(source, "content_kind", content->kind) &&
                cJSON_AddStringToObject(source, "content_field", content->field) &&
                (!content->source || cJSON_AddItemReferenceToObject(source, "content", (cJSON *)content->source));
    return good ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
}

roco_status roco_tools_constrain(const roco_chat_template *chat, roco_completion_params *params, roco_error *error)
{
    const cJSON *tools = roco_tools_shown(params);
    const char *forced = roco_tools_forced(params);
    const roco_constraint_field content = params->constraint;
    bool formed = content.kind != ROCO_CONSTRAINT_NONE;
    if (!tools || !chat->calls || (!forced && !formed && (!has_strict(tools) || params->continue_final_message)))
        return ROCO_OK;
    if (params->ignore_eos)
        return roco_fail(error, ROCO_INVALID, "ignore_eos", "ignore_eos and the tools ask for opposite things");
    if (!params->made)
        params->made = cJSON_CreateObject();
    cJSON *source = cJSON_AddObjectToObject(params->made, "constraint");
    bool good = source && cJSON_AddStringToObject(source, "form", chat->calls->name) &&
                cJSON_AddStringToObject(source, "think", chat->think ? chat->think : "") &&
                cJSON_AddStringToObject(source, "answer", chat->answer ? chat->answer : "") &&
                cJSON_AddBoolToObject(source, "parallel", roco_tools_several(params)) &&
                (!forced || cJSON_AddStringToObject(source, "forced", forced)) &&
                cJSON_AddItemReferenceToObject(source, "tools", params->tools);
    if (!good)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_status status = formed && !forced ? add_content(chat, &content, source, error) : ROCO_OK;
    if (status)
        return status;
    params->constraint = (roco_constraint_field){.kind = ROCO_CONSTRAINT_TOOLS, .source = source, .field = "tools"};
    return ROCO_OK;
}

/* --- the grammar --- */

typedef struct builder {
    roco_grammar *grammar;
    const cJSON *source;
    const roco_tokenizer *tokenizer;
    const roco_call_form *form;
    bool loose;
    roco_error *error;
} builder;

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(value) ? value->valuestring : NULL;
}

/* The control token that a mark of the form at text[0] is; -1: none is there, or it is text. */
static int32_t mark_at(const builder *b, const char *text, size_t *size)
{
    const roco_call_form *f = b->form;
    const char *marks[] = {f->open[0],  f->open[1],  f->open[2],  f->close,   f->frame[0],
                           f->frame[1], f->frame[2], f->inner[0], f->inner[1]};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        *size = marks[i] ? strlen(marks[i]) : 0;
        if (*size && strncmp(text, marks[i], *size) == 0)
            return roco_control_token(b->tokenizer, marks[i]);
    }
    return -1;
}

/* A text of the form, in which marks that are control tokens are those tokens. */
static roco_expr spell(const builder *b, const char *text)
{
    roco_expr pieces[MAX_PIECES];
    size_t n = 0, from = 0, at = 0, size;
    while (text[at] && n + 2 < MAX_PIECES) {
        int32_t token = mark_at(b, text + at, &size);
        if (token < 0) {
            at++;
            continue;
        }
        if (at > from)
            pieces[n++] = roco_grammar_text(b->grammar, text + from, at - from);
        pieces[n++] = roco_grammar_token(b->grammar, token);
        from = at += size;
    }
    if (text[from])
        pieces[n++] = roco_grammar_text(b->grammar, text + from, strlen(text + from));
    return roco_grammar_sequence(b->grammar, pieces, n);
}

/* Arguments are an object, whether the schema says so or not. */
static roco_status object_schema(const builder *b, const cJSON *schema, roco_expr *out)
{
    cJSON *copy = cJSON_Duplicate(schema, true);
    roco_status status = ROCO_OK;
    if (!copy || (!cJSON_HasObjectItem(copy, "type") && !cJSON_AddStringToObject(copy, "type", "object")))
        status = roco_fail(b->error, ROCO_NO_MEMORY, NULL, "out of memory");
    if (!status)
        status = roco_schema_expr(b->grammar, "tools", copy, out, b->error);
    cJSON_Delete(copy);
    return status;
}

static roco_status arguments(const builder *b, const cJSON *tool, roco_expr *out)
{
    const cJSON *function = cJSON_GetObjectItemCaseSensitive(tool, "function");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(function, "parameters");
    bool kept = is_strict(tool) || !b->loose;
    if (b->form->shape == ROCO_CALLS_TAGGED)
        return roco_tagged_arguments(b->grammar, b->form, kept || text_of(b->source, "forced") ? schema : NULL, !kept,
                                     out, b->error);
    if (cJSON_IsObject(schema) && schema->child && kept)
        return object_schema(b, schema, out);
    *out = roco_grammar_json_object(b->grammar);
    return ROCO_OK;
}

static const char *name_of(const cJSON *tool)
{
    return text_of(cJSON_GetObjectItemCaseSensitive(tool, "function"), "name");
}

/* A call from its name to its arguments, and `tail` behind them: one of the tools. */
static roco_status any_call(const builder *b, const char *tail, roco_expr *out)
{
    roco_expr calls[MAX_TOOLS];
    size_t n = 0;
    const cJSON *tools = cJSON_GetObjectItemCaseSensitive(b->source, "tools");
    for (const cJSON *tool = tools->child; tool && n < MAX_TOOLS; tool = tool->next) {
        roco_expr parts[4] = {spell(b, name_of(tool)), spell(b, b->form->spelling.middle)};
        roco_status status = arguments(b, tool, &parts[2]);
        if (status)
            return status;
        parts[3] = spell(b, tail);
        calls[n++] = roco_grammar_sequence(b->grammar, parts, 4);
    }
    *out = roco_grammar_choice(b->grammar, calls, n);
    return ROCO_OK;
}

/* The call that the prompt has begun. */
static roco_status begun_call(const builder *b, const char *name, roco_expr *out)
{
    if (!*name)
        return any_call(b, "", out);
    const cJSON *tools = cJSON_GetObjectItemCaseSensitive(b->source, "tools");
    for (const cJSON *tool = tools->child; tool; tool = tool->next)
        if (strcmp(name_of(tool), name) == 0)
            return arguments(b, tool, out);
    return ROCO_INVALID;
}

/* More calls, each behind `join`; none where one is the most. */
static roco_status more_calls(const builder *b, roco_expr *out)
{
    const roco_call_spelling *s = &b->form->spelling;
    bool parallel = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(b->source, "parallel"));
    roco_expr next[2] = {spell(b, s->join)};
    roco_status status = any_call(b, s->tail, &next[1]);
    *out =
        roco_grammar_repeat(b->grammar, roco_grammar_sequence(b->grammar, next, 2), 0, parallel ? ROCO_UNLIMITED : 0);
    return status;
}

/* One call and no more ends with its arguments; others may only follow a call that is closed. */
static roco_status forced_calls(const builder *b, const char *name, roco_expr *out)
{
    const roco_call_spelling *s = &b->form->spelling;
    roco_expr parts[4];
    roco_status status = begun_call(b, name, &parts[0]);
    *out = parts[0];
    if (status || !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(b->source, "parallel")))
        return status;
    parts[1] = spell(b, s->tail);
    status = more_calls(b, &parts[2]);
    parts[3] = spell(b, s->last);
    *out = roco_grammar_sequence(b->grammar, parts, 4);
    return status;
}

/* Text in which reasoning may be marked by control tokens. */
static roco_expr free_text(const builder *b)
{
    roco_grammar *g = b->grammar;
    const char *marks[] = {text_of(b->source, "think"), text_of(b->source, "answer")};
    roco_expr tokens[2], text = roco_grammar_without(g, "", 0);
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        int32_t token = *marks[i] ? roco_control_token(b->tokenizer, marks[i]) : -1;
        if (token >= 0)
            tokens[n++] = roco_grammar_token(g, token);
    }
    if (n == 0)
        return text;
    const roco_expr marked[] = {text, roco_grammar_choice(g, tokens, n)};
    const roco_expr all[] = {roco_grammar_repeat(g, roco_grammar_sequence(g, marked, 2), 0, ROCO_UNLIMITED), text};
    return roco_grammar_sequence(g, all, 2);
}

/* All calls of an answer, behind what begins the first. */
static roco_status all_calls(const builder *b, const char *rest_of_lead, roco_expr *out)
{
    const roco_call_spelling *s = &b->form->spelling;
    roco_expr all[4] = {spell(b, rest_of_lead)};
    roco_status status = any_call(b, s->tail, &all[1]);
    if (!status)
        status = more_calls(b, &all[2]);
    all[3] = spell(b, s->last);
    *out = roco_grammar_sequence(b->grammar, all, 4);
    return status;
}

/* The mark with which the first call begins, and what of the lead comes behind it. */
static const char *first_mark(const roco_call_form *form)
{
    return form->bare ? "{" : form->frame[0] ? form->frame[0] : form->open[0];
}

/* Calls, or a text of the form that the content must have. */
static roco_status content_or_calls(const builder *b, roco_expr content, roco_expr *out)
{
    roco_expr either[2] = {content};
    roco_status status = all_calls(b, b->form->spelling.lead, &either[1]);
    *out = roco_grammar_choice(b->grammar, either, 2);
    return status;
}

/* Free, until the mark that begins a call. */
static roco_status text_or_calls(const builder *b, roco_expr *out)
{
    roco_grammar *g = b->grammar;
    const char *lead = b->form->spelling.lead;
    const char *mark = first_mark(b->form);
    size_t size = strlen(mark);
    int32_t token = b->form->bare ? -1 : roco_control_token(b->tokenizer, mark);
    static const char not_an_object[] = "([^{\\s][\\s\\S]*)?";
    roco_expr calls, text, begin[2];
    roco_status status = all_calls(b, lead + size, &calls);
    if (status)
        return status;
    if (b->form->bare) { /* an object at the very start is a call, all else is text */
        status = roco_grammar_regex(g, "tools", not_an_object, sizeof not_an_object - 1, &text, b->error);
        begin[0] = roco_grammar_text(g, mark, size);
        begin[1] = roco_grammar_empty(g);
    } else if (token >= 0) {
        text = begin[0] = free_text(b);
        begin[1] = roco_grammar_token(g, token);
    } else {
        text = roco_grammar_without(g, mark, size);
        begin[0] = roco_grammar_until(g, mark, size);
        begin[1] = roco_grammar_empty(g);
    }
    const roco_expr called[] = {begin[0], begin[1], calls};
    const roco_expr either[] = {text, roco_grammar_sequence(g, called, 3)};
    *out = roco_grammar_choice(g, either, 2);
    return status;
}

bool roco_tools_content(const cJSON *source, roco_constraint_field *out)
{
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(source, "content_kind");
    if (!kind)
        return false;
    *out = (roco_constraint_field){.kind = (roco_constraint_kind)kind->valueint,
                                   .source = cJSON_GetObjectItemCaseSensitive(source, "content"),
                                   .field = text_of(source, "content_field")};
    return true;
}

roco_status roco_tools_expr(roco_grammar *grammar, const cJSON *source, const roco_tokenizer *tokenizer, bool loose,
                            const roco_expr *content, roco_expr *out, roco_error *error)
{
    const char *forced = text_of(source, "forced");
    builder b = {grammar, source, tokenizer, roco_call_form_named(text_of(source, "form")), loose || !forced, error};
    if (forced)
        return forced_calls(&b, forced, out);
    return content ? content_or_calls(&b, *content, out) : text_or_calls(&b, out);
}
