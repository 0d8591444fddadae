/* The states of a program's automaton, made when they are first reached. One thread.
 *
 * A state is a set of configurations: nodes that wait for a byte, each with a stack. Stacks and states are stored once
 * each, so a state is a number, and what follows it by a class of bytes is found in a table after the first time. The
 * store has a limit; when it fills up, roco_automaton_shrink forgets all states but those that are named.
 */
#ifndef ROCO_GRAMMAR_AUTOMATON_H
#define ROCO_GRAMMAR_AUTOMATON_H

#include "grammar/program.h"

#define ROCO_STATE_DEAD    0u         /* nothing can follow */
#define ROCO_STATE_UNKNOWN UINT32_MAX /* an error: see `status` */

/* Configurations of one state, and what is passed to find them. */
#define ROCO_MAX_CONFIGS 2048u
/* Calls and loops inside each other. */
#define ROCO_MAX_STACK   1024u

#define ROCO_NO_COUNT UINT32_MAX

/* One level of a stack. */
typedef struct roco_frame {
    uint32_t parent; /* frame 0: the empty stack */
    uint32_t node;   /* where to go on: the node to return to, or the LOOP */
    uint32_t count;  /* LOOP: iterations that were begun before this one; of a call: ROCO_NO_COUNT */
    uint32_t depth;
    bool counted; /* it or one below it is of a LOOP */
} roco_frame;

/* A node that waits, and its stack. */
typedef struct roco_config {
    uint32_t node, frame;
} roco_config;

typedef struct roco_state {
    uint32_t first, n; /* configs */
    bool accepts;
    bool counted; /* some stack holds a count */
} roco_state;

/* What closing over nodes needs, shared by all automata of a thread. */
typedef struct roco_closure roco_closure;
roco_closure *roco_closure_open(void); /* NULL when out of memory */
void roco_closure_close(roco_closure *closure);

typedef struct roco_automaton {
    const roco_program *program; /* borrowed */
    size_t limit_bytes;
    roco_status status; /* of the last ROCO_STATE_UNKNOWN: ROCO_TOO_LARGE or ROCO_NO_MEMORY */
    uint32_t work;      /* set by the caller: nodes that may still be passed */

    roco_frame *frames;
    uint32_t n_frames, frames_capacity;
    uint32_t *frame_slots, frame_mask; /* hash table of frames, 0: free */
    roco_config *configs;
    uint32_t n_configs, configs_capacity;
    roco_state *states;
    uint32_t n_states, states_capacity;
    uint32_t *state_slots, state_mask;
    uint32_t *next; /* [states_capacity, n_classes] ROCO_STATE_UNKNOWN: not known yet */
} roco_automaton;

/* ROCO_NO_MEMORY. roco_automaton_free in any case. */
roco_status roco_automaton_init(roco_automaton *automaton, const roco_program *program, size_t limit_bytes);
void roco_automaton_free(roco_automaton *automaton);

uint32_t roco_automaton_start(roco_automaton *automaton, roco_closure *closure);
/* Makes the state behind `state` by a byte of this class; what roco_automaton_next does when the table does not know.
 */
uint32_t roco_automaton_make(roco_automaton *automaton, roco_closure *closure, uint32_t state, uint8_t byte);

static inline uint32_t roco_automaton_next(roco_automaton *automaton, roco_closure *closure, uint32_t state,
                                           uint8_t byte)
{
    const roco_program *p = automaton->program;
    const uint32_t to = automaton->next[(size_t)state * p->n_classes + p->byte_class[byte]];
    return to != ROCO_STATE_UNKNOWN ? to : roco_automaton_make(automaton, closure, state, byte);
}

/* The state of which `state` differs in its counts alone, the counts being as far as they can be from where they change
 * what may follow; *distance: iterations, and so bytes, that both can still go on alike. ROCO_STATE_UNKNOWN. */
uint32_t roco_automaton_uncount(roco_automaton *automaton, roco_closure *closure, uint32_t state, uint32_t *distance);

/* Bytes in use; arrays that double may hold twice as many. */
size_t roco_automaton_bytes(const roco_automaton *automaton);
/* Forgets all but states[n], which get their new numbers. ROCO_NO_MEMORY: nothing changed. */
roco_status roco_automaton_shrink(roco_automaton *automaton, uint32_t **states, uint32_t n);

#endif
