/* A compiled grammar: the nodes of a pushdown automaton over bytes. Immutable once compiled; any thread.
 *
 * A configuration of the automaton is a node and a stack. BYTES nodes wait for a byte; all others are passed at once:
 * SPLIT goes on at each of its edges, CALL pushes where to return to and enters a rule, LOOP pushes its count and
 * enters its body, RETURN pops.
 */
#ifndef ROCO_GRAMMAR_PROGRAM_H
#define ROCO_GRAMMAR_PROGRAM_H

#include "grammar/parts.h"

typedef enum roco_node_kind {
    ROCO_NODE_RETURN, /* node 0 */
    ROCO_NODE_BYTES,  /* edges[first..first+n) */
    ROCO_NODE_SPLIT,  /* the same, bounds unused */
    ROCO_NODE_CALL,   /* enters `first`, returns to n */
    ROCO_NODE_LOOP,   /* loops[first] */
} roco_node_kind;

typedef struct roco_node {
    uint32_t kind, first, n;
} roco_node;

typedef struct roco_edge {
    uint32_t to;
    uint8_t low, high; /* bytes, both included */
} roco_edge;

typedef struct roco_loop {
    uint32_t body, next; /* nodes */
    uint32_t min, max;   /* max ROCO_UNLIMITED: none */
    bool nullable;       /* the body may be empty */
} roco_loop;

typedef struct roco_program {
    roco_node *nodes;
    uint32_t n_nodes, nodes_capacity;
    roco_edge *edges;
    uint32_t n_edges, edges_capacity;
    roco_loop *loops;
    uint32_t n_loops, loops_capacity;
    uint32_t start;
    uint8_t byte_class[256]; /* bytes that no edge tells apart have one class */
    uint32_t n_classes;
} roco_program;

/* As roco_constraint_compile. `out` is initialised in any case. */
roco_status roco_program_compile(roco_grammar *grammar, const char *field, roco_expr root, roco_program *out,
                                 roco_error *error);
void roco_program_free(roco_program *program);

/* --- shared by the program_*.c files --- */
typedef struct roco_builder {
    roco_grammar *grammar;
    roco_program *program;
    bool *productive, *nullable; /* [n_exprs] */
    uint32_t *rule_starts;       /* [n_rules], ROCO_NO_NODE until built */
} roco_builder;

#define ROCO_NO_NODE UINT32_MAX

/* New nodes; ROCO_NO_NODE with the grammar failed when over a limit. */
uint32_t roco_builder_node(roco_builder *builder, roco_node_kind kind, uint32_t first, uint32_t n);
/* Appends an edge; those of one node must follow each other. */
void roco_builder_edge(roco_builder *builder, uint32_t to, uint8_t low, uint8_t high);
/* A node that reads one character of ranges[n] and goes on at `next`; its spellings in JSON with `json`. */
uint32_t roco_builder_chars(roco_builder *builder, const roco_range *ranges, uint32_t n, bool json, uint32_t next);
/* program_graph.c: an automaton over code points; the search for a text (see ROCO_EXPR_SEARCH); a choice of texts. */
uint32_t roco_builder_graph(roco_builder *builder, const struct roco_dfa *dfa, bool json, uint32_t next);
uint32_t roco_builder_search(roco_builder *builder, const char *text, uint32_t size, bool with, uint32_t next);
uint32_t roco_builder_words(roco_builder *builder, const roco_expr_node *choice, uint32_t next);

#endif
