/* Reading a tokenizer.json's steps, for tokenizer_json.c alone. The thread that opens the tokenizer. */
#ifndef ROCO_ENGINE_TOKENIZER_JSON_H
#define ROCO_ENGINE_TOKENIZER_JSON_H

#include "engine/json_tree.h"
#include "engine/tokenizer_parts.h"

/* Each takes the member of its name; null means no step. ROCO_UNSUPPORTED names the type that is not known,
 * ROCO_FORMAT the member that is not as it should be. */
roco_status roco_steps_read_normalizer(const roco_tree *tree, roco_normalizer *out, roco_error *error);
/* *byte_level: words become bytes spelled in GPT-2's table. */
roco_status roco_steps_read_pretokenizer(const roco_tree *tree, roco_pretokenizer *out, bool *byte_level,
                                         roco_error *error);
/* *spaces: U+2581 in a piece is a space in its text. */
roco_status roco_steps_read_decoder(const roco_tree *tree, bool *spaces, roco_error *error);
/* The token that a text starts with, by its name; false: none. */
bool roco_steps_read_begin(const roco_tree *post_processor, roco_text *out);

#endif
