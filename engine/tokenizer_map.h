/* An open-addressing table from 64-bit keys to 32-bit values, sized once: the tokenizer's merges and trie edges. */
#ifndef ROCO_ENGINE_TOKENIZER_MAP_H
#define ROCO_ENGINE_TOKENIZER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCO_MAP_NONE UINT32_MAX /* no value: what a missing key gives */

typedef struct roco_map {
    struct roco_map_slot *slots;
    size_t mask;
} roco_map;

/* Room for n_keys puts; false when out of memory. */
bool roco_map_init(roco_map *map, size_t n_keys);
void roco_map_free(roco_map *map);
/* Adds, or replaces the value of a key that is there. */
void roco_map_put(roco_map *map, uint64_t key, uint32_t value);
uint32_t roco_map_get(const roco_map *map, uint64_t key);

/* Slots for n entries: a power of two that leaves at least half of them free, so that probes stay short. */
size_t roco_map_slots_for(size_t n);

#endif
