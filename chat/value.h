/* The values a template sees: none, booleans, numbers, strings, lists, dicts; and what only templates make of them.
 *
 * Values live in a region and are never freed one by one. Strings are UTF-8 and know of each byte whether it is the
 * template's own text or came from outside ("foreign"), through every slice, join and replacement: only a template's
 * own text may become control tokens. One thread at a time for each region.
 */
#ifndef ROCO_CHAT_VALUE_H
#define ROCO_CHAT_VALUE_H

#include "chat/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum roco_value_kind {
    ROCO_VALUE_UNDEFINED,
    ROCO_VALUE_NONE,
    ROCO_VALUE_BOOL,
    ROCO_VALUE_INT,
    ROCO_VALUE_FLOAT,
    ROCO_VALUE_STRING,
    ROCO_VALUE_LIST,
    ROCO_VALUE_DICT,
    ROCO_VALUE_NAMESPACE, /* a dict that {% set ns.name %} may change */
    ROCO_VALUE_LOOP,      /* `loop` inside a for */
    ROCO_VALUE_MACRO,
    ROCO_VALUE_FUNCTION, /* range, namespace, ... */
    ROCO_VALUE_METHOD,   /* of a string or dict, not called yet */
} roco_value_kind;

typedef struct roco_string {
    const char *data;
    size_t size;
    const uint8_t *marks; /* [size], what `foreign` is of each byte; NULL: all as `foreign` says */
    uint8_t foreign;      /* 0: the template's own; other values: from outside, told apart by whoever made them */
} roco_string;

typedef struct roco_value roco_value;
typedef struct roco_list roco_list;
typedef struct roco_dict roco_dict;

struct roco_value {
    roco_value_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const roco_string *string; /* of a STRING; of UNDEFINED: the name that was missing, or NULL */
        roco_list *list;
        roco_dict *dict; /* of a DICT and of a NAMESPACE */
        const void *other;
    };
};

/* Grows while it is made; a template cannot change it. */
struct roco_list {
    roco_value *items;
    size_t size, capacity;
    bool tuple; /* printed and compared as one */
};

typedef struct roco_dict_entry {
    roco_value key, value;
} roco_dict_entry;

/* In the order of insertion. */
struct roco_dict {
    roco_dict_entry *entries;
    size_t size, capacity;
    uint32_t *index; /* [2 * capacity] entry + 1 by hash, 0 free; only once there are many */
};

static inline roco_value roco_none(void)
{
    return (roco_value){.kind = ROCO_VALUE_NONE};
}
static inline roco_value roco_bool(bool boolean)
{
    return (roco_value){.kind = ROCO_VALUE_BOOL, .boolean = boolean};
}
static inline roco_value roco_int(int64_t integer)
{
    return (roco_value){.kind = ROCO_VALUE_INT, .integer = integer};
}
static inline roco_value roco_float(double number)
{
    return (roco_value){.kind = ROCO_VALUE_FLOAT, .number = number};
}

/* What follows allocates: false (or NULL) when the region is full and has no escape. */

/* data[size] is UTF-8 and borrowed as long as the value is used. */
bool roco_value_string(roco_region *region, const char *data, size_t size, uint8_t foreign, roco_value *out);
bool roco_value_list(roco_region *region, size_t capacity, roco_value *out);
bool roco_list_add(roco_region *region, roco_list *list, roco_value item);
bool roco_value_dict(roco_region *region, size_t capacity, roco_value *out);
/* Of two equal keys the last counts. The key is a string, number, boolean, none, or a tuple of those. */
bool roco_dict_put(roco_region *region, roco_dict *dict, roco_value key, roco_value value);
/* The same with a key that is the program's own text. */
bool roco_dict_put_named(roco_region *region, roco_dict *dict, const char *name, roco_value value);

/* NULL when absent. */
const roco_value *roco_dict_get(const roco_dict *dict, roco_value key);
const roco_value *roco_dict_find(const roco_dict *dict, const char *name, size_t size);

/* Python's ==, to a depth of 64 lists and dicts inside each other and over a million parts; beyond, nothing is equal.
 */
bool roco_value_equal(roco_value a, roco_value b);
/* The same over *left parts, which are counted down. */
bool roco_value_equal_within(roco_value a, roco_value b, uint64_t *left);
bool roco_value_true(roco_value value);
/* "a string", "none", ... for error texts. */
const char *roco_value_kind_name(roco_value value);

#endif
