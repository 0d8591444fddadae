/* Making the trie: tokens in the order of their bytes, each adding the nodes that the one before does not share. */
#include "grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* Longer tokens are left out: the trie counts depth in 16 bits, and no real one comes near. */
enum { MAX_TOKEN_BYTES = 4096, CONTROL_BYTES = 4 };

typedef struct entry {
    const char *data;
    uint32_t size;
    int32_t id;
} entry;

static int by_bytes(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    const uint32_t size = a->size < b->size ? a->size : b->size;
    const int order = memcmp(a->data, b->data, size);
    if (order)
        return order;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

size_t roco_mask_words(const roco_vocabulary *v)
{
    return (v->n_tokens + 31u) / 32u;
}

void roco_vocabulary_close(roco_vocabulary *v)
{
    if (!v)
        return;
    free(v->nodes);
    free(v->twins);
    free(v->offsets);
    free(v->bytes);
    free(v->by_length);
    free(v->n_at_least);
    free(v->ends);
    free(v);
}

/* A text with the byte of control tokens could be taken for one; it is no UTF-8 anyway. */
static uint32_t spelled_bytes(const roco_token *token)
{
    if (token->kind == ROCO_TOKEN_CONTROL)
        return CONTROL_BYTES;
    if (token->kind == ROCO_TOKEN_END || token->size == 0 || token->size > MAX_TOKEN_BYTES ||
        memchr(token->data, ROCO_CONTROL_BYTE, token->size))
        return 0;
    return (uint32_t)token->size;
}

static bool spell(roco_vocabulary *v, const roco_token *tokens)
{
    size_t size = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        size += spelled_bytes(&tokens[i]);
    v->bytes = size < UINT32_MAX ? malloc(size + 1) : NULL;
    if (!v->bytes)
        return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const uint32_t n = spelled_bytes(&tokens[i]);
        const char control[CONTROL_BYTES] = {(char)ROCO_CONTROL_BYTE, (char)(i >> 16), (char)(i >> 8), (char)i};
        v->offsets[i] = at;
        if (n)
            memcpy(v->bytes + at, tokens[i].kind == ROCO_TOKEN_CONTROL ? control : tokens[i].data, n);
        if (tokens[i].kind == ROCO_TOKEN_END)
            v->ends[i / 32] |= 1u << i % 32;
        v->longest = n > v->longest ? n : v->longest;
        at += n;
    }
    v->offsets[v->n_tokens] = at;
    return true;
}

static uint32_t common_bytes(const entry *a, const entry *b)
{
    uint32_t n = 0;
    while (n < a->size && n < b->size && a->data[n] == b->data[n])
        n++;
    return n;
}

/* path[depth]: the node of the last token's byte there. */
static void add_nodes(roco_vocabulary *v, const entry *entries, uint32_t n, uint32_t *path)
{
    uint32_t open = 0; /* nodes of the path that are not closed */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t common = i ? common_bytes(&entries[i - 1], &entries[i]) : 0;
        while (open > common)
            v->nodes[path[--open]].end = v->n_nodes;
        while (open < entries[i].size) {
            v->nodes[v->n_nodes] =
                (roco_trie_node){.token = -1, .depth = (uint16_t)open, .byte = (uint8_t)entries[i].data[open]};
            path[open++] = v->n_nodes++;
        }
        roco_trie_node *last = &v->nodes[path[open - 1]];
        v->twins[entries[i].id] = last->token;
        last->token = entries[i].id;
    }
    while (open > 0)
        v->nodes[path[--open]].end = v->n_nodes;
}

/* Tokens by falling length, by counting. */
static void sort_by_length(roco_vocabulary *v, const entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        v->n_at_least[entries[i].size]++;
    for (uint32_t length = v->longest; length-- > 0;)
        v->n_at_least[length] += v->n_at_least[length + 1];
    for (uint32_t length = v->longest, at = 0; length > 0; length--)
        for (uint32_t i = 0; i < n && at < v->n_at_least[length]; i++)
            if (entries[i].size == length)
                v->by_length[at++] = (uint32_t)entries[i].id;
}

static roco_status build(roco_vocabulary *v, entry *entries)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const uint32_t size = v->offsets[i + 1] - v->offsets[i];
        if (size)
            entries[n++] = (entry){v->bytes + v->offsets[i], size, (int32_t)i};
    }
    qsort(entries, n, sizeof *entries, by_bytes);
    size_t n_nodes = 0;
    for (uint32_t i = 0; i < n; i++)
        n_nodes += entries[i].size - (i ? common_bytes(&entries[i - 1], &entries[i]) : 0);
    uint32_t *path = malloc((v->longest + 1) * sizeof *path);
    v->nodes = malloc((n_nodes + 1) * sizeof *v->nodes);
    v->by_length = malloc((n + 1u) * sizeof *v->by_length);
    v->n_at_least = calloc(v->longest + 2, sizeof *v->n_at_least);
    roco_status status = path && v->nodes && v->by_length && v->n_at_least ? ROCO_OK : ROCO_NO_MEMORY;
    if (!status) {
        add_nodes(v, entries, n, path);
        sort_by_length(v, entries, n);
    }
    free(path);
    return status;
}

roco_status roco_vocabulary_open(const roco_token *tokens, uint32_t n, roco_vocabulary **out, roco_error *error)
{
    roco_vocabulary *v = calloc(1, sizeof *v);
    entry *entries = malloc((n + 1u) * sizeof *entries);
    roco_status status = ROCO_NO_MEMORY;
    if (v && entries && n < 1u << 24) {
        v->n_tokens = n;
        v->twins = malloc((n + 1u) * sizeof *v->twins);
        v->offsets = malloc((n + 1u) * sizeof *v->offsets);
        v->ends = calloc(roco_mask_words(v) + 1, sizeof *v->ends);
        if (v->twins && v->offsets && v->ends && spell(v, tokens))
            status = build(v, entries);
    }
    free(entries);
    if (status) {
        roco_vocabulary_close(v);
        return roco_fail(error, status, NULL, "out of memory for the vocabulary of grammars");
    }
    *out = v;
    return ROCO_OK;
}
