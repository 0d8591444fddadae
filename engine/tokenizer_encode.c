/* Text to ids: added tokens split the text, the pre-tokenizer cuts words, byte-pair merging makes ids. SentencePiece
 * files have their own walk: its spaces are part of the pieces.
 *
 * Any thread; all that changes is the caller's array and this call's scratch.
 */
#include "engine/tokenizer_parts.h"

#include "config/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 28 }; /* bytes of one text; places in a word are 32-bit, and a byte takes 44 bytes of scratch */

typedef struct job {
    const roco_tokenizer *tokenizer;
    bool special;
    const uint8_t *foreign; /* [text], NULL: no byte is */
    size_t own_end;         /* end of the stretch without foreign bytes that was looked at last */
    roco_id_sink sink;
    roco_bpe_scratch scratch;
    pcre2_match_data *match;
} job;

void roco_ids_free(roco_ids *ids)
{
    free(ids->data);
    *ids = (roco_ids){0};
}

roco_status roco_id_push(roco_id_sink *sink, int32_t id)
{
    roco_ids *out = sink->out;
    if (out->size >= sink->limit) {
        return ROCO_TOO_LARGE;
    }
    if (out->size == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 64;
        int32_t *data = realloc(out->data, capacity * sizeof *data);
        if (!data) {
            return ROCO_NO_MEMORY;
        }
        out->data = data;
        out->capacity = capacity;
    }
    out->data[out->size++] = id;
    return ROCO_OK;
}

static roco_status encode_word(job *j, roco_text word)
{
    const roco_tokenizer *t = j->tokenizer;
    int32_t whole = t->pre.ignore_merges ? roco_vocab_find(&t->vocab, word.data, word.size) : -1;
    if (whole >= 0) {
        return roco_id_push(&j->sink, whole);
    }
    return roco_bpe_encode(&t->bpe, &t->vocab, word, &j->scratch, &j->sink);
}

static roco_status encode_valid(job *j, roco_text text)
{
    size_t at = 0;
    while (at < text.size) {
        size_t end = roco_pretokenizer_next(&j->tokenizer->pre, text, at, j->match);
        if (end == 0) {
            return ROCO_NO_MEMORY;
        }
        roco_status status = encode_word(j, (roco_text){text.data + at, end - at});
        if (status) {
            return status;
        }
        at = end;
    }
    return ROCO_OK;
}

/* A stretch without added tokens. A byte that is not UTF-8 is a word of its own. */
static roco_status encode_plain(job *j, roco_text text)
{
    size_t at = 0;
    roco_status status = ROCO_OK;
    while (at < text.size && !status) {
        size_t valid = roco_utf8_valid_prefix(text.data + at, text.size - at);
        size_t size = valid ? valid : 1;
        roco_text part = {text.data + at, size};
        status = valid ? encode_valid(j, part) : encode_word(j, part);
        at += size;
    }
    return status;
}

/* The first stretch, with the space in front that some files ask for. */
static roco_status encode_first(job *j, roco_text text)
{
    if (!j->tokenizer->add_space_prefix || text.size == 0 || text.data[0] == ' ') {
        return encode_plain(j, text);
    }
    char *spaced = malloc(text.size + 1);
    if (!spaced) {
        return ROCO_NO_MEMORY;
    }
    spaced[0] = ' ';
    memcpy(spaced + 1, text.data, text.size);
    roco_status status = encode_plain(j, (roco_text){spaced, text.size + 1});
    free(spaced);
    return status;
}

/* The longest added token at `at`; a control token only where none of its bytes is foreign. */
static size_t match_added(job *j, roco_text text, size_t at, int32_t *id)
{
    const roco_tokenizer *t = j->tokenizer;
    const char *data = text.data + at;
    size_t rest = text.size - at, own = j->special ? rest : 0;
    if (own && j->foreign) {
        for (j->own_end = j->own_end > at ? j->own_end : at; j->own_end < text.size && !j->foreign[j->own_end];)
            j->own_end++;
        own = j->own_end - at;
    }
    size_t n = own ? roco_added_match(&t->added, &t->vocab, data, own, true, id) : 0;
    if (own < rest) {
        int32_t other;
        size_t m = roco_added_match(&t->added, &t->vocab, data, rest, false, &other);
        if (m > n) {
            *id = other;
            return m;
        }
    }
    return n;
}

static roco_status encode_text(job *j, roco_text text)
{
    size_t from = 0, at = 0;
    while (at < text.size) {
        int32_t id;
        size_t n = match_added(j, text, at, &id);
        if (n == 0) {
            at++;
            continue;
        }
        roco_text before = {text.data + from, at - from};
        roco_status status = from == 0 ? encode_first(j, before) : encode_plain(j, before);
        status = status ? status : roco_id_push(&j->sink, id);
        if (status) {
            return status;
        }
        from = at += n;
    }
    roco_text rest = {text.data + from, text.size - from};
    return from == 0 ? encode_first(j, rest) : encode_plain(j, rest);
}

