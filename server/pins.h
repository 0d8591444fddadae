/* Pinned tokens of a request, `kv_pin`: ranges of the prompt's tokens, and the messages of roles. Any thread. */
#ifndef ROCO_SERVER_PINS_H
#define ROCO_SERVER_PINS_H

#include "chat/template.h"
#include "engine/tokenizer.h"
#include "scheduler/scheduler.h"
#include "http/json.h"

/* Ascending, apart from each other. */
typedef struct roco_pins {
    roco_pin data[ROCO_MAX_PINS];
    uint32_t n;
} roco_pins;

uint64_t roco_pins_count(const roco_pins *pins); /* tokens */

/* The value of `kv_pin`. ROCO_INVALID. roles: bit r for roco_roles[r]. */
roco_status roco_pins_read(const cJSON *value, roco_pins *pins, uint32_t *roles, roco_error *error);

/* Adds the tokens that the contents of all messages of these roles became, whole stretches from a message's first to
 * its last token. `ids` is the encoding of the rendering. ROCO_INVALID when there are more than ROCO_MAX_PINS
 * stretches. */
roco_status roco_pins_add_roles(roco_pins *pins, uint32_t roles, const roco_tokenizer *tokenizer, const roco_ids *ids,
                                const roco_rendering *rendering, roco_error *error);

#endif
