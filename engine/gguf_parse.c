/* Reading a GGUF header: every count, length, product and offset is checked against the bytes that are really there
 * before anything is allocated or followed. After roco_gguf_parse, the getters need no further check.
 *
 * Layout: "GGUF", u32 version, u64 n_tensors, u64 n_keys; the keys {text, u32 kind, value}; the tensors {text, u32
 * n_dims, u64 dims[], u32 type, u64 offset}; padding; the data that the offsets count from.
 */
#include "engine/gguf_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIN_KEY_BYTES    14u /* length, one character, kind, one byte */
#define MIN_TENSOR_BYTES 33u /* length, one character, n_dims, one dim, type, offset */
#define MAX_KEYS         (1u << 20)
#define MAX_TENSORS      (1u << 20)
#define MAX_KEY_NAME     65535u /* both as in the format's specification */
#define MAX_TENSOR_NAME  64u
#define MAX_ALIGNMENT    (1u << 20)
#define PRINTED_NAME     64u

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

uint32_t roco_gguf_kind_bytes(uint32_t kind)
{
    static const uint8_t bytes[] = {
        [ROCO_GGUF_UINT8] = 1,  [ROCO_GGUF_INT8] = 1,  [ROCO_GGUF_UINT16] = 2,  [ROCO_GGUF_INT16] = 2,
        [ROCO_GGUF_UINT32] = 4, [ROCO_GGUF_INT32] = 4, [ROCO_GGUF_FLOAT32] = 4, [ROCO_GGUF_BOOL] = 1,
        [ROCO_GGUF_UINT64] = 8, [ROCO_GGUF_INT64] = 8, [ROCO_GGUF_FLOAT64] = 8,
    };
    return kind < sizeof bytes ? bytes[kind] : 0;
}

/* --- keys --- */

static roco_status parse_string_array(cursor *c, roco_gguf_key *key, const char *name)
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

