/* A tokenizer.json as a tokenizer: the vocabulary, merges or scores, the added tokens, and what the keys beside it say.
 * The thread that opens the tokenizer. The steps are read in tokenizer_json_steps.c.
 */
#include "engine/tokenizer_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VALUES (24u << 20) /* a quarter of a million tokens and twice as many merges take four million */
#define MAX_ID     ((1u << 24) - 1)

/* What is read; everything borrows from the tree. */
typedef struct reading {
    const roco_source *file;
    roco_tree *root;
    const roco_tree *model;
    roco_text *pieces, *lefts, *rights;
    int32_t *types, *ends;
    uint8_t *flags;
    double *scores;
    roco_normalizer normalizer;
    roco_pretokenizer pretokenizer;
    roco_tokenizer_source source;
    roco_error *error;
} reading;

static roco_status fail(const reading *r, const char *member, const char *what)
{
    return roco_fail(r->error, ROCO_FORMAT, member, "tokenizer.json: %s", what);
}

static roco_status no_memory(const reading *r)
{
    return roco_fail(r->error, ROCO_NO_MEMORY, NULL, "no memory for the tokenizer");
}

static bool flag(const roco_tree *tree, const char *name)
{
    bool value = false;
    return roco_tree_bool(roco_tree_member(tree, name), &value) && value;
}

/* --- sizes --- */

static size_t count(const roco_tree *list)
{
    size_t n = 0;
    for (const roco_tree *item = roco_tree_first(list); item; item = roco_tree_next(item))
        n++;
    return n;
}

/* The vocabulary's size is its highest id; ids may have gaps, but not such that a small file asks for much memory. */
static roco_status measure(reading *r)
{
    const roco_tree *vocab = roco_tree_member(r->model, "vocab"), *added = roco_tree_member(r->root, "added_tokens");
    const bool list = r->source.model == ROCO_MODEL_UNIGRAM;
    const size_t n_pieces = count(vocab), n_added = count(added);
    uint64_t id, highest = list && n_pieces ? n_pieces - 1 : 0;
    if (list ? !roco_tree_is_array(vocab) : !roco_tree_is_object(vocab))
        return fail(r, "model.vocab", "the model has no vocab");
    for (const roco_tree *item = list ? NULL : roco_tree_first(vocab); item; item = roco_tree_next(item)) {
        if (!roco_tree_uint(item, &id))
            return fail(r, "model.vocab", "an id of the vocab is not a whole number");
        highest = id > highest ? id : highest;
    }
    for (const roco_tree *item = roco_tree_first(added); item; item = roco_tree_next(item)) {
        if (!roco_tree_uint(roco_tree_member(item, "id"), &id))
            return fail(r, "added_tokens", "an added token has no id");
        highest = id > highest ? id : highest;
    }
    if (n_pieces + n_added == 0 || highest > MAX_ID || highest > 2 * (n_pieces + n_added) + 65536) {
        return roco_fail(r->error, ROCO_FORMAT, "model.vocab",
                         "tokenizer.json: ids up to %llu for %zu tokens (at most %u, and few gaps)",
                         (unsigned long long)highest, n_pieces + n_added, MAX_ID);
    }
    r->source.n_vocab = (size_t)highest + 1;
    return ROCO_OK;
}

static roco_status reserve(reading *r)
{
    const size_t n = r->source.n_vocab;
    r->pieces = calloc(n, sizeof *r->pieces);
    r->types = calloc(n, sizeof *r->types);
    r->flags = calloc(n, sizeof *r->flags);
    r->scores = calloc(n, sizeof *r->scores);
    if (!r->pieces || !r->types || !r->flags || !r->scores)
        return no_memory(r);
    for (size_t id = 0; id < n; id++) {
        r->pieces[id] = (roco_text){"", 0};
        r->types[id] = ROCO_PIECE_UNUSED;
    }
    return ROCO_OK;
}

/* --- vocabulary --- */

static bool spells_byte(roco_text piece)
{
    return piece.size == 6 && memcmp(piece.data, "<0x", 3) == 0 && piece.data[5] == '>' &&
           strspn(piece.data + 3, "0123456789abcdefABCDEF") == 2;
}

static roco_status put_piece(reading *r, uint64_t id, roco_text piece)
{
    if (r->types[id] != ROCO_PIECE_UNUSED) {
        return roco_fail(r->error, ROCO_FORMAT, "model.vocab", "tokenizer.json: two tokens have the id %llu",
                         (unsigned long long)id);
    }
    r->pieces[id] = piece;
    r->types[id] = r->source.byte_fallback && spells_byte(piece) ? ROCO_PIECE_BYTE : ROCO_PIECE_NORMAL;
    return ROCO_OK;
}

