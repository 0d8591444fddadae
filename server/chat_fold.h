/* Saying to a model what its chat template has no words for: tools, calls and their results, in plain text, in the form
 * that the model's family writes or, where none is known, in the general one. Any thread. */
#ifndef ROCO_SERVER_CHAT_FOLD_H
#define ROCO_SERVER_CHAT_FOLD_H

#include "chat/value.h"
#include "server/chat_template.h"
#include "http/json.h"

/* `messages` are those of roco_messages_read, and may be changed. `tools`: the request's, checked; NULL: none. The
 * words are the program's own; what they hold of the request stays foreign. ROCO_NO_MEMORY, ROCO_TOO_LARGE. */
roco_status roco_chat_fold(roco_region *region, const roco_chat_template *chat, const cJSON *tools, roco_list *messages,
                           roco_error *error);

#endif
