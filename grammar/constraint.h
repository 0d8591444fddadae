/* Constraints: a grammar compiled for a vocabulary, and the tokens that may come next.
 *
 *   roco_vocabulary   the bytes of all tokens as a trie; made once, then only read
 *   roco_constraint   a compiled grammar; counted, shared by all answers under it. The thread that moves matchers
 *                     makes its automaton, a state when it is first reached
 *   roco_masks        masks of states, under a fixed limit, for all constraints; and that thread's scratch
 *   roco_matcher      how far one answer has come
 *
 * An answer moves through states of a pushdown automaton over bytes; equal states are one. A state's mask is found by
 * one walk over the trie, which leaves a subtree where the automaton has no transition. Work per token is bounded.
 */
#ifndef ROCO_GRAMMAR_CONSTRAINT_H
#define ROCO_GRAMMAR_CONSTRAINT_H

#include "grammar/grammar.h"

typedef struct roco_vocabulary roco_vocabulary;
typedef struct roco_constraint roco_constraint;
typedef struct roco_masks roco_masks;
typedef struct roco_matcher roco_matcher;

/* --- vocabulary --- */
typedef enum roco_token_kind {
    ROCO_TOKEN_TEXT,
    ROCO_TOKEN_CONTROL, /* only where a grammar names it */
    ROCO_TOKEN_END,     /* where the grammar may end */
} roco_token_kind;

typedef struct roco_token {
    roco_token_kind kind;
    const char *data; /* TEXT: its bytes; an empty one is never allowed */
    size_t size;
} roco_token;

/* The tokens 0..n-1. Copies. ROCO_NO_MEMORY. Returns owned. */
roco_status roco_vocabulary_open(const roco_token *tokens, uint32_t n, roco_vocabulary **out, roco_error *error);
void roco_vocabulary_close(roco_vocabulary *vocabulary);
/* 32-bit words of a mask. */
size_t roco_mask_words(const roco_vocabulary *vocabulary);

/* --- constraint --- */
/* Compiles what `root` stands for. The vocabulary is borrowed until the last reference is gone; the grammar is not
 * needed afterwards. Errors, `field` being the request's field: those of the grammar; ROCO_INVALID when no text
 * satisfies it, or a rule refers to itself at its own beginning; ROCO_TOO_LARGE. Any thread. Returns a reference. */
roco_status roco_constraint_compile(roco_grammar *grammar, const char *field, roco_expr root,
                                    const roco_vocabulary *vocabulary, roco_constraint **out, roco_error *error);
/* Any thread; NULL is allowed. */
roco_constraint *roco_constraint_hold(roco_constraint *constraint);
void roco_constraint_release(roco_constraint *constraint);

/* --- masks --- */
/* Room for bytes of masks, at least 64 of them. ROCO_NO_MEMORY. Returns owned. */
roco_status roco_masks_open(const roco_vocabulary *vocabulary, size_t bytes, roco_masks **out, roco_error *error);
void roco_masks_close(roco_masks *masks);

typedef struct roco_mask_stats {
    uint64_t masks; /* asked for */
    uint64_t walks; /* over the trie; the rest were there, or nearly */
    uint64_t ns;    /* spent on all */
} roco_mask_stats;
roco_mask_stats roco_masks_stats(const roco_masks *masks);

/* --- matcher: one thread for all matchers of a constraint and their masks --- */
/* At the beginning of the text. Holds the constraint. NULL when out of memory. */
roco_matcher *roco_matcher_open(roco_constraint *constraint, roco_masks *masks);
void roco_matcher_close(roco_matcher *matcher);
/* Writes the tokens that may come next: bit i % 32 of word i / 32. ROCO_TOO_LARGE: the grammar needs more work or
 * memory than one token may take; ROCO_INVALID: the vocabulary has no token that goes on here, or that ends a text that
 * is complete; ROCO_NO_MEMORY. */
roco_status roco_matcher_mask(roco_matcher *matcher, uint32_t *mask);
/* Goes on by a token that the mask allowed and that does not end the text. ROCO_INVALID: it was not allowed. Else as
 * roco_matcher_mask. */
roco_status roco_matcher_advance(roco_matcher *matcher, int32_t token);
/* The same by bytes, for tests. */
roco_status roco_matcher_advance_bytes(roco_matcher *matcher, const char *data, size_t size);
/* The text may end here. */
bool roco_matcher_may_end(const roco_matcher *matcher);

#endif
