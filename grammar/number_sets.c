#include "grammar/number_sets.h"

#include <stdlib.h>
#include <string.h>

void roco_number_sets_free(roco_number_sets *sets)
{
    free(sets->data);
    free(sets->starts);
    free(sets->slots);
    *sets = (roco_number_sets){0};
}

const uint32_t *roco_number_sets_get(const roco_number_sets *sets, uint32_t index, uint32_t *n)
{
    *n = sets->starts[index + 1] - sets->starts[index];
    return sets->data + sets->starts[index];
}

static uint32_t hash(const uint32_t *list, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ list[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 16);
}

static uint32_t *find_slot(const roco_number_sets *sets, const uint32_t *list, uint32_t n)
{
    uint32_t at = hash(list, n) & (sets->n_slots - 1);
    for (; sets->slots[at]; at = (at + 1) & (sets->n_slots - 1)) {
        uint32_t size;
        const uint32_t *known = roco_number_sets_get(sets, sets->slots[at] - 1, &size);
        if (size == n && (n == 0 || memcmp(known, list, n * sizeof *list) == 0))
            break;
    }
    return &sets->slots[at];
}

static bool grow_slots(roco_number_sets *sets)
{
    const uint32_t n_slots = sets->n_slots ? 2 * sets->n_slots : 64;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return false;
    free(sets->slots);
    sets->slots = slots;
    sets->n_slots = n_slots;
    for (uint32_t i = 0; i < sets->n; i++) {
        uint32_t size;
        const uint32_t *list = roco_number_sets_get(sets, i, &size);
        *find_slot(sets, list, size) = i + 1;
    }
    return true;
}

static bool store(roco_number_sets *sets, const uint32_t *list, uint32_t n)
{
    while (sets->n_data + n > sets->data_capacity)
        if (!roco_grow(&sets->data, sets->data_capacity, &sets->data_capacity, sizeof *sets->data))
            return false;
    if (!roco_grow(&sets->starts, sets->n + 1, &sets->starts_capacity, sizeof *sets->starts))
        return false;
    if (n)
        memcpy(sets->data + sets->n_data, list, n * sizeof *list);
    if (sets->n == 0)
        sets->starts[0] = 0;
    sets->n_data += n;
    sets->starts[++sets->n] = sets->n_data;
    return true;
}

uint32_t roco_number_sets_index(roco_grammar *grammar, roco_number_sets *sets, const uint32_t *list, uint32_t n)
{
    if (sets->n >= sets->n_slots / 2 && !grow_slots(sets))
        return roco_grammar_fail(grammar, ROCO_NO_MEMORY, "out of memory"), UINT32_MAX;
    uint32_t *slot = find_slot(sets, list, n);
    if (*slot)
        return *slot - 1;
    if (!store(sets, list, n))
        return roco_grammar_fail(grammar, ROCO_NO_MEMORY, "out of memory"), UINT32_MAX;
    return (*slot = sets->n) - 1;
}
