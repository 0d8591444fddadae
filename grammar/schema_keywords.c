/* What the keywords of schemas that all hold say together: the narrowest of each. */
#include "grammar/schema.h"

#include <math.h>
#include <string.h>

/* Takes a keyword's value into the facts; false with a fault. */
typedef bool reader(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts);

static bool invalid(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, const char *said)
{
    return roco_schema_fail(s, ROCO_INVALID, schema, value->name, said);
}

/* --- type --- */

static unsigned type_of_name(const roco_json_value *name)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (unsigned i = 0; name->kind == ROCO_JSON_STRING && i < sizeof names / sizeof *names; i++)
        if (strcmp(name->text, names[i]) == 0)
            return 1u << i == ROCO_TYPE_NUMBER ? ROCO_TYPE_NUMBER | ROCO_TYPE_INTEGER : 1u << i;
    return 0;
}

static bool read_type(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    static const char said[] =
        "it must be null, boolean, integer, number, string, array or object, or an array of those";
    unsigned types = 0;
    if (value->kind != ROCO_JSON_ARRAY) {
        types = type_of_name(value);
    } else {
        for (const roco_json_value *item = value->child; item; item = item->next) {
            if (!type_of_name(item))
                return invalid(s, schema, value, said);
            types |= type_of_name(item);
        }
    }
    if (!types)
        return invalid(s, schema, value, said);
    facts->types &= types;
    facts->typed = true;
    return true;
}

static bool read_enum(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    facts->enumerated = true;
    return value->kind == ROCO_JSON_ARRAY && value->child ? true
                                                          : invalid(s, schema, value, "it must be an array, not empty");
}

static bool read_const(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    facts->enumerated = true;
    return true;
}

/* --- counts: whole numbers that are not negative --- */

static bool read_count(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, uint32_t *out,
                       bool at_least)
{
    const double number = value->kind == ROCO_JSON_NUMBER ? value->number : -1;
    if (!(number >= 0) || number != floor(number))
        return invalid(s, schema, value, "it must be a whole number, 0 or more");
    /* A bound from above that is beyond all that is counted is none. */
    if (number > ROCO_GRAMMAR_MAX_REPEAT) {
        if (at_least)
            return roco_schema_fail(s, ROCO_TOO_LARGE, schema, value->name, "it must be at most 1000000");
        return true;
    }
    const uint32_t count = (uint32_t)number;
    *out = at_least == (count > *out) ? count : *out;
    return true;
}

#define COUNT(name, member, at_least)                                                                                  \
    static bool name(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)   \
    {                                                                                                                  \
        return read_count(s, schema, value, &facts->member, at_least);                                                 \
    }
COUNT(read_min_length, min_length, true)
COUNT(read_max_length, max_length, false)
COUNT(read_min_items, min_items, true)
COUNT(read_max_items, max_items, false)
COUNT(read_min_properties, min_properties, true)
COUNT(read_max_properties, max_properties, false)

/* --- strings --- */

static bool add_pattern(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts,
                        bool format)
{
    if (value->kind != ROCO_JSON_STRING)
        return invalid(s, schema, value, "it must be a string");
    for (uint32_t i = 0; i < facts->n_patterns; i++)
        if (facts->formats[i] == format && strcmp(facts->patterns[i]->text, value->text) == 0)
            return true;
    if (facts->n_patterns == ROCO_SCHEMA_MAX_PATTERNS)
        return roco_schema_fail(s, ROCO_TOO_LARGE, schema, value->name, "more than 16 patterns for one string");
    facts->formats[facts->n_patterns] = format;
    facts->patterns[facts->n_patterns++] = value;
    return true;
}

static bool read_pattern(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return add_pattern(s, schema, value, facts, false);
}

static bool read_format(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return add_pattern(s, schema, value, facts, true);
}

/* --- numbers --- */

static bool read_bound(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_bound *bound,
                       bool low, bool open)
{
    if (value->kind != ROCO_JSON_NUMBER)
        return invalid(s, schema, value, "it must be a number");
    const double number = value->number;
    const bool tighter =
        !bound->at || (low ? number > bound->value : number < bound->value) || (number == bound->value && open);
    if (tighter)
        *bound = (roco_bound){open, value, number};
    return true;
}

#define BOUND(name, member, low, open)                                                                                 \
    static bool name(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)   \
    {                                                                                                                  \
        return read_bound(s, schema, value, &facts->member, low, open);                                                \
    }
BOUND(read_minimum, low, true, false)
BOUND(read_maximum, high, false, false)
BOUND(read_exclusive_minimum, low, true, true)
BOUND(read_exclusive_maximum, high, false, true)

static bool read_multiple(roco_schema *s, const roco_json_value *schema, const roco_json_value *value,
                          roco_facts *facts)
{
    if (value->kind != ROCO_JSON_NUMBER || !(value->number > 0))
        return invalid(s, schema, value, "it must be a number above 0");
    if (facts->n_multiples == sizeof facts->multiples / sizeof *facts->multiples)
        return roco_schema_fail(s, ROCO_TOO_LARGE, schema, value->name, "more than four of these for one number");
    facts->multiples[facts->n_multiples++] = value;
    return true;
}

/* --- what the types' own files read --- */

static bool read_object(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return value->kind == ROCO_JSON_OBJECT || invalid(s, schema, value, "it must be an object");
}

