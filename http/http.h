/* HTTP over libmicrohttpd inside a libuv loop: connections, bodies, limits, suspended replies, streams.
 *
 * It knows nothing of JSON, models or jobs. Handlers get a whole request and answer it now or later, on the same (loop)
 * thread. Everything here runs on the loop thread.
 */
#ifndef ROCO_HTTP_HTTP_H
#define ROCO_HTTP_HTTP_H

#include "config/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

typedef struct roco_http roco_http;
typedef struct roco_exchange roco_exchange; /* one request and its reply */
struct roco_account;                        /* http/account.h */
struct roco_identity;                       /* http/tls.h */

typedef enum roco_method { ROCO_GET = 1, ROCO_POST = 2 } roco_method;

/* One row of the route table (server/routes.c). A path with another method answers 405 with Allow; no path: 404. HEAD
 * is GET without a body. */
typedef struct roco_route {
    roco_method method;
    const char *path;
    bool open;      /* needs no API key: /health, /ready */
    bool json;      /* POST: the body must be application/json (415 otherwise) */
    bool anthropic; /* errors have the form of Anthropic's API */
    void (*handle)(roco_exchange *exchange, void *context);
    /* For /openapi.json alone. */
    const char *summary;
    const struct roco_field *fields; /* of the body (server/fields.h); NULL: any */
    bool text;                       /* it answers with text, not with JSON */
    bool refused;                    /* it never answers with 200 */
} roco_route;

typedef struct roco_http_config {
    const char *host;
    uint16_t port;     /* 0: any */
    uint64_t max_body; /* of one request; 32 times that of all that were not dropped yet */
    uint32_t max_connections;
    uint32_t idle_timeout_s;          /* idle keep-alive, and silent or non-reading clients */
    uint32_t receive_timeout_s;       /* total time a request may take to arrive */
    const struct roco_api_keys *keys; /* http/auth.h; NULL: no key needed. Borrowed until close. */
    struct roco_identity *identity;   /* NULL: plain HTTP. Taken, in any case. */
    const char *cors_origins; /* of pages that may use the server, commas between, or "*"; NULL: none. Borrowed. */
    const roco_route *routes; /* ends with path NULL; borrowed */
    void *context;            /* handed to handlers */
} roco_http_config;

/* Binds and listens before it returns; serves once the loop runs. ROCO_IO with address and reason. Returns owned. */
roco_status roco_http_open(uv_loop_t *loop, const roco_http_config *config, roco_http **out, roco_error *error);
uint16_t roco_http_port(const roco_http *http);
/* Requests being answered now (a handler was called, the reply is not complete). */
uint32_t roco_http_active(const roco_http *http);
/* Daemon runs since open: stands still while nothing happens. */
uint64_t roco_http_runs(const roco_http *http);
/* Keys for requests from now on, as in the config; the old ones may be freed. */
void roco_http_set_keys(roco_http *http, const struct roco_api_keys *keys);
/* For handshakes from now on, where the config had one; takes it. */
void roco_http_set_identity(roco_http *http, struct roco_identity *identity);
/* From now on POST answers 503 and every reply closes its connection; GET goes on, so that /health and /ready can tell.
 * `done(context)` once no exchange is active; roco_http_close may be called in it. */
void roco_http_drain(roco_http *http, void (*done)(void *context), void *context);
/* Ends every exchange (gone callbacks run; a plain reply still owed becomes 503, a stream is cut), stops the daemon and
 * closes the handles; frees itself when the loop has run once more. Not from a handler or a gone callback. */
void roco_http_close(roco_http *http);

/* --- the request; valid until the exchange ends --- */
roco_method roco_exchange_method(const roco_exchange *exchange);
const char *roco_exchange_path(const roco_exchange *exchange);
const char *roco_exchange_header(const roco_exchange *exchange, const char *name); /* NULL when absent */
const char *roco_exchange_body(const roco_exchange *exchange, size_t *size);       /* NUL-terminated for convenience */
/* The body was read: its memory goes. An answer may take minutes, and all bodies share a limit. */
void roco_exchange_drop_body(roco_exchange *exchange);
/* "req-<16 hex>": in the X-Request-Id reply header, the log and the trace; a client's own X-Request-Id is taken when it
 * is 1..128 characters of [A-Za-z0-9._-]. */
const char *roco_exchange_id(const roco_exchange *exchange);
/* Whom it counts to; NULL: nobody. Valid until the exchange ends, longer for who holds it. */
struct roco_account *roco_exchange_account(const roco_exchange *exchange);
/* `gone` is called once, if the client goes away (a half-closed connection counts) before the handler has answered in
 * full, or at close; then the exchange is ended and must not be used again, nor inside the callback. Without a callback
 * the exchange stays valid and swallows what is sent to it. */
void roco_exchange_on_gone(roco_exchange *exchange, void (*gone)(void *context), void *context);

/* --- the reply: exactly one of reply, or stream_begin .. stream_end. Each ends the handler's right to the exchange
 * except as said. --- */
/* Extra headers: "Name: value" strings, NULL-terminated array, or NULL. The body is copied. After it the exchange must
 * not be used. */
void roco_exchange_reply(roco_exchange *exchange, unsigned status, const char *content_type, const char *body,
                         size_t size, const char *const *headers);
/* What an error reply with 429 or 503 will say in Retry-After, instead of 1. */
void roco_exchange_set_retry(roco_exchange *exchange, uint32_t seconds);
/* Sends the head at once (chunked). */
void roco_exchange_stream_begin(roco_exchange *exchange, unsigned status, const char *content_type,
                                const char *const *headers);
/* Queues bytes; copied. They leave in the same loop iteration, batched with others. */
void roco_exchange_stream_write(roco_exchange *exchange, const char *data, size_t size);
/* Bytes queued and not yet taken by the socket: a slow reader. */
size_t roco_exchange_stream_pending(const roco_exchange *exchange);
/* complete: the terminating chunk is sent; else the connection is cut. After it the exchange must not be used. */
void roco_exchange_stream_end(roco_exchange *exchange, bool complete);

#endif
