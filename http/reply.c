/* Replies and streams: from the producer's calls to libmicrohttpd's responses. Loop thread.
 *
 * A stream's reader runs inside the daemon: it hands over what is queued, and suspends the connection when nothing is.
 * (Returning "no data" without suspending would make the daemon spin.)
 */
#include "http/errors.h"
#include "http/internal.h"

#include <stdio.h>
#include <string.h>

enum { STREAM_BLOCK = 4096 }; /* only used towards HTTP/1.0 clients, which get no chunks */

/* --- heads --- */

static void add_header_line(struct MHD_Response *response, const char *line)
{
    char name[64];
    const char *colon = strchr(line, ':');
    ROCO_CHECK(colon && (size_t)(colon - line) < sizeof name);
    memcpy(name, line, (size_t)(colon - line));
    name[colon - line] = '\0';
    MHD_add_response_header(response, name, colon + 1 + strspn(colon + 1, " "));
}

static void add_head(roco_exchange *exchange, const char *content_type, const char *const *headers)
{
    struct MHD_Response *response = exchange->response;
    MHD_add_response_header(response, "X-Request-Id", exchange->id);
    if (content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    for (; headers && *headers; headers++)
        add_header_line(response, *headers);
    roco_http_add_cors(exchange, response);
    if (exchange->http->draining || exchange->http->closing)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

/* The producer has no more to say: the handler's call of the daemon queues the response, or the next one does. */
static void end_production(roco_exchange *exchange)
{
    roco_exchange_resume(exchange);
    if (exchange->producing) {
        exchange->producing = false;
        roco_exchange_release(exchange);
    }
}

/* Nothing more is taken from the producer, who hears of it when the request has completed, not inside its own call.
 * Without a response, or in mid-stream, the connection is closed. */
static void cut(roco_exchange *exchange)
{
    exchange->gone = true;
    roco_exchange_resume(exchange);
}

/* --- plain replies --- */

static void set_plain(roco_exchange *exchange, unsigned status, const char *content_type, const char *body, size_t size,
                      const char *const *headers)
{
    /* libmicrohttpd's signature lacks the const; with MUST_COPY it only reads. */
    exchange->response = MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    exchange->status = status;
    if (exchange->response)
        add_head(exchange, content_type, headers);
}

void roco_exchange_reply(roco_exchange *exchange, unsigned status, const char *content_type, const char *body,
                         size_t size, const char *const *headers)
{
    ROCO_CHECK(!exchange->response || exchange->gone);
    if (!exchange->gone) {
        set_plain(exchange, status, content_type, body, size, headers);
        if (!exchange->response)
            cut(exchange);
    }
    end_production(exchange);
}

void roco_exchange_set_retry(roco_exchange *exchange, uint32_t seconds)
{
    exchange->retry_s = seconds;
}

void roco_exchange_refuse(roco_exchange *exchange)
{
    const roco_refusal *refusal = &exchange->refusal;
    const char *headers[3] = {NULL};
    size_t n = 0;
    char allow[32];
    if (refusal->status == 204) {
        set_plain(exchange, 204, NULL, NULL, 0, NULL);
        return;
    }
    if (refusal->status == 503) {
        headers[n++] = "Retry-After: 1";
    } else if (refusal->status == 401) {
        headers[n++] = "WWW-Authenticate: Bearer";
    } else if (refusal->status == 405) {
        bool get = false, post = false;
        for (const roco_route *route = exchange->http->routes; route->path; route++) {
            if (strcmp(route->path, exchange->path->path) == 0) {
                get |= route->method == ROCO_GET;
                post |= route->method == ROCO_POST;
            }
        }
        snprintf(allow, sizeof allow, "Allow: %s%s%s", get ? "GET, HEAD" : "", get && post ? ", " : "",
                 post ? "POST" : "");
        headers[n++] = allow;
    }
    roco_buffer body = {0};
    if (roco_exchange_error_body(exchange, &body, refusal->status, NULL, NULL, refusal->code, refusal->message) ==
        ROCO_OK)
        set_plain(exchange, refusal->status, "application/json", body.data, body.size, headers);
    roco_buffer_free(&body);
}

/* --- streams --- */

static ssize_t read_stream(void *cls, uint64_t position, char *data, size_t room)
{
    roco_exchange *exchange = cls;
    size_t left = exchange->out.size - exchange->n_taken;
    if (exchange->gone || (left == 0 && exchange->stream_ended && !exchange->stream_complete))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (left == 0 && exchange->stream_ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (left == 0) {
        roco_exchange_suspend(exchange);
        return 0;
    }
    size_t size = left < room ? left : room;
    memcpy(data, exchange->out.data + exchange->n_taken, size);
    exchange->n_taken += size;
    if (exchange->n_taken == exchange->out.size) {
        roco_buffer_clear(&exchange->out);
        exchange->n_taken = 0;
    }
    return (ssize_t)size;
}

static void release_reader(void *cls)
{
    roco_exchange_release(cls);
}

void roco_exchange_stream_begin(roco_exchange *exchange, unsigned status, const char *content_type,
                                const char *const *headers)
{
    ROCO_CHECK(!exchange->response || exchange->gone);
    exchange->streaming = true;
    if (exchange->gone)
        return;
    if (exchange->head) {
        /* libmicrohttpd would send the end of chunks it never began. To the producer the client is gone. */
        set_plain(exchange, status, content_type, NULL, 0, headers);
        cut(exchange);
        return;
    }
    exchange->response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, exchange, release_reader);
    if (!exchange->response) {
        cut(exchange);
        return;
    }
    exchange->n_holders++; /* the reader */
    exchange->status = status;
    add_head(exchange, content_type, headers);
    roco_exchange_resume(exchange);
}

void roco_exchange_stream_write(roco_exchange *exchange, const char *data, size_t size)
{
    ROCO_CHECK(exchange->streaming && !exchange->stream_ended);
    if (exchange->gone || size == 0)
        return;
    /* A reader that lags leaves a taken prefix; it is dropped once it is the larger part, so that bytes move once. */
    if (exchange->n_taken > exchange->out.size / 2) {
        roco_buffer_consume(&exchange->out, exchange->n_taken);
        exchange->n_taken = 0;
    }
    if (roco_buffer_append(&exchange->out, data, size) != ROCO_OK) {
        cut(exchange); /* a stream with a hole must not look whole */
        return;
    }
    roco_exchange_resume(exchange);
}

size_t roco_exchange_stream_pending(const roco_exchange *exchange)
{
    return exchange->out.size - exchange->n_taken;
}

void roco_exchange_stream_end(roco_exchange *exchange, bool complete)
{
    ROCO_CHECK(exchange->streaming && !exchange->stream_ended);
    exchange->stream_ended = true;
    exchange->stream_complete = complete;
    end_production(exchange);
}
