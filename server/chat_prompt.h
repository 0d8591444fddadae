/* From messages to the tokens of a prompt, by way of the model's chat template. Any thread.
 *
 * Only what the template itself writes may become control tokens; what came with the request never does.
 */
#ifndef ROCO_SERVER_CHAT_PROMPT_H
#define ROCO_SERVER_CHAT_PROMPT_H

#include "server/app_state.h"
#include "server/fields_completion.h"

/* Appends to `ids`; the begin token comes once. Adds to `pins` what the messages of params->pin_roles became. Errors:
 * those of the messages; what the template raises; no template; ROCO_TOO_LARGE over max_ids. */
roco_status roco_chat_prompt(const roco_served_model *model, const roco_completion_params *params, size_t max_ids,
                             roco_ids *ids, roco_pins *pins, roco_problem *problem);

/* The template of `--chat-template`, else the file's own. None, or a file's that cannot be read, is no error:
 * model->chat_template is NULL then, and model->no_chat says why. Owned by the model: roco_chat_template_close. */
roco_status roco_chat_template_load(roco_served_model *model, const roco_source *source, roco_error *error);
void roco_chat_template_close(roco_served_model *model);

#endif
