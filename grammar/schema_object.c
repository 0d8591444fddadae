/* Objects: properties in the schema's order, then others where they are allowed.
 *
 * Rules stand for "from property i on, with c members written": c is counted as far as a bound on the number of members
 * needs it, which without one is whether there is a comma to write.
 */
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds on the number of members are counted this far. */
enum { MAX_COUNTED = 200 };

typedef struct property {
    const char *name;
    bool required;
    roco_expr member; /* key and value */
} property;

typedef struct object {
    roco_schema *schema;
    const roco_entries *bare;
    const roco_facts *facts;
    property *properties;
    uint32_t n, capacity;
    roco_dfa *names;  /* what propertyNames allows; NULL: all */
    roco_expr others; /* a member that is none of the properties; NOTHING: not allowed */
    uint32_t counted; /* members are told apart up to this number */
} object;

/* --- which schemas speak of a property --- */

/* additionalProperties looks at its own schema alone, unevaluatedProperties at all that hold for the value. */
static const roco_json_value *others_of(const roco_json_value *schema, bool evaluated)
{
    const roco_json_value *others = roco_schema_member(schema, "additionalProperties");
    return others || evaluated ? others : roco_schema_member(schema, "unevaluatedProperties");
}

static roco_dfa *pattern_dfa(roco_schema *s, const roco_json_value *pattern)
{
    roco_expr expr = 0;
    roco_error error = {0};
    const roco_status status = roco_regex_parse(s->grammar, s->field, "pattern", pattern->name, strlen(pattern->name),
                                                ROCO_REGEX_SEARCH, &expr, &error);
    if (status) {
        roco_schema_fail(s, status, pattern, "", error.message);
        return NULL;
    }
    roco_dfa *found = roco_dfa_from_expr(s->grammar, expr), *any = roco_dfa_any(s->grammar);
    roco_dfa *both = roco_dfa_both(s->grammar, found, any);
    roco_dfa_close(found);
    roco_dfa_close(any);
    return both;
}

/* Adds the schemas of patternProperties that a name matches; whether there was one. */
static bool add_matching(roco_schema *s, const roco_json_value *schema, const char *name, roco_entries *list)
{
    bool some = false;
    const roco_json_value *patterns = roco_schema_member(schema, "patternProperties");
    for (const roco_json_value *p = patterns ? patterns->child : NULL; p; p = p->next) {
        roco_dfa *dfa = pattern_dfa(s, p);
        if (dfa && roco_dfa_accepts(dfa, name)) {
            roco_entries_add(s, list, p, ROCO_ENTRY_WHOLE);
            some = true;
        }
        roco_dfa_close(dfa);
    }
    return some;
}

static roco_expr any_value(const object *o, roco_entries *list)
{
    const roco_expr rule = list->n ? roco_schema_rule(o->schema, list)
                                   : roco_grammar_json(o->schema->grammar)->values[ROCO_JSON_LEVELS - 2];
    free(list->data);
    return rule;
}

static bool is_declared(const roco_json_value *schema, const char *name)
{
    const roco_json_value *all = roco_schema_member(schema, "properties");
    return all && roco_schema_member(all, name);
}

static roco_expr value_of(const object *o, const char *name)
{
    roco_entries list = {0};
    bool evaluated = false;
    for (uint32_t i = 0; i < o->bare->n; i++)
        evaluated = evaluated || is_declared(o->bare->data[i].value, name);
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *schema = o->bare->data[i].value;
        const bool own = is_declared(schema, name);
        if (own)
            roco_entries_add(o->schema, &list, roco_schema_member(roco_schema_member(schema, "properties"), name),
                             ROCO_ENTRY_WHOLE);
        const bool matched = add_matching(o->schema, schema, name, &list);
        if (!own && !matched && others_of(schema, evaluated))
            roco_entries_add(o->schema, &list, others_of(schema, evaluated), ROCO_ENTRY_WHOLE);
    }
    return any_value(o, &list);
}

