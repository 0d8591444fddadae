/* The tokenizer's inside: its parts, and the constructor that takes arrays instead of a file (tests use it too).
 *
 *     text --added--> segments --pretokenizer--> words --bpe--> ids         tokenizer_encode.c walks this line
 *     text --added--> segments --------spaces--> words --sp---> ids         and this one for SentencePiece files
 *
 * All parts work on bytes. The vocabulary of a GGUF file spells each byte as a printable character (GPT-2's table), or
 * a space as U+2581 and single bytes as <0xXX> (SentencePiece); tokenizer_vocab.c takes that spelling off once, at
 * open. Every part is immutable after its init.
 */
#ifndef ROCO_ENGINE_TOKENIZER_PARTS_H
#define ROCO_ENGINE_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/tokenizer.h"
#include "engine/tokenizer_map.h"

#include <pcre2.h>

typedef enum roco_piece_type {
    ROCO_PIECE_NORMAL = 1,
    ROCO_PIECE_UNKNOWN,
    ROCO_PIECE_CONTROL,
    ROCO_PIECE_USER_DEFINED,
    ROCO_PIECE_UNUSED,
    ROCO_PIECE_BYTE,
} roco_piece_type; /* the numbers of tokenizer.ggml.token_type */

/* What a tokenizer is made from; borrowed during the call. */
typedef struct roco_tokenizer_source {
    const roco_text *pieces; /* [n_vocab], as the file spells them */
    const int32_t *types;    /* [n_vocab], roco_piece_type, checked by the constructor */
    size_t n_vocab;
    const roco_text *merges; /* [n_merges], "left right", in order of rank */
    size_t n_merges;
    const float *scores;   /* [n_vocab] of a SentencePiece file, which has no merges and no pre-tokenizer; else NULL */
    int32_t unknown;       /* SentencePiece: the token of characters without one, -1: none */
    roco_text pre;         /* name of the pre-tokenizer */
    int32_t bos, eos, eot; /* -1: none; otherwise below n_vocab */
    int add_bos;           /* 0, 1, or -1: as is usual with this pre-tokenizer */
    bool add_space_prefix;
} roco_tokenizer_source;

/* As roco_tokenizer_open. Returns owned. */
roco_status roco_tokenizer_build(const roco_tokenizer_source *source, roco_tokenizer **out, roco_error *error);
/* As roco_tokenizer_open, with another pre-tokenizer than the file names. */
roco_status roco_tokenizer_open_as(const roco_source *source, const char *pre, roco_tokenizer **out, roco_error *error);

/* --- vocabulary --- */
typedef struct roco_vocab {
    uint32_t n;
    char *bytes;       /* all pieces, one after the other */
    uint32_t *offsets; /* [n + 1] */
    uint8_t *types;    /* [n] */
    uint32_t *slots;   /* hash table of the ids that BPE may produce, ROCO_MAP_NONE: free */
    size_t mask;
    size_t longest;        /* bytes of the longest piece */
    int32_t byte_ids[256]; /* -1: the vocabulary has no token for this byte alone */
} roco_vocab;

roco_status roco_vocab_init(roco_vocab *vocab, const roco_tokenizer_source *source, roco_error *error);
void roco_vocab_free(roco_vocab *vocab);
/* The id whose bytes these are, among those BPE may produce (never a control token); -1: none. */
int32_t roco_vocab_find(const roco_vocab *vocab, const char *data, size_t size);
roco_text roco_vocab_bytes(const roco_vocab *vocab, uint32_t id);
/* Takes GPT-2's spelling off: writes at most piece.size bytes to `out` and their number to *size. False, with nothing
 * written that counts, when the piece holds a character outside the table. */
bool roco_vocab_unspell(roco_text piece, char *out, size_t *size);
/* Takes SentencePiece's off: U+2581 becomes a space. Writes at most text.size bytes; their number. */
#define ROCO_SP_SPACE "\xE2\x96\x81"
size_t roco_vocab_unspell_spaces(roco_text text, char *out);

/* --- byte-pair merges by rank --- */
typedef struct roco_bpe {
    roco_map ranks;   /* left id << 32 | right id -> rank */
    int32_t *results; /* [n_merges], by rank */
} roco_bpe;

