/* The grammar of arguments between marks, for tool_grammar.c. Any thread. */
#ifndef ROCO_SERVER_TOOL_GRAMMAR_TAGS_H
#define ROCO_SERVER_TOOL_GRAMMAR_TAGS_H

#include "chat/calls.h"
#include "grammar/grammar.h"
#include "http/json.h"

/* All arguments of a call and the mark behind them, in the schema's order. `schema`: an object's, NULL: any arguments.
 * `loose`: what a schema says of texts need not be kept. ROCO_UNSUPPORTED: it cannot be. */
roco_status roco_tagged_arguments(roco_grammar *grammar, const roco_call_form *form, const cJSON *schema, bool loose,
                                  roco_expr *out, roco_error *error);

#endif
