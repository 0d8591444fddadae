/* Reading a GGUF header: every count, length, product and offset is checked against the bytes that are really there
 * before anything is allocated or followed. After roco_gguf_parse, the getters need no further check.
 *
 * Layout: "GGUF", u32 version, u64 n_tensors, u64 n_keys; the keys {text, u32 kind, value}; the tensors {text, u32
 * n_dims, u64 dims[], u32 type, u64 offset}; padding; the data that the offsets count from.
 */
#include "engine/source_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_KEY_BYTES    14u /* length, one character, kind, one byte */
#define MIN_TENSOR_BYTES 33u /* length, one character, n_dims, one dim, type, offset */
#define MAX_KEYS         (1u << 20)
#define MAX_TENSORS      (1u << 20)
#define MAX_KEY_NAME     65535u /* both as in the format's specification */
#define MAX_TENSOR_NAME  64u
#define MAX_ALIGNMENT    (1u << 20)

_Static_assert(sizeof(size_t) == 8, "offsets into the file are size_t");

/* Reading position. After the first read past the end it stays cut, and every read gives zeros: one check covers a run
 * of reads. */
typedef struct cursor {
    const uint8_t *data;
    uint64_t size, at;
    bool cut;
    uint64_t wanted; /* bytes the first failed read asked for */
    roco_error *error;
} cursor;

static const uint8_t *take(cursor *c, uint64_t n)
{
    if (c->cut || n > c->size - c->at) {
        if (!c->cut)
            c->wanted = n;
        c->cut = true;
        return NULL;
    }
    c->at += n;
    return c->data + c->at - n;
}

static uint32_t take_u32(cursor *c)
{
    uint32_t value = 0;
    const uint8_t *from = take(c, sizeof value);
    if (from)
        memcpy(&value, from, sizeof value);
    return value;
}

static uint64_t take_u64(cursor *c)
{
    uint64_t value = 0;
    const uint8_t *from = take(c, sizeof value);
    if (from)
        memcpy(&value, from, sizeof value);
    return value;
}

static roco_text take_text(cursor *c)
{
    uint64_t size = take_u64(c);
    const uint8_t *from = take(c, size);
    return from ? (roco_text){(const char *)from, size} : (roco_text){"", 0};
}

static roco_status fail_cut(const cursor *c, const char *what, const char *name)
{
    return roco_fail(c->error, ROCO_FORMAT, name,
                     "the file ends inside %s '%s': %" PRIu64 " bytes wanted at byte %" PRIu64 ", %" PRIu64 " left",
                     what, name, c->wanted, c->at, c->size - c->at);
}

uint32_t roco_source_kind_bytes(uint32_t kind)
{
    static const uint8_t bytes[] = {
        [ROCO_SOURCE_UINT8] = 1,  [ROCO_SOURCE_INT8] = 1,  [ROCO_SOURCE_UINT16] = 2,  [ROCO_SOURCE_INT16] = 2,
        [ROCO_SOURCE_UINT32] = 4, [ROCO_SOURCE_INT32] = 4, [ROCO_SOURCE_FLOAT32] = 4, [ROCO_SOURCE_BOOL] = 1,
        [ROCO_SOURCE_UINT64] = 8, [ROCO_SOURCE_INT64] = 8, [ROCO_SOURCE_FLOAT64] = 8,
    };
    return kind < sizeof bytes ? bytes[kind] : 0;
}

/* --- keys --- */

static roco_status parse_string_array(cursor *c, roco_source_key *key, const char *name)
{
    if (key->count > (c->size - c->at) / sizeof(uint64_t))
        return roco_fail(c->error, ROCO_FORMAT, name,
                         "key '%s' claims %" PRIu64 " strings, but only %" PRIu64 " bytes follow", name, key->count,
                         c->size - c->at);
    key->strings = malloc((size_t)key->count * sizeof *key->strings + 1);
    if (!key->strings)
        return roco_fail(c->error, ROCO_NO_MEMORY, name, "no memory for the %" PRIu64 " strings of key '%s'",
                         key->count, name);
    for (uint64_t i = 0; i < key->count; i++) {
        key->strings[i] = c->data + c->at;
        take_text(c);
        if (c->cut)
            return fail_cut(c, "the strings of key", name);
    }
    return ROCO_OK;
}

