/* The tokenizer as a whole: read from a GGUF file, checked, put together, asked about its tokens.
 *
 * Immutable once built. The only file of the tokenizer that knows the keys of a GGUF file; a tokenizer.json is read in
 * tokenizer_json.c.
 */
#include "engine/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* Control tokens that end a turn or a text in the families roco serves. Files name one of them as eos; models use the
 * others as well. */
static const char *const end_marks[] = {
    "<|im_end|>",      "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
    "<|end_of_turn|>", "<|end|>",    "</s>",       "<end_of_turn>",
};

static bool is_end_mark(roco_text text)
{
    for (size_t i = 0; i < sizeof end_marks / sizeof *end_marks; i++)
        if (roco_text_is(text, end_marks[i]))
            return true;
    return false;
}

static roco_status init_ends(roco_tokenizer *t, const roco_tokenizer_source *source, roco_error *error)
{
    t->ends = calloc(t->vocab.n, sizeof *t->ends);
    if (!t->ends)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for %u tokens", t->vocab.n);
    for (size_t i = 0; i < source->n_ends; i++)
        t->ends[source->ends[i]] = true;
    for (uint32_t id = 0; id < t->vocab.n; id++)
        t->ends[id] |= t->vocab.types[id] == ROCO_PIECE_CONTROL && is_end_mark(roco_vocab_bytes(&t->vocab, id));
    if (source->eos >= 0)
        t->ends[source->eos] = true;
    if (source->eot >= 0)
        t->ends[source->eot] = true;
    return ROCO_OK;
}

/* Spaces as SentencePiece has them: as U+2581 in a text they are spaces already, and one more is put in front. */
static bool add_spaces(roco_normalizer *normalizer, bool prefix)
{
    const roco_text space = {" ", 1}, symbol = {ROCO_SP_SPACE, sizeof ROCO_SP_SPACE - 1}, none = {"", 0};
    return roco_normalizer_add(normalizer, ROCO_STEP_REPLACE, symbol, space) &&
           (!prefix || roco_normalizer_add(normalizer, ROCO_STEP_PREPEND, none, space));
}

/* What the source gives, or what files of its kind mean. */
static roco_status init_steps(roco_tokenizer *t, const roco_tokenizer_source *source, roco_error *error)
{
    const roco_text space = {" ", 1}, none = {"", 0};
    roco_status status = ROCO_OK;
    bool room = true;
    if (source->normalizer) {
        t->normalizer = *source->normalizer;
        *source->normalizer = (roco_normalizer){0};
    }
    if (source->pretokenizer) {
        t->pre = *source->pretokenizer;
        *source->pretokenizer = (roco_pretokenizer){0};
    } else if (source->model == ROCO_MODEL_SCORES) {
        room = add_spaces(&t->normalizer, source->add_space_prefix);
    } else {
        status = roco_pretokenizer_init(&t->pre, source->pre, error);
        if (source->add_space_prefix) {
            room = roco_normalizer_add(&t->pre.before, ROCO_STEP_PREPEND_ONCE, none, space);
            t->pre.before.steps[0].first_only = true;
        }
        room = room && (!t->pre.nfc || roco_normalizer_add(&t->normalizer, ROCO_STEP_NFC, none, none));
    }
    ROCO_CHECK(room);
    return status;
}

/* SentencePiece's user-defined tokens are found behind its own spaces. */
static roco_status init_flags(roco_tokenizer *t, const roco_tokenizer_source *source, roco_error *error)
{
    t->flags = malloc(source->n_vocab);
    if (!t->flags)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for %zu tokens", source->n_vocab);
    for (size_t id = 0; id < source->n_vocab; id++) {
        t->flags[id] = source->flags                        ? source->flags[id]
                       : source->model == ROCO_MODEL_SCORES ? ROCO_ADDED_NORMALIZED
                                                            : 0;
    }
    return ROCO_OK;
}

static roco_status init_model(roco_tokenizer *t, const roco_tokenizer_source *source, roco_error *error)
{
    switch (source->model) {
    case ROCO_MODEL_SCORES: return roco_sp_init(&t->sp, &t->vocab, source, error);
    case ROCO_MODEL_UNIGRAM: return roco_unigram_init(&t->unigram, &t->vocab, source, error);
    default: return roco_bpe_init(&t->bpe, &t->vocab, source, error);
    }
}

roco_status roco_tokenizer_build(const roco_tokenizer_source *source, roco_tokenizer **out, roco_error *error)
{
    roco_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the tokenizer");
    t->model = source->model;
    roco_status status = init_steps(t, source, error);
    status = status ? status : roco_vocab_init(&t->vocab, source, error);
    status = status ? status : init_flags(t, source, error);
    status = status ? status : init_model(t, source, error);
    const roco_normalizer *own = source->model == ROCO_MODEL_SCORES ? NULL : &t->normalizer;
    status = status ? status : roco_added_init(&t->added, &t->vocab, t->flags, false, NULL, error);
    status = status ? status : roco_added_init(&t->added_normalized, &t->vocab, t->flags, true, own, error);
    status = status ? status : init_ends(t, source, error);
    if (status) {
        roco_tokenizer_close(t);
        return status;
    }
    t->bos = source->bos;
    t->eos = source->eos;
    const bool usual = source->model == ROCO_MODEL_SCORES || t->pre.add_bos;
    t->add_bos = source->add_bos < 0 ? usual : source->add_bos > 0;
    *out = t;
    return ROCO_OK;
}

