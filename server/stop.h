/* Stop strings: up to four texts that end an answer just before their first character, wherever token edges fall.
 *
 * One set belongs to a request; each of its choices keeps a state. A byte costs constant time, whatever the strings.
 */
#ifndef ROCO_SERVER_STOP_H
#define ROCO_SERVER_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCO_MAX_STOPS      4u
#define ROCO_MAX_STOP_BYTES 256u

typedef struct roco_stop_set {
    uint32_t n;
    uint16_t length[ROCO_MAX_STOPS];
    char text[ROCO_MAX_STOPS][ROCO_MAX_STOP_BYTES];
    uint16_t border[ROCO_MAX_STOPS][ROCO_MAX_STOP_BYTES]; /* Knuth-Morris-Pratt: longest border of the prefix 0..i */
} roco_stop_set;

/* Init with {0}. For each stop, how much of it the text seen so far ends with. */
typedef struct roco_stop_state {
    uint16_t matched[ROCO_MAX_STOPS];
} roco_stop_state;

/* Adds 1..ROCO_MAX_STOP_BYTES bytes; at most ROCO_MAX_STOPS times. The caller has checked both. */
void roco_stop_add(roco_stop_set *set, const char *text, size_t size);

/* Reads one byte. Returns the length of the stop that ends with it, the longest when several do; 0 when none does. */
size_t roco_stop_step(const roco_stop_set *set, roco_stop_state *state, char byte);

/* The stop that roco_stop_step has just found; -1: none. */
int roco_stop_matched(const roco_stop_set *set, const roco_stop_state *state);

/* Bytes at the end of the text that may still become a stop: the longest suffix that is a proper prefix of one. */
size_t roco_stop_pending(const roco_stop_set *set, const roco_stop_state *state);

#endif
