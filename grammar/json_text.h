/* What JSON texts are made of, as expressions that are made once for each grammar and then shared. */
#ifndef ROCO_GRAMMAR_JSON_TEXT_H
#define ROCO_GRAMMAR_JSON_TEXT_H

#include "grammar/parts.h"

/* Values without a schema are nested this deep at most. */
#define ROCO_JSON_LEVELS 12u

typedef struct roco_json_text {
    roco_expr blank;     /* between two tokens: little, so that no answer runs on in blanks */
    roco_expr character; /* of a string, in any spelling */
    roco_expr string, number, integer;
    roco_expr null, yes, no;
    roco_expr values[ROCO_JSON_LEVELS]; /* with so many levels below; [0]: no array, no object */
    roco_expr objects[ROCO_JSON_LEVELS], arrays[ROCO_JSON_LEVELS];
} roco_json_text;

/* Borrowed until the grammar is closed; NULL with the grammar failed. */
const roco_json_text *roco_grammar_json(roco_grammar *grammar);

/* A fixed pattern of our own, the whole text. */
roco_expr roco_json_pattern(roco_grammar *grammar, const char *pattern);
/* The text of a value, its members in their order. */
roco_expr roco_json_literal(roco_grammar *grammar, const roco_json_value *value);
/* A string in quotes and escapes. */
roco_expr roco_json_string_literal(roco_grammar *grammar, const char *text);
/* `open` items `close` with blanks, or, with `empty`, nothing between them. */
roco_expr roco_json_wrap(roco_grammar *grammar, const char *open, roco_expr items, bool empty, const char *close);
/* A comma, blanks, `item`. */
roco_expr roco_json_after_comma(roco_grammar *grammar, roco_expr item);
/* `key` : blanks `value`. */
roco_expr roco_json_member(roco_grammar *grammar, roco_expr key, roco_expr value);

#endif
