/* Any bytes, four pre-tokenizers and SentencePiece: encoding never fails, its pieces join to the bytes again, a limit
 * holds.
 *
 * The vocabulary is a tiny model's: every byte, a few merges, control tokens; SentencePiece has a few pieces of its
 * own. The first byte of an input chooses tokenizer and flags.
 */
#include "engine/tokenizer_parts.h"
#include "support_gguf.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SP 4
static roco_tokenizer *tokenizers[5];

/* Bytes, control and user-defined tokens, and pieces that overlap, cross words and tie. */
static void open_sp(void)
{
    static const char *const words[] = {"<s>",
                                        "<|x|>",
                                        "\n\n",
                                        "\xE2\x96\x81\xE2\x96\x81",
                                        "a",
                                        "b",
                                        "c",
                                        "ab",
                                        "bc",
                                        "abc",
                                        "aa",
                                        "aaaa",
                                        "\xE2\x96\x81",
                                        "\xE2\x96\x81"
                                        "a",
                                        "b\xE2\x96\x81"
                                        "a",
                                        "\xC3\xA9",
                                        "\xC3\xA9"
                                        "a",
                                        ">"};
    enum { N_WORDS = sizeof words / sizeof *words, N = N_WORDS + 256 };
    static char bytes[256][8];
    roco_text pieces[N];
    int32_t types[N];
    double scores[N];
    for (int i = 0; i < N; i++) {
        bool word = i < N_WORDS;
        if (!word)
            snprintf(bytes[i - N_WORDS], sizeof bytes[0], "<0x%02X>", (unsigned)(i - N_WORDS));
        const char *text = word ? words[i] : bytes[i - N_WORDS];
        pieces[i] = (roco_text){text, strlen(text)};
        types[i] = i < 2   ? ROCO_PIECE_CONTROL
                   : i < 4 ? ROCO_PIECE_USER_DEFINED
                   : word  ? ROCO_PIECE_NORMAL
                           : ROCO_PIECE_BYTE;
        scores[i] = -(i % 3);
    }
    roco_tokenizer_source source = {.pieces = pieces,
                                    .types = types,
                                    .scores = scores,
                                    .model = ROCO_MODEL_SCORES,
                                    .n_vocab = N,
                                    .unknown = -1,
                                    .bos = 0,
                                    .eos = -1,
                                    .eot = -1};
    ROCO_CHECK(roco_tokenizer_build(&source, &tokenizers[SP], NULL) == ROCO_OK);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const names[] = {"gpt2", "smollm", "llama-bpe", "tekken"}; /* none that composes to NFC */
    tiny_model model = tiny_model_default();
    gguf_writer writer;
    roco_buffer bytes = {0};
    roco_source *gguf = NULL;
    gguf_writer_init(&writer);
    tiny_model_write(&model, &writer);
    gguf_writer_finish(&writer, &bytes);
    gguf_writer_free(&writer);
    ROCO_CHECK(roco_source_open_memory(bytes.data, bytes.size, &gguf, NULL) == ROCO_OK);
    for (size_t i = 0; i < 4; i++) {
        ROCO_CHECK(roco_tokenizer_open_as(gguf, names[i], &tokenizers[i], NULL) == ROCO_OK);
    }
    roco_source_close(gguf);
    roco_buffer_free(&bytes);
    open_sp();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const bool sp = data[0] & 0x80;
    const roco_tokenizer *tokenizer = tokenizers[sp ? SP : data[0] & 3];
    unsigned flags = data[0] >> 2 & (ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS); /* its files ask for no begin token */
    const char *text = (const char *)data + 1;
    size--;
    if (sp && memmem(text, size, ROCO_SP_SPACE, 3))
        return 0; /* comes back as a space */
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
