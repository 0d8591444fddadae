/* libFuzzer entry: any bytes as one file of a Hugging Face folder. The first byte says which; what opens must answer
 * every question about itself, and give a model's shape, or a tokenizer that encodes, or an error. Seeds: corpus.py.
 */
#include "engine/folder.h"
#include "engine/model.h"
#include "engine/tokenizer_parts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config_text[] =
    "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 2, \"hidden_size\": 8, \"intermediate_size\": 8}";
static const char tokenizer_text[] = "{}";

static roco_source *new_source(void)
{
    roco_source *source;
    ROCO_CHECK(roco_source_new("(memory)", &source, NULL) == ROCO_OK);
    return source;
}

static void read_tensors(const roco_source *source)
{
    for (uint64_t i = 0; i < roco_source_n_tensors(source); i++) {
        const roco_source_tensor *tensor = roco_source_tensor_at(source, i);
        const roco_type_traits *traits = roco_type_find((uint32_t)tensor->type);
        float out[4];
        ROCO_CHECK(traits && tensor->bytes >= traits->block_bytes);
        traits->dequantize(tensor->data, out, 1);
        traits->dequantize((const uint8_t *)tensor->data + tensor->bytes - traits->block_bytes, out, 1);
    }
}

static void fuzz_safetensors(const uint8_t *data, size_t size)
{
    roco_source *source = new_source(), *keys = new_source();
    roco_error error;
    roco_tree *root = NULL;
    roco_folder_config config;
    const roco_source_file file = {data, size, false};
    ROCO_CHECK(roco_tree_open("config.json", (roco_text){config_text, sizeof config_text - 1}, 100, &root, &error) ==
               ROCO_OK);
    ROCO_CHECK(roco_folder_read_config(keys, root, &config, &error) == ROCO_OK);
    if (roco_source_add_file(source, &file, &error) == ROCO_OK &&
        roco_safetensors_parse(source, &file, "model.safetensors", &error) == ROCO_OK) {
        read_tensors(source);
        if (roco_folder_rename_tensors(source, &config, &error) == ROCO_OK &&
            roco_source_index(source, &error) == ROCO_OK) {
            read_tensors(source);
            (void)roco_source_tensor_find(source, "token_embd.weight");
        }
    }
    roco_folder_config_free(&config);
    roco_tree_close(root);
    roco_source_close(source);
    roco_source_close(keys);
}

static void read_shape(roco_source *source)
{
    static float values[64];
    roco_error error;
    const roco_model_family *family;
    roco_shape shape;
    roco_source_tensor *embedding = roco_source_add_tensors(source, 1, &error);
    ROCO_CHECK(embedding);
    *embedding = (roco_source_tensor){.name = {"token_embd.weight", 17},
                                      .type = ROCO_TYPE_F32,
                                      .n_dims = 2,
                                      .dims = {8, 8, 1, 1},
                                      .data = values,
                                      .bytes = sizeof values};
    if (roco_source_index(source, &error))
        return;
    read_tensors(source);
    if (roco_model_family_find(source, &family, &error) == ROCO_OK &&
        family->read_shape(source, &shape, &error) == ROCO_OK)
        ROCO_CHECK(shape.n_layers > 0 && shape.n_kv_heads > 0 && shape.key_dim > 0 && shape.value_dim > 0 &&
                   shape.rope_dim <= shape.key_dim);
}

/* config.json, and the same bytes as the other small files. */
static void fuzz_config(const uint8_t *data, size_t size)
{
    roco_source *source = new_source();
    roco_error error;
    roco_tree *root = NULL;
    roco_folder_config config = {0};
    const roco_text text = {(const char *)data, size}, tokenizer = {tokenizer_text, sizeof tokenizer_text - 1};
    const roco_folder_texts texts = {tokenizer, text, text, {NULL, 0}};
    if (roco_tree_open("config.json", text, 1 << 16, &root, &error) == ROCO_OK &&
        roco_folder_read_config(source, root, &config, &error) == ROCO_OK &&
        roco_folder_read_tokenizer(source, &config, &texts, &error) == ROCO_OK)
        read_shape(source);
    roco_folder_config_free(&config);
    roco_tree_close(root);
    roco_source_close(source);
}

static void fuzz_tokenizer(const uint8_t *data, size_t size)
{
    static const char text[] = "a  b1 \xC3\xA9\xE2\x96\x81<s>'s\n\n x\xFF\xE4\xB8\xAD";
    roco_source *source = new_source();
    roco_error error;
    roco_tokenizer *tokenizer;
    ROCO_CHECK(roco_source_index(source, NULL) == ROCO_OK);
    if (roco_tokenizer_open_json(source, (roco_text){(const char *)data, size}, &tokenizer, &error) == ROCO_OK) {
        for (unsigned flags = 0; flags < 4; flags++) {
            roco_ids ids = {0};
            (void)roco_tokenizer_encode(tokenizer, text, sizeof text - 1, flags, 1000, &ids, &error);
            for (size_t i = 0; i < ids.size; i++) {
                ROCO_CHECK(ids.data[i] >= 0 && (uint32_t)ids.data[i] < roco_tokenizer_n_vocab(tokenizer));
                (void)roco_tokenizer_piece(tokenizer, ids.data[i], true);
            }
            roco_ids_free(&ids);
        }
        roco_tokenizer_close(tokenizer);
    }
    roco_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parts[])(const uint8_t *data, size_t size) = {fuzz_safetensors, fuzz_config, fuzz_tokenizer};
    if (size > 0)
        parts[data[0] % 3](data + 1, size - 1);
    return 0;
}
