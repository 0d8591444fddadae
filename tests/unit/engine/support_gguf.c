/* The GGUF writer of support_gguf.h. */
#include "support_gguf.h"

#include <stdio.h>
#include <string.h>

static void append(roco_buffer *buffer, const void *data, size_t size)
{
    ROCO_CHECK(roco_buffer_append(buffer, data, size) == ROCO_OK);
}

static void append_u32(roco_buffer *buffer, uint32_t value)
{
    append(buffer, &value, sizeof value);
}

static void append_u64(roco_buffer *buffer, uint64_t value)
{
    append(buffer, &value, sizeof value);
}

static void append_text(roco_buffer *buffer, const char *text)
{
    append_u64(buffer, strlen(text));
    append(buffer, text, strlen(text));
}

static void pad(roco_buffer *buffer, uint64_t alignment)
{
    static const char zeros[64] = {0};
    while (alignment > 1 && buffer->size % alignment) {
        uint64_t n = alignment - buffer->size % alignment;
        append(buffer, zeros, n < sizeof zeros ? n : sizeof zeros);
    }
}

void gguf_writer_init(gguf_writer *w)
{
    *w = (gguf_writer){.version = 3, .alignment = 32};
}

void gguf_writer_free(gguf_writer *w)
{
    roco_buffer_free(&w->keys);
    roco_buffer_free(&w->tensors);
    roco_buffer_free(&w->data);
}

static bool left_out(const gguf_writer *w, const char *name)
{
    return w->omit && strcmp(w->omit, name) == 0;
}

void gguf_key_raw(gguf_writer *w, const char *key, uint32_t kind, const void *value, size_t size)
{
    if (left_out(w, key))
        return;
    append_text(&w->keys, key);
    append_u32(&w->keys, kind);
    append(&w->keys, value, size);
    w->n_keys++;
}

void gguf_key_int(gguf_writer *w, const char *key, roco_source_kind kind, int64_t value)
{
    static const uint8_t bytes[] = {
        [ROCO_SOURCE_UINT8] = 1,  [ROCO_SOURCE_INT8] = 1,   [ROCO_SOURCE_BOOL] = 1,
        [ROCO_SOURCE_UINT16] = 2, [ROCO_SOURCE_INT16] = 2,  [ROCO_SOURCE_UINT32] = 4,
        [ROCO_SOURCE_INT32] = 4,  [ROCO_SOURCE_UINT64] = 8, [ROCO_SOURCE_INT64] = 8,
    };
    gguf_key_raw(w, key, kind, &value, bytes[kind]); /* little-endian: the low bytes come first */
}

void gguf_key_u32(gguf_writer *w, const char *key, uint32_t value)
{
    gguf_key_int(w, key, ROCO_SOURCE_UINT32, value);
}

void gguf_key_float(gguf_writer *w, const char *key, double value)
{
    float single = (float)value;
    gguf_key_raw(w, key, ROCO_SOURCE_FLOAT32, &single, sizeof single);
}

void gguf_key_string(gguf_writer *w, const char *key, const char *value)
{
    roco_buffer bytes = {0};
    append_text(&bytes, value);
    gguf_key_raw(w, key, ROCO_SOURCE_STRING, bytes.data, bytes.size);
    roco_buffer_free(&bytes);
}

void gguf_key_strings(gguf_writer *w, const char *key, const char *const *values, uint64_t n)
{
    roco_buffer bytes = {0};
    append_u32(&bytes, ROCO_SOURCE_STRING);
    append_u64(&bytes, n);
    for (uint64_t i = 0; i < n; i++)
        append_text(&bytes, values[i]);
    gguf_key_raw(w, key, ROCO_SOURCE_ARRAY, bytes.data, bytes.size);
    roco_buffer_free(&bytes);
}

void gguf_key_i32s(gguf_writer *w, const char *key, const int32_t *values, uint64_t n)
{
    roco_buffer bytes = {0};
    append_u32(&bytes, ROCO_SOURCE_INT32);
    append_u64(&bytes, n);
    append(&bytes, values, n * sizeof *values);
    gguf_key_raw(w, key, ROCO_SOURCE_ARRAY, bytes.data, bytes.size);
    roco_buffer_free(&bytes);
}

void gguf_tensor_raw(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                     uint64_t offset)
{
    if (left_out(w, name))
        return;
    append_text(&w->tensors, name);
    append_u32(&w->tensors, n_dims);
    append(&w->tensors, dims, (n_dims < 16 ? n_dims : 16) * sizeof *dims);
    append_u32(&w->tensors, type);
    append_u64(&w->tensors, offset);
    w->n_tensors++;
}

void gguf_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                 const void *data, size_t bytes)
{
    if (left_out(w, name))
        return;
    pad(&w->data, w->alignment);
    gguf_tensor_raw(w, name, type, n_dims, dims, w->data.size);
    append(&w->data, data, bytes);
}

void gguf_writer_finish(const gguf_writer *w, roco_buffer *out)
{
    ROCO_CHECK(out->size == 0); /* the padding counts from the file's start */
    append(out, "GGUF", 4);
    append_u32(out, w->version);
    append_u64(out, w->n_tensors);
    append_u64(out, w->n_keys);
    append(out, w->keys.data, w->keys.size);
    append(out, w->tensors.data, w->tensors.size);
    pad(out, w->alignment);
    append(out, w->data.data, w->data.size);
}

void gguf_writer_save(const gguf_writer *w, const char *path)
{
    roco_buffer bytes = {0};
    gguf_writer_finish(w, &bytes);
    FILE *file = fopen(path, "wb");
    ROCO_CHECK(file != NULL);
    ROCO_CHECK(fwrite(bytes.data, 1, bytes.size, file) == bytes.size);
    ROCO_CHECK(fclose(file) == 0);
    roco_buffer_free(&bytes);
}
