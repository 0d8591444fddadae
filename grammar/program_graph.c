/* Automata that are there already, as nodes: over code points, the search for a text, a choice of many texts. */
#include "grammar/program.h"

#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

/* --- an automaton over code points --- */

/* Nodes that stand for states: their edges are not known yet. */
static uint32_t *reserve(roco_builder *b, uint32_t n)
{
    uint32_t *nodes = malloc((n ? n : 1) * sizeof *nodes);
    if (!nodes)
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; nodes && i < n; i++)
        nodes[i] = roco_builder_node(b, ROCO_NODE_SPLIT, 0, 0);
    return nodes;
}

/* All letters from `letter` on that go where it goes, as one set; false when an earlier one did. */
static bool collect(const roco_dfa *dfa, const uint32_t *next, uint32_t letter, roco_charset *set)
{
    set->n = 0;
    for (uint32_t i = 0; i < letter; i++)
        if (next[i] == next[letter])
            return false;
    for (uint32_t i = letter; i < dfa->n_letters; i++)
        if (next[i] == next[letter])
            roco_charset_add(set, dfa->starts[i], i + 1 < dfa->n_letters ? dfa->starts[i + 1] - 1 : ROCO_MAX_CODE);
    roco_charset_sort(set);
    return set->n > 0;
}

static void fill_state(roco_builder *b, const roco_dfa *dfa, bool json, const uint32_t *nodes, uint32_t state,
                       uint32_t end)
{
    roco_expr_list starts = {0};
    roco_charset set = {0};
    const uint32_t *next = dfa->next + (size_t)state * dfa->n_letters;
    for (uint32_t i = 0; i < dfa->n_letters; i++)
        if (next[i] != ROCO_DFA_DEAD && collect(dfa, next, i, &set))
            roco_expr_push(b->grammar, &starts, roco_builder_chars(b, set.data, set.n, json, nodes[next[i]]));
    if (dfa->accepts[state])
        roco_expr_push(b->grammar, &starts, end);
    const uint32_t first = b->program->n_edges;
    for (uint32_t i = 0; i < starts.n; i++)
        roco_builder_edge(b, starts.data[i], 0, 0);
    if (!b->grammar->status)
        b->program->nodes[nodes[state]] = (roco_node){.kind = ROCO_NODE_SPLIT, .first = first, .n = starts.n};
    roco_charset_free(&set);
    roco_expr_list_free(&starts);
}

uint32_t roco_builder_graph(roco_builder *b, const roco_dfa *dfa, bool json, uint32_t next)
{
    uint32_t *nodes = reserve(b, dfa->n_states);
    for (uint32_t i = 0; i < dfa->n_states && !b->grammar->status; i++)
        fill_state(b, dfa, json, nodes, i, next);
    const uint32_t start = b->grammar->status ? ROCO_NO_NODE : nodes[0];
    free(nodes);
    return start;
}

/* --- the search for a text --- */

/* Where the search stands after `byte` in state `state`: the longest beginning of the text that the bytes so far end
 * with (Knuth, Morris, Pratt 1977). */
static uint32_t search_step(const char *text, const uint32_t *borders, uint32_t state, uint8_t byte)
{
    while (state > 0 && (uint8_t)text[state] != byte)
        state = borders[state];
    return (uint8_t)text[state] == byte ? state + 1 : 0;
}

static void fill_borders(const char *text, uint32_t size, uint32_t *borders)
{
    borders[0] = 0;
    for (uint32_t i = 1; i <= size; i++) {
        uint32_t border = i > 1 ? borders[i - 1] : 0;
        while (border > 0 && text[border] != text[i - 1])
            border = borders[border];
        borders[i] = i > 1 && text[border] == text[i - 1] ? border + 1 : 0;
    }
}

/* Control tokens begin with 0xFF, which is part of no text. */
static void fill_search(roco_builder *b, const char *text, const uint32_t *borders, uint32_t size, bool with,
                        uint32_t state, const uint32_t *nodes, uint32_t next)
{
    roco_program *p = b->program;
    const uint32_t first = p->n_edges;
    for (unsigned byte = 0; byte < 0xFF;) {
        const uint32_t to = search_step(text, borders, state, (uint8_t)byte);
        unsigned end = byte;
        while (end + 1 < 0xFF && search_step(text, borders, state, (uint8_t)(end + 1)) == to)
            end++;
        if (to < size || with)
            roco_builder_edge(b, to < size ? nodes[to] : next, (uint8_t)byte, (uint8_t)end);
        byte = end + 1;
    }
    const uint32_t n = p->n_edges - first, bytes = roco_builder_node(b, ROCO_NODE_BYTES, first, n);
    const uint32_t split = p->n_edges;
    roco_builder_edge(b, bytes, 0, 0);
    if (!with)
        roco_builder_edge(b, next, 0, 0);
    if (!b->grammar->status)
        p->nodes[nodes[state]] = (roco_node){.kind = ROCO_NODE_SPLIT, .first = split, .n = with ? 1 : 2};
}

