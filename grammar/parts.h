/* The inside of a grammar under construction, shared by the front ends and by what compiles them.
 *
 *   grammar.c        open, limits, expressions
 *   charset.c        sets of code points
 *   regex.c, gbnf.c  texts to expressions
 *   json_text.c      what JSON is made of
 *   schema*.c        JSON Schema to expressions
 *   dfa*.c           automata over code points, where texts must meet several conditions at once
 *   program*.c       expressions to the nodes of an automaton (program.h)
 *   automaton.c      its states, made when reached (automaton.h)
 *   vocabulary.c, masks.c, matcher.c   tokens (vocabulary.h)
 */
#ifndef ROCO_GRAMMAR_PARTS_H
#define ROCO_GRAMMAR_PARTS_H

#include "config/buffer.h"
#include "grammar/grammar.h"

/* --- arrays that grow; all zero is empty --- */
/* Room for one element more of `size` bytes at array->data[array->n]; false when out of memory. */
bool roco_grow(void *data, uint32_t n, uint32_t *capacity, size_t size);

/* --- sets of code points --- */
#define ROCO_MAX_CODE 0x10FFFFu

typedef struct roco_range {
    uint32_t low, high; /* both included */
} roco_range;

typedef struct roco_charset {
    roco_range *data; /* after roco_charset_sort ascending, with gaps between them, without surrogates */
    uint32_t n, capacity;
    bool failed; /* out of memory */
} roco_charset;

void roco_charset_add(roco_charset *set, uint32_t low, uint32_t high);
void roco_charset_sort(roco_charset *set);
void roco_charset_negate(roco_charset *set); /* leaves it sorted */
bool roco_charset_has(const roco_charset *set, uint32_t code);
void roco_charset_free(roco_charset *set);

/* --- expressions --- */
typedef enum roco_expr_kind {
    ROCO_EXPR_NOTHING, /* id 0 */
    ROCO_EXPR_EMPTY,   /* id 1 */
    ROCO_EXPR_TEXT,    /* bytes[a..a+b) */
    ROCO_EXPR_CHARS,   /* one character of ranges[a..a+b) */
    ROCO_EXPR_SEQUENCE,
    ROCO_EXPR_CHOICE, /* lists[a..a+b) */
    ROCO_EXPR_REPEAT, /* a, b..c times */
    ROCO_EXPR_RULE,   /* rules[a] */
    ROCO_EXPR_GRAPH,  /* graphs[a]: an automaton over code points */
    ROCO_EXPR_SEARCH, /* bytes[a..a+b): c 1 until it, c 0 without it */
} roco_expr_kind;

typedef struct roco_expr_node {
    uint8_t kind;
    bool json;      /* CHARS, GRAPH: characters as a JSON string spells them */
    uint16_t depth; /* of expressions inside it, itself included, through no rule */
    uint32_t a, b, c;
} roco_expr_node;

struct roco_dfa;

struct roco_grammar {
    roco_grammar_limits limits;
    uint64_t deadline_ns; /* of the thread's own time */
    uint32_t work; /* counted to look at the clock now and then */
    roco_status status;
    char message[160]; /* of status */

    roco_expr_node *exprs;
    uint32_t n_exprs, exprs_capacity;
    uint32_t *lists;
    uint32_t n_lists, lists_capacity;
    roco_range *ranges;
    uint32_t n_ranges, ranges_capacity;
    roco_buffer bytes;
    roco_expr *rules; /* bodies; UINT32_MAX: declared only */
    uint32_t n_rules, rules_capacity;
    struct roco_dfa **graphs; /* owned */
    uint32_t n_graphs, graphs_capacity;
    struct roco_json_text *json; /* made once (json_text.h); owned */
};

/* Records the first fault; returns NOTHING. */
roco_expr roco_grammar_fail(roco_grammar *grammar, roco_status status, const char *message);
/* Counts a piece of work; false once the time is up or anything failed. */
bool roco_grammar_tick(roco_grammar *grammar);
/* A new expression; depth is filled in from the children of its kind. */
roco_expr roco_grammar_add(roco_grammar *grammar, roco_expr_node node);
/* One character of a sorted set, spelled plainly or as in a JSON string. Copies. */
roco_expr roco_grammar_chars(roco_grammar *grammar, const roco_charset *set, bool json);
/* Takes the automaton, also on failure. */
roco_expr roco_grammar_graph(roco_grammar *grammar, struct roco_dfa *dfa, bool json);

/* A list of expressions under construction. */
typedef struct roco_expr_list {
    roco_expr *data;
    uint32_t n, capacity;
} roco_expr_list;
void roco_expr_push(roco_grammar *grammar, roco_expr_list *list, roco_expr expr);
void roco_expr_list_free(roco_expr_list *list);

/* Two in a row; one or nothing; a text that ends with NUL. */
roco_expr roco_grammar_pair(roco_grammar *grammar, roco_expr first, roco_expr second);
roco_expr roco_grammar_optional(roco_grammar *grammar, roco_expr body);
roco_expr roco_grammar_word(roco_grammar *grammar, const char *text);

/* --- regular expressions as the front ends share them --- */
typedef enum roco_regex_use {
    ROCO_REGEX_WHOLE,       /* the whole text matches */
    ROCO_REGEX_SEARCH,      /* some part of it does, as in JSON Schema, but for anchors */
    ROCO_REGEX_SEARCH_JSON, /* the same, the text being spelled as in a JSON string */
} roco_regex_use;

/* The texts of a pattern. `what` is said in front of errors. */
roco_status roco_regex_parse(roco_grammar *grammar, const char *field, const char *what, const char *pattern,
                             size_t size, roco_regex_use use, roco_expr *out, roco_error *error);
/* The roco_error for a grammar that has failed. */
roco_status roco_grammar_report(const roco_grammar *grammar, const char *field, roco_error *error);

#endif
