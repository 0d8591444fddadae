/* enum and const: the values that are allowed by all of them and by what else is said. */
#include "grammar/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- equality, as JSON Schema has it: objects without order --- */

static size_t count(const roco_json_value *value)
{
    size_t n = 0;
    for (const roco_json_value *child = value->child; child; child = child->next)
        n++;
    return n;
}

static bool equal_objects(const roco_json_value *a, const roco_json_value *b)
{
    for (const roco_json_value *member = a->child; member; member = member->next) {
        const roco_json_value *other = roco_schema_member(b, member->name);
        if (!other || !roco_schema_equal(member, other))
            return false;
    }
    return count(a) == count(b);
}

bool roco_schema_equal(const roco_json_value *a, const roco_json_value *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == ROCO_JSON_NUMBER)
        return a->number == b->number;
    if (a->kind == ROCO_JSON_STRING)
        return strcmp(a->text, b->text) == 0;
    if (a->kind == ROCO_JSON_OBJECT)
        return equal_objects(a, b);
    const roco_json_value *left = a->child, *right = b->child;
    for (; left && right; left = left->next, right = right->next)
        if (!roco_schema_equal(left, right))
            return false;
    return !left && !right;
}

/* --- which values stay --- */

static unsigned type_of(const roco_json_value *value)
{
    switch (value->kind) {
    case ROCO_JSON_NULL: return ROCO_TYPE_NULL;
    case ROCO_JSON_FALSE:
    case ROCO_JSON_TRUE: return ROCO_TYPE_BOOLEAN;
    case ROCO_JSON_NUMBER:
        return value->number == floor(value->number) ? ROCO_TYPE_INTEGER | ROCO_TYPE_NUMBER : ROCO_TYPE_NUMBER;
    case ROCO_JSON_STRING: return ROCO_TYPE_STRING;
    case ROCO_JSON_ARRAY: return ROCO_TYPE_ARRAY;
    case ROCO_JSON_OBJECT: return ROCO_TYPE_OBJECT;
    }
    return 0;
}

static bool in_list(roco_schema *s, const roco_json_value *list, const roco_json_value *value)
{
    for (const roco_json_value *item = list->child; item && roco_grammar_tick(s->grammar); item = item->next)
        if (roco_schema_equal(item, value))
            return true;
    return false;
}

/* Every enum and const must have it. */
static bool in_all(roco_schema *s, const roco_entries *bare, const roco_json_value *value)
{
    for (uint32_t i = 0; i < bare->n; i++) {
        const roco_json_value *list = roco_schema_member(bare->data[i].value, "enum");
        const roco_json_value *one = roco_schema_member(bare->data[i].value, "const");
        if ((list && !in_list(s, list, value)) || (one && !roco_schema_equal(one, value)))
            return false;
    }
    return true;
}

/* What else is said of values of this type. `strings`: what is said of strings; NULL: nothing. */
static bool fits(roco_schema *s, const roco_entries *bare, const roco_facts *facts, const roco_dfa *strings,
                 const roco_json_value *value)
{
    const unsigned type = type_of(value);
    if (!(facts->types & type) || !in_all(s, bare, value))
        return false;
    if (type == ROCO_TYPE_STRING)
        return !strings || roco_dfa_accepts(strings, value->text);
    if (value->kind == ROCO_JSON_NUMBER)
        return roco_number_fits(facts, value->number);
    if (facts->hints & type & (ROCO_TYPE_ARRAY | ROCO_TYPE_OBJECT))
        return roco_schema_fail(s, ROCO_UNSUPPORTED, value, "",
                                "an array or object here cannot be checked against the other keywords beside it");
    return true;
}

/* The candidates: those of the first enum or const. */
static const roco_json_value *first_list(const roco_entries *bare, bool *single)
{
    for (uint32_t i = 0; i < bare->n; i++) {
        const roco_json_value *one = roco_schema_member(bare->data[i].value, "const");
        const roco_json_value *list = roco_schema_member(bare->data[i].value, "enum");
        *single = one;
        if (one || list)
            return one ? one : list->child;
    }
    return NULL;
}

roco_expr roco_schema_values(roco_schema *s, const roco_entries *bare, const roco_facts *facts)
{
    bool single = false;
    roco_dfa *strings = roco_facts_bind_strings(facts) ? roco_schema_string_dfa(s, facts) : NULL;
    roco_expr_list list = {0};
    const roco_json_value *value = first_list(bare, &single);
    for (; value && !s->status && !s->grammar->status; value = single ? NULL : value->next)
        if (fits(s, bare, facts, strings, value))
            roco_expr_push(s->grammar, &list, roco_json_literal(s->grammar, value));
    const roco_expr expr = roco_grammar_choice(s->grammar, list.data, list.n);
    roco_expr_list_free(&list);
    roco_dfa_close(strings);
    return expr;
}
