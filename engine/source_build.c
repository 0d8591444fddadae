/* What every format puts a source together with: files, keys, tensors, and the index over them. The thread that opens
 * the model. */
#include "engine/source_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static roco_status no_memory(roco_error *error)
{
    return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory to open the model");
}

roco_status roco_source_new(const char *path, roco_source **out, roco_error *error)
{
    roco_source *source = calloc(1, sizeof *source);
    if (source)
        source->path = strdup(path);
    if (!source || !source->path) {
        free(source);
        return no_memory(error);
    }
    *out = source;
    return ROCO_OK;
}

void roco_source_close(roco_source *source)
{
    if (!source)
        return;
    for (uint64_t i = 0; i < source->n_keys; i++)
        free(source->keys[i].strings);
    for (uint64_t i = 0; i < source->n_owned; i++)
        free(source->owned[i]);
    for (uint64_t i = 0; i < source->n_files; i++)
        roco_file_unmap(&source->files[i]);
    for (uint64_t i = 0; i < source->n_texts; i++)
        roco_file_unmap(&source->texts[i]);
    free(source->keys);
    free(source->owned);
    free(source->files);
    free(source->texts);
    free(source->tensors);
    free(source->key_names.sorted);
    free(source->tensor_names.sorted);
    free(source->path);
    free(source);
}

/* --- files --- */

