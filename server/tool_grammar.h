/* Grammars of calls: an answer that must be a call is one with valid arguments, and one that may be a call of a strict
 * function is text or such a call. Any thread. */
#ifndef ROCO_SERVER_TOOL_GRAMMAR_H
#define ROCO_SERVER_TOOL_GRAMMAR_H

#include "engine/tokenizer.h"
#include "grammar/grammar.h"
#include "server/chat_template.h"
#include "server/fields_completion.h"

/* Sets params->constraint where the tools ask for one: ROCO_CONSTRAINT_TOOLS, whose source says all that the grammar
 * depends on and belongs to params->made. Where another field constrains the answer already, that one holds for what is
 * no call. ROCO_NO_MEMORY; ROCO_UNSUPPORTED: the model's calls could not be told from such an answer. */
roco_status roco_tools_constrain(const roco_chat_template *chat, roco_completion_params *params, roco_error *error);

/* The expression of such a source. A schema that cannot be kept is an error for a strict function; for others any
 * object will do: call again with `loose`. */
roco_status roco_tools_expr(roco_grammar *grammar, const cJSON *source, const roco_tokenizer *tokenizer, bool loose,
                            const roco_expr *content, roco_expr *out, roco_error *error);
/* What the answer must be where it is no call: false: nothing in particular, and `content` above is NULL. Borrows from
 * the source. */
bool roco_tools_content(const cJSON *source, roco_constraint_field *out);

#endif
