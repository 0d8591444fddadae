/* A JSON text of a model folder as a tree to walk. The one place of the engine that knows the JSON library (cJSON).
 *
 * Read-only after open; any thread. Lists are linked: walk them with first and next; `roco_tree_member` is for small
 * objects. All functions take NULL, which is a value that is not there: it is of no kind and has no members.
 */
#ifndef ROCO_ENGINE_JSON_TREE_H
#define ROCO_ENGINE_JSON_TREE_H

#include "engine/source.h"

typedef struct cJSON roco_tree;

/* Exactly one value, checked by config/json_scan.h first. `what` begins the messages. ROCO_FORMAT, ROCO_NO_MEMORY.
 * Returns owned. */
roco_status roco_tree_open(const char *what, roco_text text, uint32_t max_values, roco_tree **out, roco_error *error);
void roco_tree_close(roco_tree *tree);

bool roco_tree_is_object(const roco_tree *tree);
bool roco_tree_is_array(const roco_tree *tree);
bool roco_tree_is_null(const roco_tree *tree); /* also when it is not there */
/* Of an object, NULL when absent; of equal names the first. */
const roco_tree *roco_tree_member(const roco_tree *tree, const char *name);
/* Of an object or array, in the text's order. */
const roco_tree *roco_tree_first(const roco_tree *tree);
const roco_tree *roco_tree_next(const roco_tree *tree);
/* The name of an object's member. Borrowed until close. */
roco_text roco_tree_name(const roco_tree *tree);

/* False, *out untouched, when it is not of that kind. */
bool roco_tree_text(const roco_tree *tree, roco_text *out);
bool roco_tree_number(const roco_tree *tree, double *out);
/* Whole and 0 .. 2^53. */
bool roco_tree_uint(const roco_tree *tree, uint64_t *out);
bool roco_tree_bool(const roco_tree *tree, bool *out);
/* True for a string that is `word`. */
bool roco_tree_says(const roco_tree *tree, const char *word);

#endif