/* --- SentencePiece --- */

/* A stretch with its spaces as they are looked up: user-defined tokens stand, the rest is merged. */
static roco_status encode_sp_plain(job *j, roco_text text)
{
    const roco_tokenizer *t = j->tokenizer;
    size_t from = 0, at = 0;
    roco_status status = ROCO_OK;
    while (at < text.size && !status) {
        int32_t id;
        size_t n = roco_added_match(&t->added, &t->vocab, text.data + at, text.size - at, false, &id);
        if (n == 0) {
            at++;
            continue;
        }
        status = roco_sp_encode(&t->sp, &t->vocab, (roco_text){text.data + from, at - from}, &j->scratch, &j->sink);
        status = status ? status : roco_id_push(&j->sink, id);
        from = at += n;
    }
    return status ? status
                  : roco_sp_encode(&t->sp, &t->vocab, (roco_text){text.data + from, text.size - from}, &j->scratch,
                                   &j->sink);
}

/* What stands between two control tokens is a text of its own to SentencePiece, with its own space in front. */
static roco_status encode_sp_stretch(job *j, roco_text text)
{
    if (text.size == 0) {
        return ROCO_OK;
    }
    bool prefix = j->tokenizer->add_space_prefix;
    if (!prefix && !memmem(text.data, text.size, ROCO_SP_SPACE, sizeof ROCO_SP_SPACE - 1)) {
        return encode_sp_plain(j, text);
    }
    char *spelled = malloc(text.size + 1);
    if (!spelled) {
        return ROCO_NO_MEMORY;
    }
    spelled[0] = ' ';
    size_t size = prefix + roco_vocab_unspell_spaces(text, spelled + prefix);
    roco_status status = encode_sp_plain(j, (roco_text){spelled, size});
    free(spelled);
    return status;
}

static roco_status encode_sp(job *j, roco_text text)
{
    const roco_tokenizer *t = j->tokenizer;
    size_t from = 0, at = 0;
    while (at < text.size && j->special) {
        int32_t id;
        size_t n = match_added(j, text, at, &id);
        if (n == 0 || !roco_tokenizer_is_control(t, id)) {
            at += n ? n : 1;
            continue;
        }
        roco_status status = encode_sp_stretch(j, (roco_text){text.data + from, at - from});
        status = status ? status : roco_id_push(&j->sink, id);
        if (status) {
            return status;
        }
        from = at += n;
    }
    return encode_sp_stretch(j, (roco_text){text.data + from, text.size - from});
}

/* A text that begins with the begin token keeps that one: a second would change what the model sees. */
static bool wants_bos(job *j, roco_text text, unsigned flags)
{
    const roco_tokenizer *t = j->tokenizer;
    if (!(flags & ROCO_ENCODE_ADD_BOS) || !t->add_bos || t->bos < 0) {
        return false;
    }
    int32_t first = -1;
    if (text.size)
        match_added(j, text, 0, &first);
    return first != t->bos;
}

roco_status roco_tokenizer_encode(const roco_tokenizer *tokenizer, const char *text, size_t size, unsigned flags,
                                  size_t max_ids, roco_ids *out, roco_error *error)
{
    return roco_tokenizer_encode_marked(tokenizer, text, NULL, size, flags, max_ids, out, error);
}

roco_status roco_tokenizer_encode_marked(const roco_tokenizer *tokenizer, const char *text, const uint8_t *foreign,
                                         size_t size, unsigned flags, size_t max_ids, roco_ids *out, roco_error *error)
{
    if (size > MAX_TEXT) {
        return roco_fail(error, ROCO_TOO_LARGE, NULL, "the text has %zu bytes; allowed are %d", size, MAX_TEXT);
    }
    size_t before = out->size;
    roco_text whole = {text, size};
    job j = {
        .tokenizer = tokenizer,
        .special = flags & ROCO_ENCODE_SPECIAL,
        .foreign = foreign,
        .sink = {out, max_ids && max_ids < SIZE_MAX - before ? before + max_ids : SIZE_MAX},
        .match = pcre2_match_data_create(1, NULL),
    };
    roco_status status = j.match ? ROCO_OK : ROCO_NO_MEMORY;
    if (!status && wants_bos(&j, whole, flags)) {
        status = roco_id_push(&j.sink, tokenizer->bos);
    }
    if (!status) {
        status = tokenizer->sp.ranks ? encode_sp(&j, whole) : encode_text(&j, whole);
    }
    pcre2_match_data_free(j.match);
    roco_bpe_scratch_free(&j.scratch);
    if (!status) {
        return ROCO_OK;
    }
    out->size = before;
    if (status == ROCO_TOO_LARGE) {
        return roco_fail(error, status, NULL, "the text has more than %zu tokens", max_ids);
    }
    return roco_fail(error, status, NULL, "no memory to tokenize a text of %zu bytes", size);
}
