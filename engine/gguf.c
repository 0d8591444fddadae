/* Opening a GGUF model: what its bytes really are, and the other parts of a split one. Parsing is gguf_parse.c. */
#include "engine/source_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_PARTS 4096u

static bool starts_with(const uint8_t *data, uint64_t size, const char *text)
{
    size_t n = strlen(text);
    return size >= n && strncasecmp((const char *)data, text, n) == 0;
}

/* A safetensors file is the u64 length of a JSON object, then the object. */
static bool is_safetensors(const uint8_t *data, uint64_t size)
{
    uint64_t length;
    if (size < 9 || data[8] != '{')
        return false;
    memcpy(&length, data, sizeof length);
    return length <= size - 8;
}

/* What people have instead of a GGUF file. NULL: not known. */
static const char *recognise(const uint8_t *data, uint64_t size)
{
    static const struct {
        const char *start, *what;
    } known[] = {
        {"<!doctype", "an HTML page, so probably a failed download"},
        {"<html", "an HTML page, so probably a failed download"},
        {"version https://git-lfs", "a Git LFS pointer, not the file it points to"},
        {"lmgg", "a model in the older GGML format"},
        {"fmgg", "a model in the older GGML format"},
        {"tjgg", "a model in the older GGML format"},
        {"PK\x03\x04", "a ZIP archive or PyTorch checkpoint"},
        {"\x1f\x8b", "a gzip archive"},
        {"{", "a JSON file"},
    };
    if (is_safetensors(data, size))
        return "a safetensors file; give the folder that it is in, with its config.json and tokenizer.json";
    while (size > 0 && isspace(*data))
        data++, size--;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (starts_with(data, size, known[i].start))
            return known[i].what;
    return NULL;
}

static roco_status check_magic(const uint8_t *data, uint64_t size, roco_error *error)
{
    if (size == 0)
        return roco_fail(error, ROCO_FORMAT, NULL, "not a GGUF file: it is empty");
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        return ROCO_OK;
    const char *what = recognise(data, size);
    if (what)
        return roco_fail(error, ROCO_FORMAT, NULL, "not a GGUF file: it is %s", what);
    char start[5];
    roco_text_print((roco_text){(const char *)data, size < 4 ? size : 4}, start, sizeof start);
    return roco_fail(error, ROCO_FORMAT, NULL, "not a GGUF file: it has %" PRIu64 " bytes and starts with '%s'", size,
                     start);
}

static roco_status open_one(const char *path, const roco_source_file *file, roco_source **out, roco_error *error)
{
    roco_source *source;
    roco_status status = roco_source_new(path, &source, error);
    if (status) {
        roco_source_file lost = *file;
        roco_file_unmap(&lost);
        return status;
    }
    status = roco_source_add_file(source, file, error);
    if (!status)
        status = check_magic(file->data, file->size, error);
    if (!status)
        status = roco_gguf_parse(source, error);
    if (!status)
        status = roco_source_index(source, error);
    if (status) {
        roco_source_close(source);
        return status;
    }
    *out = source;
    return ROCO_OK;
}

/* --- split models: NAME-00001-of-00003.gguf and so on, the keys in the first --- */

/* Length of the path before "-00001-of-00003.gguf"; 0: the name is not like that. */
static size_t split_stem(const char *path)
{
    enum { TAIL = sizeof "-00001-of-00003.gguf" - 1 };
    static const char form[] = "-ddddd-of-ddddd.gguf";
    size_t size = strlen(path);
    if (size <= TAIL)
        return 0;
    const char *tail = path + size - TAIL;
    for (size_t i = 0; i < TAIL; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)tail[i]) : tail[i] != form[i])
            return 0;
    return size - TAIL;
}

/* Moves the part's file and tensors over, and closes it. Its keys speak of the part alone. */
static roco_status absorb(roco_source *whole, roco_source *part, roco_error *error)
{
    roco_source_tensor *to = roco_source_add_tensors(whole, part->n_tensors, error);
    roco_status status = to ? roco_source_add_file(whole, &part->files[0], error) : ROCO_NO_MEMORY;
    if (to) {
        part->n_files = 0; /* taken, whatever came of it */
        memcpy(to, part->tensors, (size_t)part->n_tensors * sizeof *to);
    }
    roco_source_close(part);
    return status;
}

static roco_status open_part(const char *stem, uint64_t number, uint64_t count, roco_source **out, roco_error *error)
{
    char path[PATH_MAX];
    uint64_t own_number = 0, own_count = 0;
    roco_source_file file;
    roco_source *part = NULL;
    snprintf(path, sizeof path, "%s-%05" PRIu64 "-of-%05" PRIu64 ".gguf", stem, number + 1, count);
    roco_status status = roco_file_map(path, &file, error);
    if (!status)
        status = open_one(path, &file, &part, error);
    if (!status)
        status = roco_source_uint(part, "split.no", 0, UINT16_MAX, &own_number, error);
    if (!status)
        status = roco_source_uint(part, "split.count", 1, UINT16_MAX, &own_count, error);
    if (!status && (own_number != number || own_count != count))
        status =
            roco_fail(error, ROCO_FORMAT, "split.no",
                      "%.100s says it is part %" PRIu64 " of %" PRIu64 ", by its name it is %" PRIu64 " of %" PRIu64,
                      path, own_number + 1, own_count, number + 1, count);
    if (status)
        roco_source_close(part);
    else
        *out = part;
    return status;
}

static roco_status check_total(const roco_source *whole, roco_error *error)
{
    static const char key[] = "split.tensors.count";
    uint64_t total = whole->n_tensors;
    if (roco_source_has(whole, key)) {
        roco_status status = roco_source_uint(whole, key, 0, UINT32_MAX, &total, error);
        if (status)
            return status;
    }
    if (total != whole->n_tensors)
        return roco_fail(error, ROCO_FORMAT, key, "the parts hold %" PRIu64 " tensors together, not %" PRIu64,
                         whole->n_tensors, total);
    return ROCO_OK;
}

static roco_status join(const char *stem, uint64_t count, roco_source **out, roco_error *error)
{
    roco_source *whole = NULL;
    roco_status status = open_part(stem, 0, count, &whole, error);
    for (uint64_t i = 1; !status && i < count; i++) {
        roco_source *part = NULL;
        status = open_part(stem, i, count, &part, error);
        if (!status)
            status = absorb(whole, part, error);
    }
    if (!status)
        status = roco_source_index(whole, error);
    if (!status)
        status = check_total(whole, error);
    if (status)
        roco_source_close(whole);
    else
        *out = whole;
    return status;
}

roco_status roco_gguf_open(const char *path, const roco_source_file *file, roco_source **out, roco_error *error)
{
    uint64_t count = 1;
    roco_source *source = NULL;
    roco_status status = open_one(path, file, &source, error);
    if (!status && roco_source_has(source, "split.count"))
        status = roco_source_uint(source, "split.count", 0, MAX_PARTS, &count, error);
    if (status || count <= 1) {
        if (status)
            roco_source_close(source);
        else
            *out = source;
        return status;
    }
    roco_source_close(source);
    size_t stem = split_stem(path);
    if (stem == 0 || stem >= PATH_MAX - 32)
        return roco_fail(error, ROCO_FORMAT, "split.count",
                         "one of %" PRIu64 " parts, whose name does not end in -00001-of-%05" PRIu64
                         ".gguf: the others cannot be found",
                         count, count);
    char before[PATH_MAX];
    memcpy(before, path, stem);
    before[stem] = '\0';
    return join(before, count, out, error);
}
