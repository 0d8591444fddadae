/* Any bytes, every pre-tokenizer: encoding never fails, its pieces join to the bytes again, a limit holds.
 *
 * The vocabulary is a tiny model's: every byte, a few merges, control tokens. The first byte of an input chooses
 * pre-tokenizer and flags.
 */
#include "engine/tokenizer_parts.h"
#include "support_gguf.h"

#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static roco_tokenizer *tokenizers[4];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const names[] = {"gpt2", "smollm", "llama-bpe", "qwen2"};
    tiny_model model = tiny_model_default();
    gguf_writer writer;
    roco_buffer bytes = {0};
    roco_gguf *gguf = NULL;
    gguf_writer_init(&writer);
    tiny_model_write(&model, &writer);
    gguf_writer_finish(&writer, &bytes);
    gguf_writer_free(&writer);
    ROCO_CHECK(roco_gguf_open_memory(bytes.data, bytes.size, &gguf, NULL) == ROCO_OK);
    for (size_t i = 0; i < 4; i++) {
        ROCO_CHECK(roco_tokenizer_open_as(gguf, names[i], &tokenizers[i], NULL) == ROCO_OK);
    }
    roco_gguf_close(gguf);
    roco_buffer_free(&bytes);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const roco_tokenizer *tokenizer = tokenizers[data[0] & 3];
    unsigned flags = data[0] >> 2 & (ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS); /* its files ask for no begin token */
    const char *text = (const char *)data + 1;
    size--;
    roco_ids ids = {0};
    ROCO_CHECK(roco_tokenizer_encode(tokenizer, text, size, flags, 0, &ids, NULL) == ROCO_OK);
    size_t at = 0, n = ids.size;
    for (size_t i = 0; i < n; i++) {
        roco_text piece = roco_tokenizer_piece(tokenizer, ids.data[i], true);
        ROCO_CHECK(at + piece.size <= size && memcmp(piece.data, text + at, piece.size) == 0);
        at += piece.size;
    }
    ROCO_CHECK(at == size);
    if (n > 1) {
        ROCO_CHECK(roco_tokenizer_encode(tokenizer, text, size, flags, n - 1, &ids, NULL) == ROCO_TOO_LARGE);
        ROCO_CHECK(roco_tokenizer_encode(tokenizer, text, size, flags, n, &ids, NULL) == ROCO_OK && ids.size == 2 * n);
    }
    roco_ids_free(&ids);
    return 0;
}
