/* The tokenizer's files of a folder as keys. The thread that opens the model.
 *
 * tokenizer.json goes to the tokenizer as it is (tokenizer.huggingface.json, GGUF's name for it); here is read what
 * stands beside it: the begin and end tokens, and the chat template.
 */
#include "engine/folder.h"

#include <string.h>

#define MAX_VALUES (1u << 20)
#define MAX_ENDS   64

/* A token's text: a string, or an object with its content. */
static bool token_text(const roco_tree *tree, roco_text *out)
{
    return roco_tree_text(tree, out) || roco_tree_text(roco_tree_member(tree, "content"), out);
}

static roco_status put_copy(roco_source *source, const char *key, roco_text text, roco_error *error)
{
    char *copy = roco_source_own(source, text.size, error);
    if (!copy)
        return ROCO_NO_MEMORY;
    if (text.size)
        memcpy(copy, text.data, text.size);
    return roco_source_put_string(source, key, (roco_text){copy, text.size}, error);
}

static roco_status put_token(roco_source *source, const roco_tree *config, const char *name, const char *key,
                             roco_error *error)
{
    roco_text text;
    return token_text(roco_tree_member(config, name), &text) ? put_copy(source, key, text, error) : ROCO_OK;
}

/* A string, or a list of {name, template}, of which the one named "default" counts. */
static bool find_template(const roco_tree *tree, roco_text *out)
{
    if (roco_tree_text(tree, out))
        return true;
    for (const roco_tree *item = roco_tree_first(tree); item; item = roco_tree_next(item))
        if (roco_tree_says(roco_tree_member(item, "name"), "default"))
            return roco_tree_text(roco_tree_member(item, "template"), out);
    return false;
}

static roco_status read_tokenizer_config(roco_source *source, const roco_tree *config, bool wants_template,
                                         roco_error *error)
{
    bool add_bos;
    roco_text text;
    roco_status status = put_token(source, config, "bos_token", "tokenizer.bos_token", error);
    if (!status)
        status = put_token(source, config, "eos_token", "tokenizer.eos_token", error);
    if (!status && roco_tree_bool(roco_tree_member(config, "add_bos_token"), &add_bos))
        status = roco_source_put_bool(source, "tokenizer.ggml.add_bos_token", add_bos, error);
    if (!status && wants_template && find_template(roco_tree_member(config, "chat_template"), &text))
        status = put_copy(source, "tokenizer.chat_template", text, error);
    return status;
}

/* Ids that end a generation, a number or a list. */
static size_t add_ids(const roco_tree *tree, int64_t *out, size_t n)
{
    uint64_t id;
    if (roco_tree_uint(tree, &id) && n < MAX_ENDS)
        out[n++] = (int64_t)id;
    for (const roco_tree *item = roco_tree_first(tree); item && n < MAX_ENDS; item = roco_tree_next(item))
        if (roco_tree_uint(item, &id))
            out[n++] = (int64_t)id;
    return n;
}

static roco_status open_object(const char *name, roco_text text, roco_tree **out, roco_error *error)
{
    if (!text.data)
        return ROCO_OK;
    roco_status status = roco_tree_open(name, text, MAX_VALUES, out, error);
    if (!status && !roco_tree_is_object(*out))
        status = roco_fail(error, ROCO_FORMAT, NULL, "%s is not an object", name);
    return status;
}

static roco_status put_ends(roco_source *source, const roco_folder_config *config, const roco_tree *generation,
                            roco_error *error)
{
    int64_t ends[MAX_ENDS];
    size_t n = add_ids(roco_tree_member(generation, "eos_token_id"), ends, 0);
    n = add_ids(roco_config_member(config, "eos_token_id"), ends, n);
    return n ? roco_source_put_ints(source, "tokenizer.eos_token_ids", ends, n, error) : ROCO_OK;
}

roco_status roco_folder_read_tokenizer(roco_source *source, const roco_folder_config *config,
                                       const roco_folder_texts *texts, roco_error *error)
{
    roco_tree *tokenizer_config = NULL, *generation = NULL;
    uint64_t bos;
    roco_status status = open_object("tokenizer_config.json", texts->tokenizer_config, &tokenizer_config, error);
    if (!status)
        status = open_object("generation_config.json", texts->generation_config, &generation, error);
    if (!status)
        status = roco_source_put_string(source, "tokenizer.huggingface.json", texts->tokenizer, error);
    if (!status && texts->chat_template.data)
        status = roco_source_put_string(source, "tokenizer.chat_template", texts->chat_template, error);
    if (!status && tokenizer_config)
        status = read_tokenizer_config(source, tokenizer_config, !texts->chat_template.data, error);
    if (!status && !tokenizer_config && roco_tree_uint(roco_config_member(config, "bos_token_id"), &bos))
        status = roco_source_put_uint(source, "tokenizer.ggml.bos_token_id", bos, error);
    if (!status)
        status = put_ends(source, config, generation, error);
    roco_tree_close(tokenizer_config);
    roco_tree_close(generation);
    return status;
}