static roco_status read_vocab(reading *r)
{
    uint64_t id = 0;
    roco_status status = ROCO_OK;
    const roco_tree *item = roco_tree_first(roco_tree_member(r->model, "vocab"));
    for (; item && !status; item = roco_tree_next(item)) {
        roco_text piece = roco_tree_name(item);
        if (r->source.model == ROCO_MODEL_UNIGRAM) {
            const roco_tree *first = roco_tree_first(item);
            if (!roco_tree_text(first, &piece) || !roco_tree_number(roco_tree_next(first), &r->scores[id]))
                return fail(r, "model.vocab", "an entry of the vocab is not a piece with its score");
            status = put_piece(r, id++, piece);
        } else if (roco_tree_uint(item, &id)) {
            status = put_piece(r, id, piece);
        }
    }
    return status;
}

static roco_status read_merges(reading *r)
{
    const roco_tree *merges = roco_tree_member(r->model, "merges");
    const size_t n = count(merges);
    if (!roco_tree_is_array(merges))
        return fail(r, "model.merges", "the model has no merges");
    r->lefts = malloc((n + 1) * sizeof *r->lefts);
    r->rights = malloc((n + 1) * sizeof *r->rights);
    if (!r->lefts || !r->rights)
        return no_memory(r);
    for (const roco_tree *item = roco_tree_first(merges); item; item = roco_tree_next(item)) {
        const size_t i = r->source.n_merges++;
        const roco_tree *first = roco_tree_is_array(item) ? roco_tree_first(item) : NULL;
        roco_text text;
        const char *gap;
        if (roco_tree_text(item, &text) && (gap = memchr(text.data, ' ', text.size))) {
            r->lefts[i] = (roco_text){text.data, (size_t)(gap - text.data)};
            r->rights[i] = (roco_text){gap + 1, text.size - r->lefts[i].size - 1};
        } else if (!roco_tree_text(first, &r->lefts[i]) || !roco_tree_text(roco_tree_next(first), &r->rights[i])) {
            return roco_fail(r->error, ROCO_FORMAT, "model.merges", "tokenizer.json: merge %zu is not a pair of pieces",
                             i);
        }
    }
    r->source.merges = r->lefts;
    r->source.rights = r->rights;
    return ROCO_OK;
}

/* --- added tokens --- */

static roco_status read_added(reading *r)
{
    const roco_tree *item = roco_tree_first(roco_tree_member(r->root, "added_tokens"));
    for (; item; item = roco_tree_next(item)) {
        uint64_t id;
        roco_text content;
        if (!roco_tree_uint(roco_tree_member(item, "id"), &id) ||
            !roco_tree_text(roco_tree_member(item, "content"), &content) || content.size == 0)
            return fail(r, "added_tokens", "an added token has no id or no content");
        const unsigned only = r->types[id] == ROCO_PIECE_UNUSED ? ROCO_ADDED_ONLY : 0;
        r->pieces[id] = content;
        r->types[id] = flag(item, "special") ? ROCO_PIECE_CONTROL : ROCO_PIECE_USER_DEFINED;
        r->flags[id] =
            (uint8_t)(only | (flag(item, "single_word") ? ROCO_ADDED_WORD : 0) |
                      (flag(item, "lstrip") ? ROCO_ADDED_LEFT : 0) | (flag(item, "rstrip") ? ROCO_ADDED_RIGHT : 0) |
                      (flag(item, "normalized") ? ROCO_ADDED_NORMALIZED : 0));
    }
    return ROCO_OK;
}

