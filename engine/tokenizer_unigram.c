/* The unigram model: of all ways to cut a word into pieces the one whose scores add up highest. Any thread; the scratch
 * belongs to one encoding.
 *
 * Source: Kudo 2018 (arXiv 1804.10959), section 3; the score of what is no piece, and ties, are those of Hugging Face's
 * tokenizers, whose ids these are.
 */
#include "engine/tokenizer_parts.h"

#include "config/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10 /* below the lowest score */

/* The best way to a byte of the word. */
typedef struct roco_unigram_node {
    double score;
    int32_t from; /* where the last piece starts; -1: nothing ends here */
    int32_t id;   /* that piece, -1: unknown */
    int32_t to;   /* where the piece that starts here ends, on the way that won */
} node;

static void offer(node *nodes, size_t to, size_t from, int32_t id, double score)
{
    if (nodes[to].from < 0 || score > nodes[to].score)
        nodes[to] = (node){score, (int32_t)from, id, -1};
}

/* The pieces that start at `from`. */
static void extend(const roco_unigram *u, roco_text word, size_t from, node *nodes)
{
    const double before = from ? nodes[from].score : 0;
    size_t first = roco_utf8_next(word.data + from, word.size - from, NULL);
    bool single = false;
    first = first ? first : 1;
    uint32_t at = 0;
    for (size_t i = from; i < word.size; i++) {
        at = roco_trie_step(&u->trie, at, word.data[i]);
        if (at == ROCO_MAP_NONE)
            break;
        int32_t id = u->trie.ids[at];
        if (id >= 0) {
            offer(nodes, i + 1, from, id, before + u->scores[id]);
            single = single || i + 1 - from == first;
        }
    }
    if (!single)
        offer(nodes, from + first, from, -1, before + u->unknown_score);
}

static roco_status push_unknown(const roco_unigram *u, const roco_vocab *vocab, roco_text part, roco_id_sink *sink)
{
    bool known = u->byte_fallback;
    roco_status status = ROCO_OK;
    for (size_t i = 0; known && i < part.size; i++)
        known = vocab->byte_ids[(unsigned char)part.data[i]] >= 0;
    for (size_t i = 0; known && i < part.size && !status; i++)
        status = roco_id_push(sink, vocab->byte_ids[(unsigned char)part.data[i]]);
    return known || u->unknown < 0 ? status : roco_id_push(sink, u->unknown);
}

static roco_status push_best(const roco_unigram *u, const roco_vocab *vocab, roco_text word, const node *nodes,
                             roco_id_sink *sink)
{
    roco_status status = ROCO_OK;
    for (size_t at = 0, end; at < word.size && !status; at = end) {
        end = (size_t)nodes[at].to;
        const int32_t id = nodes[end].id;
        while (id < 0 && u->fuse_unknown && end < word.size && nodes[nodes[end].to].id < 0)
            end = (size_t)nodes[end].to;
        status = id >= 0 ? roco_id_push(sink, id) : push_unknown(u, vocab, (roco_text){word.data + at, end - at}, sink);
    }
    return status;
}

static roco_status reserve(roco_bpe_scratch *scratch, size_t n)
{
    if (n > scratch->n_nodes) {
        free(scratch->nodes);
        scratch->n_nodes = 0;
        scratch->nodes = malloc(n * sizeof *scratch->nodes);
        if (!scratch->nodes)
            return ROCO_NO_MEMORY;
        scratch->n_nodes = n;
    }
    return ROCO_OK;
}

roco_status roco_unigram_encode(const roco_unigram *u, const roco_vocab *vocab, roco_text word,
                                roco_bpe_scratch *scratch, roco_id_sink *sink)
{
    roco_status status = reserve(scratch, word.size + 1);
    if (status)
        return status;
    node *nodes = scratch->nodes;
    for (size_t i = 0; i <= word.size; i++)
        nodes[i] = (node){0, -1, -1, -1};
    nodes[0].from = 0;
    for (size_t at = 0; at < word.size; at++)
        if (nodes[at].from >= 0) /* within characters nothing ends */
            extend(u, word, at, nodes);
    for (size_t at = word.size; at > 0; at = (size_t)nodes[at].from)
        nodes[nodes[at].from].to = (int32_t)at;
    return push_best(u, vocab, word, nodes, sink);
}

/* --- opening --- */

roco_status roco_unigram_init(roco_unigram *u, const roco_vocab *vocab, const roco_tokenizer_source *source,
                              roco_error *error)
{
    size_t bytes = 0;
    double lowest = INFINITY;
    u->scores = malloc(vocab->n * sizeof *u->scores);
    for (uint32_t id = 0; id < vocab->n; id++)
        bytes += roco_vocab_bytes(vocab, id).size;
    if (!u->scores || !roco_trie_init(&u->trie, bytes))
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for %u scores", vocab->n);
    for (uint32_t id = 0; id < vocab->n; id++) {
        if (!isfinite(source->scores[id]))
            return roco_fail(error, ROCO_FORMAT, "model.vocab", "score %u is not a finite number", id);
        u->scores[id] = source->scores[id];
        lowest = fmin(lowest, u->scores[id]);
        /* Control tokens are pieces to the original too; plain text must not become one. */
        const bool only = source->flags && source->flags[id] & ROCO_ADDED_ONLY;
        if (vocab->types[id] == ROCO_PIECE_NORMAL || (vocab->types[id] == ROCO_PIECE_USER_DEFINED && !only))
            roco_trie_add(&u->trie, roco_vocab_bytes(vocab, id), (int32_t)id);
    }
    u->unknown_score = lowest - UNKNOWN_PENALTY;
    u->unknown = source->unknown;
    u->byte_fallback = source->byte_fallback;
    u->fuse_unknown = source->fuse_unknown;
    return ROCO_OK;
}

void roco_unigram_free(roco_unigram *u)
{
    roco_trie_free(&u->trie);
    free(u->scores);
    *u = (roco_unigram){0};
}
