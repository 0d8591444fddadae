/* libFuzzer entry: any bytes as one file of a Hugging Face folder. The first byte says which; what opens must answer
 * every question about itself, and give a model that runs, or a tokenizer that encodes, or an error. Seeds: corpus.py.
 */
#include "engine/folder.h"
#include "engine/tokenizer_parts.h"
#include "fuzz_model.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZES                                                                                                          \
    "\"num_hidden_layers\": 1, \"hidden_size\": 8, \"intermediate_size\": 8, \"num_attention_heads\": 2, "             \
    "\"num_key_value_heads\": 1, \"head_dim\": 4, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5}"
static const char *const configs[] = {"{\"model_type\": \"gemma3_text\", " SIZES, "{\"model_type\": \"llama\", " SIZES,
                                      "{\"model_type\": \"qwen2\", " SIZES, "{\"model_type\": \"phi3\", " SIZES};
#define N_CONFIGS (sizeof configs / sizeof *configs)
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

/* Of a model of one of the configs. */
static void fuzz_safetensors(const char *config_text, const uint8_t *data, size_t size)
{
    roco_source *source = new_source();
    roco_error error;
    roco_tree *root = NULL;
    roco_folder_config config;
    const roco_source_file file = {data, size, false};
    ROCO_CHECK(!roco_tree_open("config.json", (roco_text){config_text, strlen(config_text)}, 100, &root, &error));
    ROCO_CHECK(!roco_folder_read_config(source, root, &config, &error));
    if (!roco_source_add_file(source, &file, &error) &&
        !roco_safetensors_parse(source, &file, "model.safetensors", &error)) {
        read_tensors(source);
        if (!roco_folder_rename_tensors(source, &config, &error) && !roco_source_index(source, &error)) {
            read_tensors(source);
            fuzz_model(source);
        }
    }
    roco_folder_config_free(&config);
    roco_tree_close(root);
    roco_source_close(source);
}

static void read_shape(roco_source *source)
{
    static float values[64];
    roco_error error;
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
    fuzz_model(source);
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
    roco_source *source = new_source();
    roco_error error;
    roco_tokenizer *tokenizer;
    ROCO_CHECK(roco_source_index(source, NULL) == ROCO_OK);
    if (roco_tokenizer_open_json(source, (roco_text){(const char *)data, size}, &tokenizer, &error) == ROCO_OK)
        fuzz_encode(tokenizer);
    roco_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const uint8_t which = *data++;
    size--;
    switch (which % 3) {
    case 0: fuzz_safetensors(configs[which / 3 % N_CONFIGS], data, size); break;
    case 1: fuzz_config(data, size); break;
    default: fuzz_tokenizer(data, size);
    }
    return 0;
}
