/* Identities for TLS, and which of them a handshake gets.
 *
 * libmicrohttpd does the handshakes, without blocking, in the daemon's runs; it asks here for certificate and key at
 * each. A handshake may span many runs and borrows what it was given, so an identity that was replaced stays until the
 * server closes. Loop thread, but for reading and asking, which touch no server.
 */
#include "http/tls.h"

#include "config/log.h"
#include "http/internal.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_CERTIFICATES = 16 };

struct roco_identity {
    roco_identity *older; /* replaced by this one */
    gnutls_pcert_st chain[MOST_CERTIFICATES];
    unsigned n_chain;
    gnutls_privkey_t key;
};

/* --- reading --- */

static roco_status bad_file(const char *option, int reason, roco_error *error)
{
    roco_status status = reason == GNUTLS_E_FILE_ERROR ? ROCO_IO : ROCO_INVALID;
    return roco_fail(error, status, option, "%s: the file cannot be taken: %s", option,
                     reason == GNUTLS_E_FILE_ERROR ? strerror(errno) : gnutls_strerror(reason));
}

static roco_status read_chain(roco_identity *identity, const char *path, roco_error *error)
{
    unsigned n = MOST_CERTIFICATES;
    errno = 0;
    int result = gnutls_pcert_list_import_x509_file(identity->chain, &n, path, GNUTLS_X509_FMT_PEM, NULL, NULL, 0);
    if (result < 0)
        return bad_file("tls-cert", result, error);
    identity->n_chain = n;
    return ROCO_OK;
}

static roco_status read_key(roco_identity *identity, const char *path, roco_error *error)
{
    gnutls_datum_t text = {0};
    struct stat about;
    errno = 0;
    int result = gnutls_load_file(path, &text);
    if (result >= 0)
        result = gnutls_privkey_init(&identity->key);
    if (result >= 0)
        result = gnutls_privkey_import_x509_raw(identity->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (text.data) {
        explicit_bzero(text.data, text.size);
        gnutls_free(text.data);
    }
    if (result < 0)
        return bad_file("tls-key", result, error);
    if (stat(path, &about) == 0 && (about.st_mode & S_IROTH) != 0)
        roco_log(ROCO_LOG_WARN, "the TLS key may be read by everyone: chmod 600 it");
    return ROCO_OK;
}

static bool same_public_key(const roco_identity *identity)
{
    unsigned char certified[64], held[64];
    size_t certified_size = sizeof certified, held_size = sizeof held;
    gnutls_pubkey_t of_key;
    if (gnutls_pubkey_init(&of_key) < 0)
        return false;
    bool same = gnutls_pubkey_import_privkey(of_key, identity->key, 0, 0) >= 0 &&
                gnutls_pubkey_get_key_id(of_key, 0, held, &held_size) >= 0 &&
                gnutls_pubkey_get_key_id(identity->chain[0].pubkey, 0, certified, &certified_size) >= 0 &&
                held_size == certified_size && memcmp(held, certified, held_size) == 0;
    gnutls_pubkey_deinit(of_key);
    return same;
}

/* `last`: its last day. */
static roco_status check_dates(roco_identity *identity, char last[32], roco_error *error)
{
    gnutls_x509_crt_t certificate;
    int result = gnutls_pcert_export_x509(&identity->chain[0], &certificate);
    if (result < 0)
        return bad_file("tls-cert", result, error);
    time_t begin = gnutls_x509_crt_get_activation_time(certificate);
    time_t end = gnutls_x509_crt_get_expiration_time(certificate), now = time(NULL);
    gnutls_x509_crt_deinit(certificate);
    struct tm parts;
    last[0] = '\0';
    if (gmtime_r(&end, &parts))
        strftime(last, 32, "%Y-%m-%d", &parts);
    if (now < begin || now > end)
        return roco_fail(error, ROCO_INVALID, "tls-cert", "tls-cert: the certificate is %s (its last day: %s)",
                         now < begin ? "not valid yet" : "out of date", last);
    return ROCO_OK;
}

roco_status roco_identity_read(const char *cert_path, const char *key_path, roco_identity **out, roco_error *error)
{
    *out = NULL;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES ||
        MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK) != MHD_YES)
        return roco_fail(error, ROCO_UNSUPPORTED, "tls-cert",
                         "tls-cert: this system's libmicrohttpd (%s) was built without TLS; put a proxy in front",
                         MHD_get_version());
    roco_identity *identity = calloc(1, sizeof *identity);
    if (!identity)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the certificate");
    char last[32];
    roco_status status = read_chain(identity, cert_path, error);
    if (!status)
        status = check_dates(identity, last, error);
    if (!status)
        status = read_key(identity, key_path, error);
    if (!status && !same_public_key(identity))
        status = roco_fail(error, ROCO_INVALID, "tls-key", "tls-key is not the key of the certificate in tls-cert");
    if (status) {
        roco_identity_free(identity);
        return status;
    }
    roco_log(ROCO_LOG_INFO, "TLS: the certificate is valid until %s", last);
    *out = identity;
    return ROCO_OK;
}

void roco_identity_free(roco_identity *identity)
{
    while (identity) {
        roco_identity *older = identity->older;
        for (unsigned i = 0; i < identity->n_chain; i++)
            gnutls_pcert_deinit(&identity->chain[i]);
        if (identity->key)
            gnutls_privkey_deinit(identity->key);
        free(identity);
        identity = older;
    }
}

/* --- handshakes --- */

/* libmicrohttpd has no argument for this call; it keeps the connection as the session's pointer. */
int roco_http_choose_identity(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                              const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **chain,
                              unsigned *n_chain, gnutls_privkey_t *key)
{
    struct MHD_Connection *connection = gnutls_session_get_ptr(session);
    const union MHD_ConnectionInfo *info =
        connection ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT) : NULL;
    const roco_http_client *client = info ? info->socket_context : NULL;
    if (!client)
        return -1;
    roco_identity *identity = client->http->identity;
    *chain = identity->chain;
    *n_chain = identity->n_chain;
    *key = identity->key;
    return 0;
}

void roco_http_set_identity(roco_http *http, roco_identity *identity)
{
    identity->older = http->identity;
    http->identity = identity;
}

/* --- asking --- */

static size_t exchange(gnutls_session_t session, const char *request, char *reply, size_t room)
{
    int result;
    do
        result = gnutls_handshake(session);
    while (result < 0 && !gnutls_error_is_fatal(result));
    size_t size = strlen(request), read = 0;
    if (result < 0 || gnutls_record_send(session, request, size) != (ssize_t)size)
        return 0;
    for (ssize_t n; read < room && (n = gnutls_record_recv(session, reply + read, room - read)) > 0;)
        read += (size_t)n;
    return read;
}

size_t roco_tls_ask(int descriptor, const char *request, char *reply, size_t room)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    if (gnutls_certificate_allocate_credentials(&credentials) < 0)
        return 0;
    size_t read = 0;
    if (gnutls_init(&session, GNUTLS_CLIENT) >= 0) {
        gnutls_set_default_priority(session);
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
        gnutls_transport_set_int(session, descriptor);
        read = exchange(session, request, reply, room);
        gnutls_deinit(session);
    }
    gnutls_certificate_free_credentials(credentials);
    return read;
}
