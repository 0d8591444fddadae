/* The inside of a model's source, shared by the files that open one: source_open.c (what is at a path), gguf*.c and
 * folder*.c, safetensors.c (reading one format each), source_build.c (what both put together with), and source.c
 * (answering). Nothing else includes it. */
#ifndef ROCO_ENGINE_SOURCE_INTERNAL_H
#define ROCO_ENGINE_SOURCE_INTERNAL_H

#include "engine/source.h"

#define ROCO_PRINTED_NAME 72u /* room for a name in a message */

typedef struct roco_source_key {
    roco_text name;          /* first: see roco_source_names */
    roco_source_kind kind;   /* of the value, or of the elements when is_array */
    bool is_array;           /* arrays of arrays are refused at open */
    uint64_t count;          /* elements; 1 when not an array */
    const uint8_t *value;    /* first element, any alignment; NULL for a string */
    roco_text text;          /* of a string */
    const uint8_t **strings; /* arrays of strings: where each one starts, with its u64 length; else NULL */
} roco_source_key;

/* Keys or tensors by name: sorted, because a sorted index has no bad case that a hostile file could aim at. */
typedef struct roco_source_names {
    const roco_text **sorted; /* each points at the first member of a key or tensor */
    uint64_t n;
} roco_source_names;

typedef struct roco_source_file {
    const uint8_t *data; /* NULL: the file is empty */
    uint64_t size;
    bool mapped; /* else `data` is the caller's */
} roco_source_file;

struct roco_source {
    char *path;
    char format[24];
    roco_source_file *files; /* that hold tensors, in order */
    uint64_t n_files;
    roco_source_file *texts; /* that hold keys' strings alone */
    uint64_t n_texts;
    void **owned; /* values that are in no file */
    uint64_t n_owned;

    roco_source_key *keys;
    uint64_t n_keys;
    roco_source_tensor *tensors;
    uint64_t n_tensors;
    roco_source_names key_names, tensor_names;
};

/* --- source_build.c --- */

/* Returns owned, empty; ROCO_NO_MEMORY. */
roco_status roco_source_new(const char *path, roco_source **out, roco_error *error);
/* Maps a regular file. Messages name the path. ROCO_IO. */
roco_status roco_file_map(const char *path, roco_source_file *out, roco_error *error);
void roco_file_unmap(roco_source_file *file);
/* Takes the file, also on failure: it is unmapped when the source is closed. */
roco_status roco_source_add_file(roco_source *source, const roco_source_file *file, roco_error *error);
roco_status roco_source_add_text(roco_source *source, const roco_source_file *file, roco_error *error);
/* Memory until the source is closed; NULL: there is none, and `error` says so. */
void *roco_source_own(roco_source *source, size_t bytes, roco_error *error);
/* Appends a key, its name copied. The string is borrowed until close. */
roco_status roco_source_put_uint(roco_source *source, const char *key, uint64_t value, roco_error *error);
roco_status roco_source_put_float(roco_source *source, const char *key, double value, roco_error *error);
roco_status roco_source_put_bool(roco_source *source, const char *key, bool value, roco_error *error);
roco_status roco_source_put_string(roco_source *source, const char *key, roco_text value, roco_error *error);
roco_status roco_source_put_ints(roco_source *source, const char *key, const int64_t *values, size_t n,
                                 roco_error *error);
/* Appends room for n tensors, zeroed; the caller fills them in. NULL as roco_source_own. */
roco_source_tensor *roco_source_add_tensors(roco_source *source, uint64_t n, roco_error *error);
/* Indexes keys and tensors by name when all are there. ROCO_FORMAT: a name that is there twice, tensors that share
 * bytes. */
roco_status roco_source_index(roco_source *source, roco_error *error);
/* NULL when there is none of that name. */
const roco_text *roco_source_names_find(const roco_source_names *names, roco_text name);

/* --- the formats --- */

/* gguf.c: what `file`, taken, holds, into a new source, and all other parts of a split model from beside it. */
roco_status roco_gguf_open(const char *path, const roco_source_file *file, roco_source **out, roco_error *error);
/* gguf_parse.c: fills a source from its only file; roco_source_index has not run. */
roco_status roco_gguf_parse(roco_source *source, roco_error *error);
/* Bytes of one value of a kind with fixed size; 0 for string, array and numbers that are no kind. */
uint32_t roco_source_kind_bytes(uint32_t kind);
/* folder.c */
roco_status roco_folder_open(const char *path, roco_source **out, roco_error *error);

#endif
