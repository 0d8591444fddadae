/* The tokenizer's inside: its parts, and the constructor that takes arrays instead of a file (tests use it too).
 *
 *     text --added--> sections --normalizer--> --added--> --pretokenizer--> words --model--> ids
 *
 * tokenizer_encode.c walks this line; which steps there are, and which of the four models, the file says:
 * tokenizer.c reads a GGUF file's keys, tokenizer_json*.c a tokenizer.json. All parts work on bytes. A vocabulary
 * spells each byte as a printable character (GPT-2's table), or a space as U+2581 and single bytes as <0xXX>
 * (SentencePiece); tokenizer_vocab.c takes that spelling off once, at open. Every part is immutable after its init.
 */
#ifndef ROCO_ENGINE_TOKENIZER_PARTS_H
#define ROCO_ENGINE_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "config/buffer.h"
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

typedef enum roco_tokenizer_model {
    ROCO_MODEL_BYTES,      /* merges by rank over bytes: GPT-2 and most since */
    ROCO_MODEL_SCORES,     /* merges by the score of what they make, spaces as part of pieces: SentencePiece in GGUF */
    ROCO_MODEL_CHARACTERS, /* merges by rank over characters: SentencePiece's BPE in a tokenizer.json */
    ROCO_MODEL_UNIGRAM,    /* the pieces whose scores add up highest */
} roco_tokenizer_model;

/* How an added token is found, as in a tokenizer.json; 0: as it stands, in the text as it came. */
#define ROCO_ADDED_WORD       1u  /* not as part of a word */
#define ROCO_ADDED_LEFT       2u  /* with the white space before it */
#define ROCO_ADDED_RIGHT      4u  /* with the white space behind it */
#define ROCO_ADDED_NORMALIZED 8u  /* in the normalised text */
#define ROCO_ADDED_ONLY       16u /* never by the model: it is no piece of its own */

/* What a tokenizer is made from; borrowed during the call. */
typedef struct roco_tokenizer_source {
    roco_tokenizer_model model;
    const roco_text *pieces; /* [n_vocab], as the file spells them */
    const int32_t *types;    /* [n_vocab], roco_piece_type, checked by the constructor */
    const uint8_t *flags;    /* [n_vocab], ROCO_ADDED_* of the added ones; NULL: 0 */
    size_t n_vocab;
    const roco_text *merges; /* [n_merges], "left right", in order of rank */
    const roco_text *rights; /* [n_merges]; NULL: `merges` holds both sides, else the left ones */
    size_t n_merges;
    const double *scores;               /* [n_vocab], models by score; else NULL */
    int32_t unknown;                    /* the token of characters without one, -1: none */
    bool byte_fallback;                 /* characters without a token become their bytes' tokens, where all are there */
    bool fuse_unknown;                  /* neighbours without a token are one unknown */
    bool spaces;                        /* characters and unigram: U+2581 in a piece is a space in its text */
    roco_text pre;                      /* name of the pre-tokenizer; unused where one is given */
    struct roco_normalizer *normalizer; /* taken, left empty; NULL: none but what `pre` and the model ask for */
    struct roco_pretokenizer *pretokenizer; /* taken, left empty; NULL: by name */
    const int32_t *ends;                    /* [n_ends] more ids that end a generation, each below n_vocab */
    size_t n_ends;
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
    char *bytes;       /* all pieces, one after the other, as they are looked up */
    uint32_t *offsets; /* [n + 1] */
    char *decoded;     /* the same as text, spaces as spaces; NULL: no piece differs */
    uint32_t *decoded_offsets;
    uint8_t *types;  /* [n] */
    uint32_t *slots; /* hash table of the ids that BPE may produce, ROCO_MAP_NONE: free */
    size_t mask;
    size_t longest;        /* bytes of the longest piece */
    int32_t byte_ids[256]; /* -1: the vocabulary has no token for this byte alone */
} roco_vocab;

