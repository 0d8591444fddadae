/* A server with small routes on a loop thread of its own, and a raw-socket client, for the HTTP tests.
 *
 *   GET  /health   open; "ok"
 *   GET  /plain    "plain"
 *   POST /plain    "posted", whatever the body's type
 *   POST /echo     JSON only; the body back
 *   GET  /wait     suspended until support_answer_all
 *   GET  /deaf     the same, answered with an error, and nobody asks whether the client is still there
 *   GET  /ticks    a stream: "tick\n" every 2 ms, 5 times, then its end
 *   GET  /forever  a stream of ticks without end
 *   GET  /silent   a stream whose head goes out, then nothing until support_answer_all ends it
 *   GET  /cut      a stream that is cut after "half"
 *   GET  /flood    a stream of 1 MiB written at once
 *   GET  /burst    a stream of 1000 "0123456789" written one by one
 */
#ifndef ROCO_TESTS_SUPPORT_HTTP_H
#define ROCO_TESTS_SUPPORT_HTTP_H

#include "http/http.h"

#include <stdatomic.h>

typedef struct support_server {
    roco_http *http;
    uint16_t port;
    atomic_uint n_gone;   /* gone callbacks */
    atomic_uint n_held;   /* exchanges of /wait, /ticks, /forever and /silent not ended yet */
    atomic_uint n_active; /* roco_http_active, as of the last support_refresh */
    atomic_ulong n_runs;  /* roco_http_runs, the same */
    atomic_bool drained;
    struct support_loop *inside;
} support_server;

/* Sets host, port 0 and routes; other fields as given (0: generous). */
support_server *support_server_open(roco_http_config config);
void support_answer_all(support_server *server);
void support_refresh(support_server *server);
void support_drain(support_server *server);
/* Closes the server, checks that the loop ended clean, frees. */
void support_server_close(support_server *server);

typedef struct support_reply {
    int status; /* 0: the connection ended without one */
    char head[4096];
    char *body;
    size_t size;
    bool complete; /* the body's end was seen as its framing says */
} support_reply;

int support_connect(const support_server *server);
void support_send(int descriptor, const char *text);
void support_send_bytes(int descriptor, const char *data, size_t size);
/* Reads one reply (interim 100 ones are skipped), by its Content-Length or chunks; `head` for a reply to HEAD. */
support_reply support_read(int descriptor, bool head);
void support_reply_free(support_reply *reply);
/* The peer closed: true once end of input or a reset is read within 5 s. Reads and drops what comes before. */
bool support_closed(int descriptor);
void support_reset(int descriptor); /* close with RST */
/* One request on a connection of its own: the status; frees all. */
int support_status(const support_server *server, const char *request);
/* Polls for up to 5 s until *value == wanted. */
bool support_until(const atomic_uint *value, unsigned wanted);

#endif
