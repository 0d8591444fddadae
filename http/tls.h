/* TLS by the GnuTLS inside libmicrohttpd: identities (a certificate chain and its key), read from files, and the plain
 * client that `roco ready` is. Any one thread at a time.
 */
#ifndef ROCO_HTTP_TLS_H
#define ROCO_HTTP_TLS_H

#include "config/status.h"

#include <stddef.h>
#include <sys/types.h>

typedef struct roco_identity roco_identity;

/* Reads PEM files. ROCO_IO when one cannot be read, ROCO_INVALID when it is not what it should be, when key and
 * certificate do not belong together or the certificate is out of date; ROCO_UNSUPPORTED where libmicrohttpd was built
 * without TLS. A key that everyone may read is logged as a warning. Returns owned. */
roco_status roco_identity_read(const char *cert_path, const char *key_path, roco_identity **out, roco_error *error);
void roco_identity_free(roco_identity *identity); /* NULL does nothing */

/* Sends `request` over a connected, blocking socket and reads the reply to its end, or as much as has room. Whom it
 * talks to is not checked: it asks its own machine for what no key is needed. Bytes read; 0 when it failed. */
size_t roco_tls_ask(int descriptor, const char *request, char *reply, size_t room);

#endif
