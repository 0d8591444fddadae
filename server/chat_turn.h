/* How the answers of one chat are taken apart: what its template and its request say about calls and reasoning. */
#ifndef ROCO_SERVER_CHAT_TURN_H
#define ROCO_SERVER_CHAT_TURN_H

#include "chat/turn.h"
#include "server/chat_template.h"
#include "server/fields_completion.h"

/* Stays where it was opened: its turns and its own parts point into it. */
typedef struct roco_chat_turn {
    roco_turn_form form;
    roco_buffer begun;   /* the end of the prompt that belongs to the answer's turn (chat_prompt.h) */
    roco_buffer offered; /* the names of the tools, each with its NUL */
    roco_buffer texts;   /* their arguments that are texts: kind, function, NUL, argument, NUL */
    bool include_reasoning;
    const int32_t *shown; /* [n_shown] control tokens that have a text in these answers; the template's */
    uint32_t n_shown;
} roco_chat_turn;

/* What the text of an argument means, where a model writes no JSON: one of any JSON value, if it reads as one. */
typedef enum roco_argument_kind {
    ROCO_ARGUMENT_JSON,
    ROCO_ARGUMENT_TEXT,
    ROCO_ARGUMENT_TEXT_OR_NULL,
} roco_argument_kind;

/* As the schema of the argument says. */
roco_argument_kind roco_argument_kind_of(const cJSON *schema);

/* Init with {0}. ROCO_NO_MEMORY. Any thread. */
roco_status roco_chat_turn_open(const roco_chat_template *chat, const roco_completion_params *params,
                                roco_chat_turn *out, roco_error *error);
void roco_chat_turn_free(roco_chat_turn *turn);

/* Sets up the turn of one of its choices, or of its only one. ROCO_NO_MEMORY. */
roco_status roco_chat_turn_begin(const roco_chat_turn *chat, roco_turn *turn);

#endif
