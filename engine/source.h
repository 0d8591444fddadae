/* Where a model comes from: keys and tensors, in GGUF's words whatever the format, mapped read-only.
 *
 * A GGUF file (v2, v3; split files too) has them as they are; a Hugging Face folder is put into the same words when it
 * is opened (folder.h), so that whoever reads a model knows one vocabulary. Every count, length, offset, alignment and
 * product is checked against the files' sizes at open; after that, what the getters return is in bounds. Any thread
 * after open; nothing changes.
 */
#ifndef ROCO_ENGINE_SOURCE_H
#define ROCO_ENGINE_SOURCE_H

#include "config/status.h"
#include "kernels/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct roco_source roco_source;

typedef struct roco_text {
    const char *data; /* not NUL-terminated */
    size_t size;
} roco_text;
/* Copies text for a person into out[size], size >= 1: whitespace becomes a space, what is not printable ASCII '?', a
 * cut end "...". */
void roco_text_print(roco_text text, char *out, size_t size);
bool roco_text_is(roco_text text, const char *word);

typedef enum roco_source_kind {
    ROCO_SOURCE_UINT8,
    ROCO_SOURCE_INT8,
    ROCO_SOURCE_UINT16,
    ROCO_SOURCE_INT16,
    ROCO_SOURCE_UINT32,
    ROCO_SOURCE_INT32,
    ROCO_SOURCE_FLOAT32,
    ROCO_SOURCE_BOOL,
    ROCO_SOURCE_STRING,
    ROCO_SOURCE_ARRAY,
    ROCO_SOURCE_UINT64,
    ROCO_SOURCE_INT64,
    ROCO_SOURCE_FLOAT64,
} roco_source_kind; /* GGUF's own numbers */

typedef struct roco_source_tensor {
    roco_text name;
    roco_tensor_type type;
    uint32_t n_dims;  /* 1..4 */
    uint64_t dims[4]; /* dims[0] is the contiguous one (columns); unused ones are 1 */
    const void *data; /* mostly in a mapping, any alignment; valid until close */
    uint64_t bytes;
} roco_source_tensor;

/* `path`: a GGUF file, any part of a split one, or a Hugging Face folder. Errors: ROCO_IO (cannot be read), ROCO_FORMAT
 * (what was found instead, or the key or tensor at fault with the sizes), ROCO_UNSUPPORTED (version, byte order, tensor
 * type, arrays of arrays). Tensors that share bytes, and names there twice, are ROCO_FORMAT. Memory used stays
 * proportional to the files' own headers. Returns owned. */
roco_status roco_source_open(const char *path, roco_source **out, roco_error *error);
/* A GGUF file's bytes in memory, borrowed until close. */
roco_status roco_source_open_memory(const void *data, size_t size, roco_source **out, roco_error *error);
void roco_source_close(roco_source *source);

const char *roco_source_path(const roco_source *source);
/* "GGUF v3", "safetensors" */
const char *roco_source_format(const roco_source *source);
uint64_t roco_source_n_files(const roco_source *source); /* that hold tensors */
uint64_t roco_source_bytes(const roco_source *source);   /* of these files */
/* Tells models apart, quickly even large ones: FNV-1a (64 bits) over each file's size and 256 blocks of 4 KiB, spread
 * evenly over the file from its start to its end. Against mistakes, not against malice. */
uint64_t roco_source_fingerprint(const roco_source *source);

/* Getters by key. Return ROCO_OK, ROCO_NOT_FOUND (missing; `error` is filled, *out untouched) or ROCO_FORMAT (another
 * kind, out of the range asked for). Integers are read from any integer width, a
 * float from any number. */
bool roco_source_has(const roco_source *source, const char *key);
roco_status roco_source_uint(const roco_source *source, const char *key, uint64_t low, uint64_t high, uint64_t *out,
                             roco_error *error);
roco_status roco_source_float(const roco_source *source, const char *key, double *out, roco_error *error);
roco_status roco_source_bool(const roco_source *source, const char *key, bool *out, roco_error *error);
roco_status roco_source_string(const roco_source *source, const char *key, roco_text *out, roco_error *error);

/* Arrays. `count` is checked against the file. Elements are reached by index. */
roco_status roco_source_array(const roco_source *source, const char *key, roco_source_kind *kind, uint64_t *count,
                              roco_error *error);
/* index < count, kind as asked (string; any integer; any float); ROCO_CHECK otherwise. Strings are indexed at open, so
 * O(1). */
roco_text roco_source_array_string(const roco_source *source, const char *key, uint64_t index);
int64_t roco_source_array_int(const roco_source *source, const char *key, uint64_t index);
double roco_source_array_float(const roco_source *source, const char *key, uint64_t index);

/* Iteration, for `roco info` and for finding what nobody asked for. */
uint64_t roco_source_n_keys(const roco_source *source);
/* Writes the value for a person (strings cut at 60 bytes and made printable, arrays as "[kind x count]") into
 * out[size]. Returns the key. */
roco_text roco_source_key_at(const roco_source *source, uint64_t index, char *out, size_t size);
uint64_t roco_source_n_tensors(const roco_source *source);
const roco_source_tensor *roco_source_tensor_at(const roco_source *source, uint64_t index);
/* NULL when absent. Binary search. */
const roco_source_tensor *roco_source_tensor_find(const roco_source *source, const char *name);

#endif