/* --- the properties --- */

static property *find_property(const object *o, const char *name)
{
    for (uint32_t i = 0; i < o->n && roco_grammar_tick(o->schema->grammar); i++)
        if (strcmp(o->properties[i].name, name) == 0)
            return &o->properties[i];
    return NULL;
}

static void add_property(object *o, const char *name, bool required)
{
    roco_grammar *g = o->schema->grammar;
    property *known = find_property(o, name);
    if (known) {
        known->required = known->required || required;
        return;
    }
    if (!roco_grow(&o->properties, o->n, &o->capacity, sizeof *o->properties)) {
        roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
        return;
    }
    o->properties[o->n++] = (property){.name = name, .required = required};
}

static void find_properties(object *o)
{
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *all = roco_schema_member(o->bare->data[i].value, "properties");
        for (const roco_json_value *p = all ? all->child : NULL; p; p = p->next)
            add_property(o, p->name, false);
    }
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *required = roco_schema_member(o->bare->data[i].value, "required");
        for (const roco_json_value *name = required ? required->child : NULL; name; name = name->next)
            add_property(o, name->text, true);
    }
    for (uint32_t i = 0; i < o->n && !o->schema->status && !o->schema->grammar->status; i++) {
        property *p = &o->properties[i];
        roco_grammar *g = o->schema->grammar;
        if (!o->names || roco_dfa_accepts(o->names, p->name))
            p->member = roco_json_member(g, roco_json_string_literal(g, p->name), value_of(o, p->name));
    }
}

/* --- names --- */

/* What propertyNames of all schemas allow. */
static void find_names(object *o)
{
    roco_schema *s = o->schema;
    roco_entries list = {0}, bare = {0}, choices = {0};
    roco_facts facts;
    const roco_json_value *last = NULL;
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *names = roco_schema_member(o->bare->data[i].value, "propertyNames");
        if (names)
            roco_entries_add(s, &list, last = names, ROCO_ENTRY_WHOLE);
    }
    if (last) {
        const bool some = roco_schema_expand(s, &list, &bare, &choices);
        if (!some && !s->status)
            o->names = roco_dfa_words(s->grammar, NULL, 0);
        else if (some && roco_facts_gather(s, &bare, &facts)) {
            if (choices.n || facts.enumerated)
                roco_schema_fail(s, ROCO_UNSUPPORTED, last, "",
                                 "only a pattern, a format and lengths are supported here");
            else
                o->names = roco_schema_string_dfa(s, &facts);
        }
    }
    free(list.data);
    free(bare.data);
    free(choices.data);
}

/* Takes `dfa`; what is of it and not of `less`, which is closed, too. */
static roco_dfa *without(roco_schema *s, roco_dfa *dfa, roco_dfa *less)
{
    roco_dfa *rest = dfa && less ? roco_dfa_minus(s->grammar, dfa, less) : NULL;
    roco_dfa_close(dfa);
    roco_dfa_close(less);
    return rest;
}

/* Keys of `allowed` (taken) that are no property and may be names. */
static roco_dfa *free_names(const object *o, roco_dfa *allowed)
{
    roco_schema *s = o->schema;
    const char **names = malloc((o->n + 1) * sizeof *names);
    if (!names) {
        roco_grammar_fail(s->grammar, ROCO_NO_MEMORY, "out of memory");
        return allowed;
    }
    for (uint32_t i = 0; i < o->n; i++)
        names[i] = o->properties[i].name;
    roco_dfa *dfa = o->n ? without(s, allowed, roco_dfa_words(s->grammar, names, o->n)) : allowed;
    free(names);
    if (!o->names || !dfa)
        return dfa;
    roco_dfa *both = roco_dfa_both(s->grammar, dfa, o->names);
    roco_dfa_close(dfa);
    return both;
}

