/* Lists of numbers, each stored once and named by an index. One thread. */
#ifndef ROCO_GRAMMAR_NUMBER_SETS_H
#define ROCO_GRAMMAR_NUMBER_SETS_H

#include "grammar/parts.h"

/* Init with {0}. */
typedef struct roco_number_sets {
    uint32_t *data;
    uint32_t n_data, data_capacity;
    uint32_t *starts; /* [n + 1] */
    uint32_t n, starts_capacity;
    uint32_t *slots; /* hash table, 0: free, else index + 1 */
    uint32_t n_slots;
} roco_number_sets;

void roco_number_sets_free(roco_number_sets *sets);
/* The index of this list, a new one being the next number. UINT32_MAX with the grammar failed. */
uint32_t roco_number_sets_index(roco_grammar *grammar, roco_number_sets *sets, const uint32_t *list, uint32_t n);
/* Borrowed until the next index. */
const uint32_t *roco_number_sets_get(const roco_number_sets *sets, uint32_t index, uint32_t *n);

#endif
