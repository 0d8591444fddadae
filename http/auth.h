/* API keys: read from a file, kept as records of one size, compared in constant time. Any one thread at a time.
 *
 * The file has one key a line, and behind it, all of it optional, who it belongs to and what they may use:
 *
 *     # key               limits
 *     sk-3fTq0mYc8        name=alice  running=4  queued=16  tokens-per-minute=60000
 *     sk-Zb71xPe2w        name=alice
 *     sk-internal-only
 *
 * Blank lines and lines that start with '#' are skipped. Keys with one name count together, which is how a key is
 * exchanged; the first such line gives the limits. A key without a name has none.
 */
#ifndef ROCO_HTTP_AUTH_H
#define ROCO_HTTP_AUTH_H

#include "config/status.h"
#include "http/account.h"

#include <stdbool.h>
#include <stddef.h>

#define ROCO_API_KEY_MAX  255  /* bytes of one key */
#define ROCO_ACCOUNTS_MAX 1000 /* names in one file: each is a label of the metrics */

typedef struct roco_api_keys roco_api_keys;

/* ROCO_IO when it cannot be read; ROCO_INVALID, with the line's number and never its key, when the file holds no key or
 * a line is wrong. A file that everyone may read is logged as a warning. Names that `before` (NULL: none)
 * has too go on with what they have used, and on ROCO_OK have the new limits. Returns owned. */
roco_status roco_api_keys_read(const char *path, const roco_api_keys *before, roco_api_keys **out, roco_error *error);
void roco_api_keys_free(roco_api_keys *keys);
size_t roco_api_keys_count(const roco_api_keys *keys);
size_t roco_api_keys_count_accounts(const roco_api_keys *keys);
const roco_account *roco_api_keys_account(const roco_api_keys *keys, size_t index); /* in the order of the file */

/* Is `header`, an Authorization value (may be NULL), "Bearer KEY" with a known key? Then *account is whom it counts to,
 * borrowed, NULL for a key without a name. The time it takes depends on the header's length and on how many keys there
 * are, not on which bytes agree. */
bool roco_api_keys_accept(const roco_api_keys *keys, const char *header, roco_account **account);
/* The same for a header that is the key itself (may be NULL). */
bool roco_api_keys_accept_key(const roco_api_keys *keys, const char *key, roco_account **account);

#endif
