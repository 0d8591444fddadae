/* Reading a safetensors file: the u64 length of a JSON object, the object {name: {dtype, shape, data_offsets}}, the
 * data that the offsets count from. The thread that opens the model.
 *
 * Every length, product and offset is checked before a tensor is taken in. Source: the format's description at
 * github.com/huggingface/safetensors; holes between tensors are let through, as they harm nobody.
 */
#include "engine/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_HEADER (32u << 20) /* bytes; those of the largest models have a hundredth of it */
#define MAX_VALUES (4u << 20)

typedef struct dtype {
    const char *name;
    uint32_t bytes;
    int type; /* -1: roco has no use for it */
} dtype;

static const dtype dtypes[] = {
    {"F32", 4, ROCO_TYPE_F32},
    {"F16", 2, ROCO_TYPE_F16},
    {"BF16", 2, ROCO_TYPE_BF16},
    {"F64", 8, -1},
    {"I64", 8, -1},
    {"U64", 8, -1},
    {"I32", 4, -1},
    {"U32", 4, -1},
    {"I16", 2, -1},
    {"U16", 2, -1},
    {"I8", 1, -1},
    {"U8", 1, -1},
    {"BOOL", 1, -1},
    {"F8_E4M3", 1, -1},
    {"F8_E5M2", 1, -1},
};

typedef struct reader {
    roco_source *source;
    const roco_source_file *file;
    const char *file_name;
    const uint8_t *data; /* where the offsets count from */
    uint64_t data_bytes;
    roco_error *error;
} reader;

static roco_status fail(const reader *r, const char *tensor, const char *what)
{
    return roco_fail(r->error, ROCO_FORMAT, tensor, "%s: tensor '%s' %s", r->file_name, tensor, what);
}

static const dtype *find_dtype(const roco_tree *tree)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (roco_tree_says(tree, dtypes[i].name))
            return &dtypes[i];
    return NULL;
}

/* Rows first in the file, columns first here. False: not 0 to 4 dimensions of 1 or more. */
static bool read_shape(const roco_tree *shape, roco_source_tensor *tensor)
{
    uint64_t dims[4];
    uint32_t n = 0;
    if (!roco_tree_is_array(shape))
        return false;
    for (const roco_tree *item = roco_tree_first(shape); item; item = roco_tree_next(item), n++)
        if (n == 4 || !roco_tree_uint(item, &dims[n]) || dims[n] == 0)
            return false;
    tensor->n_dims = n ? n : 1;
    for (uint32_t i = 0; i < 4; i++)
        tensor->dims[i] = i < n ? dims[n - 1 - i] : 1;
    return true;
}

static roco_status read_place(const reader *r, const char *name, const roco_tree *offsets, roco_source_tensor *tensor)
{
    uint64_t begin, end, values = 1;
    const roco_tree *first = roco_tree_is_array(offsets) ? roco_tree_first(offsets) : NULL;
    const roco_tree *second = roco_tree_next(first);
    if (!roco_tree_uint(first, &begin) || !roco_tree_uint(second, &end) || roco_tree_next(second))
        return fail(r, name, "has no data_offsets of two whole numbers");
    for (uint32_t i = 0; i < 4; i++)
        if (__builtin_mul_overflow(values, tensor->dims[i], &values))
            return fail(r, name, "has dimensions that multiply to over 2^64");
    if (__builtin_mul_overflow(values, tensor->bytes, &tensor->bytes))
        return fail(r, name, "would have over 2^64 bytes");
    if (begin > end || end - begin != tensor->bytes)
        return roco_fail(r->error, ROCO_FORMAT, name,
                         "%s: tensor '%s' has data_offsets %" PRIu64 " to %" PRIu64 ", but its shape asks for %" PRIu64
                         " bytes",
                         r->file_name, name, begin, end, tensor->bytes);
    if (end > r->data_bytes)
        return roco_fail(r->error, ROCO_FORMAT, name,
                         "%s: tensor '%s' ends at byte %" PRIu64 " of the data, but the file has %" PRIu64
                         ": it is cut short",
                         r->file_name, name, end, r->data_bytes);
    tensor->data = r->data + begin;
    return ROCO_OK;
}

static bool ends_with(roco_text text, const char *end)
{
    const size_t n = strlen(end);
    return text.size >= n && memcmp(text.data + text.size - n, end, n) == 0;
}

/* Masks and positions of other types are nothing a text model needs; weights of other types are. */
static roco_status read_tensor(const reader *r, const roco_tree *entry)
{
    char name[ROCO_PRINTED_NAME];
    const roco_text own = roco_tree_name(entry);
    roco_source_tensor tensor = {0};
    roco_text_print(own, name, sizeof name);
    if (!roco_tree_is_object(entry))
        return fail(r, name, "is not described by an object");
    const dtype *type = find_dtype(roco_tree_member(entry, "dtype"));
    if ((!type || type->type < 0) && ends_with(own, ".weight")) {
        roco_text given = {"none", 4};
        char shown[16];
        (void)roco_tree_text(roco_tree_member(entry, "dtype"), &given);
        roco_text_print(given, shown, sizeof shown);
        return roco_fail(r->error, ROCO_UNSUPPORTED, name,
                         "%s: tensor '%s' has type %s; roco reads F32, F16 and BF16 from safetensors", r->file_name,
                         name, shown);
    }
    if (!type || type->type < 0)
        return ROCO_OK;
    if (!read_shape(roco_tree_member(entry, "shape"), &tensor))
        return fail(r, name, "has no shape of up to four dimensions of 1 or more");
    tensor.type = (roco_tensor_type)type->type;
    tensor.bytes = type->bytes;
    roco_status status = read_place(r, name, roco_tree_member(entry, "data_offsets"), &tensor);
    if (status)
        return status;
    char *copy = roco_source_own(r->source, own.size, r->error);
    roco_source_tensor *added = copy ? roco_source_add_tensors(r->source, 1, r->error) : NULL;
    if (!added)
        return ROCO_NO_MEMORY;
    memcpy(copy, own.data, own.size);
    tensor.name = (roco_text){copy, own.size};
    *added = tensor;
    return ROCO_OK;
}

roco_status roco_safetensors_parse(roco_source *source, const roco_source_file *file, const char *name,
                                   roco_error *error)
{
    uint64_t size = 0;
    roco_tree *header = NULL;
    if (file->size >= sizeof size)
        memcpy(&size, file->data, sizeof size);
    if (file->size < sizeof size || size > file->size - sizeof size)
        return roco_fail(error, ROCO_FORMAT, NULL,
                         "%s: not a safetensors file, or cut short: it has %" PRIu64 " bytes, its header would have "
                         "%" PRIu64,
                         name, file->size, size);
    if (size > MAX_HEADER)
        return roco_fail(error, ROCO_FORMAT, NULL, "%s: the header has %" PRIu64 " bytes; allowed: %u", name, size,
                         MAX_HEADER);
    const reader r = {source, file, name, file->data + sizeof size + size, file->size - sizeof size - size, error};
    roco_status status =
        roco_tree_open(name, (roco_text){(const char *)file->data + sizeof size, size}, MAX_VALUES, &header, error);
    if (!status && !roco_tree_is_object(header))
        status = roco_fail(error, ROCO_FORMAT, NULL, "%s: the header is not an object", name);
    for (const roco_tree *entry = roco_tree_first(header); !status && entry; entry = roco_tree_next(entry))
        if (!roco_text_is(roco_tree_name(entry), "__metadata__"))
            status = read_tensor(&r, entry);
    roco_tree_close(header);
    return status;
}