static roco_status parse_array(cursor *c, roco_source_key *key, const char *name)
{
    uint32_t kind = take_u32(c);
    key->count = take_u64(c);
    if (c->cut)
        return fail_cut(c, "key", name);
    key->is_array = true;
    key->kind = (roco_source_kind)kind;
    key->value = c->data + c->at;
    if (kind == ROCO_SOURCE_STRING)
        return parse_string_array(c, key, name);
    if (kind == ROCO_SOURCE_ARRAY)
        return roco_fail(c->error, ROCO_UNSUPPORTED, name, "key '%s' is an array of arrays, which roco does not read",
                         name);
    uint32_t bytes = roco_source_kind_bytes(kind);
    if (bytes == 0)
        return roco_fail(c->error, ROCO_FORMAT, name,
                         "key '%s' is an array of kind %" PRIu32 ", which GGUF does not define", name, kind);
    if (key->count > (c->size - c->at) / bytes)
        return roco_fail(c->error, ROCO_FORMAT, name,
                         "key '%s' claims %" PRIu64 " elements of %" PRIu32 " bytes, but only %" PRIu64 " bytes follow",
                         name, key->count, bytes, c->size - c->at);
    take(c, key->count * bytes);
    return ROCO_OK;
}

static roco_status parse_scalar(cursor *c, roco_source_key *key, uint32_t kind, const char *name)
{
    uint32_t bytes = roco_source_kind_bytes(kind);
    key->kind = (roco_source_kind)kind;
    key->count = 1;
    key->value = c->data + c->at;
    if (kind == ROCO_SOURCE_STRING)
        key->text = take_text(c);
    else if (bytes > 0)
        take(c, bytes);
    else
        return roco_fail(c->error, ROCO_FORMAT, name, "key '%s' has kind %" PRIu32 ", which GGUF does not define", name,
                         kind);
    if (c->cut)
        return fail_cut(c, "the value of key", name);
    if (kind == ROCO_SOURCE_BOOL && *key->value > 1)
        return roco_fail(c->error, ROCO_FORMAT, name, "key '%s' is a bool of value %u (0 or 1)", name, *key->value);
    return ROCO_OK;
}

static roco_status parse_key(cursor *c, roco_source_key *key)
{
    char name[ROCO_PRINTED_NAME];
    key->name = take_text(c);
    uint32_t kind = take_u32(c);
    roco_text_print(key->name, name, sizeof name);
    if (c->cut)
        return fail_cut(c, "key", name);
    if (key->name.size == 0 || key->name.size > MAX_KEY_NAME)
        return roco_fail(c->error, ROCO_FORMAT, name, "a key's name is %zu bytes long (1 to %u)", key->name.size,
                         MAX_KEY_NAME);
    return kind == ROCO_SOURCE_ARRAY ? parse_array(c, key, name) : parse_scalar(c, key, kind, name);
}

/* --- tensors --- */

/* Names of the format's types that roco does not read: a person asks for a file of another type by name. */
static const char *foreign_type(uint32_t type)
{
    static const char *const names[] = {
        [9] = "Q8_1",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
        [21] = "IQ3_S", [22] = "IQ2_S", [24] = "I8",      [25] = "I16",    [26] = "I32",     [27] = "I64",
        [28] = "F64",   [29] = "IQ1_M", [34] = "TQ1_0",   [35] = "TQ2_0",  [39] = "MXFP4",
    };
    return type < sizeof names / sizeof names[0] && names[type] ? names[type] : "unknown";
}

