/* UTF-8 as Unicode and RFC 3629 define it: no overlong forms, no surrogates, nothing above U+10FFFF. Any thread. */
#ifndef ROCO_CONFIG_UTF8_H
#define ROCO_CONFIG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the character at the front of data[size], 1..4, with its code point in *code (NULL: not wanted).
 * 0: what is there is no UTF-8 character, or is cut short, or size is 0. */
size_t roco_utf8_next(const char *data, size_t size, uint32_t *code);

bool roco_utf8_valid(const char *data, size_t size);
/* Number of leading bytes that are whole, valid characters. */
size_t roco_utf8_valid_prefix(const char *data, size_t size);

/* Number of leading bytes that end on a character boundary: `size`, less an unfinished character at the end that more
 * bytes could still complete (so at most 3 less). Bytes that can never become valid count as complete: waiting for
 * more would not help them. */
size_t roco_utf8_complete_prefix(const char *data, size_t size);

#endif