static roco_status parse_array(cursor *c, roco_gguf_key *key, const char *name)
{
    uint32_t kind = take_u32(c);
    key->count = take_u64(c);
    if (c->cut)
        return fail_cut(c, "key", name);
    key->is_array = true;
    key->kind = (roco_gguf_kind)kind;
    key->value = c->data + c->at;
    if (kind == ROCO_GGUF_STRING)
        return parse_string_array(c, key, name);
    if (kind == ROCO_GGUF_ARRAY)
        return roco_fail(c->error, ROCO_UNSUPPORTED, name, "key '%s' is an array of arrays, which roco does not read",
                         name);
    uint32_t bytes = roco_gguf_kind_bytes(kind);
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

static roco_status parse_scalar(cursor *c, roco_gguf_key *key, uint32_t kind, const char *name)
{
    uint32_t bytes = roco_gguf_kind_bytes(kind);
    key->kind = (roco_gguf_kind)kind;
    key->count = 1;
    key->value = c->data + c->at;
    if (kind == ROCO_GGUF_STRING)
        take_text(c);
    else if (bytes > 0)
        take(c, bytes);
    else
        return roco_fail(c->error, ROCO_FORMAT, name, "key '%s' has kind %" PRIu32 ", which GGUF does not define", name,
                         kind);
    if (c->cut)
        return fail_cut(c, "the value of key", name);
    if (kind == ROCO_GGUF_BOOL && *key->value > 1)
        return roco_fail(c->error, ROCO_FORMAT, name, "key '%s' is a bool of value %u (0 or 1)", name, *key->value);
    return ROCO_OK;
}

static roco_status parse_key(cursor *c, roco_gguf_key *key)
{
    char name[PRINTED_NAME];
    key->name = take_text(c);
    uint32_t kind = take_u32(c);
    roco_text_print(key->name, name, sizeof name);
    if (c->cut)
        return fail_cut(c, "key", name);
    if (key->name.size == 0 || key->name.size > MAX_KEY_NAME)
        return roco_fail(c->error, ROCO_FORMAT, name, "a key's name is %zu bytes long (1 to %u)", key->name.size,
                         MAX_KEY_NAME);
    return kind == ROCO_GGUF_ARRAY ? parse_array(c, key, name) : parse_scalar(c, key, kind, name);
}

/* --- names --- */

static int compare_texts(const roco_text *a, const roco_text *b)
{
    size_t shared = a->size < b->size ? a->size : b->size;
    int order = shared ? memcmp(a->data, b->data, shared) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_texts(*(const roco_text *const *)a, *(const roco_text *const *)b);
}

const roco_text *roco_gguf_names_find(const roco_gguf_names *names, roco_text name)
{
    const roco_text *wanted = &name;
    if (names->n == 0)
        return NULL;
    const roco_text **found = bsearch(&wanted, names->sorted, names->n, sizeof *names->sorted, compare_entries);
    return found ? *found : NULL;
}

/* Indexes n structs of `stride` bytes that start with their name. */
static roco_status index_names(roco_gguf_names *names, const void *first, size_t stride, uint64_t n, const char *what,
                               roco_error *error)
{
    names->sorted = malloc((size_t)n * sizeof *names->sorted + 1);
    if (!names->sorted)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for an index of %" PRIu64 " %ss", n, what);
    names->n = n;
    for (uint64_t i = 0; i < n; i++)
        names->sorted[i] = (const roco_text *)(const void *)((const char *)first + i * stride);
    qsort(names->sorted, n, sizeof *names->sorted, compare_entries);
    for (uint64_t i = 1; i < n; i++) {
        if (compare_texts(names->sorted[i - 1], names->sorted[i]) == 0) {
            char name[PRINTED_NAME];
            roco_text_print(*names->sorted[i], name, sizeof name);
            return roco_fail(error, ROCO_FORMAT, name, "%s '%s' is there twice", what, name);
        }
    }
    return ROCO_OK;
}

/* --- tensors --- */

/* Names of the format's types that roco does not read: a person asks for a file of another type by name. */
static const char *foreign_type(uint32_t type)
{
    static const char *const names[] = {
        [9] = "Q8_1",     [10] = "Q2_K",  [11] = "Q3_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS",
        [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS",
        [24] = "I8",      [25] = "I16",   [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",
        [34] = "TQ1_0",   [35] = "TQ2_0", [39] = "MXFP4",
    };
    return type < sizeof names / sizeof names[0] && names[type] ? names[type] : "unknown";
}

static roco_status check_shape(roco_gguf_tensor *tensor, const char *name, roco_error *error)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)tensor->type);
    if (!traits)
        return roco_fail(error, ROCO_UNSUPPORTED, name,
                         "tensor '%s' has type %" PRIu32 " (%s); roco reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                         "Q5_1, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS",
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

static roco_status parse_tensor(cursor *c, roco_gguf_tensor *tensor, uint64_t *offset)
{
    char name[PRINTED_NAME + 8];
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
static roco_status read_alignment(const roco_gguf *gguf, uint64_t *out, roco_error *error)
{
    static const char key[] = "general.alignment";
    *out = 32;
    if (!roco_gguf_has(gguf, key))
        return ROCO_OK;
    roco_status status = roco_gguf_uint(gguf, key, 8, MAX_ALIGNMENT, out, error);
    if (!status && (*out & (*out - 1)))
        status = roco_fail(error, ROCO_FORMAT, key, "general.alignment is %" PRIu64 ", not a power of two", *out);
    return status;
}

static roco_status place_tensors(roco_gguf *gguf, const uint64_t *offsets, uint64_t header_bytes, roco_error *error)
{
    uint64_t alignment;
    roco_status status = read_alignment(gguf, &alignment, error);
    if (status)
        return status;
    uint64_t start = (header_bytes + alignment - 1) & ~(alignment - 1);
    for (uint64_t i = 0; i < gguf->n_tensors; i++) {
        roco_gguf_tensor *tensor = &gguf->tensors[i];
        char name[PRINTED_NAME + 8];
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
        if (end > gguf->size)
            return roco_fail(error, ROCO_FORMAT, name,
                             "tensor '%s' ends at byte %" PRIu64 ", but the file has %" PRIu64 ": it is cut short",
                             name, end, gguf->size);
        tensor->data = gguf->data + (end - tensor->bytes);
    }
    return ROCO_OK;
}

static int compare_places(const void *a, const void *b)
{
    const roco_gguf_tensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

/* No writer shares bytes between tensors; a file that does is damaged. */
static roco_status refuse_overlaps(const roco_gguf *gguf, roco_error *error)
{
    const roco_gguf_tensor **order = malloc((size_t)gguf->n_tensors * sizeof *order + 1);
    if (!order)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory to check %" PRIu64 " tensors", gguf->n_tensors);
    for (uint64_t i = 0; i < gguf->n_tensors; i++)
        order[i] = &gguf->tensors[i];
    qsort(order, gguf->n_tensors, sizeof *order, compare_places);
    roco_status status = ROCO_OK;
    for (uint64_t i = 1; !status && i < gguf->n_tensors; i++) {
        if ((const uint8_t *)order[i - 1]->data + order[i - 1]->bytes > (const uint8_t *)order[i]->data) {
            char first[PRINTED_NAME + 8], second[PRINTED_NAME + 8];
            roco_text_print(order[i - 1]->name, first, sizeof first);
            roco_text_print(order[i]->name, second, sizeof second);
            status = roco_fail(error, ROCO_FORMAT, second, "tensors '%s' and '%s' overlap", first, second);
        }
    }
    free(order);
    return status;
}

static roco_status parse_tensors(roco_gguf *gguf, cursor *c, uint64_t n_tensors)
{
    if (n_tensors > MAX_TENSORS || n_tensors > (c->size - c->at) / MIN_TENSOR_BYTES)
        return roco_fail(c->error, ROCO_FORMAT, NULL,
                         "the file claims %" PRIu64 " tensors, but only %" PRIu64 " bytes follow (at most %u tensors)",
                         n_tensors, c->size - c->at, MAX_TENSORS);
    uint64_t *offsets = malloc((size_t)n_tensors * sizeof *offsets + 1);
    gguf->tensors = calloc((size_t)n_tensors + 1, sizeof *gguf->tensors);
    roco_status status = ROCO_OK;
    if (!offsets || !gguf->tensors)
        status = roco_fail(c->error, ROCO_NO_MEMORY, NULL, "no memory for %" PRIu64 " tensors", n_tensors);
    for (uint64_t i = 0; !status && i < n_tensors; i++)
        status = parse_tensor(c, &gguf->tensors[i], &offsets[i]);
    gguf->n_tensors = n_tensors;
    if (!status)
        status = index_names(&gguf->tensor_names, gguf->tensors, sizeof *gguf->tensors, n_tensors, "tensor", c->error);
    if (!status)
        status = place_tensors(gguf, offsets, c->at, c->error);
    if (!status)
        status = refuse_overlaps(gguf, c->error);
    free(offsets);
    return status;
}

static roco_status parse_keys(roco_gguf *gguf, cursor *c, uint64_t n_keys)
{
    if (n_keys > MAX_KEYS || n_keys > (c->size - c->at) / MIN_KEY_BYTES)
        return roco_fail(c->error, ROCO_FORMAT, NULL,
                         "the file claims %" PRIu64 " keys, but only %" PRIu64 " bytes follow (at most %u keys)",
                         n_keys, c->size - c->at, MAX_KEYS);
    gguf->keys = calloc((size_t)n_keys + 1, sizeof *gguf->keys);
    if (!gguf->keys)
        return roco_fail(c->error, ROCO_NO_MEMORY, NULL, "no memory for %" PRIu64 " keys", n_keys);
    gguf->n_keys = n_keys;
    for (uint64_t i = 0; i < n_keys; i++) {
        roco_status status = parse_key(c, &gguf->keys[i]);
        if (status)
            return status;
    }
    return index_names(&gguf->key_names, gguf->keys, sizeof *gguf->keys, n_keys, "key", c->error);
}

roco_status roco_gguf_parse(roco_gguf *gguf, roco_error *error)
{
    cursor c = {.data = gguf->data, .size = gguf->size, .error = error};
    take(&c, 4); /* the magic: looked at by the caller */
    gguf->version = take_u32(&c);
    uint64_t n_tensors = take_u64(&c);
    uint64_t n_keys = take_u64(&c);
    if (c.cut)
        return roco_fail(error, ROCO_FORMAT, NULL, "the file ends inside the GGUF header: it has %" PRIu64 " bytes",
                         gguf->size);
    if (gguf->version == __builtin_bswap32(2) || gguf->version == __builtin_bswap32(3))
        return roco_fail(error, ROCO_UNSUPPORTED, NULL, "a big-endian GGUF file; roco reads little-endian ones");
    if (gguf->version != 2 && gguf->version != 3)
        return roco_fail(error, ROCO_UNSUPPORTED, NULL, "GGUF version %" PRIu32 "; roco reads 2 and 3", gguf->version);
    roco_status status = parse_keys(gguf, &c, n_keys);
    return status ? status : parse_tensors(gguf, &c, n_tensors);
}