roco_status roco_vocab_init(roco_vocab *vocab, const roco_tokenizer_source *source, roco_error *error);
void roco_vocab_free(roco_vocab *vocab);
/* The id whose bytes these are, among those BPE may produce (never a control token); -1: none. */
int32_t roco_vocab_find(const roco_vocab *vocab, const char *data, size_t size);
roco_text roco_vocab_bytes(const roco_vocab *vocab, uint32_t id);
/* The text of an id. */
roco_text roco_vocab_decoded(const roco_vocab *vocab, uint32_t id);
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
    bool characters;  /* symbols start as characters, not bytes */
    bool byte_fallback, fuse_unknown;
    int32_t unknown;
} roco_bpe;

/* Grows with the longest word of one encoding; init with {0}. */
typedef struct roco_bpe_scratch {
    struct roco_bpe_symbol *symbols;
    struct roco_bpe_pair *heap;
    size_t capacity;
    struct roco_unigram_node *nodes;
    size_t n_nodes;
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

/* --- a set of texts, searched from the front --- */
typedef struct roco_trie {
    roco_map edges; /* node << 8 | byte -> node; node 0 is the root */
    int32_t *ids;   /* [n_nodes], what ends at a node, -1: nothing */
    uint32_t n_nodes;
    uint32_t roots[256]; /* node after the first byte, ROCO_MAP_NONE: nothing starts with it */
} roco_trie;

/* Room for texts of so many bytes together. False: no memory. */
bool roco_trie_init(roco_trie *trie, size_t bytes);
void roco_trie_free(roco_trie *trie);
/* Of equal texts the first one counts, an empty one does not. */
void roco_trie_add(roco_trie *trie, roco_text text, int32_t id);
/* The node behind `node` (0 at first) and a byte; ROCO_MAP_NONE: nothing goes on like that. */
uint32_t roco_trie_step(const roco_trie *trie, uint32_t node, char byte);

/* --- the pieces whose scores add up highest --- */
typedef struct roco_unigram {
    roco_trie trie;
    double *scores; /* [n_vocab] */
    double unknown_score;
    int32_t unknown;
    bool byte_fallback, fuse_unknown;
} roco_unigram;

roco_status roco_unigram_init(roco_unigram *unigram, const roco_vocab *vocab, const roco_tokenizer_source *source,
                              roco_error *error);
void roco_unigram_free(roco_unigram *unigram);
/* Ids of one word in O(size x longest piece). Status as roco_bpe_encode. */
roco_status roco_unigram_encode(const roco_unigram *unigram, const roco_vocab *vocab, roco_text word,
                                roco_bpe_scratch *scratch, roco_id_sink *sink);

/* --- added tokens, by their literal text --- */
typedef struct roco_added {
    roco_trie trie;
} roco_added;

/* Those found in the text as it came, or with `normalized` those found after normalising, their own text normalised by
 * `normalizer` (NULL: as it is). Control tokens are always found in the text as it came: what became of it in between
 * is not known to be theirs. */
roco_status roco_added_init(roco_added *added, const roco_vocab *vocab, const uint8_t *flags, bool normalized,
                            const struct roco_normalizer *normalizer, roco_error *error);
void roco_added_free(roco_added *added);
/* The longest added token at the front of data[size]: its length, its id in *id; 0: none. Control tokens count only
 * with `control`. */
size_t roco_added_match(const roco_added *added, const roco_vocab *vocab, const char *data, size_t size, bool control,
                        int32_t *id);

/* --- normalizer: steps over a section of text --- */
#define ROCO_MAX_STEPS 16

typedef enum roco_step_kind {
    ROCO_STEP_NFC,
    ROCO_STEP_NFD,
    ROCO_STEP_NFKC,
    ROCO_STEP_NFKD,
    ROCO_STEP_REPLACE,      /* each `from` becomes `to` */
    ROCO_STEP_PREPEND,      /* `to` in front of what is not empty */
    ROCO_STEP_PREPEND_ONCE, /* the same, but where it is in front already */
    ROCO_STEP_STRIP_LEFT,   /* white space off the ends */
    ROCO_STEP_STRIP_RIGHT,
} roco_step_kind;

typedef struct roco_normalizer_step {
    roco_step_kind kind;
    bool first_only; /* in the text's first section alone */
    char from[16], to[16];
    uint8_t from_size, to_size;
} roco_normalizer_step;

typedef struct roco_normalizer {
    roco_normalizer_step steps[ROCO_MAX_STEPS];
    size_t n;
} roco_normalizer;

/* False: too many steps, or a text of over 16 bytes. */
bool roco_normalizer_add(roco_normalizer *normalizer, roco_step_kind kind, roco_text from, roco_text to);
/* Replaces *text by what the steps make of it, in `out` (which holds it then); bytes that are not UTF-8 stay. `first`:
 * this is the text's first section. ROCO_NO_MEMORY, ROCO_TOO_LARGE (over 256 MiB). */
roco_status roco_normalizer_run(const roco_normalizer *normalizer, bool first, roco_text *text, roco_buffer *out);

/* White space in front of text[end], and behind text[at]: where it starts, and where it ends. */
size_t roco_space_before(roco_text text, size_t end);
/* True when the character at text[at] may be part of a word: a letter, mark, number or connector. */
bool roco_word_at(roco_text text, size_t at);
size_t roco_space_behind(roco_text text, size_t at);

/* --- pre-tokenizer: expressions that cut one after the other --- */
#define ROCO_MAX_SPLITS 12

/* What becomes of a match. Names and meanings are those of Hugging Face's tokenizers. */
typedef enum roco_split_behavior {
    ROCO_SPLIT_ISOLATED,
    ROCO_SPLIT_REMOVED,
    ROCO_SPLIT_MERGED_WITH_PREVIOUS,
    ROCO_SPLIT_MERGED_WITH_NEXT,
    ROCO_SPLIT_CONTIGUOUS,
} roco_split_behavior;

typedef struct roco_split {
    pcre2_code *code;
    roco_split_behavior behavior;
    bool invert; /* what lies between the matches counts as matched */
} roco_split;

typedef struct roco_pretokenizer {
    roco_normalizer before; /* changes of the text that belong to the cutting */
    roco_split splits[ROCO_MAX_SPLITS];
    size_t n_splits;
    pcre2_match_context *limits;
    bool ignore_merges; /* a word that is a token is taken whole, whatever the merges say */
    bool add_bos;       /* what files of this kind mean when they do not say */
    bool nfc;           /* the same of normalising */
} roco_pretokenizer;

roco_status roco_pretokenizer_init(roco_pretokenizer *pre, roco_text name, roco_error *error);
void roco_pretokenizer_free(roco_pretokenizer *pre);
/* Adds an expression of PCRE2. ROCO_UNSUPPORTED: it does not compile; there are too many. */
roco_status roco_pretokenizer_add(roco_pretokenizer *pre, const char *expression, roco_split_behavior behavior,
                                  bool invert, roco_error *error);
/* The same in Oniguruma's syntax, as a tokenizer.json has it (tokenizer_regex.c); `literal`: the text itself. */
roco_status roco_pretokenizer_add_foreign(roco_pretokenizer *pre, roco_text expression, bool literal,
                                          roco_split_behavior behavior, bool invert, roco_error *error);
/* Calls `word` for each word of text, which is valid UTF-8, until one says no. Its status; ROCO_NO_MEMORY. */
typedef roco_status roco_word_taker(void *context, roco_text word);
roco_status roco_pretokenizer_run(const roco_pretokenizer *pre, roco_text text, pcre2_match_data *match,
                                  roco_word_taker *word, void *context);
/* GPT-2's expression, and others tokenizer.json files name. */
extern const char roco_gpt2_expression[];

struct roco_tokenizer {
    roco_tokenizer_model model;
    roco_vocab vocab;
    roco_bpe bpe;
    roco_sp sp;
    roco_unigram unigram;
    uint8_t *flags; /* [vocab.n], ROCO_ADDED_* */
    roco_added added, added_normalized;
    roco_normalizer normalizer;
    roco_pretokenizer pre;
    bool *ends; /* [vocab.n] */
    int32_t bos, eos;
    bool add_bos;
};

/* tokenizer_json.c: from the text of a tokenizer.json, and what the keys beside it say. */
roco_status roco_tokenizer_open_json(const roco_source *file, roco_text json, roco_tokenizer **out, roco_error *error);

#endif
