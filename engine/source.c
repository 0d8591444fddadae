/* Answers from an open source. Bounds were checked at open; only kinds and ranges are left to check here. */
#include "engine/source_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void roco_text_print(roco_text text, char *out, size_t size)
{
    size_t n = 0;
    for (; n < text.size && n + 1 < size; n++) {
        unsigned char byte = (unsigned char)text.data[n];
        out[n] = (char)(byte >= 0x20 && byte < 0x7f ? byte : isspace(byte) ? ' ' : '?');
    }
    if (n < text.size && n > 3)
        memcpy(out + n - 3, "...", 3);
    out[n] = '\0';
}

bool roco_text_is(roco_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static const char *kind_name(roco_source_kind kind)
{
    static const char *const names[] = {
        [ROCO_SOURCE_UINT8] = "uint8",     [ROCO_SOURCE_INT8] = "int8",     [ROCO_SOURCE_UINT16] = "uint16",
        [ROCO_SOURCE_INT16] = "int16",     [ROCO_SOURCE_UINT32] = "uint32", [ROCO_SOURCE_INT32] = "int32",
        [ROCO_SOURCE_FLOAT32] = "float32", [ROCO_SOURCE_BOOL] = "bool",     [ROCO_SOURCE_STRING] = "string",
        [ROCO_SOURCE_ARRAY] = "array",     [ROCO_SOURCE_UINT64] = "uint64", [ROCO_SOURCE_INT64] = "int64",
        [ROCO_SOURCE_FLOAT64] = "float64",
    };
    return names[kind];
}

/* A value of any integer width, the sign aside, so that int64 and uint64 both fit. */
typedef struct integer {
    bool negative;
    uint64_t bits; /* two's complement when negative */
} integer;

static integer from_signed(int64_t value)
{
    return (integer){value < 0, (uint64_t)value};
}

#define LOAD(type, at)                                                                                                 \
    __extension__({                                                                                                    \
        type loaded;                                                                                                   \
        memcpy(&loaded, at, sizeof loaded);                                                                            \
        loaded;                                                                                                        \
    })

static bool load_integer(roco_source_kind kind, const uint8_t *at, integer *out)
{
    switch (kind) {
    case ROCO_SOURCE_BOOL:
    case ROCO_SOURCE_UINT8: *out = (integer){false, *at}; return true;
    case ROCO_SOURCE_UINT16: *out = (integer){false, LOAD(uint16_t, at)}; return true;
    case ROCO_SOURCE_UINT32: *out = (integer){false, LOAD(uint32_t, at)}; return true;
    case ROCO_SOURCE_UINT64: *out = (integer){false, LOAD(uint64_t, at)}; return true;
    case ROCO_SOURCE_INT8: *out = from_signed(LOAD(int8_t, at)); return true;
    case ROCO_SOURCE_INT16: *out = from_signed(LOAD(int16_t, at)); return true;
    case ROCO_SOURCE_INT32: *out = from_signed(LOAD(int32_t, at)); return true;
    case ROCO_SOURCE_INT64: *out = from_signed(LOAD(int64_t, at)); return true;
    default: return false;
    }
}

static bool load_float(roco_source_kind kind, const uint8_t *at, double *out)
{
    integer whole;
    if (kind == ROCO_SOURCE_FLOAT32)
        *out = (double)LOAD(float, at);
    else if (kind == ROCO_SOURCE_FLOAT64)
        *out = LOAD(double, at);
    else if (kind != ROCO_SOURCE_BOOL && load_integer(kind, at, &whole))
        *out = whole.negative ? (double)(int64_t)whole.bits : (double)whole.bits;
    else
        return false;
    return true;
}

static roco_text text_at(const uint8_t *at)
{
    return (roco_text){(const char *)at + sizeof(uint64_t), LOAD(uint64_t, at)};
}

static const roco_source_key *find(const roco_source *source, const char *key)
{
    return (const roco_source_key *)(const void *)roco_source_names_find(&source->key_names,
                                                                         (roco_text){key, strlen(key)});
}

static roco_status find_value(const roco_source *source, const char *key, bool array, const roco_source_key **out,
                              roco_error *error)
{
    *out = find(source, key);
    if (!*out)
        return roco_fail(error, ROCO_NOT_FOUND, key, "key '%s' is missing", key);
    if ((*out)->is_array != array)
        return roco_fail(error, ROCO_FORMAT, key, "key '%s' is %s array", key, array ? "not an" : "an");
    return ROCO_OK;
}

static roco_status wrong_kind(const roco_source_key *found, const char *key, const char *wanted, roco_error *error)
{
    return roco_fail(error, ROCO_FORMAT, key, "key '%s' is of kind %s, not %s", key, kind_name(found->kind), wanted);
}

bool roco_source_has(const roco_source *source, const char *key)
{
    return find(source, key) != NULL;
}

roco_status roco_source_uint(const roco_source *source, const char *key, uint64_t low, uint64_t high, uint64_t *out,
                             roco_error *error)
{
    const roco_source_key *found;
    integer value;
    roco_status status = find_value(source, key, false, &found, error);
    if (status)
        return status;
    if (found->kind == ROCO_SOURCE_BOOL || !load_integer(found->kind, found->value, &value))
        return wrong_kind(found, key, "an integer", error);
    if (value.negative)
        return roco_fail(error, ROCO_FORMAT, key, "key '%s' is %" PRId64 " (%" PRIu64 " to %" PRIu64 ")", key,
                         (int64_t)value.bits, low, high);
    if (value.bits < low || value.bits > high)
        return roco_fail(error, ROCO_FORMAT, key, "key '%s' is %" PRIu64 " (%" PRIu64 " to %" PRIu64 ")", key,
                         value.bits, low, high);
    *out = value.bits;
    return ROCO_OK;
}

roco_status roco_source_float(const roco_source *source, const char *key, double *out, roco_error *error)
{
    const roco_source_key *found;
    roco_status status = find_value(source, key, false, &found, error);
    if (status)
        return status;
    return load_float(found->kind, found->value, out) ? ROCO_OK : wrong_kind(found, key, "a number", error);
}

roco_status roco_source_bool(const roco_source *source, const char *key, bool *out, roco_error *error)
{
    const roco_source_key *found;
    roco_status status = find_value(source, key, false, &found, error);
    if (status)
        return status;
    if (found->kind != ROCO_SOURCE_BOOL)
        return wrong_kind(found, key, "bool", error);
    *out = *found->value != 0;
    return ROCO_OK;
}

roco_status roco_source_string(const roco_source *source, const char *key, roco_text *out, roco_error *error)
{
    const roco_source_key *found;
    roco_status status = find_value(source, key, false, &found, error);
    if (status)
        return status;
    if (found->kind != ROCO_SOURCE_STRING)
        return wrong_kind(found, key, "string", error);
    *out = found->text;
    return ROCO_OK;
}

roco_status roco_source_array(const roco_source *source, const char *key, roco_source_kind *kind, uint64_t *count,
                              roco_error *error)
{
    const roco_source_key *found;
    roco_status status = find_value(source, key, true, &found, error);
    if (status)
        return status;
    *kind = found->kind;
    *count = found->count;
    return ROCO_OK;
}

/* The array and the element's place; asking outside of it is a bug of the caller, who knows kind and count. */
static const uint8_t *element(const roco_source *source, const char *key, uint64_t index, const roco_source_key **out)
{
    const roco_source_key *found = find(source, key);
    ROCO_CHECK(found && found->is_array && index < found->count);
    *out = found;
    return found->strings ? found->strings[index] : found->value + index * roco_source_kind_bytes(found->kind);
}

roco_text roco_source_array_string(const roco_source *source, const char *key, uint64_t index)
{
    const roco_source_key *array;
    const uint8_t *at = element(source, key, index, &array);
    ROCO_CHECK(array->kind == ROCO_SOURCE_STRING);
    return text_at(at);
}

int64_t roco_source_array_int(const roco_source *source, const char *key, uint64_t index)
{
    const roco_source_key *array;
    const uint8_t *at = element(source, key, index, &array);
    integer value;
    ROCO_CHECK(load_integer(array->kind, at, &value));
    return !value.negative && value.bits > INT64_MAX ? INT64_MAX : (int64_t)value.bits;
}

double roco_source_array_float(const roco_source *source, const char *key, uint64_t index)
{
    const roco_source_key *array;
    const uint8_t *at = element(source, key, index, &array);
    double value;
    ROCO_CHECK(load_float(array->kind, at, &value));
    return value;
}

uint64_t roco_source_n_keys(const roco_source *source)
{
    return source->n_keys;
}

static void print_value(const roco_source_key *key, char *out, size_t size)
{
    integer whole;
    double real;
    if (key->is_array) {
        snprintf(out, size, "[%s x %" PRIu64 "]", kind_name(key->kind), key->count);
    } else if (key->kind == ROCO_SOURCE_STRING) {
        roco_text_print(key->text, out, size < 61 ? size : 61);
    } else if (key->kind == ROCO_SOURCE_BOOL) {
        snprintf(out, size, "%s", *key->value ? "true" : "false");
    } else if (load_integer(key->kind, key->value, &whole)) {
        if (whole.negative)
            snprintf(out, size, "%" PRId64, (int64_t)whole.bits);
        else
            snprintf(out, size, "%" PRIu64, whole.bits);
    } else if (load_float(key->kind, key->value, &real)) {
        snprintf(out, size, "%g", real);
    }
}

roco_text roco_source_key_at(const roco_source *source, uint64_t index, char *out, size_t size)
{
    ROCO_CHECK(index < source->n_keys);
    if (size > 0)
        print_value(&source->keys[index], out, size);
    return source->keys[index].name;
}

uint64_t roco_source_n_tensors(const roco_source *source)
{
    return source->n_tensors;
}

const roco_source_tensor *roco_source_tensor_at(const roco_source *source, uint64_t index)
{
    ROCO_CHECK(index < source->n_tensors);
    return &source->tensors[index];
}

const roco_source_tensor *roco_source_tensor_find(const roco_source *source, const char *name)
{
    return (const roco_source_tensor *)(const void *)roco_source_names_find(&source->tensor_names,
                                                                            (roco_text){name, strlen(name)});
}
