/* Deterministic automata over code points, for texts that must meet several conditions at once: a pattern and a length,
 * two patterns, any key but some.
 *
 * An alphabet is a list of intervals that no automaton of its kind tells apart further. All functions return NULL with
 * the grammar failed when a limit is met; those that combine take nothing.
 */
#ifndef ROCO_GRAMMAR_DFA_H
#define ROCO_GRAMMAR_DFA_H

#include "grammar/parts.h"

#define ROCO_DFA_DEAD UINT32_MAX

typedef struct roco_dfa {
    uint32_t *starts; /* [n_letters] first code points of the intervals, from 0; the last ends at ROCO_MAX_CODE */
    uint32_t n_letters;
    uint32_t *next; /* [n_states, n_letters] */
    bool *accepts;  /* [n_states] */
    uint32_t n_states;
} roco_dfa; /* starts in state 0; after roco_dfa_trim every state can come to an end, but the first of an empty one */

void roco_dfa_close(roco_dfa *dfa);

/* From an expression of EMPTY, NOTHING, CHARS, SEQUENCE, CHOICE and REPEAT. */
roco_dfa *roco_dfa_from_expr(roco_grammar *grammar, roco_expr expr);
/* Any text but those with NUL, which JSON strings here never hold. */
roco_dfa *roco_dfa_any(roco_grammar *grammar);
/* Any text of min..max characters (max ROCO_UNLIMITED: without end). */
roco_dfa *roco_dfa_length(roco_grammar *grammar, uint32_t min, uint32_t max);
/* Exactly these texts, UTF-8. */
roco_dfa *roco_dfa_words(roco_grammar *grammar, const char *const *words, uint32_t n);
/* Numbers in decimal digits that m divides, a sign in front or not. */
roco_dfa *roco_dfa_multiples(roco_grammar *grammar, uint32_t m);
/* Texts of both; texts of a that are not of b. Trimmed. */
roco_dfa *roco_dfa_both(roco_grammar *grammar, const roco_dfa *a, const roco_dfa *b);
roco_dfa *roco_dfa_minus(roco_grammar *grammar, const roco_dfa *a, const roco_dfa *b);

bool roco_dfa_is_empty(const roco_dfa *dfa);
bool roco_dfa_accepts(const roco_dfa *dfa, const char *text);

/* --- for the dfa*.c files --- */
roco_dfa *roco_dfa_open(roco_grammar *grammar, uint32_t n_letters);
/* A new state without a way on; ROCO_DFA_DEAD with the grammar failed at a limit. */
uint32_t roco_dfa_add(roco_grammar *grammar, roco_dfa *dfa, bool accepts);
void roco_dfa_trim(roco_grammar *grammar, roco_dfa *dfa);

#endif