roco_status roco_file_map(const char *path, roco_source_file *out, roco_error *error)
{
    char name[200];
    roco_text_print((roco_text){path, strlen(path)}, name, sizeof name);
    *out = (roco_source_file){0};
    /* Not blocking: a FIFO at the path must not hang the start. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return roco_fail(error, ROCO_IO, "model", "cannot open %s: %s", name, strerror(errno));
    struct stat info;
    roco_status status = ROCO_OK;
    if (fstat(fd, &info) != 0)
        status = roco_fail(error, ROCO_IO, "model", "cannot examine %s: %s", name, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = roco_fail(error, ROCO_IO, "model", "%s is a directory, not a file", name);
    else if (!S_ISREG(info.st_mode))
        status = roco_fail(error, ROCO_IO, "model", "%s is not a regular file", name);
    if (!status && info.st_size > 0) {
        void *mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapping == MAP_FAILED)
            status = roco_fail(error, ROCO_IO, "model", "cannot map %s: %s", name, strerror(errno));
        else
            *out = (roco_source_file){mapping, (uint64_t)info.st_size, true};
    }
    close(fd);
    return status;
}

void roco_file_unmap(roco_source_file *file)
{
    if (file->mapped)
        munmap((void *)(uintptr_t)file->data, file->size);
    *file = (roco_source_file){0};
}

static roco_status add_file(roco_source_file **files, uint64_t *n, const roco_source_file *file, roco_error *error)
{
    roco_source_file *more = realloc(*files, (size_t)(*n + 1) * sizeof *more);
    if (!more) {
        roco_source_file lost = *file;
        roco_file_unmap(&lost);
        return no_memory(error);
    }
    *files = more;
    more[(*n)++] = *file;
    return ROCO_OK;
}

roco_status roco_source_add_file(roco_source *source, const roco_source_file *file, roco_error *error)
{
    return add_file(&source->files, &source->n_files, file, error);
}

roco_status roco_source_add_text(roco_source *source, const roco_source_file *file, roco_error *error)
{
    return add_file(&source->texts, &source->n_texts, file, error);
}

void *roco_source_own(roco_source *source, size_t bytes, roco_error *error)
{
    void **more = realloc(source->owned, (size_t)(source->n_owned + 1) * sizeof *more);
    if (more)
        source->owned = more;
    void *memory = more ? calloc(1, bytes ? bytes : 1) : NULL;
    if (!memory) {
        no_memory(error);
        return NULL;
    }
    return more[source->n_owned++] = memory;
}

/* --- keys --- */

/* Sized in powers of two, so that many small additions cost little; NULL: no memory. */
static void *grown(void *array, uint64_t n, size_t size)
{
    uint64_t room = 16;
    while (room < n)
        room *= 2;
    return realloc(array, (size_t)room * size);
}

static roco_source_key *add_key(roco_source *source, const char *name, roco_source_kind kind, const void *value,
                                size_t bytes, roco_error *error)
{
    const size_t length = strlen(name);
    roco_source_key *more = grown(source->keys, source->n_keys + 1, sizeof *more);
    if (!more) {
        no_memory(error);
        return NULL;
    }
    source->keys = more;
    char *memory = roco_source_own(source, length + bytes, error);
    if (!memory)
        return NULL;
    memcpy(memory, name, length);
    if (bytes)
        memcpy(memory + length, value, bytes);
    roco_source_key *key = &more[source->n_keys++];
    *key = (roco_source_key){
        .name = {memory, length}, .kind = kind, .count = 1, .value = (const uint8_t *)memory + length};
    return key;
}

roco_status roco_source_put_uint(roco_source *source, const char *key, uint64_t value, roco_error *error)
{
    return add_key(source, key, ROCO_SOURCE_UINT64, &value, sizeof value, error) ? ROCO_OK : ROCO_NO_MEMORY;
}

roco_status roco_source_put_float(roco_source *source, const char *key, double value, roco_error *error)
{
    return add_key(source, key, ROCO_SOURCE_FLOAT64, &value, sizeof value, error) ? ROCO_OK : ROCO_NO_MEMORY;
}

roco_status roco_source_put_bool(roco_source *source, const char *key, bool value, roco_error *error)
{
    uint8_t byte = value;
    return add_key(source, key, ROCO_SOURCE_BOOL, &byte, sizeof byte, error) ? ROCO_OK : ROCO_NO_MEMORY;
}

roco_status roco_source_put_string(roco_source *source, const char *key, roco_text value, roco_error *error)
{
    roco_source_key *put = add_key(source, key, ROCO_SOURCE_STRING, NULL, 0, error);
    if (!put)
        return ROCO_NO_MEMORY;
    put->value = NULL;
    put->text = value;
    return ROCO_OK;
}

roco_status roco_source_put_ints(roco_source *source, const char *key, const int64_t *values, size_t n,
                                 roco_error *error)
{
    roco_source_key *put = add_key(source, key, ROCO_SOURCE_INT64, values, n * sizeof *values, error);
    if (!put)
        return ROCO_NO_MEMORY;
    put->is_array = true;
    put->count = n;
    return ROCO_OK;
}

/* --- tensors --- */

roco_source_tensor *roco_source_add_tensors(roco_source *source, uint64_t n, roco_error *error)
{
    roco_source_tensor *more = grown(source->tensors, source->n_tensors + n, sizeof *more);
    if (!more) {
        no_memory(error);
        return NULL;
    }
    source->tensors = more;
    roco_source_tensor *first = more + source->n_tensors;
    memset(first, 0, (size_t)n * sizeof *first);
    source->n_tensors += n;
    return first;
}

/* --- the index --- */

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

const roco_text *roco_source_names_find(const roco_source_names *names, roco_text name)
{
    const roco_text *wanted = &name;
    if (names->n == 0)
        return NULL;
    const roco_text **found = bsearch(&wanted, names->sorted, names->n, sizeof *names->sorted, compare_entries);
    return found ? *found : NULL;
}

/* Indexes n structs of `stride` bytes that start with their name. */
static roco_status index_names(roco_source_names *names, const void *first, size_t stride, uint64_t n, const char *what,
                               roco_error *error)
{
    free(names->sorted);
    names->n = 0;
    names->sorted = malloc((size_t)n * sizeof *names->sorted + 1);
    if (!names->sorted)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for an index of %" PRIu64 " %ss", n, what);
    names->n = n;
    for (uint64_t i = 0; i < n; i++)
        names->sorted[i] = (const roco_text *)(const void *)((const char *)first + i * stride);
    qsort(names->sorted, n, sizeof *names->sorted, compare_entries);
    for (uint64_t i = 1; i < n; i++) {
        if (compare_texts(names->sorted[i - 1], names->sorted[i]) == 0) {
            char name[ROCO_PRINTED_NAME];
            roco_text_print(*names->sorted[i], name, sizeof name);
            return roco_fail(error, ROCO_FORMAT, name, "%s '%s' is there twice", what, name);
        }
    }
    return ROCO_OK;
}

static int compare_places(const void *a, const void *b)
{
    const roco_source_tensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

/* No writer shares bytes between tensors; a file that does is damaged. */
static roco_status refuse_overlaps(const roco_source *source, roco_error *error)
{
    const roco_source_tensor **order = malloc((size_t)source->n_tensors * sizeof *order + 1);
    if (!order)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory to check %" PRIu64 " tensors", source->n_tensors);
    for (uint64_t i = 0; i < source->n_tensors; i++)
        order[i] = &source->tensors[i];
    qsort(order, source->n_tensors, sizeof *order, compare_places);
    roco_status status = ROCO_OK;
    for (uint64_t i = 1; !status && i < source->n_tensors; i++) {
        if ((const uint8_t *)order[i - 1]->data + order[i - 1]->bytes > (const uint8_t *)order[i]->data) {
            char first[ROCO_PRINTED_NAME], second[ROCO_PRINTED_NAME];
            roco_text_print(order[i - 1]->name, first, sizeof first);
            roco_text_print(order[i]->name, second, sizeof second);
            status = roco_fail(error, ROCO_FORMAT, second, "tensors '%s' and '%s' overlap", first, second);
        }
    }
    free(order);
    return status;
}

roco_status roco_source_index(roco_source *source, roco_error *error)
{
    roco_status status =
        index_names(&source->key_names, source->keys, sizeof *source->keys, source->n_keys, "key", error);
    if (!status)
        status = index_names(&source->tensor_names, source->tensors, sizeof *source->tensors, source->n_tensors,
                             "tensor", error);
    return status ? status : refuse_overlaps(source, error);
}
