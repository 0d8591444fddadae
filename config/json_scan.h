/* The look at JSON from outside before cJSON sees it.
 *
 * cJSON recurses, cuts strings at NUL and lets odd numbers and control characters through; this looks at every byte
 * first: one pass, no recursion, no memory. Any thread.
 */
#ifndef ROCO_CONFIG_JSON_SCAN_H
#define ROCO_CONFIG_JSON_SCAN_H

#include "config/status.h"

#include <stddef.h>
#include <stdint.h>

/* Arrays and objects inside each other at most; far below what cJSON's recursion could overflow. */
#define ROCO_JSON_MAX_DEPTH   64u
/* Digits and signs of one number: what cJSON reads at most. */
#define ROCO_JSON_MAX_NUMBER  63u
/* Integers are exact up to here, both signs; one more would share its double with a neighbour. */
#define ROCO_JSON_MAX_INTEGER ((INT64_C(1) << 53) - 1)

/* Checks what a lexer can: UTF-8, depth, counts, strings, numbers, words. `what` begins the messages ("the body").
 * Values are counted with their keys: cJSON needs 64 bytes for a value that may take two in the text. Nothing of the
 * text is repeated in errors, only byte offsets. ROCO_INVALID. */
roco_status roco_json_scan(const char *what, const char *text, size_t size, uint32_t max_values, roco_error *error);

#endif