/* Any text at all. */
static uint32_t anything(roco_builder *b, uint32_t next)
{
    const uint32_t split = b->program->n_edges;
    roco_builder_edge(b, 0, 0, 0);
    roco_builder_edge(b, next, 0, 0);
    const uint32_t start = roco_builder_node(b, ROCO_NODE_SPLIT, split, 2), bytes = b->program->n_edges;
    roco_builder_edge(b, start, 0, 0xFE);
    const uint32_t node = roco_builder_node(b, ROCO_NODE_BYTES, bytes, 1);
    if (!b->grammar->status)
        b->program->edges[split].to = node;
    return start;
}

uint32_t roco_builder_search(roco_builder *b, const char *text, uint32_t size, bool with, uint32_t next)
{
    if (size == 0)
        return anything(b, next);
    uint32_t *borders = malloc((size + 1u) * sizeof *borders), *nodes = reserve(b, size);
    if (!borders)
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
    else
        fill_borders(text, size, borders);
    for (uint32_t state = 0; state < size && !b->grammar->status; state++)
        fill_search(b, text, borders, size, with, state, nodes, next);
    const uint32_t start = b->grammar->status ? ROCO_NO_NODE : nodes[0];
    free(borders);
    free(nodes);
    return start;
}

/* --- one of many texts: a trie, so that what is common is read once --- */

enum { MAX_WORD_DEPTH = 5000 };

typedef struct word {
    const char *data;
    uint32_t size;
} word;

static int by_bytes(const void *left, const void *right)
{
    const word *a = left, *b = right;
    const uint32_t size = a->size < b->size ? a->size : b->size;
    const int order = memcmp(a->data, b->data, size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static uint32_t chain(roco_builder *b, const char *data, uint32_t size, uint32_t next)
{
    while (size-- > 0) {
        const uint32_t first = b->program->n_edges;
        roco_builder_edge(b, next, (uint8_t)data[size], (uint8_t)data[size]);
        next = roco_builder_node(b, ROCO_NODE_BYTES, first, 1);
    }
    return next;
}

static uint32_t words_from(roco_builder *b, const word *words, uint32_t n, uint32_t at, uint32_t depth, uint32_t next);

/* A node that tells words[n] apart by the byte at `at`, which all of them have. */
static uint32_t fork_words(roco_builder *b, const word *words, uint32_t n, uint32_t at, uint32_t depth, uint32_t next)
{
    roco_expr_list ways = {0}; /* a byte and a node, in turn */
    for (uint32_t i = 0, end; i < n && !b->grammar->status; i = end) {
        const uint8_t byte = (uint8_t)words[i].data[at];
        for (end = i + 1; end < n && (uint8_t)words[end].data[at] == byte;)
            end++;
        roco_expr_push(b->grammar, &ways, byte);
        roco_expr_push(b->grammar, &ways, words_from(b, words + i, end - i, at + 1, depth + 1, next));
    }
    const uint32_t first = b->program->n_edges, n_ways = ways.n / 2;
    for (uint32_t i = 0; i < n_ways; i++)
        roco_builder_edge(b, ways.data[2 * i + 1], (uint8_t)ways.data[2 * i], (uint8_t)ways.data[2 * i]);
    roco_expr_list_free(&ways);
    return roco_builder_node(b, ROCO_NODE_BYTES, first, n_ways);
}

/* Of words[n], sorted, what comes behind their first `at` bytes, which they share. */
static uint32_t words_from(roco_builder *b, const word *words, uint32_t n, uint32_t at, uint32_t depth, uint32_t next)
{
    const word *last = &words[n - 1];
    uint32_t common = at, ended = 0;
    if (depth > MAX_WORD_DEPTH)
        roco_grammar_fail(b->grammar, ROCO_TOO_LARGE, "too many of its words begin with one another");
    while (common < words[0].size && common < last->size && words[0].data[common] == last->data[common])
        common++;
    while (ended < n && words[ended].size == common) /* the same word may be there twice */
        ended++;
    uint32_t start = next;
    if (ended < n)
        start = fork_words(b, words + ended, n - ended, common, depth, next);
    if (ended < n && ended > 0) {
        const uint32_t first = b->program->n_edges;
        roco_builder_edge(b, start, 0, 0);
        roco_builder_edge(b, next, 0, 0);
        start = roco_builder_node(b, ROCO_NODE_SPLIT, first, 2);
    }
    return chain(b, words[0].data + at, common - at, start);
}

uint32_t roco_builder_words(roco_builder *b, const roco_expr_node *choice, uint32_t next)
{
    const roco_grammar *g = b->grammar;
    word *words = malloc(choice->b * sizeof *words);
    if (!words) {
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
        return ROCO_NO_NODE;
    }
    for (uint32_t i = 0; i < choice->b; i++) {
        const roco_expr_node *text = &g->exprs[g->lists[choice->a + i]];
        words[i] = (word){g->bytes.data + text->a, text->b};
    }
    qsort(words, choice->b, sizeof *words, by_bytes);
    const uint32_t start = words_from(b, words, choice->b, 0, 0, next);
    free(words);
    return start;
}
