/* Byte-pair encoding of one word: the pair of lowest rank merges first, the leftmost of equals.
 *
 * A word starts as bytes or as characters. Symbols are a linked list, pairs wait in a heap, and a pair whose symbols
 * have changed since is dropped when it comes up. So a word of n bytes costs O(n log n), whatever it holds. The tables
 * are only read; the scratch belongs to one encoding on one thread.
 */
#include "engine/tokenizer_heap.h"

#include "config/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef roco_bpe_symbol symbol;
typedef roco_bpe_pair pair;

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* --- merging --- */

/* Puts the pair of `at` and its right neighbour after the heap's n pairs when a merge for it exists; the new n. */
static size_t add_pair(const roco_bpe *bpe, const symbol *symbols, int32_t at, pair *heap, size_t n)
{
    if (at < 0 || symbols[at].next < 0)
        return n;
    int32_t left = symbols[at].id, right = symbols[symbols[at].next].id;
    uint32_t rank = roco_map_get(&bpe->ranks, pair_key(left, right));
    if (rank == ROCO_MAP_NONE)
        return n;
    heap[n] = (pair){(uint64_t)rank << 32 | (uint32_t)at, left, right};
    return n + 1;
}

static void merge(const roco_bpe *bpe, symbol *symbols, pair *heap, size_t n)
{
    while (n > 0) {
        pair top = roco_heap_pop(heap, n--);
        int32_t at = (int32_t)(uint32_t)top.order;
        symbol *left = &symbols[at];
        if (left->id != top.left || left->next < 0 || symbols[left->next].id != top.right)
            continue;
        symbol *right = &symbols[left->next];
        left->id = bpe->results[top.order >> 32];
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0)
            symbols[left->next].prev = at;
        /* Two pairs come for the one that went, and every merge leaves a symbol fewer: 2 x symbols is always room. */
        const int32_t changed[] = {left->prev, at};
        for (size_t i = 0; i < 2; i++) {
            size_t grown = add_pair(bpe, symbols, changed[i], heap, n);
            if (grown > n) {
                roco_heap_sift_up(heap, n);
                n = grown;
            }
        }
    }
}

roco_status roco_bpe_reserve(roco_bpe_scratch *scratch, size_t n)
{
    if (n <= scratch->capacity)
        return ROCO_OK;
    size_t capacity = n < 256 ? 256 : n;
    roco_bpe_scratch_free(scratch);
    scratch->symbols = malloc(capacity * sizeof *scratch->symbols);
    scratch->heap = malloc(2 * capacity * sizeof *scratch->heap);
    if (!scratch->symbols || !scratch->heap) {
        roco_bpe_scratch_free(scratch);
        return ROCO_NO_MEMORY;
    }
    scratch->capacity = capacity;
    return ROCO_OK;
}

static void link_last(symbol *symbols, int32_t n)
{
    if (n > 0)
        symbols[n - 1].next = -1;
}

/* The word's characters as a list of symbols; their number, at most one for each byte. */
static int32_t split_characters(const roco_bpe *bpe, const roco_vocab *vocab, roco_text word, symbol *symbols)
{
    int32_t n = 0;
    bool fused = false; /* the last symbol is an unknown that takes more in */
    for (size_t at = 0, size; at < word.size; at += size) {
        size = roco_utf8_next(word.data + at, word.size - at, NULL);
        size = size ? size : 1;
        int32_t id = roco_vocab_find(vocab, word.data + at, size);
        bool bytes = id < 0 && bpe->byte_fallback;
        for (size_t i = 0; bytes && i < size; i++)
            bytes = vocab->byte_ids[(unsigned char)word.data[at + i]] >= 0;
        for (size_t i = 0; bytes && i < size; i++, n++)
            symbols[n] = (symbol){vocab->byte_ids[(unsigned char)word.data[at + i]], n - 1, n + 1};
        bool unknown = id < 0 && !bytes && bpe->unknown >= 0;
        if (id >= 0 || (unknown && !fused)) {
            symbols[n] = (symbol){id >= 0 ? id : bpe->unknown, n - 1, n + 1};
            n++;
        }
        fused = unknown && bpe->fuse_unknown;
    }
    link_last(symbols, n);
    return n;
}

/* The word's bytes as a list of symbols; their number. */
static int32_t split_bytes(const roco_vocab *vocab, roco_text word, symbol *symbols)
{
    int32_t n = 0;
    for (size_t i = 0; i < word.size; i++) {
        int32_t id = vocab->byte_ids[(unsigned char)word.data[i]];
        if (id >= 0) {
            symbols[n] = (symbol){id, n - 1, n + 1};
            n++;
        }
    }
    link_last(symbols, n);
    return n;
}

static size_t count_encodable(const roco_bpe *bpe, const roco_vocab *vocab, roco_text word)
{
    size_t n = 0;
    if (bpe->characters)
        return word.size;
    for (size_t i = 0; i < word.size; i++)
        n += vocab->byte_ids[(unsigned char)word.data[i]] >= 0;
    return n;
}

