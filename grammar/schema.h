/* The inside of the JSON Schema front end.
 *
 * What a value must satisfy is a list of schemas, all of them: a schema, those of its allOf, what its $ref names, what
 * several schemas say of the same property. Each list becomes one rule, so that schemas may refer to one another and
 * what is met twice is compiled once. Lists are worked off one after the other; nothing recurses into the schema.
 *
 *   schema.c           lists to rules: references, allOf, the branches of anyOf and oneOf
 *   schema_keywords.c  what the keywords of a list say together
 *   schema_place.c     where in the schema something is
 *   schema_enum.c      enum and const
 *   schema_string.c, schema_number.c, schema_array.c, schema_object.c   one type each
 */
#ifndef ROCO_GRAMMAR_SCHEMA_H
#define ROCO_GRAMMAR_SCHEMA_H

#include "grammar/dfa.h"
#include "grammar/json_text.h"
#include "grammar/number_sets.h"

typedef enum roco_entry_kind {
    ROCO_ENTRY_WHOLE, /* a schema */
    ROCO_ENTRY_BARE,  /* a schema's own keywords, without those that name other schemas for the same value */
    ROCO_ENTRY_ONE_OF /* an array of schemas of which one must be satisfied */
} roco_entry_kind;

typedef struct roco_entry {
    const roco_json_value *value;
    roco_entry_kind kind;
} roco_entry;

typedef struct roco_entries {
    roco_entry *data;
    uint32_t n, capacity;
} roco_entries;

typedef struct roco_schema {
    roco_grammar *grammar;
    const char *field;
    const roco_json_value *root;
    roco_status status; /* the first fault, in `error` */
    roco_error *error;
    roco_number_sets lists;
    roco_expr *rules; /* [lists.n] */
    uint32_t rules_capacity;
} roco_schema;

/* --- types --- */
enum {
    ROCO_TYPE_NULL = 1,
    ROCO_TYPE_BOOLEAN = 2,
    ROCO_TYPE_INTEGER = 4,
    ROCO_TYPE_NUMBER = 8, /* includes integers */
    ROCO_TYPE_STRING = 16,
    ROCO_TYPE_ARRAY = 32,
    ROCO_TYPE_OBJECT = 64,
    ROCO_TYPE_ALL = 127,
};

#define ROCO_SCHEMA_MAX_PATTERNS 16u

/* Which end a number has. */
typedef struct roco_bound {
    bool open;                 /* the bound itself is out */
    const roco_json_value *at; /* the keyword's value; NULL: no bound */
    double value;
} roco_bound;

/* What the bare entries of a list say together. */
typedef struct roco_facts {
    unsigned types;  /* allowed */
    unsigned hints;  /* types that some keyword speaks of */
    bool typed;      /* `type` was given */
    bool enumerated; /* enum or const was given */
    uint32_t min_length, max_length, min_items, max_items, min_properties, max_properties;
    const roco_json_value *patterns[ROCO_SCHEMA_MAX_PATTERNS]; /* strings: pattern, or format with `formats` true */
    bool formats[ROCO_SCHEMA_MAX_PATTERNS];
    uint32_t n_patterns;
    roco_bound low, high;
    const roco_json_value *multiples[4];
    uint32_t n_multiples;
} roco_facts;

/* Records a fault at `value`/keyword ("" for the value itself) and returns NOTHING. `said` comes behind the place. */
roco_expr roco_schema_fail(roco_schema *schema, roco_status status, const roco_json_value *value, const char *keyword,
                           const char *said);
/* "#/a/b/keyword" of a value inside root, printable and cut to size. */
void roco_schema_place(const roco_json_value *root, const roco_json_value *value, const char *keyword, char *out,
                       size_t size);
/* The member of an object; NULL. */
const roco_json_value *roco_schema_member(const roco_json_value *object, const char *name);
bool roco_schema_equal(const roco_json_value *a, const roco_json_value *b);
/* What a local reference names; NULL: nothing. */
const roco_json_value *roco_schema_resolve(const roco_json_value *root, const char *reference);

void roco_entries_add(roco_schema *schema, roco_entries *list, const roco_json_value *value, roco_entry_kind kind);
/* The rule of a list; the list may be reordered. An empty list is any value. */
roco_expr roco_schema_rule(roco_schema *schema, roco_entries *list);
/* The bare entries of `list` and, in `choices`, its alternatives; false: nothing satisfies it, or a fault. */
bool roco_schema_expand(roco_schema *schema, const roco_entries *list, roco_entries *bare, roco_entries *choices);

bool roco_facts_gather(roco_schema *schema, const roco_entries *bare, roco_facts *facts);

/* The expressions of a list of bare entries, by type. */
roco_expr roco_schema_values(roco_schema *schema, const roco_entries *bare, const roco_facts *facts); /* enum, const */
roco_expr roco_schema_string(roco_schema *schema, const roco_facts *facts);
roco_expr roco_schema_number(roco_schema *schema, const roco_facts *facts, bool integer);
roco_expr roco_schema_array(roco_schema *schema, const roco_entries *bare, const roco_facts *facts);
roco_expr roco_schema_object(roco_schema *schema, const roco_entries *bare, const roco_facts *facts);
/* The texts of the strings, not as JSON spells them; returns owned, NULL with a fault. */
roco_dfa *roco_schema_string_dfa(roco_schema *schema, const roco_facts *facts);
/* Whether the facts say anything of strings. */
bool roco_facts_bind_strings(const roco_facts *facts);
bool roco_number_fits(const roco_facts *facts, double number);

#endif
