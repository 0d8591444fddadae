/* What both kinds of byte-pair encoding work on: a linked list of symbols, and the queue of candidate merges, a binary
 * heap with the least `order` on top.
 *
 * Memory is the caller's (roco_bpe_reserve).
 */
#ifndef ROCO_ENGINE_TOKENIZER_HEAP_H
#define ROCO_ENGINE_TOKENIZER_HEAP_H

#include "engine/tokenizer_parts.h"

typedef struct roco_bpe_symbol {
    int32_t id;         /* byte-level: the token, -1: merged into its left neighbour. SentencePiece: bytes, 0: merged */
    int32_t prev, next; /* -1: none */
} roco_bpe_symbol;

typedef struct roco_bpe_pair {
    uint64_t order;      /* what comes first in the high half, the place of the left symbol in the low half */
    int32_t left, right; /* byte-level: ids of both. SentencePiece: their bytes together, and the token they make */
} roco_bpe_pair;

static inline void roco_heap_sift_down(roco_bpe_pair *heap, size_t n, size_t at)
{
    roco_bpe_pair moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) {
            break;
        }
        if (child + 1 < n && heap[child + 1].order < heap[child].order) {
            child++;
        }
        if (moving.order <= heap[child].order) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static inline void roco_heap_sift_up(roco_bpe_pair *heap, size_t at)
{
    roco_bpe_pair moving = heap[at];
    while (at > 0 && moving.order < heap[(at - 1) / 2].order) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moving;
}

/* Takes the first of n >= 1 out; n - 1 are left. */
static inline roco_bpe_pair roco_heap_pop(roco_bpe_pair *heap, size_t n)
{
    roco_bpe_pair top = heap[0];
    heap[0] = heap[n - 1];
    if (n > 1) {
        roco_heap_sift_down(heap, n - 1, 0);
    }
    return top;
}

#endif
