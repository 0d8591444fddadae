/* From states to masks. See masks.h. */
#include "grammar/masks.h"

#include "config/clock.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, FEWEST_MASKS = 64 };

typedef struct roco_mask_slot {
    uint64_t serial, used; /* serial 0: free */
    uint32_t state;
} roco_mask_slot;

roco_status roco_masks_open(const roco_vocabulary *v, size_t bytes, roco_masks **out, roco_error *error)
{
    roco_masks *m = calloc(1, sizeof *m);
    if (m) {
        m->vocabulary = v;
        m->n_words = (uint32_t)roco_mask_words(v); /* at least one: no model has an empty vocabulary */
        size_t n = bytes / (m->n_words * sizeof *m->words + sizeof *m->slots);
        n = n < FEWEST_MASKS ? FEWEST_MASKS : n;
        m->n_sets = (uint32_t)(n / WAYS);
        m->closure = roco_closure_open();
        m->path = malloc((v->longest + 1) * sizeof *m->path);
        m->slots = calloc((size_t)m->n_sets * WAYS, sizeof *m->slots);
        m->words = malloc(((size_t)m->n_sets * WAYS + 1) * m->n_words * sizeof *m->words);
    }
    if (!m || !m->closure || !m->path || !m->slots || !m->words) {
        roco_masks_close(m);
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for token masks");
    }
    *out = m;
    return ROCO_OK;
}

void roco_masks_close(roco_masks *m)
{
    if (!m)
        return;
    roco_closure_close(m->closure);
    free(m->path);
    free(m->slots);
    free(m->words);
    free(m);
}

roco_mask_stats roco_masks_stats(const roco_masks *m)
{
    return m->stats;
}

/* --- making --- */

static void set_token(const roco_vocabulary *v, uint32_t *mask, int32_t token)
{
    for (; token >= 0; token = v->twins[token])
        mask[(uint32_t)token / 32] |= 1u << (uint32_t)token % 32;
}

/* One walk over the trie; path[depth] is the state in front of the byte at that depth. */
static bool walk(roco_masks *m, roco_automaton *a, uint32_t state, uint32_t *mask)
{
    const roco_vocabulary *v = m->vocabulary;
    memset(mask, 0, m->n_words * sizeof *mask);
    m->path[0] = state;
    for (uint32_t i = 0; i < v->n_nodes;) {
        const roco_trie_node *node = &v->nodes[i];
        const uint32_t to = roco_automaton_next(a, m->closure, m->path[node->depth], node->byte);
        if (to == ROCO_STATE_UNKNOWN)
            return false;
        if (to == ROCO_STATE_DEAD) {
            i = node->end;
            continue;
        }
        m->path[node->depth + 1u] = to;
        set_token(v, mask, node->token);
        i++;
    }
    return true;
}

/* Decides anew on the tokens of `length` bytes and more. */
static bool check_long(roco_masks *m, roco_automaton *a, uint32_t state, uint32_t length, uint32_t *mask)
{
    const roco_vocabulary *v = m->vocabulary;
    for (uint32_t i = 0; i < v->n_at_least[length]; i++) {
        const uint32_t token = v->by_length[i];
        uint32_t at = state;
        for (uint32_t k = v->offsets[token]; k < v->offsets[token + 1] && at != ROCO_STATE_DEAD; k++) {
            at = roco_automaton_next(a, m->closure, at, (uint8_t)v->bytes[k]);
            if (at == ROCO_STATE_UNKNOWN)
                return false;
        }
        const uint32_t bit = 1u << token % 32;
        mask[token / 32] = at == ROCO_STATE_DEAD ? mask[token / 32] & ~bit : mask[token / 32] | bit;
    }
    return true;
}

/* --- keeping --- */

static roco_mask_slot *find_slot(const roco_masks *m, uint64_t serial, uint32_t state, bool *found)
{
    uint64_t hash = (serial << 32 ^ state) * 0x9e3779b97f4a7c15u;
    roco_mask_slot *set = m->slots + (size_t)((hash >> 32) % m->n_sets) * WAYS, *oldest = set;
    for (unsigned i = 0; i < WAYS; i++) {
        *found = set[i].serial == serial && set[i].state == state;
        if (*found)
            return &set[i];
        oldest = set[i].used < oldest->used ? &set[i] : oldest;
    }
    return oldest;
}

static uint32_t *slot_words(const roco_masks *m, const roco_mask_slot *slot)
{
    return m->words + (size_t)(slot - m->slots) * m->n_words;
}

static const uint32_t *get_plain(roco_masks *m, roco_automaton *a, uint64_t serial, uint32_t state)
{
    bool found;
    roco_mask_slot *slot = find_slot(m, serial, state, &found);
    slot->used = ++m->clock;
    if (found)
        return slot_words(m, slot);
    slot->serial = 0;
    m->stats.walks++;
    if (!walk(m, a, state, slot_words(m, slot)))
        return NULL;
    slot->serial = serial;
    slot->state = state;
    return slot_words(m, slot);
}

/* States that differ in counts alone allow the same tokens, but for those long enough to reach where the counts matter.
 * So a string of at most a thousand characters costs one walk, not a thousand. */
static const uint32_t *get(roco_masks *m, roco_automaton *a, uint64_t serial, uint32_t state)
{
    if (!a->states[state].counted)
        return get_plain(m, a, serial, state);
    uint32_t distance;
    const uint32_t plain = roco_automaton_uncount(a, m->closure, state, &distance);
    if (plain == ROCO_STATE_UNKNOWN)
        return NULL;
    const bool few =
        distance > m->vocabulary->longest || m->vocabulary->n_at_least[distance] < m->vocabulary->n_tokens / 16;
    if (plain == state || !few)
        return get_plain(m, a, serial, state);
    const uint32_t *base = get_plain(m, a, serial, plain);
    if (!base || distance > m->vocabulary->longest)
        return base;
    uint32_t *scratch = m->words + (size_t)m->n_sets * WAYS * m->n_words;
    memcpy(scratch, base, m->n_words * sizeof *scratch);
    return check_long(m, a, state, distance, scratch) ? scratch : NULL;
}

const uint32_t *roco_masks_get(roco_masks *m, roco_automaton *a, uint64_t serial, uint32_t state)
{
    const uint64_t begin_ns = roco_now_ns();
    const uint32_t *mask = get(m, a, serial, state);
    m->stats.masks++;
    m->stats.ns += roco_now_ns() - begin_ns;
    return mask;
}
