/* Lists, dicts, equality, truth. */
#include "chat/value.h"

#include <math.h>
#include <string.h>

enum { SMALL_DICT = 8, MAX_DEPTH = 64, MAX_COMPARISONS = 1 << 20 };

bool roco_value_string(roco_region *region, const char *data, size_t size, uint8_t foreign, roco_value *out)
{
    roco_string *string = roco_region_alloc(region, 1, sizeof *string);
    if (!string)
        return false;
    *string = (roco_string){.data = data, .size = size, .foreign = foreign};
    *out = (roco_value){.kind = ROCO_VALUE_STRING, .string = string};
    return true;
}

/* --- lists --- */

bool roco_value_list(roco_region *region, size_t capacity, roco_value *out)
{
    roco_list *list = roco_region_alloc(region, 1, sizeof *list);
    roco_value *items = roco_region_alloc(region, capacity ? capacity : 1, sizeof *items);
    if (!list || !items)
        return false;
    *list = (roco_list){.items = items, .capacity = capacity ? capacity : 1};
    *out = (roco_value){.kind = ROCO_VALUE_LIST, .list = list};
    return true;
}

bool roco_list_add(roco_region *region, roco_list *list, roco_value item)
{
    if (list->size == list->capacity) {
        roco_value *items = roco_region_alloc(region, 2 * list->capacity, sizeof *items);
        if (!items)
            return false;
        memcpy(items, list->items, list->size * sizeof *items);
        list->items = items;
        list->capacity *= 2;
    }
    list->items[list->size++] = item;
    return true;
}

/* --- dicts --- */

