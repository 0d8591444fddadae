/* Opening a GGUF file: what is really at the path, the mapping, and its end. Parsing is gguf_parse.c. */
#include "engine/gguf_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
        return "a safetensors file, which must be converted to GGUF";
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

static roco_status open_data(const char *path, const uint8_t *data, uint64_t size, bool mapped, roco_gguf **out,
                             roco_error *error)
{
    roco_gguf *gguf = calloc(1, sizeof *gguf);
    if (gguf)
        gguf->path = strdup(path);
    if (!gguf || !gguf->path) {
        free(gguf);
        if (mapped)
            munmap((void *)(uintptr_t)data, size);
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory to open the model");
    }
    gguf->data = data;
    gguf->size = size;
    gguf->mapped = mapped;
    roco_status status = check_magic(data, size, error);
    if (!status)
        status = roco_gguf_parse(gguf, error);
    if (status) {
        roco_gguf_close(gguf);
        return status;
    }
    *out = gguf;
    return ROCO_OK;
}

/* Leaves *data NULL for an empty file, which cannot be mapped. */
static roco_status map_file(const char *path, const uint8_t **data, uint64_t *size, roco_error *error)
{
    char name[200];
    roco_text_print((roco_text){path, strlen(path)}, name, sizeof name);
    /* Not blocking: a FIFO at the path must not hang the start. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return roco_fail(error, ROCO_IO, "model", "cannot open %s: %s", name, strerror(errno));
    struct stat info;
    roco_status status = ROCO_OK;
    if (fstat(fd, &info) != 0)
        status = roco_fail(error, ROCO_IO, "model", "cannot examine %s: %s", name, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = roco_fail(error, ROCO_IO, "model", "%s is a directory, not a GGUF file", name);
    else if (!S_ISREG(info.st_mode))
        status = roco_fail(error, ROCO_IO, "model", "%s is not a regular file", name);
    *data = NULL;
    if (!status && info.st_size > 0) {
        *size = (uint64_t)info.st_size;
        void *mapping = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapping == MAP_FAILED)
            status = roco_fail(error, ROCO_IO, "model", "cannot map %s: %s", name, strerror(errno));
        else
            *data = mapping;
    }
    close(fd);
    return status;
}

/* Puts the path in front of a message about the file's inside. */
static void name_file(const char *path, roco_error *error)
{
    char message[sizeof error->message], name[120];
    if (!error)
        return;
    memcpy(message, error->message, sizeof message);
    roco_text_print((roco_text){path, strlen(path)}, name, sizeof name);
    snprintf(error->message, sizeof error->message, "%s: %.*s", name, (int)(sizeof message - sizeof name - 2), message);
}

roco_status roco_gguf_open(const char *path, roco_gguf **out, roco_error *error)
{
    const uint8_t *data;
    uint64_t size = 0;
    roco_status status = map_file(path, &data, &size, error);
    if (status)
        return status;
    status = open_data(path, data, size, data != NULL, out, error);
    if (status)
        name_file(path, error);
    return status;
}

roco_status roco_gguf_open_memory(const void *data, size_t size, roco_gguf **out, roco_error *error)
{
    return open_data("(memory)", data, size, false, out, error);
}

void roco_gguf_close(roco_gguf *gguf)
{
    if (!gguf)
        return;
    for (uint64_t i = 0; i < gguf->n_keys; i++)
        free(gguf->keys[i].strings);
    free(gguf->keys);
    free(gguf->tensors);
    free(gguf->key_names.sorted);
    free(gguf->tensor_names.sorted);
    if (gguf->mapped)
        munmap((void *)(uintptr_t)gguf->data, gguf->size);
    free(gguf->path);
    free(gguf);
}

const char *roco_gguf_path(const roco_gguf *gguf)
{
    return gguf->path;
}

uint64_t roco_gguf_bytes(const roco_gguf *gguf)
{
    return gguf->size;
}

uint32_t roco_gguf_version(const roco_gguf *gguf)
{
    return gguf->version;
}

static uint64_t fnv1a(uint64_t hash, const uint8_t *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

uint64_t roco_gguf_fingerprint(const roco_gguf *gguf)
{
    enum { BLOCKS = 256, BLOCK_BYTES = 4096 };
    const uint64_t block = gguf->size < BLOCK_BYTES ? gguf->size : BLOCK_BYTES;
    uint8_t size[8]; /* little endian, whatever the machine */
    for (int i = 0; i < 8; i++)
        size[i] = (uint8_t)(gguf->size >> (8 * i));
    uint64_t hash = fnv1a(0xcbf29ce484222325u, size, sizeof size);
    for (uint64_t i = 0; i < BLOCKS; i++)
        hash = fnv1a(hash, gguf->data + (gguf->size - block) / (BLOCKS - 1) * i, block);
    return hash;
}
