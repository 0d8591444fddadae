/* Chat messages and tools made of what other APIs send, so that templates see one form. Any thread.
 *
 * A translation that ran out of memory is only known as such at its end: until then its parts may be NULL and are taken
 * as such.
 */
#ifndef ROCO_SERVER_TRANSLATE_H
#define ROCO_SERVER_TRANSLATE_H

#include "server/fields_completion.h"

typedef struct roco_translation {
    cJSON *root; /* owned: {"messages": [...], "tools": [...]} */
    cJSON *messages, *tools;
    cJSON *last;             /* of the messages; NULL: there is none */
    roco_tool_places places; /* of the client's tools */
    bool failed;             /* out of memory */
    roco_error *error;
} roco_translation;

void roco_translation_open(roco_translation *t, roco_tool_places places, roco_error *error);
/* Hands messages and tools over to `params`, which own them then; in case of `status` frees them. Returns `status`, or
 * what the tools are refused for. */
roco_status roco_translation_close(roco_translation *t, roco_status status, roco_completion_params *params);

/* Appends a message without content. */
cJSON *roco_translate_message(roco_translation *t, const char *role);
/* The last message if it is of that role, else a new one. */
cJSON *roco_translate_last(roco_translation *t, const char *role);
/* Adds a text part to a message's content. */
void roco_translate_text(roco_translation *t, cJSON *message, const char *text);
void roco_translate_member(roco_translation *t, cJSON *object, const char *name, const char *text);
/* Adds a call to an assistant's message. `arguments`: an object, or its text; copied. */
void roco_translate_call(roco_translation *t, cJSON *message, const char *id, const char *name, const cJSON *arguments);
/* Copies of what is NULL are left out. */
void roco_translate_tool(roco_translation *t, const cJSON *name, const cJSON *description, const cJSON *parameters,
                         const cJSON *strict);

/* A content that is a string or an array of parts whose `type` is one of types[n]: each text is added to `message`.
 * ROCO_INVALID with `path` in front of the place. */
roco_status roco_translate_content(roco_translation *t, cJSON *message, const cJSON *content, const char *path,
                                   const char *const *types, size_t n);

/* "path must ...", ROCO_INVALID. */
roco_status roco_translate_fail(roco_translation *t, const char *path, const char *words);
/* The text of a member that is a string; NULL: it is none. */
const char *roco_text_of(const cJSON *object, const char *name);

#endif