static bool read_required(roco_schema *s, const roco_json_value *schema, const roco_json_value *value,
                          roco_facts *facts)
{
    bool good = value->kind == ROCO_JSON_ARRAY;
    for (const roco_json_value *item = value->child; item; item = item->next)
        good = good && item->kind == ROCO_JSON_STRING;
    return good || invalid(s, schema, value, "it must be an array of names");
}

static bool read_array(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return value->kind == ROCO_JSON_ARRAY || invalid(s, schema, value, "it must be an array");
}

static bool read_schema(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return true; /* checked where it is used */
}

/* --- what is not done --- */

static bool refuse(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return roco_schema_fail(s, ROCO_UNSUPPORTED, schema, value->name,
                            "this keyword is not supported, and would change what is valid");
}

static bool refuse_true(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return value->kind == ROCO_JSON_FALSE || (facts->max_items <= 1 && value->kind == ROCO_JSON_TRUE) ||
           refuse(s, schema, value, facts);
}

/* What is not nothing is anything. */
static bool refuse_not(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return value->kind == ROCO_JSON_FALSE || refuse(s, schema, value, facts);
}

static bool refuse_some(roco_schema *s, const roco_json_value *schema, const roco_json_value *value, roco_facts *facts)
{
    return (value->kind == ROCO_JSON_OBJECT && !value->child) || refuse(s, schema, value, facts);
}

static const struct keyword {
    const char *name;
    reader *read;
    unsigned hint; /* the type it speaks of */
} keywords[] = {
    {"type", read_type, 0},
    {"enum", read_enum, 0},
    {"const", read_const, 0},
    {"minLength", read_min_length, ROCO_TYPE_STRING},
    {"maxLength", read_max_length, ROCO_TYPE_STRING},
    {"pattern", read_pattern, ROCO_TYPE_STRING},
    {"format", read_format, ROCO_TYPE_STRING},
    {"minimum", read_minimum, ROCO_TYPE_NUMBER},
    {"maximum", read_maximum, ROCO_TYPE_NUMBER},
    {"exclusiveMinimum", read_exclusive_minimum, ROCO_TYPE_NUMBER},
    {"exclusiveMaximum", read_exclusive_maximum, ROCO_TYPE_NUMBER},
    {"multipleOf", read_multiple, ROCO_TYPE_NUMBER},
    {"minItems", read_min_items, ROCO_TYPE_ARRAY},
    {"maxItems", read_max_items, ROCO_TYPE_ARRAY},
    {"items", read_schema, ROCO_TYPE_ARRAY},
    {"prefixItems", read_array, ROCO_TYPE_ARRAY},
    {"additionalItems", read_schema, 0},
    {"unevaluatedItems", read_schema, ROCO_TYPE_ARRAY},
    {"uniqueItems", refuse_true, ROCO_TYPE_ARRAY},
    {"minProperties", read_min_properties, ROCO_TYPE_OBJECT},
    {"maxProperties", read_max_properties, ROCO_TYPE_OBJECT},
    {"properties", read_object, ROCO_TYPE_OBJECT},
    {"patternProperties", read_object, ROCO_TYPE_OBJECT},
    {"additionalProperties", read_schema, ROCO_TYPE_OBJECT},
    {"unevaluatedProperties", read_schema, ROCO_TYPE_OBJECT},
    {"propertyNames", read_schema, ROCO_TYPE_OBJECT},
    {"required", read_required, ROCO_TYPE_OBJECT},
    {"not", refuse_not, 0},
    {"if", refuse, 0},
    {"then", refuse, 0},
    {"else", refuse, 0},
    {"contains", refuse, 0},
    {"minContains", refuse, 0},
    {"maxContains", refuse, 0},
    {"dependentRequired", refuse_some, 0},
    {"dependentSchemas", refuse_some, 0},
    {"dependencies", refuse_some, 0},
    {"$dynamicRef", refuse, 0},
    {"$recursiveRef", refuse, 0},
};

static const struct keyword *find_keyword(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

static bool read_keywords(roco_schema *s, const roco_json_value *schema, roco_facts *facts)
{
    for (const roco_json_value *member = schema->child; member; member = member->next) {
        const struct keyword *keyword = find_keyword(member->name);
        if (!keyword) /* titles, examples and what the specification lets pass: they say nothing of what is valid */
            continue;
        if (!roco_grammar_tick(s->grammar) || !keyword->read(s, schema, member, facts))
            return false;
        facts->hints |= keyword->hint;
    }
    return true;
}

bool roco_facts_gather(roco_schema *s, const roco_entries *bare, roco_facts *facts)
{
    *facts = (roco_facts){.types = ROCO_TYPE_ALL,
                          .max_length = ROCO_UNLIMITED,
                          .max_items = ROCO_UNLIMITED,
                          .max_properties = ROCO_UNLIMITED};
    for (uint32_t i = 0; i < bare->n; i++)
        if (!read_keywords(s, bare->data[i].value, facts))
            return false;
    /* Without a type, what keywords speak of is meant. */
    if (!facts->typed && facts->hints && !facts->enumerated)
        facts->types = facts->hints & ROCO_TYPE_NUMBER ? facts->hints | ROCO_TYPE_INTEGER : facts->hints;
    return true;
}
