/* The tokenizer's integer table. Filled while the tokenizer opens, then only read, by any thread. */
#include "engine/tokenizer_map.h"

#include "config/status.h"

#include <stdlib.h>

typedef struct roco_map_slot {
    uint64_t key;
    uint32_t value; /* ROCO_MAP_NONE: free */
} slot;

size_t roco_map_slots_for(size_t n)
{
    size_t slots = 8;
    while (slots / 2 < n)
        slots *= 2;
    return slots;
}

bool roco_map_init(roco_map *map, size_t n_keys)
{
    size_t n = roco_map_slots_for(n_keys);
    map->slots = malloc(n * sizeof *map->slots);
    if (!map->slots)
        return false;
    map->mask = n - 1;
    for (size_t i = 0; i < n; i++)
        map->slots[i] = (slot){0, ROCO_MAP_NONE};
    return true;
}

void roco_map_free(roco_map *map)
{
    free(map->slots);
    *map = (roco_map){0};
}

/* The slot that holds the key, or the free one where it belongs. The mixing is the finaliser of SplitMix64: keys are
 * pairs of small numbers, which would crowd a table that took their low bits. */
static slot *find(const roco_map *map, uint64_t key)
{
    uint64_t h = key;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
    size_t at = (size_t)h & map->mask;
    while (map->slots[at].value != ROCO_MAP_NONE && map->slots[at].key != key)
        at = (at + 1) & map->mask;
    return &map->slots[at];
}

void roco_map_put(roco_map *map, uint64_t key, uint32_t value)
{
    ROCO_CHECK(value != ROCO_MAP_NONE);
    *find(map, key) = (slot){key, value};
}

uint32_t roco_map_get(const roco_map *map, uint64_t key)
{
    return find(map, key)->value;
}