static roco_expr member_of(const object *o, roco_dfa *names, roco_expr value)
{
    roco_grammar *g = o->schema->grammar;
    if (!names)
        return 0;
    const roco_expr quote = roco_grammar_word(g, "\"");
    const roco_expr key =
        roco_grammar_sequence(g, (const roco_expr[]){quote, roco_grammar_graph(g, names, true), quote}, 3);
    return roco_json_member(g, key, value);
}

/* --- other members --- */

static roco_expr other_value(const object *o, const roco_json_value *pattern, const roco_json_value *of)
{
    roco_entries list = {0};
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *schema = o->bare->data[i].value;
        if (schema == of)
            roco_entries_add(o->schema, &list, pattern, ROCO_ENTRY_WHOLE);
        else if (others_of(schema, false))
            roco_entries_add(o->schema, &list, others_of(schema, false), ROCO_ENTRY_WHOLE);
    }
    return any_value(o, &list);
}

/* Members by patternProperties; *rest, taken and given back: keys that none of them matches. */
static void add_patterns(object *o, roco_expr_list *list, roco_dfa **rest)
{
    roco_schema *s = o->schema;
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *schema = o->bare->data[i].value;
        const roco_json_value *patterns = roco_schema_member(schema, "patternProperties");
        for (const roco_json_value *p = patterns ? patterns->child : NULL; p && *rest; p = p->next) {
            roco_dfa *dfa = pattern_dfa(s, p), *taken = dfa ? roco_dfa_minus(s->grammar, dfa, *rest) : NULL;
            /* What is of this pattern and no longer free is of another one. */
            if (taken && !roco_dfa_is_empty(taken))
                roco_schema_fail(s, ROCO_UNSUPPORTED, p, "", "patterns of properties that overlap are not supported");
            roco_dfa_close(taken);
            if (!dfa || s->status) {
                roco_dfa_close(dfa);
                return;
            }
            roco_dfa *left = roco_dfa_minus(s->grammar, *rest, dfa);
            roco_dfa_close(*rest);
            *rest = left;
            roco_expr_push(s->grammar, list, member_of(o, free_names(o, dfa), other_value(o, p, schema)));
        }
    }
}

/* Other members are allowed where a schema says so, or none of them says anything of members. */
static bool allows_others(const object *o, bool *any_patterns)
{
    bool said = false, closed = false, open = false;
    *any_patterns = false;
    for (uint32_t i = 0; i < o->bare->n; i++) {
        const roco_json_value *schema = o->bare->data[i].value, *others = others_of(schema, false);
        const bool patterns = roco_schema_member(schema, "patternProperties");
        closed = closed || (others && others->kind == ROCO_JSON_FALSE);
        open = open || others;
        said = said || patterns || roco_schema_member(schema, "properties");
        *any_patterns = *any_patterns || patterns;
    }
    return !closed && (open || !said);
}

static void find_others(object *o)
{
    roco_schema *s = o->schema;
    roco_grammar *g = s->grammar;
    bool patterns;
    const bool others = allows_others(o, &patterns);
    if (!others && !patterns)
        return;
    roco_expr_list list = {0};
    if (others && !patterns && o->n == 0 && !o->names) {
        roco_expr_push(g, &list, roco_json_member(g, roco_grammar_json(g)->string, other_value(o, NULL, NULL)));
    } else {
        roco_dfa *rest = roco_dfa_any(g);
        add_patterns(o, &list, &rest);
        if (others && rest)
            roco_expr_push(g, &list, member_of(o, free_names(o, rest), other_value(o, NULL, NULL)));
        else
            roco_dfa_close(rest);
    }
    /* A rule, since it stands at several places. */
    o->others = roco_grammar_declare(g);
    roco_grammar_define(g, o->others, roco_grammar_choice(g, list.data, list.n));
    roco_expr_list_free(&list);
}

/* --- putting members in a row --- */

/* A member, behind a comma unless it is the first. */
static roco_expr nth(const object *o, roco_expr member, uint32_t written)
{
    return written ? roco_json_after_comma(o->schema->grammar, member) : member;
}