/* Grows with the longest word of one encoding; init with {0}. */
typedef struct roco_bpe_scratch {
    struct roco_bpe_symbol *symbols;
    struct roco_bpe_pair *heap;
    size_t capacity;
} roco_bpe_scratch;

roco_status roco_bpe_init(roco_bpe *bpe, const roco_vocab *vocab, const roco_tokenizer_source *source,
                          roco_error *error);
void roco_bpe_free(roco_bpe *bpe);
/* Where the ids of an encoding go. */
typedef struct roco_id_sink {
    roco_ids *out;
    size_t limit; /* out->size may not grow above this */
} roco_id_sink;
/* ROCO_TOO_LARGE at the limit, ROCO_NO_MEMORY. */
roco_status roco_id_push(roco_id_sink *sink, int32_t id);
/* Ids of one word of at most INT32_MAX bytes, in O(size log size). Bytes without a token are left out. Returns
 * ROCO_OK, ROCO_NO_MEMORY, or ROCO_TOO_LARGE (before any work when the size alone shows it). */
roco_status roco_bpe_encode(const roco_bpe *bpe, const roco_vocab *vocab, roco_text word, roco_bpe_scratch *scratch,
                            roco_id_sink *sink);
/* Room for n symbols and 2 n candidates; what was there is lost. */
roco_status roco_bpe_reserve(roco_bpe_scratch *scratch, size_t n);
void roco_bpe_scratch_free(roco_bpe_scratch *scratch);

/* --- byte-pair merges by score: SentencePiece --- */
typedef struct roco_sp {
    uint32_t *ranks; /* [n_vocab] by falling score, equal for equal scores; NULL: not a SentencePiece file */
    bool joins[256]; /* some piece has this byte before a space: words are not cut there */
    int32_t unknown;
} roco_sp;

roco_status roco_sp_init(roco_sp *sp, const roco_vocab *vocab, const roco_tokenizer_source *source, roco_error *error);
void roco_sp_free(roco_sp *sp);
/* Ids of a text without added tokens, spaces as spaces, in O(size log size). A character without a token becomes its
 * bytes' tokens, or the unknown token where those are missing. Status as roco_bpe_encode. */
roco_status roco_sp_encode(const roco_sp *sp, const roco_vocab *vocab, roco_text text, roco_bpe_scratch *scratch,
                           roco_id_sink *sink);

/* --- added tokens: a trie over the literal text of control and user-defined tokens --- */
typedef struct roco_added {
    roco_map edges;      /* node << 8 | byte -> node */
    int32_t *ids;        /* [n_nodes], the token that ends at a node, -1: none */
    uint32_t roots[256]; /* node after the first byte, ROCO_MAP_NONE: no token starts with it */
} roco_added;

roco_status roco_added_init(roco_added *added, const roco_vocab *vocab, roco_error *error);
void roco_added_free(roco_added *added);
/* The longest added token at the front of data[size]: its length, its id in *id; 0: none. Control tokens count only
 * with `control`. */
size_t roco_added_match(const roco_added *added, const roco_vocab *vocab, const char *data, size_t size, bool control,
                        int32_t *id);

/* --- pre-tokenizer --- */
typedef struct roco_pretokenizer {
    pcre2_code *code;
    pcre2_match_context *limits;
    bool ignore_merges; /* a word that is a token is taken whole, whatever the merges say */
    bool add_bos;       /* what files of this kind mean when they do not say */
} roco_pretokenizer;

roco_status roco_pretokenizer_init(roco_pretokenizer *pre, roco_text name, roco_error *error);
void roco_pretokenizer_free(roco_pretokenizer *pre);
/* End of the word that starts at `at` < text.size; text is valid UTF-8. 0: out of memory. */
size_t roco_pretokenizer_next(const roco_pretokenizer *pre, roco_text text, size_t at, pcre2_match_data *match);

struct roco_tokenizer {
    roco_vocab vocab;
    roco_bpe bpe;
    roco_sp sp;
    roco_added added;
    roco_pretokenizer pre;
    bool *ends; /* [vocab.n] */
    int32_t bos, eos;
    bool add_bos, add_space_prefix;
};

#endif
