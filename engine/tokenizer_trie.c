/* Texts by their bytes, from the front: added tokens, and the pieces of a unigram model. Filled while the tokenizer
 * opens, then only read, by any thread.
 */
#include "engine/tokenizer_parts.h"

#include <stdlib.h>

static uint64_t edge(uint32_t node, char byte)
{
    return (uint64_t)node << 8 | (unsigned char)byte;
}

bool roco_trie_init(roco_trie *trie, size_t bytes)
{
    trie->ids = malloc((bytes + 1) * sizeof *trie->ids);
    if (!trie->ids || !roco_map_init(&trie->edges, bytes))
        return false;
    trie->n_nodes = 1;
    for (unsigned byte = 0; byte < 256; byte++)
        trie->roots[byte] = ROCO_MAP_NONE;
    return true;
}

void roco_trie_free(roco_trie *trie)
{
    roco_map_free(&trie->edges);
    free(trie->ids);
    *trie = (roco_trie){0};
}

void roco_trie_add(roco_trie *trie, roco_text text, int32_t id)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint32_t next = roco_map_get(&trie->edges, edge(node, text.data[i]));
        if (next == ROCO_MAP_NONE) {
            next = trie->n_nodes++;
            trie->ids[next] = -1;
            roco_map_put(&trie->edges, edge(node, text.data[i]), next);
        }
        if (node == 0)
            trie->roots[(unsigned char)text.data[i]] = next;
        node = next;
    }
    if (node != 0 && trie->ids[node] < 0)
        trie->ids[node] = id;
}

uint32_t roco_trie_step(const roco_trie *trie, uint32_t node, char byte)
{
    return node ? roco_map_get(&trie->edges, edge(node, byte)) : trie->roots[(unsigned char)byte];
}
