/* Any bytes, every pre-tokenizer: encoding never fails, its pieces join to the bytes again, a limit holds.
 *
 * For libFuzzer (clang -fsanitize=fuzzer). Seeds: the lines of tests/golden/tokenizer/corpus.txt. The first byte of an
 * input chooses pre-tokenizer and flags.
 */
#include "../unit/engine/support_tokenizer.h"

#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static roco_tokenizer *tokenizers[4];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const names[] = {"gpt2", "smollm", "llama-bpe", "qwen2"};
    tiny_vocab tiny;
    tiny_open(&tiny);
    for (size_t i = 0; i < 4; i++) {
        roco_tokenizer_source source = tiny_source(&tiny, names[i]);
        ROCO_CHECK(roco_tokenizer_build(&source, &tokenizers[i], NULL) == ROCO_OK);
    }
    tiny_close(&tiny);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const roco_tokenizer *tokenizer = tokenizers[data[0] & 3];
    unsigned flags = data[0] >> 2 & (ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS);
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