static roco_status check_shape(roco_source_tensor *tensor, const char *name, roco_error *error)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)tensor->type);
    if (!traits)
        return roco_fail(error, ROCO_UNSUPPORTED, name,
                         "tensor '%s' has type %" PRIu32 " (%s); roco reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                         "Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS",
                         name, (uint32_t)tensor->type, foreign_type((uint32_t)tensor->type));
    uint64_t values = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] == 0)
            return roco_fail(error, ROCO_FORMAT, name, "dimension %" PRIu32 " of tensor '%s' is 0", i, name);
        if (__builtin_mul_overflow(values, tensor->dims[i], &values))
            return roco_fail(error, ROCO_FORMAT, name, "the dimensions of tensor '%s' multiply to over 2^64", name);
    }
    if (tensor->dims[0] % traits->block_values)
        return roco_fail(error, ROCO_FORMAT, name,
                         "rows of tensor '%s' have %" PRIu64 " values, not a multiple of the %" PRIu32 " of a %s block",
                         name, tensor->dims[0], traits->block_values, traits->name);
    if (__builtin_mul_overflow(values / traits->block_values, (uint64_t)traits->block_bytes, &tensor->bytes))
        return roco_fail(error, ROCO_FORMAT, name, "tensor '%s' would have over 2^64 bytes", name);
    return ROCO_OK;
}

static roco_status parse_tensor(cursor *c, roco_source_tensor *tensor, uint64_t *offset)
{
    char name[ROCO_PRINTED_NAME];
    tensor->name = take_text(c);
    tensor->n_dims = take_u32(c);
    roco_text_print(tensor->name, name, sizeof name);
    if (c->cut)
        return fail_cut(c, "the description of tensor", name);
    if (tensor->name.size == 0 || tensor->name.size > MAX_TENSOR_NAME)
        return roco_fail(c->error, ROCO_FORMAT, name, "a tensor's name is %zu bytes long (1 to %u)", tensor->name.size,
                         MAX_TENSOR_NAME);
    if (tensor->n_dims < 1 || tensor->n_dims > 4)
        return roco_fail(c->error, ROCO_FORMAT, name, "tensor '%s' has %" PRIu32 " dimensions (1 to 4)", name,
                         tensor->n_dims);
    for (uint32_t i = 0; i < 4; i++)
        tensor->dims[i] = i < tensor->n_dims ? take_u64(c) : 1;
    tensor->type = (roco_tensor_type)take_u32(c);
    *offset = take_u64(c);
    if (c->cut)
        return fail_cut(c, "the description of tensor", name);
    return check_shape(tensor, name, c->error);
}

/* Where the data starts and what the offsets are multiples of. */
static roco_status read_alignment(const roco_source *source, uint64_t *out, roco_error *error)
{
    static const char key[] = "general.alignment";
    *out = 32;
    if (!roco_source_has(source, key))
        return ROCO_OK;
    roco_status status = roco_source_uint(source, key, 8, MAX_ALIGNMENT, out, error);
    if (!status && (*out & (*out - 1)))
        status = roco_fail(error, ROCO_FORMAT, key, "general.alignment is %" PRIu64 ", not a power of two", *out);
    return status;
}

static roco_status place_tensors(roco_source *source, const uint64_t *offsets, uint64_t header_bytes, roco_error *error)
{
    uint64_t alignment;
    roco_status status = read_alignment(source, &alignment, error);
    if (status)
        return status;
    const roco_source_file *file = &source->files[0];
    uint64_t start = (header_bytes + alignment - 1) & ~(alignment - 1);
    for (uint64_t i = 0; i < source->n_tensors; i++) {
        roco_source_tensor *tensor = &source->tensors[i];
        char name[ROCO_PRINTED_NAME];
        uint64_t end;
        roco_text_print(tensor->name, name, sizeof name);
        if (offsets[i] & (alignment - 1))
            return roco_fail(error, ROCO_FORMAT, name,
                             "tensor '%s' is at offset %" PRIu64 ", not a multiple of the alignment %" PRIu64, name,
                             offsets[i], alignment);
        if (__builtin_add_overflow(start, offsets[i], &end) || __builtin_add_overflow(end, tensor->bytes, &end))
            return roco_fail(error, ROCO_FORMAT, name,
                             "tensor '%s' of %" PRIu64 " bytes at offset %" PRIu64 " would end past 2^64", name,
                             tensor->bytes, offsets[i]);
        if (end > file->size)
            return roco_fail(error, ROCO_FORMAT, name,
                             "tensor '%s' ends at byte %" PRIu64 ", but the file has %" PRIu64 ": it is cut short",
                             name, end, file->size);
        tensor->data = file->data + (end - tensor->bytes);
    }
    return ROCO_OK;
}

