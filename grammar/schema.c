/* Lists of schemas to rules. See schema.h. */
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* $ref and allOf inside each other. */
enum { MAX_CHAIN = 200, WORDS_PER_ENTRY = 3 };

roco_expr roco_schema_fail(roco_schema *s, roco_status status, const roco_json_value *value, const char *keyword,
                           const char *said)
{
    char place[220];
    if (s->status)
        return 0;
    roco_schema_place(s->root, value, keyword, place, sizeof place);
    s->status = roco_fail(s->error, status, s->field, "%s: at %s: %s", s->field, place, said);
    return 0;
}

void roco_entries_add(roco_schema *s, roco_entries *list, const roco_json_value *value, roco_entry_kind kind)
{
    if (roco_grow(&list->data, list->n, &list->capacity, sizeof *list->data))
        list->data[list->n++] = (roco_entry){value, kind};
    else
        roco_grammar_fail(s->grammar, ROCO_NO_MEMORY, "out of memory");
}

/* --- the same list is the same rule --- */

static int by_place(const void *left, const void *right)
{
    const roco_entry *a = left, *b = right;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

roco_expr roco_schema_rule(roco_schema *s, roco_entries *list)
{
    uint32_t *words = malloc((list->n + 1) * WORDS_PER_ENTRY * sizeof *words), n = 0;
    if (!words || s->status) {
        free(words);
        return s->status ? 0 : roco_grammar_fail(s->grammar, ROCO_NO_MEMORY, "out of memory");
    }
    if (list->n > 1)
        qsort(list->data, list->n, sizeof *list->data, by_place);
    for (uint32_t i = 0; i < list->n; i++) {
        if (i > 0 && by_place(&list->data[i], &list->data[i - 1]) == 0)
            continue;
        const uintptr_t at = (uintptr_t)list->data[i].value;
        words[n++] = (uint32_t)at;
        words[n++] = (uint32_t)((uint64_t)at >> 32);
        words[n++] = (uint32_t)list->data[i].kind;
    }
    const uint32_t known = s->lists.n, index = roco_number_sets_index(s->grammar, &s->lists, words, n);
    free(words);
    if (index == UINT32_MAX || !roco_grammar_tick(s->grammar))
        return 0;
    if (index == known) {
        if (!roco_grow(&s->rules, index, &s->rules_capacity, sizeof *s->rules))
            return roco_grammar_fail(s->grammar, ROCO_NO_MEMORY, "out of memory");
        s->rules[index] = roco_grammar_declare(s->grammar);
    }
    return s->rules[index];
}

static void read_list(roco_schema *s, uint32_t index, roco_entries *list)
{
    uint32_t n;
    const uint32_t *words = roco_number_sets_get(&s->lists, index, &n);
    for (uint32_t i = 0; i < n; i += WORDS_PER_ENTRY) {
        const uint64_t at = (uint64_t)words[i + 1] << 32 | words[i];
        roco_entries_add(s, list, (const roco_json_value *)(uintptr_t)at, (roco_entry_kind)words[i + 2]);
    }
}

/* --- what else holds for the same value --- */

typedef struct chain {
    const roco_json_value *data[MAX_CHAIN];
    uint32_t n;
} chain;

static bool expand_schema(roco_schema *s, const roco_json_value *value, chain *above, roco_entries *bare,
                          roco_entries *choices);

static bool expand_reference(roco_schema *s, const roco_json_value *schema, const roco_json_value *reference,
                             chain *above, roco_entries *bare, roco_entries *choices)
{
    if (reference->kind != ROCO_JSON_STRING)
        return roco_schema_fail(s, ROCO_INVALID, schema, "$ref", "it must be a string");
    if (reference->text[0] != '#')
        return roco_schema_fail(s, ROCO_UNSUPPORTED, schema, "$ref", "references to other documents are not supported");
    const roco_json_value *target = roco_schema_resolve(s->root, reference->text);
    if (!target)
        return roco_schema_fail(s, ROCO_INVALID, schema, "$ref", "there is nothing where it points to");
    return expand_schema(s, target, above, bare, choices);
}

static bool expand_all(roco_schema *s, const roco_json_value *schema, const roco_json_value *all, chain *above,
                       roco_entries *bare, roco_entries *choices)
{
    if (all->kind != ROCO_JSON_ARRAY || !all->child)
        return roco_schema_fail(s, ROCO_INVALID, schema, "allOf", "it must be an array of schemas, not empty");
    for (const roco_json_value *item = all->child; item; item = item->next)
        if (!expand_schema(s, item, above, bare, choices))
            return false;
    return true;
}

static bool expand_choice(roco_schema *s, const roco_json_value *schema, const char *keyword, roco_entries *choices)
{
    const roco_json_value *list = roco_schema_member(schema, keyword);
    if (!list)
        return true;
    if (list->kind != ROCO_JSON_ARRAY || !list->child)
        return roco_schema_fail(s, ROCO_INVALID, schema, keyword, "it must be an array of schemas, not empty");
    roco_entries_add(s, choices, list, ROCO_ENTRY_ONE_OF);
    return true;
}

static bool expand_object(roco_schema *s, const roco_json_value *value, chain *above, roco_entries *bare,
                          roco_entries *choices)
{
    const roco_json_value *reference = roco_schema_member(value, "$ref"), *all = roco_schema_member(value, "allOf");
    roco_entries_add(s, bare, value, ROCO_ENTRY_BARE);
    return (!reference || expand_reference(s, value, reference, above, bare, choices)) &&
           (!all || expand_all(s, value, all, above, bare, choices)) && expand_choice(s, value, "anyOf", choices) &&
           expand_choice(s, value, "oneOf", choices);
}

static bool expand_schema(roco_schema *s, const roco_json_value *value, chain *above, roco_entries *bare,
                          roco_entries *choices)
{
    if (s->status || !roco_grammar_tick(s->grammar))
        return false;
    if (value->kind == ROCO_JSON_TRUE || value->kind == ROCO_JSON_FALSE)
        return value->kind == ROCO_JSON_TRUE;
    if (value->kind != ROCO_JSON_OBJECT)
        return roco_schema_fail(s, ROCO_INVALID, value, "", "a schema must be an object, true or false");
    for (uint32_t i = 0; i < above->n; i++)
        if (above->data[i] == value)
            return roco_schema_fail(s, ROCO_INVALID, value, "", "the schema refers to itself for the same value");
    if (above->n == MAX_CHAIN)
        return roco_schema_fail(s, ROCO_TOO_LARGE, value, "", "more than 200 references and allOf in a row");
    above->data[above->n++] = value;
    const bool good = expand_object(s, value, above, bare, choices);
    above->n--;
    return good;
}

bool roco_schema_expand(roco_schema *s, const roco_entries *list, roco_entries *bare, roco_entries *choices)
{
    for (uint32_t i = 0; i < list->n; i++) {
        chain above = {.n = 0};
        const roco_entry entry = list->data[i];
        if (entry.kind == ROCO_ENTRY_BARE)
            roco_entries_add(s, bare, entry.value, entry.kind);
        else if (entry.kind == ROCO_ENTRY_ONE_OF)
            roco_entries_add(s, choices, entry.value, entry.kind);
        else if (!expand_schema(s, entry.value, &above, bare, choices))
            return false;
    }
    return !s->status && !s->grammar->status;
}

/* --- rules --- */

/* One rule for each branch of the first choice, with all else that must hold. */
static roco_expr branches(roco_schema *s, const roco_entries *bare, const roco_entries *choices)
{
    roco_expr_list list = {0};
    roco_entries branch = {0};
    for (const roco_json_value *item = choices->data[0].value->child; item && !s->status; item = item->next) {
        branch.n = 0;
        for (uint32_t i = 0; i < bare->n; i++)
            roco_entries_add(s, &branch, bare->data[i].value, ROCO_ENTRY_BARE);
        for (uint32_t i = 1; i < choices->n; i++)
            roco_entries_add(s, &branch, choices->data[i].value, ROCO_ENTRY_ONE_OF);
        roco_entries_add(s, &branch, item, ROCO_ENTRY_WHOLE);
        roco_expr_push(s->grammar, &list, roco_schema_rule(s, &branch));
    }
    const roco_expr expr = roco_grammar_choice(s->grammar, list.data, list.n);
    roco_expr_list_free(&list);
    free(branch.data);
    return expr;
}

static roco_expr by_type(roco_schema *s, const roco_entries *bare, const roco_facts *facts)
{
    const roco_json_text *json = roco_grammar_json(s->grammar);
    roco_expr list[7];
    uint32_t n = 0;
    if (facts->types & ROCO_TYPE_OBJECT)
        list[n++] = roco_schema_object(s, bare, facts);
    if (facts->types & ROCO_TYPE_ARRAY)
        list[n++] = roco_schema_array(s, bare, facts);
    if (facts->types & ROCO_TYPE_STRING)
        list[n++] = roco_schema_string(s, facts);
    if (facts->types & (ROCO_TYPE_NUMBER | ROCO_TYPE_INTEGER))
        list[n++] = roco_schema_number(s, facts, !(facts->types & ROCO_TYPE_NUMBER));
    if (facts->types & ROCO_TYPE_BOOLEAN) {
        list[n++] = json->yes;
        list[n++] = json->no;
    }
    if (facts->types & ROCO_TYPE_NULL)
        list[n++] = json->null;
    return roco_grammar_choice(s->grammar, list, n);
}

static roco_expr body(roco_schema *s, const roco_entries *list)
{
    roco_entries bare = {0}, choices = {0};
    roco_facts facts;
    roco_expr expr = 0;
    if (roco_schema_expand(s, list, &bare, &choices)) {
        if (choices.n > 0)
            expr = branches(s, &bare, &choices);
        else if (roco_facts_gather(s, &bare, &facts))
            expr = facts.enumerated                   ? roco_schema_values(s, &bare, &facts)
                   : !facts.typed && facts.hints == 0 ? roco_grammar_json(s->grammar)->values[ROCO_JSON_LEVELS - 1]
                                                      : by_type(s, &bare, &facts);
    }
    free(bare.data);
    free(choices.data);
    return expr;
}

roco_status roco_grammar_schema(roco_grammar *grammar, const char *field, const roco_json_value *schema, roco_expr *out,
                                roco_error *error)
{
    roco_schema s = {.grammar = grammar, .field = field, .root = schema, .error = error};
    roco_entries list = {0};
    roco_entries_add(&s, &list, schema, ROCO_ENTRY_WHOLE);
    *out = roco_schema_rule(&s, &list);
    for (uint32_t i = 0; i < s.lists.n && !s.status && !grammar->status; i++) {
        list.n = 0;
        read_list(&s, i, &list);
        roco_grammar_define(grammar, s.rules[i], body(&s, &list));
    }
    free(list.data);
    free(s.rules);
    roco_number_sets_free(&s.lists);
    if (s.status)
        return s.status;
    return grammar->status ? roco_grammar_report(grammar, field, error) : ROCO_OK;
}
