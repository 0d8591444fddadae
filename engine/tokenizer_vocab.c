/* The vocabulary: pieces as bytes, their types, and the way from bytes to an id.
 *
 * Built while the tokenizer opens, then only read, by any thread. Knows nothing of merges or of text.
 */
#include "engine/tokenizer_parts.h"

#include "config/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 1 << 24 };

/* GPT-2's table: the printable bytes of Latin-1 stand for themselves, the others, in order, for U+0100 and up. */
static bool is_printable(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The byte a code point stands for, -1: none. */
static int byte_of(uint32_t code)
{
    if (code < 256)
        return is_printable(code) ? (int)code : -1;
    /* The 68 others are 0x00-0x20, 0x7F-0xA0 and 0xAD. */
    uint32_t n = code - 256;
    return n < 33 ? (int)n : n < 67 ? (int)(n - 33 + 0x7F) : n == 67 ? 0xAD : -1;
}

bool roco_vocab_unspell(roco_text piece, char *out, size_t *size)
{
    size_t at = 0, n = 0;
    while (at < piece.size) {
        uint32_t code;
        size_t length = roco_utf8_next(piece.data + at, piece.size - at, &code);
        int byte = length ? byte_of(code) : -1;
        if (byte < 0)
            return false;
        out[n++] = (char)byte;
        at += length;
    }
    *size = n;
    return true;
}

static uint64_t hash(const char *data, size_t size)
{
    uint64_t h = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)data[i]) * 0x100000001B3u;
    return h ^ (h >> 32);
}

roco_text roco_vocab_bytes(const roco_vocab *vocab, uint32_t id)
{
    uint32_t from = vocab->offsets[id];
    return (roco_text){vocab->bytes + from, vocab->offsets[id + 1] - from};
}

roco_text roco_vocab_decoded(const roco_vocab *vocab, uint32_t id)
{
    if (!vocab->decoded)
        return roco_vocab_bytes(vocab, id);
    uint32_t from = vocab->decoded_offsets[id];
    return (roco_text){vocab->decoded + from, vocab->decoded_offsets[id + 1] - from};
}

/* The slot that holds an id of these bytes, or the free one where it belongs. */
static size_t slot_of(const roco_vocab *vocab, const char *data, size_t size)
{
    size_t at = (size_t)hash(data, size) & vocab->mask;
    while (vocab->slots[at] != ROCO_MAP_NONE) {
        roco_text held = roco_vocab_bytes(vocab, vocab->slots[at]);
        if (held.size == size && memcmp(held.data, data, size) == 0)
            break;
        at = (at + 1) & vocab->mask;
    }
    return at;
}

int32_t roco_vocab_find(const roco_vocab *vocab, const char *data, size_t size)
{
    if (size == 0 || size > vocab->longest)
        return -1;
    uint32_t id = vocab->slots[slot_of(vocab, data, size)];
    return id == ROCO_MAP_NONE ? -1 : (int32_t)id;
}

/* First come, first served: of equal pieces the lowest id is the one that text becomes. */
static void add_slot(roco_vocab *vocab, uint32_t id)
{
    roco_text piece = roco_vocab_bytes(vocab, id);
    size_t at = slot_of(vocab, piece.data, piece.size);
    if (piece.size > 0 && vocab->slots[at] == ROCO_MAP_NONE)
        vocab->slots[at] = id;
}

