/* API keys: read from a file, kept as records of one size, compared in constant time. Any one thread at a time. */
#ifndef ROCO_SERVER_AUTH_H
#define ROCO_SERVER_AUTH_H

#include "config/status.h"

#include <stdbool.h>
#include <stddef.h>

#define ROCO_API_KEY_MAX 255 /* bytes of one key */

typedef struct roco_api_keys roco_api_keys;

/* One key a line; blank lines and lines that start with '#' are skipped, spaces around a key are dropped. ROCO_IO when
 * it cannot be read; ROCO_INVALID when it holds no key, or a key that is too long or not printable ASCII without
 * spaces. A file that others than its owner may read is logged as a warning. Returns owned. */
roco_status roco_api_keys_read(const char *path, roco_api_keys **out, roco_error *error);
void roco_api_keys_free(roco_api_keys *keys);
size_t roco_api_keys_count(const roco_api_keys *keys);

/* Is `header`, an Authorization value (may be NULL), "Bearer KEY" with a known key? The time it takes depends on the
 * header's length and on how many keys there are, not on which bytes agree. */
bool roco_api_keys_accept(const roco_api_keys *keys, const char *header);

#endif
