/* The inside of a GGUF file, shared by gguf.c (finding out what a file is, mapping), gguf_parse.c (checking everything
 * once) and gguf_get.c (answering). Nothing else includes it. */
#ifndef ROCO_ENGINE_GGUF_INTERNAL_H
#define ROCO_ENGINE_GGUF_INTERNAL_H

#include "engine/gguf.h"

typedef struct roco_gguf_key {
    roco_text name;          /* first: see roco_gguf_names */
    roco_gguf_kind kind;     /* of the value, or of the elements when is_array */
    bool is_array;           /* arrays of arrays are refused at open */
    uint64_t count;          /* elements; 1 when not an array */
    const uint8_t *value;    /* first element in the mapping, any alignment; a string starts with its u64 length */
    const uint8_t **strings; /* arrays of strings: where each one starts; else NULL */
} roco_gguf_key;

/* Keys or tensors by name: sorted, because a sorted index has no bad case that a hostile file could aim at. */
typedef struct roco_gguf_names {
    const roco_text **sorted; /* each points at the first member of a key or tensor */
    uint64_t n;
} roco_gguf_names;

struct roco_gguf {
    char *path;
    const uint8_t *data;
    uint64_t size;
    bool mapped; /* else `data` is the caller's */

    uint32_t version;
    roco_gguf_key *keys;
    uint64_t n_keys;
    roco_gguf_tensor *tensors;
    uint64_t n_tensors;
    roco_gguf_names key_names, tensor_names;
};

/* Fills everything but path, data, size and mapped, which are set. On failure the caller closes the file. */
roco_status roco_gguf_parse(roco_gguf *gguf, roco_error *error);

/* Bytes of one value of a kind with fixed size; 0 for string, array and numbers that are no kind. */
uint32_t roco_gguf_kind_bytes(uint32_t kind);
/* NULL when there is none of that name. */
const roco_text *roco_gguf_names_find(const roco_gguf_names *names, roco_text name);
/* The text that starts at `at` with its length; already checked. */
roco_text roco_gguf_text_at(const uint8_t *at);

#endif
