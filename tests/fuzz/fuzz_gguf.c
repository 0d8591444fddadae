/* libFuzzer entry: any bytes as a GGUF file. What opens must answer every question about itself, and give a model that
 * runs and a tokenizer that encodes, or an error. Seeds: corpus.py. */
#include "engine/source.h"
#include "fuzz_model.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_array(const roco_source *gguf, const char *key)
{
    roco_source_kind kind;
    uint64_t count;
    if (roco_source_array(gguf, key, &kind, &count, NULL))
        return;
    for (uint64_t i = 0; i < count; i++) {
        if (kind == ROCO_SOURCE_STRING)
            roco_source_array_string(gguf, key, i);
        else if (kind == ROCO_SOURCE_FLOAT32 || kind == ROCO_SOURCE_FLOAT64)
            roco_source_array_float(gguf, key, i);
        else
            roco_source_array_int(gguf, key, i);
    }
}

static void read_scalar(const roco_source *gguf, const char *key)
{
    uint64_t whole;
    double real;
    bool truth;
    roco_text text;
    roco_error error;
    roco_source_uint(gguf, key, 1, UINT32_MAX, &whole, &error);
    roco_source_float(gguf, key, &real, &error);
    roco_source_bool(gguf, key, &truth, &error);
    roco_source_string(gguf, key, &text, &error);
}

static void read_tensor(const roco_source_tensor *tensor)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)tensor->type);
    float out[256];
    ROCO_CHECK(traits && tensor->bytes >= traits->block_bytes);
    /* The first and the last block: all that lies between was bounds-checked with them. */
    traits->dequantize(tensor->data, out, traits->block_values);
    traits->dequantize((const uint8_t *)tensor->data + tensor->bytes - traits->block_bytes, out, traits->block_values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    roco_source *gguf;
    roco_error error;
    roco_tokenizer *tokenizer;
    if (roco_source_open_memory(data, size, &gguf, &error))
        return 0;
    for (uint64_t i = 0; i < roco_source_n_keys(gguf); i++) {
        char key[256], value[96];
        roco_text name = roco_source_key_at(gguf, i, value, sizeof value);
        snprintf(key, sizeof key, "%.*s", (int)(name.size < 255 ? name.size : 255), name.data);
        read_array(gguf, key);
        read_scalar(gguf, key);
    }
    for (uint64_t i = 0; i < roco_source_n_tensors(gguf); i++)
        read_tensor(roco_source_tensor_at(gguf, i));
    fuzz_model(gguf);
    if (roco_tokenizer_open(gguf, &tokenizer, &error) == ROCO_OK)
        fuzz_encode(tokenizer);
    roco_source_close(gguf);
    return 0;
}
