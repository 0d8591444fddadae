/* What a reply of /v1/responses repeats of its request. */
#ifndef ROCO_SERVER_RESPONSES_REQUEST_H
#define ROCO_SERVER_RESPONSES_REQUEST_H

#include "server/fields_completion.h"

/* Appends the members, each with a comma in front: instructions, tools, temperature, ... `object` is the request.
 * ROCO_NO_MEMORY. */
roco_status roco_responses_repeat(const cJSON *object, const roco_completion_params *params, roco_buffer *out,
                                  roco_error *error);

#endif