roco_status roco_bpe_encode(const roco_bpe *bpe, const roco_vocab *vocab, roco_text word, roco_bpe_scratch *scratch,
                            roco_id_sink *sink)
{
    /* No id covers more than the longest piece, so a word far too long is refused before it costs memory. */
    size_t count = count_encodable(bpe, vocab, word);
    bool all = !bpe->characters || (bpe->unknown < 0 && bpe->byte_fallback);
    if (all && count / vocab->longest > sink->limit - sink->out->size)
        return ROCO_TOO_LARGE;
    roco_status status = roco_bpe_reserve(scratch, count);
    if (status)
        return status;
    symbol *symbols = scratch->symbols;
    int32_t n = bpe->characters ? split_characters(bpe, vocab, word, symbols) : split_bytes(vocab, word, symbols);
    size_t n_pairs = 0;
    for (int32_t at = 0; at < n; at++)
        n_pairs = add_pair(bpe, symbols, at, scratch->heap, n_pairs);
    for (size_t i = n_pairs / 2; i-- > 0;)
        roco_heap_sift_down(scratch->heap, n_pairs, i);
    merge(bpe, symbols, scratch->heap, n_pairs);
    for (int32_t at = n > 0 ? 0 : -1; at >= 0 && !status; at = symbols[at].next)
        status = roco_id_push(sink, symbols[at].id);
    return status;
}

void roco_bpe_scratch_free(roco_bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    free(scratch->nodes);
    *scratch = (roco_bpe_scratch){0};
}

/* --- the table of merges --- */

/* The two sides of a merge; false: it has not one space with something on both sides. */
static bool sides(const roco_tokenizer_source *source, size_t rank, roco_text *left, roco_text *right)
{
    const roco_text text = source->merges[rank];
    if (source->rights) {
        *left = text;
        *right = source->rights[rank];
        return text.size > 0 && right->size > 0;
    }
    const char *space = text.size ? memchr(text.data, ' ', text.size) : NULL;
    size_t before = space ? (size_t)(space - text.data) : 0;
    if (before == 0 || before + 1 == text.size || memchr(space + 1, ' ', text.size - before - 1))
        return false;
    *left = (roco_text){text.data, before};
    *right = (roco_text){space + 1, text.size - before - 1};
    return true;
}

/* A piece's bytes as they are looked up. */
static bool unspell(const roco_bpe *bpe, roco_text piece, char *out, size_t *size)
{
    if (!bpe->characters)
        return roco_vocab_unspell(piece, out, size);
    memcpy(out, piece.data, piece.size);
    *size = piece.size;
    return true;
}

/* Ids of the two sides and of what they make; false when one is no token that text may become. */
static bool resolve(const roco_bpe *bpe, const roco_vocab *vocab, roco_text left, roco_text right, char *buffer,
                    int32_t ids[3])
{
    size_t left_size, right_size;
    if (!unspell(bpe, left, buffer, &left_size) || !unspell(bpe, right, buffer + left_size, &right_size))
        return false;
    ids[0] = roco_vocab_find(vocab, buffer, left_size);
    ids[1] = roco_vocab_find(vocab, buffer + left_size, right_size);
    ids[2] = roco_vocab_find(vocab, buffer, left_size + right_size);
    return ids[0] >= 0 && ids[1] >= 0 && ids[2] >= 0;
}

static roco_status read_merges(roco_bpe *bpe, const roco_vocab *vocab, const roco_tokenizer_source *source,
                               char *buffer, roco_error *error)
{
    static const char key[] = "tokenizer.ggml.merges";
    for (size_t rank = 0; rank < source->n_merges; rank++) {
        int32_t ids[3];
        roco_text left, right;
        if (!sides(source, rank, &left, &right))
            return roco_fail(error, ROCO_FORMAT, key, "merge %zu is not two pieces with one space between", rank);
        if (!resolve(bpe, vocab, left, right, buffer, ids)) {
            return roco_fail(error, ROCO_FORMAT, key,
                             "merge %zu names or makes a piece that is not an ordinary token of the vocabulary", rank);
        }
        /* A pair that is listed twice has its last rank, as in the original tokenizers. */
        roco_map_put(&bpe->ranks, pair_key(ids[0], ids[1]), (uint32_t)rank);
        bpe->results[rank] = ids[2];
    }
    return ROCO_OK;
}

roco_status roco_bpe_init(roco_bpe *bpe, const roco_vocab *vocab, const roco_tokenizer_source *source,
                          roco_error *error)
{
    size_t longest = 0;
    for (size_t i = 0; i < source->n_merges; i++) {
        size_t size = source->merges[i].size + (source->rights ? source->rights[i].size : 0);
        longest = size > longest ? size : longest;
    }
    bpe->characters = source->model == ROCO_MODEL_CHARACTERS;
    bpe->byte_fallback = source->byte_fallback;
    bpe->fuse_unknown = source->fuse_unknown;
    bpe->unknown = source->unknown;
    if (source->n_merges > INT32_MAX)
        return roco_fail(error, ROCO_FORMAT, "tokenizer.ggml.merges", "%zu merges", source->n_merges);
    bpe->results = malloc((source->n_merges + 1) * sizeof *bpe->results);
    char *buffer = malloc(longest + 1);
    roco_status status;
    if (bpe->results && buffer && roco_map_init(&bpe->ranks, source->n_merges))
        status = read_merges(bpe, vocab, source, buffer, error);
    else
        status = roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for %zu merges", source->n_merges);
    free(buffer);
    return status;
}

void roco_bpe_free(roco_bpe *bpe)
{
    roco_map_free(&bpe->ranks);
    free(bpe->results);
    *bpe = (roco_bpe){0};
}
