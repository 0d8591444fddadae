/* Masks of states under a fixed limit, and the scratch of the thread that makes them. One thread.
 *
 * A mask is found by the serial number of its constraint's automaton and its state. Sets of eight; the one that was not
 * used for longest gives way. What was never used costs no memory.
 */
#ifndef ROCO_GRAMMAR_MASKS_H
#define ROCO_GRAMMAR_MASKS_H

#include "grammar/automaton.h"
#include "grammar/vocabulary.h"

struct roco_masks {
    const roco_vocabulary *vocabulary;
    roco_closure *closure;
    uint32_t *path;  /* [longest + 1] states of a walk over the trie */
    uint64_t serial; /* of the last automaton */
    struct roco_mask_slot *slots;
    uint32_t *words; /* [n_sets * 8, n_words] */
    uint32_t n_sets, n_words;
    uint64_t clock;
    roco_mask_stats stats;
};

/* The mask of a state of an automaton, without end tokens: borrowed until the next call. NULL with automaton->status
 * set. */
const uint32_t *roco_masks_get(roco_masks *masks, roco_automaton *automaton, uint64_t serial, uint32_t state);

#endif
