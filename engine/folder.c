/* Opening a Hugging Face folder: which files there are, and in which order they are read. Weights stay mapped. The
 * thread that opens the model.
 */
#include "engine/folder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CONFIG    (4u << 20)   /* bytes of config.json and its like */
#define MAX_TOKENIZER (256u << 20) /* of tokenizer.json */
#define MAX_SHARDS    4096u
#define MAX_VALUES    (1u << 20)

typedef struct folder {
    const char *path;
    roco_source *source;
    roco_error *error;
} folder;

static roco_status join(const folder *f, const char *name, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/%s", f->path, name);
    return n > 0 && (size_t)n < size ? ROCO_OK
                                     : roco_fail(f->error, ROCO_IO, "model", "the path of %.60s is too long", name);
}

static bool exists(const folder *f, const char *name)
{
    char path[PATH_MAX];
    return !join(f, name, path, sizeof path) && access(path, F_OK) == 0;
}

/* A file of text, mapped until the source is closed. {NULL, 0} where there is none, or it is empty. */
static roco_status map_text(const folder *f, const char *name, uint64_t most, roco_text *out)
{
    char path[PATH_MAX];
    roco_source_file file;
    *out = (roco_text){NULL, 0};
    if (!exists(f, name))
        return ROCO_OK;
    roco_status status = join(f, name, path, sizeof path);
    if (!status)
        status = roco_file_map(path, &file, f->error);
    if (!status)
        status = roco_source_add_text(f->source, &file, f->error);
    if (!status && file.size > most)
        status = roco_fail(f->error, ROCO_FORMAT, NULL, "%s has %llu bytes; allowed: %llu", name,
                           (unsigned long long)file.size, (unsigned long long)most);
    if (!status)
        *out = (roco_text){(const char *)file.data, file.size};
    return status;
}

/* --- weights --- */

static roco_status add_shard(const folder *f, const char *name)
{
    char path[PATH_MAX];
    roco_source_file file;
    roco_status status = join(f, name, path, sizeof path);
    if (!status)
        status = roco_file_map(path, &file, f->error);
    if (!status)
        status = roco_source_add_file(f->source, &file, f->error);
    return status ? status : roco_safetensors_parse(f->source, &file, name, f->error);
}

/* A name in an index is a file of this folder and no path. */
static bool is_plain(roco_text name)
{
    static const char end[] = ".safetensors";
    const size_t n = sizeof end - 1;
    return name.size > n && name.size < NAME_MAX && name.data[0] != '.' && !memchr(name.data, '/', name.size) &&
           memcmp(name.data + name.size - n, end, n) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of a weight_map, sorted; borrowed from it. *out is owned. */
static roco_status list_shards(const folder *f, const roco_tree *map, const char ***out, size_t *n_out)
{
    size_t n = 0, kept = 0;
    for (const roco_tree *item = roco_tree_first(map); item; item = roco_tree_next(item))
        n++;
    const char **names = malloc((n + 1) * sizeof *names);
    if (!names)
        return roco_fail(f->error, ROCO_NO_MEMORY, NULL, "no memory for the index of weights");
    n = 0;
    for (const roco_tree *item = roco_tree_first(map); item; item = roco_tree_next(item)) {
        roco_text name = {"", 0};
        if (!roco_tree_text(item, &name) || !is_plain(name)) {
            char shown[80];
            roco_text_print(name, shown, sizeof shown);
            free(names);
            return roco_fail(f->error, ROCO_FORMAT, "weight_map",
                             "model.safetensors.index.json: '%s' is not the name of a .safetensors file of the folder",
                             shown);
        }
        names[n++] = name.data;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[kept - 1]) != 0)
            names[kept++] = names[i];
    *out = names;
    *n_out = kept;
    return ROCO_OK;
}

