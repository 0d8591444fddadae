/* What is at a path, and questions about the whole. The thread that opens the model. */
#include "engine/source_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Puts the path in front of a message about what is inside. */
static void name_path(const char *path, roco_error *error)
{
    char message[sizeof error->message], name[120];
    if (!error)
        return;
    memcpy(message, error->message, sizeof message);
    roco_text_print((roco_text){path, strlen(path)}, name, sizeof name);
    snprintf(error->message, sizeof error->message, "%s: %.*s", name, (int)(sizeof message - sizeof name - 2), message);
}

roco_status roco_source_open(const char *path, roco_source **out, roco_error *error)
{
    struct stat info;
    roco_source_file file;
    roco_status status;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        status = roco_folder_open(path, out, error);
    } else {
        status = roco_file_map(path, &file, error);
        if (status)
            return status; /* it names the path already */
        status = roco_gguf_open(path, &file, out, error);
    }
    if (status)
        name_path(path, error);
    return status;
}

roco_status roco_source_open_memory(const void *data, size_t size, roco_source **out, roco_error *error)
{
    const roco_source_file file = {data, size, false};
    return roco_gguf_open("(memory)", &file, out, error);
}

const char *roco_source_path(const roco_source *source)
{
    return source->path;
}

const char *roco_source_format(const roco_source *source)
{
    return source->format;
}

uint64_t roco_source_n_files(const roco_source *source)
{
    return source->n_files;
}

uint64_t roco_source_bytes(const roco_source *source)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < source->n_files; i++)
        bytes += source->files[i].size;
    return bytes;
}

static uint64_t fnv1a(uint64_t hash, const uint8_t *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_file(uint64_t hash, const roco_source_file *file)
{
    enum { BLOCKS = 256, BLOCK_BYTES = 4096 };
    const uint64_t block = file->size < BLOCK_BYTES ? file->size : BLOCK_BYTES;
    uint8_t size[8]; /* little endian, whatever the machine */
    for (int i = 0; i < 8; i++)
        size[i] = (uint8_t)(file->size >> (8 * i));
    hash = fnv1a(hash, size, sizeof size);
    for (uint64_t i = 0; i < BLOCKS; i++)
        hash = fnv1a(hash, file->data + (file->size - block) / (BLOCKS - 1) * i, block);
    return hash;
}

uint64_t roco_source_fingerprint(const roco_source *source)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < source->n_files; i++)
        hash = hash_file(hash, &source->files[i]);
    return hash;
}