static bool same(roco_text a, roco_text b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* The id of a token by its text; -1: none. */
static int32_t find(const reading *r, roco_text text)
{
    for (size_t id = 0; id < r->source.n_vocab; id++)
        if (r->types[id] != ROCO_PIECE_UNUSED && same(r->pieces[id], text))
            return (int32_t)id;
    return -1;
}

/* --- begin, end, unknown --- */

static int32_t find_named(const reading *r, const char *key)
{
    roco_text text;
    return roco_source_string(r->file, key, &text, NULL) == ROCO_OK ? find(r, text) : -1;
}

static roco_status read_ends(reading *r)
{
    static const char key[] = "tokenizer.eos_token_ids";
    roco_source_kind kind;
    uint64_t n;
    if (roco_source_array(r->file, key, &kind, &n, NULL) != ROCO_OK)
        return ROCO_OK;
    r->ends = malloc((size_t)(n + 1) * sizeof *r->ends);
    if (!r->ends)
        return no_memory(r);
    for (uint64_t i = 0; i < n; i++) {
        int64_t id = roco_source_array_int(r->file, key, i);
        if (id >= 0 && (uint64_t)id < r->source.n_vocab)
            r->ends[r->source.n_ends++] = (int32_t)id;
    }
    r->source.ends = r->ends;
    return ROCO_OK;
}

static roco_status read_marks(reading *r)
{
    roco_tokenizer_source *s = &r->source;
    roco_text begin, unknown;
    uint64_t id;
    bool add_bos;
    const bool begins = roco_steps_read_begin(roco_tree_member(r->root, "post_processor"), &begin);
    s->bos = find_named(r, "tokenizer.bos_token");
    s->eos = find_named(r, "tokenizer.eos_token");
    s->eot = -1;
    if (s->bos < 0 && roco_source_uint(r->file, "tokenizer.ggml.bos_token_id", 0, s->n_vocab - 1, &id, NULL) == 0)
        s->bos = (int32_t)id;
    if (begins)
        s->bos = find(r, begin);
    s->add_bos = begins;
    if (roco_source_bool(r->file, "tokenizer.ggml.add_bos_token", &add_bos, NULL) == ROCO_OK)
        s->add_bos = add_bos;
    s->unknown = -1;
    if (roco_tree_text(roco_tree_member(r->model, "unk_token"), &unknown))
        s->unknown = find(r, unknown);
    else if (roco_tree_uint(roco_tree_member(r->model, "unk_id"), &id) && id < s->n_vocab)
        s->unknown = (int32_t)id;
    return read_ends(r);
}

/* --- all of it --- */

static roco_status refuse_others(const reading *r)
{
    static const char *const members[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        roco_text text;
        if (roco_tree_text(roco_tree_member(r->model, members[i]), &text) && text.size > 0)
            return roco_fail(r->error, ROCO_UNSUPPORTED, members[i], "tokenizer.json: %s is not supported", members[i]);
    }
    return ROCO_OK;
}

static roco_status read_kind(reading *r)
{
    const roco_tree *type = roco_tree_member(r->model, "type");
    bool byte_level, bpe = roco_tree_says(type, "BPE") || (!type && roco_tree_member(r->model, "merges"));
    roco_status status = roco_steps_read_normalizer(roco_tree_member(r->root, "normalizer"), &r->normalizer, r->error);
    status = status ? status
                    : roco_steps_read_pretokenizer(roco_tree_member(r->root, "pre_tokenizer"), &r->pretokenizer,
                                                   &byte_level, r->error);
    status =
        status ? status : roco_steps_read_decoder(roco_tree_member(r->root, "decoder"), &r->source.spaces, r->error);
    if (status)
        return status;
    if (!bpe && !roco_tree_says(type, "Unigram")) {
        return roco_fail(r->error, ROCO_UNSUPPORTED, "model.type",
                         "tokenizer.json: the model is neither BPE nor Unigram");
    }
    if (!bpe && byte_level) {
        return roco_fail(r->error, ROCO_UNSUPPORTED, "pre_tokenizer",
                         "tokenizer.json: ByteLevel before a Unigram model is not supported");
    }
    r->source.model = !bpe ? ROCO_MODEL_UNIGRAM : byte_level ? ROCO_MODEL_BYTES : ROCO_MODEL_CHARACTERS;
    r->source.byte_fallback = flag(r->model, "byte_fallback");
    r->source.fuse_unknown = !bpe || flag(r->model, "fuse_unk");
    r->pretokenizer.ignore_merges = flag(r->model, "ignore_merges");
    return refuse_others(r);
}

static roco_status read_all(reading *r)
{
    r->model = roco_tree_member(r->root, "model");
    if (!roco_tree_is_object(r->model))
        return fail(r, "model", "it has no model");
    roco_status status = read_kind(r);
    status = status ? status : measure(r);
    status = status ? status : reserve(r);
    status = status ? status : read_vocab(r);
    if (!status && r->source.model != ROCO_MODEL_UNIGRAM)
        status = read_merges(r);
    status = status ? status : read_added(r);
    return status ? status : read_marks(r);
}

roco_status roco_tokenizer_open_json(const roco_source *file, roco_text json, roco_tokenizer **out, roco_error *error)
{
    reading r = {.file = file, .error = error};
    roco_status status = roco_tree_open("tokenizer.json", json, MAX_VALUES, &r.root, error);
    status = status ? status : read_all(&r);
    if (!status) {
        r.source.pieces = r.pieces;
        r.source.types = r.types;
        r.source.flags = r.flags;
        r.source.scores = r.scores;
        r.source.normalizer = &r.normalizer;
        r.source.pretokenizer = &r.pretokenizer;
        status = roco_tokenizer_build(&r.source, out, error);
    }
    roco_pretokenizer_free(&r.pretokenizer);
    roco_tree_close(r.root);
    free(r.pieces);
    free(r.lefts);
    free(r.rights);
    free(r.types);
    free(r.ends);
    free(r.flags);
    free(r.scores);
    return status;
}