static roco_status add_shards(const folder *f, roco_text text)
{
    roco_tree *index = NULL;
    const char **names = NULL;
    size_t n = 0;
    roco_status status = roco_tree_open("model.safetensors.index.json", text, MAX_VALUES, &index, f->error);
    const roco_tree *map = roco_tree_member(index, "weight_map");
    if (!status && !roco_tree_is_object(map))
        status = roco_fail(f->error, ROCO_FORMAT, "weight_map", "model.safetensors.index.json has no weight_map");
    if (!status)
        status = list_shards(f, map, &names, &n);
    if (!status && (n == 0 || n > MAX_SHARDS))
        status = roco_fail(f->error, ROCO_FORMAT, "weight_map",
                           "model.safetensors.index.json names %zu files; allowed: 1 to %u", n, MAX_SHARDS);
    for (size_t i = 0; !status && i < n; i++)
        status = add_shard(f, names[i]);
    free(names);
    roco_tree_close(index);
    return status;
}

static roco_status add_weights(const folder *f)
{
    roco_text index;
    if (exists(f, "model.safetensors"))
        return add_shard(f, "model.safetensors");
    roco_status status = map_text(f, "model.safetensors.index.json", MAX_TOKENIZER, &index);
    if (status)
        return status;
    if (index.data)
        return add_shards(f, index);
    const bool pickled = exists(f, "pytorch_model.bin") || exists(f, "pytorch_model.bin.index.json");
    return roco_fail(f->error, ROCO_FORMAT, "model", "the folder has neither model.safetensors nor its index%s",
                     pickled ? "; weights in pytorch_model.bin are not read, save them as safetensors" : "");
}

/* --- all of it --- */

static roco_status read_texts(const folder *f, const roco_folder_config *config)
{
    roco_folder_texts texts;
    const struct {
        const char *name;
        uint64_t most;
        roco_text *out;
    } wanted[] = {{"tokenizer.json", MAX_TOKENIZER, &texts.tokenizer},
                  {"tokenizer_config.json", MAX_CONFIG, &texts.tokenizer_config},
                  {"generation_config.json", MAX_CONFIG, &texts.generation_config},
                  {"chat_template.jinja", MAX_CONFIG, &texts.chat_template}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        roco_status status = map_text(f, wanted[i].name, wanted[i].most, wanted[i].out);
        if (status)
            return status;
    }
    if (!texts.tokenizer.data)
        return roco_fail(f->error, ROCO_FORMAT, "model", "the folder has no tokenizer.json%s",
                         exists(f, "tokenizer.model")
                             ? ", only tokenizer.model; transformers' save_pretrained writes the former from it"
                             : "");
    return roco_folder_read_tokenizer(f->source, config, &texts, f->error);
}

static roco_status read_all(const folder *f, roco_folder_config *config, roco_tree **root)
{
    roco_text text;
    roco_status status = map_text(f, "config.json", MAX_CONFIG, &text);
    if (!status && !text.data)
        status = roco_fail(f->error, ROCO_IO, "model",
                           exists(f, "adapter_config.json")
                               ? "the folder holds an adapter (LoRA), not a model; merge it into its model first"
                               : "is a directory without config.json, neither a Hugging Face model nor a GGUF file");
    if (!status)
        status = roco_tree_open("config.json", text, MAX_VALUES, root, f->error);
    if (!status)
        status = roco_folder_read_config(f->source, *root, config, f->error);
    if (!status)
        status = add_weights(f);
    if (!status)
        status = roco_folder_rename_tensors(f->source, config, f->error);
    if (!status)
        status = read_texts(f, config);
    return status ? status : roco_source_index(f->source, f->error);
}

roco_status roco_folder_open(const char *path, roco_source **out, roco_error *error)
{
    char trimmed[PATH_MAX];
    size_t size = strlen(path);
    roco_folder_config config = {0};
    roco_tree *root = NULL;
    folder f = {.path = trimmed, .error = error};
    if (size >= sizeof trimmed)
        return roco_fail(error, ROCO_IO, "model", "the path is too long");
    while (size > 1 && path[size - 1] == '/')
        size--;
    memcpy(trimmed, path, size);
    trimmed[size] = '\0';
    roco_status status = roco_source_new(trimmed, &f.source, error);
    if (status)
        return status;
    snprintf(f.source->format, sizeof f.source->format, "safetensors");
    status = read_all(&f, &config, &root);
    roco_folder_config_free(&config);
    roco_tree_close(root);
    if (status)
        roco_source_close(f.source);
    else
        *out = f.source;
    return status;
}
