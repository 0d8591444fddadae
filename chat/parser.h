/* What the two halves of the parser share: statements in parse.c, expressions in parse_expression.c. */
#ifndef ROCO_CHAT_PARSER_H
#define ROCO_CHAT_PARSER_H

#include "chat/syntax.h"

typedef struct roco_parser {
    const roco_source *source;
    const roco_token *at;
    unsigned depth; /* of expressions and statements inside each other */
} roco_parser;

roco_node *roco_parser_node(roco_parser *p, roco_node_kind kind);
void roco_parser_add(roco_parser *p, roco_node *node, roco_node *item);
/* Counts one level; roco_parser_up takes it back. */
void roco_parser_down(roco_parser *p);
void roco_parser_up(roco_parser *p);

bool roco_parser_is_name(const roco_parser *p, const char *name);
bool roco_parser_is_op(const roco_parser *p, uint16_t op);
bool roco_parser_take_name(roco_parser *p, const char *name);
bool roco_parser_take_op(roco_parser *p, uint16_t op);
void roco_parser_want_op(roco_parser *p, char op);
const roco_string *roco_parser_want_name(roco_parser *p);
_Noreturn void roco_parser_unexpected(roco_parser *p, const char *wanted);

roco_node *roco_parse_expression(roco_parser *p);
/* One expression, or a tuple without brackets. `condition`: may its parts be a if b else c? */
roco_node *roco_parse_tuple(roco_parser *p, bool condition);
/* Names to assign to: a, b.c, or (a, b) with or without brackets. */
roco_node *roco_parse_target(roco_parser *p);
/* name(arguments)|name|...: filters applied to `subject`, which may be NULL; the '|' in front is taken already. */
roco_node *roco_parse_filters(roco_parser *p, roco_node *subject);

#endif
