/* Text to ids: added tokens split the text into sections, a section is normalised and cut into words, the model makes
 * ids of a word.
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
    if (out->size >= sink->limit)
        return ROCO_TOO_LARGE;
    if (out->size == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 64;
        int32_t *data = realloc(out->data, capacity * sizeof *data);
        if (!data)
            return ROCO_NO_MEMORY;
        out->data = data;
        out->capacity = capacity;
    }
    out->data[out->size++] = id;
    return ROCO_OK;
}

/* --- words --- */

static roco_status encode_word(void *context, roco_text word)
{
    job *j = context;
    const roco_tokenizer *t = j->tokenizer;
    if (t->model == ROCO_MODEL_SCORES)
        return roco_sp_encode(&t->sp, &t->vocab, word, &j->scratch, &j->sink);
    if (t->model == ROCO_MODEL_UNIGRAM)
        return roco_unigram_encode(&t->unigram, &t->vocab, word, &j->scratch, &j->sink);
    int32_t whole = t->pre.ignore_merges ? roco_vocab_find(&t->vocab, word.data, word.size) : -1;
    if (whole >= 0)
        return roco_id_push(&j->sink, whole);
    return roco_bpe_encode(&t->bpe, &t->vocab, word, &j->scratch, &j->sink);
}

/* A stretch without added tokens. A byte that is not UTF-8 is a word of its own. */
static roco_status encode_plain(job *j, roco_text text, bool first)
{
    const roco_pretokenizer *pre = &j->tokenizer->pre;
    roco_buffer changed = {0};
    roco_status status = roco_normalizer_run(&pre->before, first, &text, &changed);
    for (size_t at = 0; at < text.size && !status;) {
        size_t valid = roco_utf8_valid_prefix(text.data + at, text.size - at);
        size_t size = valid ? valid : 1;
        roco_text part = {text.data + at, size};
        status = valid ? roco_pretokenizer_run(pre, part, j->match, encode_word, j) : encode_word(j, part);
        at += size;
    }
    roco_buffer_free(&changed);
    return status;
}

/* --- added tokens --- */

/* An added token in a text, with what it takes of the white space around it. */
typedef struct found {
    size_t from, to;
    int32_t id;
} found;

/* Where the character before `at` starts. */
static size_t before(roco_text text, size_t at)
{
    size_t start = at - 1;
    while (start > 0 && at - start < 4 && ((unsigned char)text.data[start] & 0xC0) == 0x80)
        start--;
    return start;
}

/* The longest added token at `at`; a control token only where none of its bytes is foreign. */
static size_t match_added(job *j, const roco_added *added, roco_text text, size_t at, int32_t *id)
{
    const roco_tokenizer *t = j->tokenizer;
    const char *data = text.data + at;
    size_t rest = text.size - at, own = j->special ? rest : 0;
    if (own && j->foreign) {
        for (j->own_end = j->own_end > at ? j->own_end : at; j->own_end < text.size && !j->foreign[j->own_end];)
            j->own_end++;
        own = j->own_end - at;
    }
    size_t n = own ? roco_added_match(added, &t->vocab, data, own, true, id) : 0;
    if (own < rest) {
        int32_t other;
        size_t m = roco_added_match(added, &t->vocab, data, rest, false, &other);
        if (m > n) {
            *id = other;
            return m;
        }
    }
    return n;
}

/* The first added token from `at` on; `low` is where the one before it ended. */
static bool find_added(job *j, const roco_added *added, roco_text text, size_t low, size_t at, found *out)
{
    for (; at < text.size; at++) {
        size_t n = match_added(j, added, text, at, &out->id);
        if (n == 0)
            continue;
        const uint8_t flags = j->tokenizer->flags[out->id];
        out->from = at;
        out->to = at + n;
        if (flags & ROCO_ADDED_WORD && ((at > 0 && roco_word_at(text, before(text, at))) ||
                                        (out->to < text.size && roco_word_at(text, out->to)))) {
            at = out->to - 1;
            continue;
        }
        if (flags & ROCO_ADDED_LEFT) {
            size_t space = roco_space_before(text, at);
            out->from = space > low ? space : low;
        }
        if (flags & ROCO_ADDED_RIGHT)
            out->to = roco_space_behind(text, out->to);
        return true;
    }
    return false;
}

/* --- sections --- */

/* A normalised section: the tokens that are looked for in it, and what lies between. */
static roco_status encode_normalized(job *j, roco_text text, bool first)
{
    size_t from = 0;
    found token;
    roco_status status = ROCO_OK;
    while (j->tokenizer->added_normalized.trie.n_nodes > 1 && !status &&
           find_added(j, &j->tokenizer->added_normalized, text, from, from, &token)) {
        status = encode_plain(j, (roco_text){text.data + from, token.from - from}, first && from == 0);
        status = status ? status : roco_id_push(&j->sink, token.id);
        from = token.to;
    }
    return status ? status : encode_plain(j, (roco_text){text.data + from, text.size - from}, first && from == 0);
}

static roco_status encode_section(job *j, roco_text text, bool first)
{
    roco_buffer changed = {0};
    if (text.size == 0)
        return ROCO_OK;
    job inner = *j;
    inner.foreign = NULL; /* what is looked for from here on are no control tokens */
    inner.special = false;
    roco_status status = roco_normalizer_run(&j->tokenizer->normalizer, first, &text, &changed);
    status = status ? status : encode_normalized(&inner, text, first);
    roco_buffer_free(&changed);
    j->scratch = inner.scratch;
    return status;
}

static roco_status encode_text(job *j, roco_text text)
{
    size_t from = 0;
    found token;
    roco_status status = ROCO_OK;
    while (!status && find_added(j, &j->tokenizer->added, text, from, from, &token)) {
        status = encode_section(j, (roco_text){text.data + from, token.from - from}, from == 0);
        status = status ? status : roco_id_push(&j->sink, token.id);
        from = token.to;
    }
    return status ? status : encode_section(j, (roco_text){text.data + from, text.size - from}, from == 0);
}

/* A text that begins with the begin token keeps that one: a second would change what the model sees. */
static bool wants_bos(job *j, roco_text text, unsigned flags)
{
    const roco_tokenizer *t = j->tokenizer;
    if (!(flags & ROCO_ENCODE_ADD_BOS) || !t->add_bos || t->bos < 0)
        return false;
    int32_t first = -1;
    if (text.size)
        match_added(j, &t->added, text, 0, &first);
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
    if (size > MAX_TEXT)
        return roco_fail(error, ROCO_TOO_LARGE, NULL, "the text has %zu bytes; allowed are %d", size, MAX_TEXT);
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
    if (!status && wants_bos(&j, whole, flags))
        status = roco_id_push(&j.sink, tokenizer->bos);
    if (!status)
        status = encode_text(&j, whole);
    pcre2_match_data_free(j.match);
    roco_bpe_scratch_free(&j.scratch);
    if (!status)
        return ROCO_OK;
    out->size = before;
    if (status == ROCO_TOO_LARGE)
        return roco_fail(error, status, NULL, "the text has more than %zu tokens", max_ids);
    return roco_fail(error, status, NULL, "no memory to tokenize a text of %zu bytes", size);
}