static roco_status parse_tensors(roco_source *source, cursor *c, uint64_t n_tensors)
{
    if (n_tensors > MAX_TENSORS || n_tensors > (c->size - c->at) / MIN_TENSOR_BYTES)
        return roco_fail(c->error, ROCO_FORMAT, NULL,
                         "the file claims %" PRIu64 " tensors, but only %" PRIu64 " bytes follow (at most %u tensors)",
                         n_tensors, c->size - c->at, MAX_TENSORS);
    uint64_t *offsets = malloc((size_t)n_tensors * sizeof *offsets + 1);
    roco_source_tensor *tensors = roco_source_add_tensors(source, n_tensors, c->error);
    roco_status status = tensors ? ROCO_OK : ROCO_NO_MEMORY;
    if (tensors && !offsets)
        status = roco_fail(c->error, ROCO_NO_MEMORY, NULL, "no memory for %" PRIu64 " tensors", n_tensors);
    for (uint64_t i = 0; !status && i < n_tensors; i++)
        status = parse_tensor(c, &tensors[i], &offsets[i]);
    if (!status)
        status = place_tensors(source, offsets, c->at, c->error);
    free(offsets);
    return status;
}

static roco_status parse_keys(roco_source *source, cursor *c, uint64_t n_keys)
{
    if (n_keys > MAX_KEYS || n_keys > (c->size - c->at) / MIN_KEY_BYTES)
        return roco_fail(c->error, ROCO_FORMAT, NULL,
                         "the file claims %" PRIu64 " keys, but only %" PRIu64 " bytes follow (at most %u keys)",
                         n_keys, c->size - c->at, MAX_KEYS);
    source->keys = calloc((size_t)n_keys + 1, sizeof *source->keys);
    if (!source->keys)
        return roco_fail(c->error, ROCO_NO_MEMORY, NULL, "no memory for %" PRIu64 " keys", n_keys);
    source->n_keys = n_keys;
    for (uint64_t i = 0; i < n_keys; i++) {
        roco_status status = parse_key(c, &source->keys[i]);
        if (status)
            return status;
    }
    return roco_source_index(source, c->error); /* the alignment is among the keys */
}

roco_status roco_gguf_parse(roco_source *source, roco_error *error)
{
    const roco_source_file *file = &source->files[0];
    cursor c = {.data = file->data, .size = file->size, .error = error};
    take(&c, 4); /* the magic: looked at by the caller */
    uint32_t version = take_u32(&c);
    uint64_t n_tensors = take_u64(&c);
    uint64_t n_keys = take_u64(&c);
    if (c.cut)
        return roco_fail(error, ROCO_FORMAT, NULL, "the file ends inside the GGUF header: it has %" PRIu64 " bytes",
                         file->size);
    if (version == __builtin_bswap32(2) || version == __builtin_bswap32(3))
        return roco_fail(error, ROCO_UNSUPPORTED, NULL, "a big-endian GGUF file; roco reads little-endian ones");
    if (version != 2 && version != 3)
        return roco_fail(error, ROCO_UNSUPPORTED, NULL, "GGUF version %" PRIu32 "; roco reads 2 and 3", version);
    snprintf(source->format, sizeof source->format, "GGUF v%" PRIu32, version);
    roco_status status = parse_keys(source, &c, n_keys);
    return status ? status : parse_tensors(source, &c, n_tensors);
}