void roco_tokenizer_close(roco_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    roco_vocab_free(&tokenizer->vocab);
    roco_bpe_free(&tokenizer->bpe);
    roco_sp_free(&tokenizer->sp);
    roco_unigram_free(&tokenizer->unigram);
    roco_added_free(&tokenizer->added);
    roco_added_free(&tokenizer->added_normalized);
    free(tokenizer->flags);
    roco_pretokenizer_free(&tokenizer->pre);
    free(tokenizer->ends);
    free(tokenizer);
}

/* --- from a file --- */

/* The strings of an array, borrowed from the file. Returns owned. */
static roco_status read_strings(const roco_source *file, const char *key, roco_text **out, size_t *n, roco_error *error)
{
    roco_source_kind kind;
    uint64_t count;
    roco_status status = roco_source_array(file, key, &kind, &count, error);
    if (status)
        return status == ROCO_NOT_FOUND ? roco_fail(error, ROCO_FORMAT, key, "the file has no %s", key) : status;
    if (kind != ROCO_SOURCE_STRING)
        return roco_fail(error, ROCO_FORMAT, key, "the array does not hold strings");
    *out = malloc((size_t)(count ? count : 1) * sizeof **out);
    if (!*out)
        return roco_fail(error, ROCO_NO_MEMORY, key, "no memory for %llu strings", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        (*out)[i] = roco_source_array_string(file, key, i);
    *n = (size_t)count;
    return ROCO_OK;
}

/* The scores of n_vocab tokens. Returns owned. */
static roco_status read_scores(const roco_source *file, size_t n_vocab, double **out, roco_error *error)
{
    static const char key[] = "tokenizer.ggml.scores";
    roco_source_kind kind;
    uint64_t count;
    roco_status status = roco_source_array(file, key, &kind, &count, error);
    if (status)
        return status == ROCO_NOT_FOUND ? roco_fail(error, ROCO_FORMAT, key, "the file has no %s", key) : status;
    if ((kind != ROCO_SOURCE_FLOAT32 && kind != ROCO_SOURCE_FLOAT64) || count != n_vocab) {
        return roco_fail(error, ROCO_FORMAT, key, "%llu values; %zu numbers are needed, one for each token",
                         (unsigned long long)count, n_vocab);
    }
    *out = malloc((n_vocab ? n_vocab : 1) * sizeof **out);
    if (!*out)
        return roco_fail(error, ROCO_NO_MEMORY, key, "no memory for %zu scores", n_vocab);
    for (size_t i = 0; i < n_vocab; i++)
        (*out)[i] = roco_source_array_float(file, key, i);
    return ROCO_OK;
}

static bool is_integer(roco_source_kind kind)
{
    return kind <= ROCO_SOURCE_INT32 || kind == ROCO_SOURCE_UINT64 || kind == ROCO_SOURCE_INT64;
}

/* The types of n_vocab tokens. Returns owned. */
static roco_status read_types(const roco_source *file, size_t n_vocab, int32_t **out, roco_error *error)
{
    static const char key[] = "tokenizer.ggml.token_type";
    roco_source_kind kind;
    uint64_t count;
    roco_status status = roco_source_array(file, key, &kind, &count, error);
    if (status)
        return status == ROCO_NOT_FOUND ? roco_fail(error, ROCO_FORMAT, key, "the file has no %s", key) : status;
    if (!is_integer(kind) || count != n_vocab) {
        return roco_fail(error, ROCO_FORMAT, key, "%llu values; %zu integers are needed, one for each token",
                         (unsigned long long)count, n_vocab);
    }
    *out = malloc((n_vocab ? n_vocab : 1) * sizeof **out);
    if (!*out)
        return roco_fail(error, ROCO_NO_MEMORY, key, "no memory for %zu types", n_vocab);
    for (size_t i = 0; i < n_vocab; i++) {
        int64_t type = roco_source_array_int(file, key, i);
        (*out)[i] = type < 0 || type > INT32_MAX ? -1 : (int32_t)type;
    }
    return ROCO_OK;
}

static roco_status read_id(const roco_source *file, const char *key, size_t n_vocab, int32_t *out, roco_error *error)
{
    *out = -1;
    if (n_vocab == 0 || !roco_source_has(file, key))
        return ROCO_OK;
    uint64_t id;
    roco_status status = roco_source_uint(file, key, 0, n_vocab - 1, &id, error);
    if (!status && id <= INT32_MAX)
        *out = (int32_t)id;
    return status;
}

static roco_status read_bool(const roco_source *file, const char *key, bool otherwise, bool *out, roco_error *error)
{
    *out = otherwise;
    return roco_source_has(file, key) ? roco_source_bool(file, key, out, error) : ROCO_OK;
}

/* SentencePiece puts a space in front unless its file says no. */
static roco_status read_flags(const roco_source *file, bool sentencepiece, roco_tokenizer_source *source,
                              roco_error *error)
{
    static const char bos_key[] = "tokenizer.ggml.add_bos_token";
    bool add_bos;
    roco_status status = read_bool(file, bos_key, false, &add_bos, error);
    source->add_bos = roco_source_has(file, bos_key) ? add_bos : -1;
    return status ? status
                  : read_bool(file, "tokenizer.ggml.add_space_prefix", sentencepiece, &source->add_space_prefix, error);
}

/* A missing name leaves *out empty, which no check behind this lets pass. */
static roco_status read_name(const roco_source *file, const char *key, roco_text *out, roco_error *error)
{
    *out = (roco_text){"", 0};
    return roco_source_has(file, key) ? roco_source_string(file, key, out, error) : ROCO_OK;
}

static roco_status read_model(const roco_source *file, bool *sentencepiece, roco_error *error)
{
    static const char key[] = "tokenizer.ggml.model";
    roco_text model;
    roco_status status = read_name(file, key, &model, error);
    *sentencepiece = roco_text_is(model, "llama");
    if (!status && !*sentencepiece && !roco_text_is(model, "gpt2")) {
        status = roco_fail(error, ROCO_UNSUPPORTED, key,
                           "the file's tokenizer is not supported; known: gpt2 (byte-level BPE), llama "
                           "(SentencePiece)");
    }
    return status;
}

roco_status roco_tokenizer_open_as(const roco_source *file, const char *pre, roco_tokenizer **out, roco_error *error)
{
    roco_tokenizer_source source = {0};
    roco_text *pieces = NULL, *merges = NULL;
    int32_t *types = NULL;
    double *scores = NULL;
    bool sentencepiece = false;
    roco_text json;
    if (!roco_source_has(file, "tokenizer.ggml.model") &&
        roco_source_string(file, "tokenizer.huggingface.json", &json, NULL) == ROCO_OK)
        return roco_tokenizer_open_json(file, json, out, error);
    roco_status status = read_model(file, &sentencepiece, error);
    source.model = sentencepiece ? ROCO_MODEL_SCORES : ROCO_MODEL_BYTES;
    if (!status && pre)
        source.pre = (roco_text){pre, strlen(pre)};
    else if (!status)
        status = read_name(file, "tokenizer.ggml.pre", &source.pre, error);
    status = status ? status : read_strings(file, "tokenizer.ggml.tokens", &pieces, &source.n_vocab, error);
    size_t n = source.n_vocab;
    if (!status && sentencepiece)
        status = read_scores(file, n, &scores, error);
    else if (!status)
        status = read_strings(file, "tokenizer.ggml.merges", &merges, &source.n_merges, error);
    status = status ? status : read_types(file, n, &types, error);
    status = status ? status : read_id(file, "tokenizer.ggml.unknown_token_id", n, &source.unknown, error);
    status = status ? status : read_id(file, "tokenizer.ggml.bos_token_id", n, &source.bos, error);
    status = status ? status : read_id(file, "tokenizer.ggml.eos_token_id", n, &source.eos, error);
    status = status ? status : read_id(file, "tokenizer.ggml.eot_token_id", n, &source.eot, error);
    status = status ? status : read_flags(file, sentencepiece, &source, error);
    if (!status) {
        source.pieces = pieces;
        source.types = types;
        source.merges = merges;
        source.scores = scores;
        status = roco_tokenizer_build(&source, out, error);
    }
    free(pieces);
    free(merges);
    free(types);
    free(scores);
    return status;
}

roco_status roco_tokenizer_open(const roco_source *file, roco_tokenizer **out, roco_error *error)
{
    return roco_tokenizer_open_as(file, NULL, out, error);
}

/* --- questions about tokens --- */

uint32_t roco_tokenizer_n_vocab(const roco_tokenizer *tokenizer)
{
    return tokenizer->vocab.n;
}

static bool in_vocabulary(const roco_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (uint32_t)id < tokenizer->vocab.n;
}

roco_text roco_tokenizer_piece(const roco_tokenizer *tokenizer, int32_t id, bool special)
{
    if (!in_vocabulary(tokenizer, id) || tokenizer->vocab.types[id] == ROCO_PIECE_UNUSED ||
        (!special && roco_tokenizer_is_control(tokenizer, id)))
        return (roco_text){"", 0};
    return roco_vocab_decoded(&tokenizer->vocab, (uint32_t)id);
}

bool roco_tokenizer_is_control(const roco_tokenizer *tokenizer, int32_t id)
{
    return in_vocabulary(tokenizer, id) &&
           (tokenizer->vocab.types[id] == ROCO_PIECE_CONTROL || tokenizer->vocab.types[id] == ROCO_PIECE_UNKNOWN);
}

bool roco_tokenizer_is_end(const roco_tokenizer *tokenizer, int32_t id)
{
    return in_vocabulary(tokenizer, id) && tokenizer->ends[id];
}

int32_t roco_tokenizer_bos(const roco_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t roco_tokenizer_eos(const roco_tokenizer *tokenizer)
{
    return tokenizer->eos;
}
