/* From messages to the tokens of a prompt, by way of the model's chat template. Any thread.
 *
 * Only what the template itself writes may become control tokens; what came with the request never does.
 */
#ifndef ROCO_SERVER_CHAT_PROMPT_H
#define ROCO_SERVER_CHAT_PROMPT_H

#include "server/app_state.h"
#include "server/fields_completion.h"

/* Appends to `ids`; the begin token comes once. Adds to `pins` what the messages of params->pin_roles became. `begun`
 * gets the end of the prompt that already belongs to the answer's turn: a message to continue, reasoning that the
 * template opens, a call that must come. Errors: those of the messages; what the template raises; no template;
 * ROCO_TOO_LARGE over max_ids; ROCO_BUSY, if not may_wait: the template needs more than some milliseconds. */
roco_status roco_chat_prompt(const roco_served_model *model, const roco_completion_params *params, bool may_wait,
                             size_t max_ids, roco_ids *ids, roco_pins *pins, roco_buffer *begun, roco_problem *problem);

#endif
