/* The vocabulary as a trie in one array, in the order of bytes: a node, then its subtree. Immutable; any thread. */
#ifndef ROCO_GRAMMAR_VOCABULARY_H
#define ROCO_GRAMMAR_VOCABULARY_H

#include "grammar/constraint.h"

/* Control tokens are spelled as this byte, which is part of no text, and three bytes of their id. */
#define ROCO_CONTROL_BYTE 0xFFu

typedef struct roco_trie_node {
    uint32_t end;   /* the node behind its subtree */
    int32_t token;  /* that ends here, -1: none; further ones of the same bytes by `twins` */
    uint16_t depth; /* bytes in front of its own */
    uint8_t byte;
} roco_trie_node;

struct roco_vocabulary {
    uint32_t n_tokens;
    roco_trie_node *nodes;
    uint32_t n_nodes;
    int32_t *twins;    /* [n_tokens] the next token of the same bytes, -1: none */
    uint32_t *offsets; /* [n_tokens + 1] into bytes */
    char *bytes;
    uint32_t longest;     /* bytes of a token */
    uint32_t *by_length;  /* [n_listed] tokens of the trie, the longest first */
    uint32_t *n_at_least; /* [longest + 2] how many of them have so many bytes or more */
    uint32_t *ends;       /* [roco_mask_words] the mask of end tokens */
};

#endif