/* What may stand behind all properties with so many members written. The others may repeat a key, so that only the
 * first of them surely counts as one more. */
static roco_expr tail(const object *o, uint32_t written)
{
    roco_grammar *g = o->schema->grammar;
    const uint32_t min = o->facts->min_properties, max = o->facts->max_properties;
    const bool enough = written >= min;
    if (o->others == 0 || written >= max)
        return enough ? roco_grammar_empty(g) : 0;
    if (written + 1 < min)
        return 0;
    const uint32_t more = max == ROCO_UNLIMITED ? max : max - written - 1;
    const roco_expr repeated = roco_grammar_repeat(g, roco_json_after_comma(g, o->others), 0, more);
    const roco_expr some = roco_grammar_pair(g, nth(o, o->others, written), repeated);
    return enough ? roco_grammar_optional(g, some) : some;
}

/* later[c], later[c + 1]: from the next property on. */
static roco_expr from_property(const object *o, const property *p, uint32_t written, const roco_expr *later)
{
    roco_grammar *g = o->schema->grammar;
    const uint32_t after = written < o->counted ? written + 1 : written;
    roco_expr with = 0;
    if (p->member && written < o->facts->max_properties)
        with = roco_grammar_pair(g, nth(o, p->member, written), later[after]);
    if (p->required)
        return with;
    return roco_grammar_choice(g, (const roco_expr[]){with, later[written]}, 2);
}

static roco_expr members(const object *o)
{
    roco_grammar *g = o->schema->grammar;
    roco_expr later[MAX_COUNTED + 1] = {0}, now[MAX_COUNTED + 1] = {0};
    for (uint32_t c = 0; c <= o->counted; c++)
        later[c] = tail(o, c);
    for (uint32_t i = o->n; i-- > 0 && !g->status;) {
        for (uint32_t c = 0; c <= o->counted && c <= i; c++) {
            now[c] = roco_grammar_declare(g);
            roco_grammar_define(g, now[c], from_property(o, &o->properties[i], c, later));
        }
        memcpy(later, now, sizeof later);
    }
    return later[0];
}

/* Members are counted as far as a bound needs it, and never beyond the properties there are. */
static bool choose_counted(object *o)
{
    const roco_json_value *at = o->bare->data[0].value;
    const uint32_t min = o->facts->min_properties, max = o->facts->max_properties;
    uint32_t needed = min > 1 ? min : 1;
    needed = max != ROCO_UNLIMITED && max > needed ? max : needed;
    const uint32_t most = o->n ? o->n : 1;
    o->counted = needed < most ? needed : most;
    if (min > o->n + 1 && o->others)
        return roco_schema_fail(o->schema, ROCO_UNSUPPORTED, at, "minProperties",
                                "so many members of names that are not given cannot be made to differ");
    if (o->counted > MAX_COUNTED)
        return roco_schema_fail(o->schema, ROCO_TOO_LARGE, at, "minProperties", "members are counted up to 200");
    return true;
}

roco_expr roco_schema_object(roco_schema *s, const roco_entries *bare, const roco_facts *facts)
{
    roco_grammar *g = s->grammar;
    object o = {.schema = s, .bare = bare, .facts = facts};
    roco_expr expr = 0;
    if (!(facts->hints & ROCO_TYPE_OBJECT))
        return roco_grammar_json(g)->objects[ROCO_JSON_LEVELS - 1];
    find_names(&o);
    if (!s->status)
        find_properties(&o);
    if (!s->status)
        find_others(&o);
    if (!s->status && choose_counted(&o)) {
        const roco_expr inside = members(&o);
        expr = facts->max_properties == 0 ? roco_grammar_word(g, "{}") : roco_json_wrap(g, "{", inside, false, "}");
    }
    free(o.properties);
    roco_dfa_close(o.names);
    return expr;
}