/* FNV-1a from where the dict happens to lie, so that nobody can prepare keys that all hash alike. */
static uint64_t hash_bytes(const roco_dict *dict, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(14695981039346656037) ^ (uintptr_t)dict;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

/* Equal values hash alike: 1, 1.0 and true are one key. */
static uint64_t hash(const roco_dict *dict, roco_value value)
{
    double number = value.kind == ROCO_VALUE_FLOAT ? value.number : (double)value.integer;
    switch (value.kind) {
    case ROCO_VALUE_STRING: return hash_bytes(dict, value.string->data, value.string->size);
    case ROCO_VALUE_BOOL: number = value.boolean; return hash_bytes(dict, &number, sizeof number);
    case ROCO_VALUE_INT:
    case ROCO_VALUE_FLOAT: return hash_bytes(dict, &number, sizeof number);
    default: return value.kind; /* few such keys, told apart by roco_value_equal */
    }
}

bool roco_value_dict(roco_region *region, size_t capacity, roco_value *out)
{
    roco_dict *dict = roco_region_alloc(region, 1, sizeof *dict);
    if (!dict)
        return false;
    dict->capacity = capacity ? capacity : 1;
    dict->entries = roco_region_alloc(region, dict->capacity, sizeof *dict->entries);
    *out = (roco_value){.kind = ROCO_VALUE_DICT, .dict = dict};
    return dict->entries != NULL;
}

static void enter(roco_dict *dict, size_t entry)
{
    size_t places = 2 * dict->capacity, at = hash(dict, dict->entries[entry].key) % places;
    while (dict->index[at])
        at = at + 1 == places ? 0 : at + 1;
    dict->index[at] = (uint32_t)entry + 1;
}

static bool grow(roco_region *region, roco_dict *dict)
{
    if (dict->capacity > UINT32_MAX / 4)
        return false;
    size_t capacity = 2 * dict->capacity;
    roco_dict_entry *entries = roco_region_alloc(region, capacity, sizeof *entries);
    if (!entries)
        return false;
    memcpy(entries, dict->entries, dict->size * sizeof *entries);
    dict->entries = entries;
    dict->capacity = capacity;
    dict->index = NULL;
    return true;
}

static bool build_index(roco_region *region, roco_dict *dict)
{
    dict->index = roco_region_alloc(region, 2 * dict->capacity, sizeof *dict->index);
    if (!dict->index)
        return false;
    for (size_t i = 0; i < dict->size; i++)
        enter(dict, i);
    return true;
}

static roco_dict_entry *find(const roco_dict *dict, roco_value key)
{
    if (!dict->index) {
        for (size_t i = 0; i < dict->size; i++)
            if (roco_value_equal(dict->entries[i].key, key))
                return &dict->entries[i];
        return NULL;
    }
    size_t places = 2 * dict->capacity;
    for (size_t at = hash(dict, key) % places; dict->index[at]; at = at + 1 == places ? 0 : at + 1)
        if (roco_value_equal(dict->entries[dict->index[at] - 1].key, key))
            return &dict->entries[dict->index[at] - 1];
    return NULL;
}

bool roco_dict_put(roco_region *region, roco_dict *dict, roco_value key, roco_value value)
{
    roco_dict_entry *entry = find(dict, key);
    if (entry) {
        entry->value = value;
        return true;
    }
    if (dict->size == dict->capacity && !grow(region, dict))
        return false;
    dict->entries[dict->size++] = (roco_dict_entry){key, value};
    if (dict->index)
        enter(dict, dict->size - 1);
    else if (dict->size > SMALL_DICT)
        return build_index(region, dict);
    return true;
}

bool roco_dict_put_named(roco_region *region, roco_dict *dict, const char *name, roco_value value)
{
    roco_value key;
    return roco_value_string(region, name, strlen(name), false, &key) && roco_dict_put(region, dict, key, value);
}

const roco_value *roco_dict_get(const roco_dict *dict, roco_value key)
{
    const roco_dict_entry *entry = find(dict, key);
    return entry ? &entry->value : NULL;
}

const roco_value *roco_dict_find(const roco_dict *dict, const char *name, size_t size)
{
    roco_string string = {.data = name, .size = size};
    return roco_dict_get(dict, (roco_value){.kind = ROCO_VALUE_STRING, .string = &string});
}

/* --- comparison --- */

static bool is_number(roco_value value)
{
    return value.kind == ROCO_VALUE_INT || value.kind == ROCO_VALUE_FLOAT || value.kind == ROCO_VALUE_BOOL;
}

static bool numbers_equal(roco_value a, roco_value b)
{
    if (a.kind != ROCO_VALUE_FLOAT && b.kind != ROCO_VALUE_FLOAT) {
        int64_t x = a.kind == ROCO_VALUE_BOOL ? a.boolean : a.integer;
        int64_t y = b.kind == ROCO_VALUE_BOOL ? b.boolean : b.integer;
        return x == y;
    }
    double x = a.kind == ROCO_VALUE_FLOAT ? a.number : a.kind == ROCO_VALUE_BOOL ? a.boolean : (double)a.integer;
    double y = b.kind == ROCO_VALUE_FLOAT ? b.number : b.kind == ROCO_VALUE_BOOL ? b.boolean : (double)b.integer;
    return x == y;
}

/* Lists that hold one another many times over would take for ever, hence `left`. */
static bool equal(roco_value a, roco_value b, unsigned depth, uint64_t *left)
{
    if (*left == 0)
        return false;
    --*left;
    if (is_number(a) && is_number(b))
        return numbers_equal(a, b);
    if (a.kind != b.kind || depth > MAX_DEPTH)
        return false;
    switch (a.kind) {
    case ROCO_VALUE_UNDEFINED:
    case ROCO_VALUE_NONE: return true;
    case ROCO_VALUE_STRING:
        return a.string->size == b.string->size && memcmp(a.string->data, b.string->data, a.string->size) == 0;
    case ROCO_VALUE_LIST:
        if (a.list->size != b.list->size || a.list->tuple != b.list->tuple)
            return false;
        for (size_t i = 0; i < a.list->size; i++)
            if (!equal(a.list->items[i], b.list->items[i], depth + 1, left))
                return false;
        return true;
    case ROCO_VALUE_DICT:
        if (a.dict->size != b.dict->size)
            return false;
        for (size_t i = 0; i < a.dict->size; i++) {
            const roco_value *other = roco_dict_get(b.dict, a.dict->entries[i].key);
            if (!other || !equal(a.dict->entries[i].value, *other, depth + 1, left))
                return false;
        }
        return true;
    default: return a.other == b.other;
    }
}

bool roco_value_equal_within(roco_value a, roco_value b, uint64_t *left)
{
    return equal(a, b, 0, left);
}

bool roco_value_equal(roco_value a, roco_value b)
{
    uint64_t left = MAX_COMPARISONS;
    return equal(a, b, 0, &left);
}

bool roco_value_true(roco_value value)
{
    switch (value.kind) {
    case ROCO_VALUE_UNDEFINED:
    case ROCO_VALUE_NONE: return false;
    case ROCO_VALUE_BOOL: return value.boolean;
    case ROCO_VALUE_INT: return value.integer != 0;
    case ROCO_VALUE_FLOAT: return value.number != 0;
    case ROCO_VALUE_STRING: return value.string->size > 0;
    case ROCO_VALUE_LIST: return value.list->size > 0;
    case ROCO_VALUE_DICT: return value.dict->size > 0;
    default: return true;
    }
}

const char *roco_value_kind_name(roco_value value)
{
    switch (value.kind) {
    case ROCO_VALUE_UNDEFINED: return "undefined";
    case ROCO_VALUE_NONE: return "none";
    case ROCO_VALUE_BOOL: return "a boolean";
    case ROCO_VALUE_INT: return "an integer";
    case ROCO_VALUE_FLOAT: return "a float";
    case ROCO_VALUE_STRING: return "a string";
    case ROCO_VALUE_LIST: return value.list->tuple ? "a tuple" : "a list";
    case ROCO_VALUE_DICT: return "a dict";
    case ROCO_VALUE_NAMESPACE: return "a namespace";
    case ROCO_VALUE_LOOP: return "a loop";
    case ROCO_VALUE_MACRO: return "a macro";
    case ROCO_VALUE_FUNCTION: return "a function";
    case ROCO_VALUE_METHOD: return "a method";
    }
    return "a value";
}
