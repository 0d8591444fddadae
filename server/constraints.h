/* What answers may be constrained by: the vocabulary for grammars, and the constraints of late, so that clients which
 * send the same schema again and again have it compiled once. Any thread. */
#ifndef ROCO_SERVER_CONSTRAINTS_H
#define ROCO_SERVER_CONSTRAINTS_H

#include "engine/tokenizer.h"
#include "grammar/constraint.h"
#include "server/fields_completion.h"

typedef struct roco_constraints roco_constraints;

/* n_vocab: of the model, which may have more tokens than its tokenizer. ROCO_NO_MEMORY. Returns owned. */
roco_status roco_constraints_open(const roco_tokenizer *tokenizer, uint32_t n_vocab, roco_constraints **out,
                                  roco_error *error);
/* After every constraint that is held elsewhere was released. */
void roco_constraints_close(roco_constraints *constraints);
const roco_vocabulary *roco_constraints_vocabulary(const roco_constraints *constraints);

/* The constraint of a request that has one. Compiling may take two seconds: unless `may_compile`, only one that is
 * known is returned, and else *out is NULL with ROCO_OK. Errors name the field and what is wrong in it. Returns a
 * reference. */
roco_status roco_constraints_get(roco_constraints *constraints, const roco_constraint_field *asked, bool may_compile,
                                 roco_constraint **out, roco_error *error);

/* For other builders of grammars: a schema as cJSON has it, as roco_grammar_schema. */
roco_status roco_schema_expr(roco_grammar *grammar, const char *field, const cJSON *schema, roco_expr *out,
                             roco_error *error);

#endif