static bool is_byte_level(uint8_t type)
{
    return type == ROCO_PIECE_NORMAL || type == ROCO_PIECE_BYTE;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte that "<0xXX>" stands for, -1: it is spelled otherwise. */
static int spelled_byte(roco_text piece)
{
    if (piece.size != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>')
        return -1;
    int high = hex_digit(piece.data[3]), low = hex_digit(piece.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static size_t copy_piece(roco_text piece, char *out)
{
    if (piece.size)
        memcpy(out, piece.data, piece.size);
    return piece.size;
}

size_t roco_vocab_unspell_spaces(roco_text text, char *out)
{
    size_t n = 0;
    for (size_t at = 0; at < text.size; n++) {
        bool space = text.size - at >= 3 && memcmp(text.data + at, ROCO_SP_SPACE, 3) == 0;
        out[n] = space ? ' ' : text.data[at];
        at += space ? 3 : 1;
    }
    return n;
}

/* The form of copy_pieces for SentencePiece's spelling: byte tokens are known by their type and are not what text is
 * looked up as. */
static roco_status copy_sp_pieces(roco_vocab *vocab, const roco_tokenizer_source *source, bool *textual,
                                  roco_error *error)
{
    uint32_t at = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        vocab->byte_ids[byte] = -1;
    for (uint32_t id = 0; id < vocab->n; id++) {
        roco_text piece = source->pieces[id];
        size_t size = 1;
        vocab->offsets[id] = at;
        vocab->types[id] = (uint8_t)source->types[id];
        textual[id] = vocab->types[id] == ROCO_PIECE_NORMAL;
        if (vocab->types[id] == ROCO_PIECE_BYTE) {
            int byte = spelled_byte(piece);
            if (byte < 0) {
                return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.tokens", "byte token %u is not spelled <0xXX>",
                                 id);
            }
            vocab->bytes[at] = (char)byte;
            vocab->byte_ids[byte] = vocab->byte_ids[byte] < 0 ? (int32_t)id : vocab->byte_ids[byte];
        } else {
            size = source->model == ROCO_MODEL_SCORES ? roco_vocab_unspell_spaces(piece, vocab->bytes + at)
                                                      : copy_piece(piece, vocab->bytes + at);
        }
        vocab->longest = size > vocab->longest ? size : vocab->longest;
        at += (uint32_t)size;
    }
    vocab->offsets[vocab->n] = at;
    return ROCO_OK;
}

/* The pieces as text, where that differs. */
static roco_status decode_pieces(roco_vocab *vocab, roco_error *error)
{
    uint32_t at = 0;
    vocab->decoded = malloc(vocab->offsets[vocab->n] + 1);
    vocab->decoded_offsets = malloc(((size_t)vocab->n + 1) * sizeof *vocab->decoded_offsets);
    if (!vocab->decoded || !vocab->decoded_offsets)
        return roco_fail(error, ROCO_NO_MEMORY, "tokenizer.ggml.tokens", "no memory for %u tokens", vocab->n);
    for (uint32_t id = 0; id < vocab->n; id++) {
        vocab->decoded_offsets[id] = at;
        at += (uint32_t)roco_vocab_unspell_spaces(roco_vocab_bytes(vocab, id), vocab->decoded + at);
    }
    vocab->decoded_offsets[vocab->n] = at;
    return ROCO_OK;
}

/* Copies the pieces as bytes. Those that text can become are marked in `textual`: byte-level ones that the table
 * spells. A piece with other characters keeps its literal text and can only be decoded. */
static void copy_pieces(roco_vocab *vocab, const roco_tokenizer_source *source, bool *textual)
{
    uint32_t at = 0;
    for (uint32_t id = 0; id < vocab->n; id++) {
        roco_text piece = source->pieces[id];
        size_t size = piece.size;
        vocab->offsets[id] = at;
        vocab->types[id] = (uint8_t)source->types[id];
        textual[id] = is_byte_level(vocab->types[id]) && roco_vocab_unspell(piece, vocab->bytes + at, &size);
        if (!textual[id] && size > 0)
            memcpy(vocab->bytes + at, piece.data, size);
        vocab->longest = size > vocab->longest ? size : vocab->longest;
        at += (uint32_t)size;
    }
    vocab->offsets[vocab->n] = at;
}

static void fill_table(roco_vocab *vocab, const roco_tokenizer_source *source, const bool *textual)
{
    for (size_t i = 0; i <= vocab->mask; i++)
        vocab->slots[i] = ROCO_MAP_NONE;
    for (uint32_t id = 0; id < vocab->n; id++)
        if (textual[id])
            add_slot(vocab, id);
    /* Runs of spaces are user-defined in some files and still take part in merges. Control tokens never do: plain
     * text must not become one. */
    for (uint32_t id = 0; id < vocab->n; id++) {
        const bool only = source->flags && source->flags[id] & ROCO_ADDED_ONLY;
        if (vocab->types[id] == ROCO_PIECE_USER_DEFINED && !only)
            add_slot(vocab, id);
    }
}

/* Vocabularies trained on little data lack bytes that never came up (controls, lead bytes of unused planes), and
 * their own tokenizers leave such bytes out; but one without printable ASCII is not spelled in GPT-2's table. */
static roco_status find_bytes(roco_vocab *vocab, roco_error *error)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char one = (char)byte;
        vocab->byte_ids[byte] = roco_vocab_find(vocab, &one, 1);
        if (vocab->byte_ids[byte] < 0 && byte >= 0x20 && byte <= 0x7E) {
            return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.tokens",
                             "no token for the byte 0x%02X: this is not a byte-level vocabulary", byte);
        }
    }
    return ROCO_OK;
}

