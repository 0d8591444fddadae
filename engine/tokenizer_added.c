/* Added tokens: control and user-defined ones, found by their literal text before anything else looks at it.
 *
 * A trie, so that a text costs at most its length times that of the longest added token. Built at open, then only
 * read, by any thread.
 */
#include "engine/tokenizer_parts.h"

static bool is_control(uint8_t type)
{
    return type == ROCO_PIECE_CONTROL || type == ROCO_PIECE_UNKNOWN;
}

static bool belongs(const roco_vocab *vocab, const uint8_t *flags, uint32_t id, bool normalized)
{
    const uint8_t type = vocab->types[id];
    const bool late = type == ROCO_PIECE_USER_DEFINED && flags[id] & ROCO_ADDED_NORMALIZED;
    return (type == ROCO_PIECE_USER_DEFINED || is_control(type)) && late == normalized;
}

/* Calls `take` for each token's text. */
typedef void take_text(roco_trie *trie, size_t *bytes, roco_text text, int32_t id);

static roco_status each(const roco_vocab *vocab, const uint8_t *flags, bool normalized,
                        const roco_normalizer *normalizer, take_text *take, roco_trie *trie, size_t *bytes)
{
    roco_status status = ROCO_OK;
    for (uint32_t id = 0; id < vocab->n && !status; id++) {
        roco_buffer changed = {0};
        roco_text text = roco_vocab_bytes(vocab, id);
        if (!belongs(vocab, flags, id, normalized))
            continue;
        status = normalized && normalizer ? roco_normalizer_run(normalizer, true, &text, &changed) : ROCO_OK;
        if (!status)
            take(trie, bytes, text, (int32_t)id);
        roco_buffer_free(&changed);
    }
    return status;
}

static void measure(roco_trie *trie, size_t *bytes, roco_text text, int32_t id)
{
    *bytes += text.size;
}

static void add(roco_trie *trie, size_t *bytes, roco_text text, int32_t id)
{
    roco_trie_add(trie, text, id);
}

roco_status roco_added_init(roco_added *added, const roco_vocab *vocab, const uint8_t *flags, bool normalized,
                            const roco_normalizer *normalizer, roco_error *error)
{
    size_t bytes = 0;
    roco_status status = each(vocab, flags, normalized, normalizer, measure, &added->trie, &bytes);
    status = status || roco_trie_init(&added->trie, bytes) ? status : ROCO_NO_MEMORY;
    status = status ? status : each(vocab, flags, normalized, normalizer, add, &added->trie, &bytes);
    return status ? roco_fail(error, status, NULL, "no memory for the added tokens") : ROCO_OK;
}

void roco_added_free(roco_added *added)
{
    roco_trie_free(&added->trie);
}

size_t roco_added_match(const roco_added *added, const roco_vocab *vocab, const char *data, size_t size, bool control,
                        int32_t *id)
{
    size_t longest = 0;
    uint32_t node = size > 0 ? added->trie.roots[(unsigned char)data[0]] : ROCO_MAP_NONE;
    for (size_t i = 1; node != ROCO_MAP_NONE; i++) {
        int32_t here = added->trie.ids[node];
        if (here >= 0 && (control || !is_control(vocab->types[here]))) {
            longest = i;
            *id = here;
        }
        node = i < size ? roco_trie_step(&added->trie, node, data[i]) : ROCO_MAP_NONE;
    }
    return longest;
}
