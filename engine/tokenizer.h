/* Text to token ids and back: byte-level BPE from the vocabulary and merges in a GGUF file, or SentencePiece's BPE from
 * its vocabulary and scores.
 *
 * Opened once; then immutable: any number of threads may encode and decode at once. Ids are those of the model's
 * original tokenizer, with one exception: text is never normalised (Qwen 2's own tokenizer composes it to NFC first).
 * The inside is laid out in tokenizer_parts.h.
 */
#ifndef ROCO_ENGINE_TOKENIZER_H
#define ROCO_ENGINE_TOKENIZER_H

#include "config/status.h"
#include "engine/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct roco_tokenizer roco_tokenizer;

/* A growable array of token ids. Init with {0}; free with roco_ids_free. */
typedef struct roco_ids {
    int32_t *data;
    size_t size, capacity;
} roco_ids;
void roco_ids_free(roco_ids *ids);

/* Copies what it needs: the file may be closed afterwards. Errors: ROCO_UNSUPPORTED (tokenizer model or pre-tokenizer
 * by name, with the supported list), ROCO_FORMAT (vocabulary, merges or ids that do not fit together, no token for
 * a byte of printable ASCII). Of equal pieces the lowest id is used. Returns owned. */
roco_status roco_tokenizer_open(const roco_source *source, roco_tokenizer **out, roco_error *error);
void roco_tokenizer_close(roco_tokenizer *tokenizer);

uint32_t roco_tokenizer_n_vocab(const roco_tokenizer *tokenizer);

typedef enum roco_encode_flags {
    ROCO_ENCODE_PLAIN = 0,
    ROCO_ENCODE_SPECIAL = 1, /* text of control tokens becomes the control token; without it, it is plain text */
    ROCO_ENCODE_ADD_BOS =
        2, /* begin token in front, when the file asks for one and the text does not already start with it */
} roco_encode_flags;

/* Appends the ids of text[size] to `out`; on failure `out` is as it was. The text may hold any bytes, NUL included; a
 * byte that is not part of UTF-8 is encoded by its byte token and decodes back to itself. A byte for which the
 * vocabulary has no token is left out, as the original tokenizers do (SmolLM2's lacks a few control characters, among
 * them 0x04 and 0x1D, and the lead bytes of planes 4 to 11). User-defined (added, not control) tokens match always, the
 * longest at the leftmost place. With SentencePiece U+2581 in a text is a space, as in the original, and a space is put
 * in front of the text and behind control tokens unless the file says no. Time is O(size log size). Errors:
 * ROCO_NO_MEMORY; ROCO_TOO_LARGE when more than max_ids would come out (max_ids 0: no limit), which is noticed early,
 * or when the text is over 256 MiB. */
roco_status roco_tokenizer_encode(const roco_tokenizer *tokenizer, const char *text, size_t size, unsigned flags,
                                  size_t max_ids, roco_ids *out, roco_error *error);

/* The same for a text of mixed origin: foreign[size] holds 1 for a byte that must not become part of a control token,
 * whatever the flags say, else 0. All else is as if the whole text were one's own: words are cut and merged across the
 * seams. */
roco_status roco_tokenizer_encode_marked(const roco_tokenizer *tokenizer, const char *text, const uint8_t *foreign,
                                         size_t size, unsigned flags, size_t max_ids, roco_ids *out, roco_error *error);

/* The bytes of one token, borrowed until close: {"", 0} for ids outside the vocabulary. Control tokens give "" unless
 * `special`. Joining the pieces of an encoding gives the text's bytes back (but for bytes left out, and with the space
 * that the file puts in front). A piece may be part of a UTF-8 character. */
roco_text roco_tokenizer_piece(const roco_tokenizer *tokenizer, int32_t id, bool special);

bool roco_tokenizer_is_control(const roco_tokenizer *tokenizer, int32_t id);
/* True for every id that ends a generation: the file's eos and eot, and control tokens known as end-of-turn marks. */
bool roco_tokenizer_is_end(const roco_tokenizer *tokenizer, int32_t id);
int32_t roco_tokenizer_bos(const roco_tokenizer *tokenizer); /* -1: none */
int32_t roco_tokenizer_eos(const roco_tokenizer *tokenizer); /* -1: none */

#endif
