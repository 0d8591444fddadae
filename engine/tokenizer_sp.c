/* SentencePiece's byte-pair encoding: of all neighbours that make a piece, those of the highest score merge first, the
 * leftmost of equals.
 *
 * Source: the BPE model of SentencePiece (github.com/google/sentencepiece), whose ids these are. Symbols start as
 * characters and are found by where they start, so a symbol's place is the index of its first byte. Any thread; the
 * scratch belongs to one encoding.
 */
#include "engine/tokenizer_heap.h"

#include "config/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef roco_bpe_symbol symbol;
typedef roco_bpe_pair pair;

/* A number that falls where the score rises. The bits of floats order like integers within a sign. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

/* --- merging --- */

/* Puts the pair of `at` and its right neighbour after the heap's n pairs when they make a piece; the new n. */
static size_t add_pair(const roco_sp *sp, const roco_vocab *vocab, const char *data, const symbol *symbols, int32_t at,
                       pair *heap, size_t n)
{
    if (at < 0 || symbols[at].next < 0)
        return n;
    int32_t size = symbols[at].id + symbols[symbols[at].next].id;
    int32_t made = roco_vocab_find(vocab, data + at, (size_t)size);
    if (made < 0)
        return n;
    heap[n] = (pair){(uint64_t)sp->ranks[made] << 32 | (uint32_t)at, size, made};
    return n + 1;
}

static void merge(const roco_sp *sp, const roco_vocab *vocab, const char *data, symbol *symbols, pair *heap, size_t n)
{
    while (n > 0) {
        pair top = roco_heap_pop(heap, n--);
        int32_t at = (int32_t)(uint32_t)top.order;
        symbol *left = &symbols[at];
        if (left->id == 0 || left->next < 0 || left->id + symbols[left->next].id != top.left)
            continue;
        symbol *right = &symbols[left->next];
        left->id = top.left;
        left->next = right->next;
        right->id = 0;
        if (left->next >= 0)
            symbols[left->next].prev = at;
        /* Two pairs come for the one that went, and every merge leaves a symbol fewer: 2 x symbols is always room. */
        const int32_t changed[] = {left->prev, at};
        for (size_t i = 0; i < 2; i++) {
            size_t grown = add_pair(sp, vocab, data, symbols, changed[i], heap, n);
            if (grown > n) {
                roco_heap_sift_up(heap, n);
                n = grown;
            }
        }
    }
}

/* --- symbols to ids --- */

static roco_status push_bytes(const roco_sp *sp, const roco_vocab *vocab, const char *data, size_t size,
                              roco_id_sink *sink)
{
    roco_status status = ROCO_OK;
    bool known = true;
    for (size_t i = 0; i < size; i++)
        known &= vocab->byte_ids[(unsigned char)data[i]] >= 0;
    for (size_t i = 0; known && i < size && !status; i++)
        status = roco_id_push(sink, vocab->byte_ids[(unsigned char)data[i]]);
    if (known || sp->unknown < 0)
        return status;
    /* Neighbours without a token are one unknown together. */
    bool follows = sink->out->size > 0 && sink->out->data[sink->out->size - 1] == sp->unknown;
    return follows ? ROCO_OK : roco_id_push(sink, sp->unknown);
}

static roco_status push_symbol(const roco_sp *sp, const roco_vocab *vocab, const char *data, size_t size,
                               roco_id_sink *sink)
{
    int32_t id = roco_vocab_find(vocab, data, size);
    return id >= 0 ? roco_id_push(sink, id) : push_bytes(sp, vocab, data, size, sink);
}

static roco_status encode_word(const roco_sp *sp, const roco_vocab *vocab, roco_text word, roco_bpe_scratch *scratch,
                               roco_id_sink *sink)
{
    /* No id covers more than the longest piece, so a word far too long is refused before it costs memory. */
    if (sp->unknown < 0 && word.size / vocab->longest > sink->limit - sink->out->size)
        return ROCO_TOO_LARGE;
    roco_status status = roco_bpe_reserve(scratch, word.size);
    if (status)
        return status;
    symbol *symbols = scratch->symbols;
    int32_t last = -1;
    for (size_t at = 0, size; at < word.size; at += size) {
        size = roco_utf8_next(word.data + at, word.size - at, NULL);
        symbols[at] = (symbol){(int32_t)size, last, -1};
        if (last >= 0)
            symbols[last].next = (int32_t)at;
        last = (int32_t)at;
    }
    size_t n_pairs = 0;
    for (int32_t at = 0; at >= 0; at = symbols[at].next)
        n_pairs = add_pair(sp, vocab, word.data, symbols, at, scratch->heap, n_pairs);
    for (size_t i = n_pairs / 2; i-- > 0;)
        roco_heap_sift_down(scratch->heap, n_pairs, i);
    merge(sp, vocab, word.data, symbols, scratch->heap, n_pairs);
    for (int32_t at = 0; at >= 0 && !status; at = symbols[at].next)
        status = push_symbol(sp, vocab, word.data + at, (size_t)symbols[at].id, sink);
    return status;
}

/* End of the word that starts at `at`: before a space that no piece can cross, so cutting there changes no id. */
static size_t word_end(const roco_sp *sp, roco_text text, size_t at)
{
    while (++at < text.size)
        if (text.data[at] == ' ' && text.data[at - 1] != ' ' && !sp->joins[(unsigned char)text.data[at - 1]])
            break;
    return at;
}

roco_status roco_sp_encode(const roco_sp *sp, const roco_vocab *vocab, roco_text text, roco_bpe_scratch *scratch,
                           roco_id_sink *sink)
{
    roco_status status = ROCO_OK;
    size_t at = 0;
    while (at < text.size && !status) {
        size_t valid = roco_utf8_valid_prefix(text.data + at, text.size - at);
        roco_text part = {text.data + at, valid};
        for (size_t from = 0; from < valid && !status;) {
            size_t end = word_end(sp, part, from);
            status = encode_word(sp, vocab, (roco_text){part.data + from, end - from}, scratch, sink);
            from = end;
        }
        at += valid;
        if (valid == 0)
            status = push_bytes(sp, vocab, text.data + at++, 1, sink);
    }
    return status;
}

/* --- opening --- */

static void find_joins(roco_sp *sp, const roco_vocab *vocab)
{
    for (uint32_t id = 0; id < vocab->n; id++) {
        roco_text piece = roco_vocab_bytes(vocab, id);
        for (size_t i = 1; vocab->types[id] == ROCO_PIECE_NORMAL && i < piece.size; i++)
            sp->joins[(unsigned char)piece.data[i - 1]] |= piece.data[i] == ' ' && piece.data[i - 1] != ' ';
    }
}

roco_status roco_sp_init(roco_sp *sp, const roco_vocab *vocab, const roco_tokenizer_source *source, roco_error *error)
{
    if (vocab->longest == 0)
        return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.tokens", "all %u tokens are empty", vocab->n);
    sp->unknown = source->unknown;
    sp->ranks = malloc(vocab->n * sizeof *sp->ranks);
    if (!sp->ranks)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for %u scores", vocab->n);
    for (uint32_t id = 0; id < vocab->n; id++) {
        if (!isfinite(source->scores[id]))
            return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.scores", "score %u is not a finite number", id);
        sp->ranks[id] = rank_of((float)source->scores[id]);
    }
    find_joins(sp, vocab);
    return ROCO_OK;
}

void roco_sp_free(roco_sp *sp)
{
    free(sp->ranks);
    *sp = (roco_sp){0};
}
