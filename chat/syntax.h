/* The syntax tree of a template: one shape of node for all, made by parse.c, walked by evaluate.c and execute.c. */
#ifndef ROCO_CHAT_SYNTAX_H
#define ROCO_CHAT_SYNTAX_H

#include "chat/lexer.h"

typedef enum roco_node_kind {
    /* expressions: what a, b, c, items and name are */
    ROCO_NODE_CONSTANT,  /* value */
    ROCO_NODE_NAME,      /* name */
    ROCO_NODE_LIST,      /* items */
    ROCO_NODE_TUPLE,     /* items */
    ROCO_NODE_DICT,      /* items: key, value, key, value, ... */
    ROCO_NODE_ATTRIBUTE, /* a.name */
    ROCO_NODE_ITEM,      /* a[b] */
    ROCO_NODE_SLICE,     /* items[0]:items[1]:items[2], each may be NULL; only as b of an ITEM */
    ROCO_NODE_CALL,      /* a(items) */
    ROCO_NODE_KEYWORD,   /* name=a, among the items of a call */
    ROCO_NODE_FILTER,    /* a|name(items); a is NULL in a filter block */
    ROCO_NODE_TEST,      /* a is name(items) */
    ROCO_NODE_UNARY,     /* op: '-' '+' '!' */
    ROCO_NODE_BINARY,    /* a op b */
    ROCO_NODE_AND,
    ROCO_NODE_OR,
    ROCO_NODE_COMPARE,   /* a, then items, each an OPERAND */
    ROCO_NODE_OPERAND,   /* op, a; op '@' is in, '!@' is not in */
    ROCO_NODE_CONCAT,    /* items joined by ~ */
    ROCO_NODE_CONDITION, /* b if a else c; c may be NULL */

    /* statements */
    ROCO_NODE_BODY,       /* items */
    ROCO_NODE_DATA,       /* value */
    ROCO_NODE_PRINT,      /* a */
    ROCO_NODE_IF,         /* if a then b else c; c may be NULL, or an IF */
    ROCO_NODE_FOR,        /* items[0] target, a iterable, b body, c else or NULL, items[1] the filter or NULL */
    ROCO_NODE_SET,        /* a target, b value */
    ROCO_NODE_SET_BLOCK,  /* a target, b body, c a chain of filters or NULL */
    ROCO_NODE_MACRO,      /* name, items: parameters as KEYWORDs (a: default or NULL), b body */
    ROCO_NODE_CALL_BLOCK, /* a the call, b the MACRO that is its caller */
    ROCO_NODE_FILTERED,   /* a chain of filters, b body */
    ROCO_NODE_WITH,       /* items: KEYWORDs, b body */
    ROCO_NODE_SCOPE,      /* b body */
    ROCO_NODE_BREAK,
    ROCO_NODE_CONTINUE,
} roco_node_kind;

typedef struct roco_node roco_node;
struct roco_node {
    uint8_t kind;
    uint16_t op;
    uint32_t line;
    uint32_t n;
    const roco_string *name;
    roco_value value;
    roco_node *a, *b, *c, **items;
};

/* A BODY. Leaves by the region's escape on a syntax error. */
const roco_node *roco_parse(const roco_source *source);

#endif
