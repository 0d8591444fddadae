/* Shared by the files of this folder only: the daemon, its client connections, and one exchange's life.
 *
 * Three parties hold an exchange: the connection (until libmicrohttpd says the request completed), the producer (the
 * handler, until it has answered or was told that the client is gone), and a stream's reader (until the daemon frees
 * the response). The last one frees it. An exchange on the resume list is always suspended, so it cannot complete
 * while it is listed.
 */
#ifndef ROCO_HTTP_INTERNAL_H
#define ROCO_HTTP_INTERNAL_H

#include "config/buffer.h"
#include "http/auth.h"
#include "http/http.h"
#include "http/tls.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>

/* One client socket. */
typedef struct roco_http_client {
    struct roco_http_client *previous, *next;
    roco_http *http;
    struct MHD_Connection *connection;
    const roco_route *path; /* first row with the current request's path; NULL: no such path */
    uintptr_t target_end;   /* address after the request target's NUL, as libmicrohttpd's buffer has it */
    bool begun;             /* a request line has arrived, its request is not complete */
    bool surplus;           /* was over the connection limit when it came */
    uint64_t deadline_ms;   /* loop time by which the request must have arrived; 0: none is awaited */
} roco_http_client;

/* An answer decided from the head of a request, before its handler is asked. */
typedef struct roco_refusal {
    unsigned status; /* 0: none; 204: a preflight is granted */
    const char *code;
    const char *message;
} roco_refusal;

struct roco_exchange {
    roco_exchange *previous, *next, *next_resume;
    roco_http *http;
    roco_http_client *client; /* this and the connection: NULL once completed */
    struct MHD_Connection *connection;
    const roco_route *path;  /* first row with the request's path; NULL: no such path */
    const roco_route *route; /* NULL: refused */
    roco_account *account;   /* held; NULL: nobody's */
    char id[129];
    uint32_t n_holders;

    roco_refusal refusal;
    uint32_t retry_s;  /* of an error reply; 0: 1 */
    uint64_t received; /* body bytes, kept or not */
    roco_buffer body;

    void (*on_gone)(void *context);
    void *gone_context;
    uv_poll_t *watch; /* peer-close watch, from the first suspension on */

    struct MHD_Response *response;
    unsigned status;
    roco_buffer out; /* a stream's bytes; out.data[n_taken..] are still to be sent */
    size_t n_taken;

    bool head;         /* the method is HEAD */
    bool received_all; /* the last call for the request was seen */
    bool producing;    /* the handler still owes an answer */
    bool active;       /* counted in http->n_active */
    bool queued;       /* response was handed to the daemon */
    bool streaming;
    bool stream_ended, stream_complete;
    bool suspended, listed;
    bool gone; /* the client left, or the server closes */
};

struct roco_http {
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    const roco_api_keys *keys; /* NULL: none needed */
    roco_identity *identity;   /* owned, with those it replaced; NULL: plain HTTP */
    const char *cors_origins;  /* "": none */
    const roco_route *routes;
    void *context;
    uint64_t max_body;
    uint64_t body_bytes;    /* of bodies held, at most BODIES_AT_ONCE (request.c) times max_body */
    char over_max_body[80]; /* the words for it */
    uint32_t max_connections;
    uint64_t idle_timeout_ms, receive_timeout_ms;
    uint16_t port;

    uv_poll_t epoll; /* the daemon's epoll descriptor */
    uv_timer_t timer, sweep;
    uv_idle_t idle;
    uv_prepare_t prepare;
    uv_check_t check;
    uint32_t n_handles;

    bool due;   /* the daemon must run in this loop iteration */
    bool freed; /* a connection closed in the last run */
    bool draining, closing;
    void (*drained)(void *context);
    void *drained_context;

    roco_http_client *clients;
    uint32_t n_clients;
    uint32_t n_crowd; /* most clients since memory was given back */
    roco_exchange *exchanges;
    roco_exchange *resumes;
    uint32_t n_active;
    uint64_t n_runs;
    uint64_t id_state;
};

/* listen.c: returns a listening, non-blocking socket, or -1 with the words in `error`. With a socket of the
 * service manager, host and port count for nothing. */
int roco_http_listen(const char *host, uint16_t port, uint16_t *bound, roco_error *error);

/* http.c */
void roco_http_await(roco_http_client *client, uint64_t milliseconds); /* 0: no deadline */

/* request.c: libmicrohttpd's callbacks. `cls` is the roco_http. */
void *roco_http_on_target(void *cls, const char *target, struct MHD_Connection *connection);
enum MHD_Result roco_http_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                     const char *version, const char *upload, size_t *upload_size, void **state);
void roco_http_on_completed(void *cls, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode code);

/* cors.c. A preflight asks for what a listed page may do. The headers are for every reply. */
bool roco_http_is_preflight(const roco_exchange *exchange, const char *method);
void roco_http_add_cors(const roco_exchange *exchange, struct MHD_Response *response);

/* check.c: what the parser lets through and must not pass, then route, key, size and type. `version` is the
 * pointer libmicrohttpd hands over. Sets exchange->route or exchange->refusal; true: answer before the body is read. */
bool roco_http_check(roco_exchange *exchange, const char *method, const char *version);

/* exchange.c */
roco_exchange *roco_exchange_open(roco_http *http, roco_http_client *client);
void roco_exchange_release(roco_exchange *exchange);
/* The client left or the server closes: the producer is told, the connection goes on to its end. */
void roco_exchange_lose(roco_exchange *exchange);
/* Suspends and sees to it that a leaving client is noticed. */
void roco_exchange_suspend(roco_exchange *exchange);
/* If it is suspended, the daemon looks at it again in this loop iteration. */
void roco_exchange_resume(roco_exchange *exchange);
/* Sets the refusal's reply as the response. */
void roco_exchange_refuse(roco_exchange *exchange);

/* tls.c: what GnuTLS calls in a handshake (gnutls_certificate_retrieve_function2). */
int roco_http_choose_identity(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                              const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **chain,
                              unsigned *n_chain, gnutls_privkey_t *key);

/* errors.c: a whole HTTP error reply past libmicrohttpd, for a request whose body will never end. The socket must
 * carry no other reply; it is of no use afterwards. Over TLS, whose records are libmicrohttpd's alone, nothing is sent.
 */
void roco_http_send_raw_error(const roco_http_client *client, unsigned status, const char *code, const char *message);

#endif
