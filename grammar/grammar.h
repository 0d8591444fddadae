/* Grammars: what a constrained answer may look like.
 *
 * A grammar is built from expressions: texts, sets of characters, sequences, choices, repetitions, rules that may refer
 * to one another, and what the front ends make of a JSON Schema, a GBNF text or a regular expression. All of them end
 * in the same expressions, so they can be put together: a schema between two literal texts, one of several schemas, and
 * so on. constraint.h compiles a grammar for a vocabulary and tells which tokens may come next.
 *
 * Everything is over bytes: a character is its UTF-8. Building is bounded by limits on size, depth and time; the first
 * fault sticks, further calls then do nothing, and roco_grammar_status tells it. One thread at a time.
 */
#ifndef ROCO_GRAMMAR_GRAMMAR_H
#define ROCO_GRAMMAR_GRAMMAR_H

#include "config/status.h"
#include "grammar/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct roco_grammar roco_grammar;
/* An expression of one grammar. */
typedef uint32_t roco_expr;

/* Stands for "without end" in roco_grammar_repeat. */
#define ROCO_UNLIMITED          UINT32_MAX
/* Repetitions that are counted go this far. */
#define ROCO_GRAMMAR_MAX_REPEAT 1000000u

typedef struct roco_grammar_limits {
    size_t source_bytes;  /* of one regular expression or GBNF text */
    uint32_t expressions; /* also bounds the states of automata that are made on the way */
    uint32_t nodes;       /* of the compiled program */
    uint32_t depth;       /* of expressions, and of groups in a text */
    uint64_t time_ns;     /* from open to the end of compilation */
} roco_grammar_limits;

#define ROCO_GRAMMAR_LIMITS                                                                                            \
    ((roco_grammar_limits){                                                                                            \
        .source_bytes = 256u << 10, .expressions = 200000, .nodes = 400000, .depth = 200, .time_ns = 2000000000u})

/* The clock starts. Returns owned; NULL when out of memory. */
roco_grammar *roco_grammar_open(const roco_grammar_limits *limits);
void roco_grammar_close(roco_grammar *grammar);

/* ROCO_OK, or the first fault since open: ROCO_TOO_LARGE (a limit), ROCO_NO_MEMORY, ROCO_INVALID. */
roco_status roco_grammar_status(const roco_grammar *grammar, roco_error *error);

/* --- expressions --- */
/* No text at all; nothing, not even the empty text. */
roco_expr roco_grammar_empty(roco_grammar *grammar);
roco_expr roco_grammar_nothing(roco_grammar *grammar);
/* These bytes. Copies. */
roco_expr roco_grammar_text(roco_grammar *grammar, const char *data, size_t size);
/* One control token, which no text can ever spell. */
roco_expr roco_grammar_token(roco_grammar *grammar, int32_t id);
/* One after the other; one of them. Copies the list. */
roco_expr roco_grammar_sequence(roco_grammar *grammar, const roco_expr *list, size_t n);
roco_expr roco_grammar_choice(roco_grammar *grammar, const roco_expr *list, size_t n);
/* min..max times; max at most ROCO_GRAMMAR_MAX_REPEAT, or ROCO_UNLIMITED. */
roco_expr roco_grammar_repeat(roco_grammar *grammar, roco_expr body, uint32_t min, uint32_t max);
/* Any bytes up to and with the first place where data[size] ends; any bytes in which it does not occur (size 0: any at
 * all). For an answer that is free until it says `trigger`, or draws a control token:
 *     choice(without(trigger), sequence(until(trigger), ...))
 *     choice(without(""), sequence(without(""), token(id), ...)) */
roco_expr roco_grammar_until(roco_grammar *grammar, const char *data, size_t size);
roco_expr roco_grammar_without(roco_grammar *grammar, const char *data, size_t size);

/* A rule is declared, may then be referred to by its expression, and is defined once. */
roco_expr roco_grammar_declare(roco_grammar *grammar);
void roco_grammar_define(roco_grammar *grammar, roco_expr rule, roco_expr body);

/* --- front ends: `field` names the request's field in errors --- */
/* Any JSON object, its members and blanks bounded in depth. */
roco_expr roco_grammar_json_object(roco_grammar *grammar);
/* The JSON texts that are valid under a schema, compact or with few blanks, properties in the schema's order. Borrows
 * the schema for the call. ROCO_UNSUPPORTED (a keyword that would change what is valid, with its place), ROCO_INVALID
 * (no schema, or one that nothing satisfies), ROCO_TOO_LARGE. docs/API.md has the keywords. */
roco_status roco_grammar_schema(roco_grammar *grammar, const char *field, const roco_json_value *schema, roco_expr *out,
                                roco_error *error);
/* A regular expression that matches the whole text. ROCO_INVALID or ROCO_UNSUPPORTED with the place, ROCO_TOO_LARGE. */
roco_status roco_grammar_regex(roco_grammar *grammar, const char *field, const char *pattern, size_t size,
                               roco_expr *out, roco_error *error);
/* A grammar as llama.cpp's GBNF has it, from its rule `root`. Errors with the line. */
roco_status roco_grammar_gbnf(roco_grammar *grammar, const char *field, const char *source, size_t size, roco_expr *out,
                              roco_error *error);

#endif
