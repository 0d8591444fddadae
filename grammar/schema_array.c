/* Arrays: items by place, then items of one kind, within a number of them. */
#include "grammar/schema.h"

#include <stdlib.h>

/* Schemas by place: prefixItems, or items as an array, its older name. */
static const roco_json_value *places_of(const roco_json_value *schema)
{
    const roco_json_value *items = roco_schema_member(schema, "items");
    return items && items->kind == ROCO_JSON_ARRAY ? items : roco_schema_member(schema, "prefixItems");
}

/* The schema of the items behind the places; NULL: nothing is said of them. */
static const roco_json_value *rest_of(const roco_json_value *schema)
{
    const roco_json_value *items = roco_schema_member(schema, "items");
    if (items && items->kind == ROCO_JSON_ARRAY)
        items = roco_schema_member(schema, "additionalItems");
    return items ? items : roco_schema_member(schema, "unevaluatedItems");
}

static uint32_t n_places(const roco_entries *bare)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < bare->n; i++) {
        uint32_t n = 0;
        const roco_json_value *places = places_of(bare->data[i].value);
        for (const roco_json_value *item = places ? places->child : NULL; item; item = item->next)
            n++;
        most = n > most ? n : most;
    }
    return most;
}

/* What the item at `place` must satisfy, over all schemas. */
static roco_expr item_rule(roco_schema *s, const roco_entries *bare, uint32_t place)
{
    roco_entries list = {0};
    for (uint32_t i = 0; i < bare->n; i++) {
        const roco_json_value *schema = bare->data[i].value, *places = places_of(schema);
        const roco_json_value *item = places ? places->child : NULL;
        for (uint32_t n = place; item && n > 0; n--)
            item = item->next;
        item = item ? item : rest_of(schema);
        if (item)
            roco_entries_add(s, &list, item, ROCO_ENTRY_WHOLE);
    }
    const roco_expr rule =
        list.n ? roco_schema_rule(s, &list) : roco_grammar_json(s->grammar)->values[ROCO_JSON_LEVELS - 2];
    free(list.data);
    return rule;
}

/* Items behind the places: unless something is said of them, or they are needed, there are none. */
static bool has_rest(const roco_entries *bare, const roco_facts *facts, uint32_t places)
{
    bool said = places == 0 || facts->min_items > places;
    for (uint32_t i = 0; i < bare->n; i++)
        said = said || rest_of(bare->data[i].value);
    return said;
}

/* `place` items are there; what follows, commas in front. */
static roco_expr behind(roco_schema *s, const roco_entries *bare, const roco_facts *facts, uint32_t places)
{
    roco_grammar *g = s->grammar;
    const uint32_t min = facts->min_items, max = facts->max_items, from = places ? places : 1;
    roco_expr rest = roco_grammar_empty(g);
    if (max > from && has_rest(bare, facts, places))
        rest = roco_grammar_repeat(g, roco_json_after_comma(g, item_rule(s, bare, places)), min > from ? min - from : 0,
                                   max == ROCO_UNLIMITED ? max : max - from);
    /* A rule for each place: what comes behind it is nested no deeper for that. */
    for (uint32_t place = places; place-- > 1 && !g->status;) {
        if (place >= max)
            continue;
        const roco_expr rule = roco_grammar_declare(g);
        const roco_expr more = roco_grammar_pair(g, roco_json_after_comma(g, item_rule(s, bare, place)), rest);
        roco_grammar_define(g, rule, place < min ? more : roco_grammar_optional(g, more));
        rest = rule;
    }
    return rest;
}

roco_expr roco_schema_array(roco_schema *s, const roco_entries *bare, const roco_facts *facts)
{
    roco_grammar *g = s->grammar;
    const uint32_t places = n_places(bare);
    if (facts->min_items > facts->max_items)
        return 0;
    if (facts->max_items == 0)
        return roco_grammar_word(g, "[]");
    if (places == 0 && !(facts->hints & ROCO_TYPE_ARRAY))
        return roco_grammar_json(g)->arrays[ROCO_JSON_LEVELS - 1];
    const roco_expr items = roco_grammar_pair(g, item_rule(s, bare, 0), behind(s, bare, facts, places));
    return roco_json_wrap(g, "[", items, facts->min_items == 0, "]");
}