static roco_status check_source(const roco_tokenizer_source *source, size_t *bytes, roco_error *error)
{
    if (source->n_vocab < 1 || source->n_vocab > MAX_VOCAB) {
        return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.tokens", "%zu tokens; allowed are 1 to %d",
                         source->n_vocab, MAX_VOCAB);
    }
    *bytes = 0;
    for (size_t id = 0; id < source->n_vocab; id++) {
        int32_t type = source->types[id];
        if (type < ROCO_PIECE_NORMAL || type > ROCO_PIECE_BYTE) {
            return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.token_type", "token %zu has type %d; known are 1 to 6",
                             id, type);
        }
        *bytes += source->pieces[id].size;
        if (*bytes > INT32_MAX)
            return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.tokens", "the tokens are over 2 GiB together");
    }
    return ROCO_OK;
}

roco_status roco_vocab_init(roco_vocab *vocab, const roco_tokenizer_source *source, roco_error *error)
{
    size_t bytes = 0;
    roco_status status = check_source(source, &bytes, error);
    if (status)
        return status;
    vocab->n = (uint32_t)source->n_vocab;
    size_t n_slots = roco_map_slots_for(vocab->n);
    vocab->mask = n_slots - 1;
    vocab->bytes = malloc(bytes ? bytes : 1);
    vocab->offsets = malloc(((size_t)vocab->n + 1) * sizeof *vocab->offsets);
    vocab->types = malloc(vocab->n);
    vocab->slots = malloc(n_slots * sizeof *vocab->slots);
    bool *textual = malloc(vocab->n * sizeof *textual);
    if (vocab->bytes && vocab->offsets && vocab->types && vocab->slots && textual) {
        if (source->model == ROCO_MODEL_BYTES)
            copy_pieces(vocab, source, textual);
        else
            status = copy_sp_pieces(vocab, source, textual, error);
        if (!status)
            fill_table(vocab, source, textual);
        if (!status && source->model == ROCO_MODEL_BYTES)
            status = find_bytes(vocab, error);
        else if (!status && source->spaces)
            status = decode_pieces(vocab, error);
    } else {
        status = roco_fail(error, ROCO_NO_MEMORY, "tokenizer.ggml.tokens", "no memory for %u tokens", vocab->n);
    }
    free(textual);
    return status;
}

void roco_vocab_free(roco_vocab *vocab)
{
    free(vocab->bytes);
    free(vocab->offsets);
    free(vocab->types);
    free(vocab->slots);
    free(vocab->decoded);
    free(vocab->decoded_offsets);
    *vocab = (roco_vocab){0};
}
