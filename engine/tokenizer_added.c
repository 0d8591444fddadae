/* Added tokens: control and user-defined ones, found by their literal text before anything else looks at it.
 *
 * A trie, so that a text costs at most its length times that of the longest added token. Built at open, then only
 * read, by any thread.
 */
#include "engine/tokenizer_parts.h"

#include <stdlib.h>

static bool is_control(uint8_t type)
{
    return type == ROCO_PIECE_CONTROL || type == ROCO_PIECE_UNKNOWN;
}

static bool is_added(uint8_t type)
{
    return type == ROCO_PIECE_USER_DEFINED || is_control(type);
}

static uint64_t edge(uint32_t node, char byte)
{
    return (uint64_t)node << 8 | (unsigned char)byte;
}

static void add(roco_added *added, roco_text text, int32_t id, uint32_t *n_nodes)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint32_t next = roco_map_get(&added->edges, edge(node, text.data[i]));
        if (next == ROCO_MAP_NONE) {
            next = (*n_nodes)++;
            added->ids[next] = -1;
            roco_map_put(&added->edges, edge(node, text.data[i]), next);
        }
        node = next;
    }
    if (node != 0 && added->ids[node] < 0) {
        added->ids[node] = id;
    }
}

roco_status roco_added_init(roco_added *added, const roco_vocab *vocab, roco_error *error)
{
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocab->n; id++) {
        bytes += is_added(vocab->types[id]) ? roco_vocab_bytes(vocab, id).size : 0;
    }
    added->ids = malloc((bytes + 1) * sizeof *added->ids);
    if (!added->ids || !roco_map_init(&added->edges, bytes)) {
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the added tokens");
    }
    uint32_t n_nodes = 1; /* node 0 is the root */
    for (uint32_t id = 0; id < vocab->n; id++) {
        if (is_added(vocab->types[id])) {
            add(added, roco_vocab_bytes(vocab, id), (int32_t)id, &n_nodes);
        }
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        added->roots[byte] = roco_map_get(&added->edges, edge(0, (char)byte));
    }
    return ROCO_OK;
}

void roco_added_free(roco_added *added)
{
    roco_map_free(&added->edges);
    free(added->ids);
    *added = (roco_added){0};
}

size_t roco_added_match(const roco_added *added, const roco_vocab *vocab, const char *data, size_t size, bool control,
                        int32_t *id)
{
    size_t longest = 0;
    uint32_t node = size > 0 ? added->roots[(unsigned char)data[0]] : ROCO_MAP_NONE;
    for (size_t i = 1; node != ROCO_MAP_NONE; i++) {
        int32_t here = added->ids[node];
        if (here >= 0 && (control || !is_control(vocab->types[here]))) {
            longest = i;
            *id = here;
        }
        node = i < size ? roco_map_get(&added->edges, edge(node, data[i])) : ROCO_MAP_NONE;
    }
    return longest;
}
