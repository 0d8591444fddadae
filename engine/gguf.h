/* A GGUF file (v2, v3), mapped read-only. Every count, length, offset, alignment and product is checked against the
 * file's size at open; after that, what the getters return is in bounds. Any thread after open; nothing changes.
 */
#ifndef ROCO_ENGINE_GGUF_H
#define ROCO_ENGINE_GGUF_H

#include "config/status.h"
#include "kernels/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct roco_gguf roco_gguf;

typedef struct roco_text {
    const char *data; /* not NUL-terminated */
    size_t size;
} roco_text;
/* Copies text for a person into out[size], size >= 1: whitespace becomes a space, what is not printable ASCII '?', a
 * cut end "...". */
void roco_text_print(roco_text text, char *out, size_t size);

typedef enum roco_gguf_kind {
    ROCO_GGUF_UINT8,
    ROCO_GGUF_INT8,
    ROCO_GGUF_UINT16,
    ROCO_GGUF_INT16,
    ROCO_GGUF_UINT32,
    ROCO_GGUF_INT32,
    ROCO_GGUF_FLOAT32,
    ROCO_GGUF_BOOL,
    ROCO_GGUF_STRING,
    ROCO_GGUF_ARRAY,
    ROCO_GGUF_UINT64,
    ROCO_GGUF_INT64,
    ROCO_GGUF_FLOAT64,
} roco_gguf_kind; /* the format's own numbers */

typedef struct roco_gguf_tensor {
    roco_text name;
    roco_tensor_type type;
    uint32_t n_dims;  /* 1..4 */
    uint64_t dims[4]; /* dims[0] is the contiguous one (columns); unused ones are 1 */
    const void *data; /* in the mapping; valid until close */
    uint64_t bytes;
} roco_gguf_tensor;

/* Errors: ROCO_IO (cannot be read), ROCO_FORMAT (what was found instead, or the key or tensor at fault with the sizes),
 * ROCO_UNSUPPORTED (version, byte order, tensor type, arrays of arrays). Tensors that share bytes, and names there
 * twice, are ROCO_FORMAT. Memory used stays proportional to the file's own key and tensor counts. Returns owned. */
roco_status roco_gguf_open(const char *path, roco_gguf **out, roco_error *error);
/* The same over bytes in memory, borrowed until close. */
roco_status roco_gguf_open_memory(const void *data, size_t size, roco_gguf **out, roco_error *error);
void roco_gguf_close(roco_gguf *gguf);

const char *roco_gguf_path(const roco_gguf *gguf);
uint64_t roco_gguf_bytes(const roco_gguf *gguf);
uint32_t roco_gguf_version(const roco_gguf *gguf);
/* Tells model files apart, quickly even on large ones: FNV-1a (64 bits) over the size and 256 blocks of 4 KiB, spread
 * evenly over the file from its start to its end. Against mistakes, not against malice. */
uint64_t roco_gguf_fingerprint(const roco_gguf *gguf);

/* Getters by key. Return ROCO_OK, ROCO_NOT_FOUND (missing; `error` is filled, *out untouched) or ROCO_FORMAT (another
 * kind, out of the range asked for). Integers are read from any integer width, a
 * float from any number. */
bool roco_gguf_has(const roco_gguf *gguf, const char *key);
roco_status roco_gguf_uint(const roco_gguf *gguf, const char *key, uint64_t low, uint64_t high, uint64_t *out,
                           roco_error *error);
roco_status roco_gguf_float(const roco_gguf *gguf, const char *key, double *out, roco_error *error);
roco_status roco_gguf_bool(const roco_gguf *gguf, const char *key, bool *out, roco_error *error);
roco_status roco_gguf_string(const roco_gguf *gguf, const char *key, roco_text *out, roco_error *error);

/* Arrays. `count` is checked against the file. Elements are reached by index. */
roco_status roco_gguf_array(const roco_gguf *gguf, const char *key, roco_gguf_kind *kind, uint64_t *count,
                            roco_error *error);
/* index < count, kind as asked (string; any integer; any float); ROCO_CHECK otherwise. Strings are indexed at open, so
 * O(1). */
roco_text roco_gguf_array_string(const roco_gguf *gguf, const char *key, uint64_t index);
int64_t roco_gguf_array_int(const roco_gguf *gguf, const char *key, uint64_t index);
double roco_gguf_array_float(const roco_gguf *gguf, const char *key, uint64_t index);

/* Iteration, for `roco info` and for finding what nobody asked for. */
uint64_t roco_gguf_n_keys(const roco_gguf *gguf);
/* Writes the value for a person (strings cut at 60 bytes and made printable, arrays as "[kind x count]") into
 * out[size]. Returns the key. */
roco_text roco_gguf_key_at(const roco_gguf *gguf, uint64_t index, char *out, size_t size);
uint64_t roco_gguf_n_tensors(const roco_gguf *gguf);
const roco_gguf_tensor *roco_gguf_tensor_at(const roco_gguf *gguf, uint64_t index);
/* NULL when absent. Binary search. */
const roco_gguf_tensor *roco_gguf_tensor_find(const roco_gguf *gguf, const char *name);

#endif
