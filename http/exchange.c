/* One exchange's life: holders, suspension, the watch for a client that leaves. Loop thread. */
#include "http/internal.h"

#include "config/log.h"
#include "http/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- opening and freeing --- */

static bool valid_id(const char *id)
{
    size_t size = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return size >= 1 && size <= 128 && id[size] == '\0';
}

static void choose_id(roco_exchange *exchange)
{
    const char *given = roco_exchange_header(exchange, "X-Request-Id");
    if (given && valid_id(given)) {
        strcpy(exchange->id, given);
        return;
    }
    /* splitmix64: distinct for 2^64 requests, and not a count of them */
    uint64_t z = exchange->http->id_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    snprintf(exchange->id, sizeof exchange->id, "req-%016llx", (unsigned long long)z);
}

roco_exchange *roco_exchange_open(roco_http *http, roco_http_client *client)
{
    roco_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->http = http;
    exchange->client = client;
    exchange->connection = client->connection;
    exchange->path = client->path;
    exchange->n_holders = 1; /* the connection */
    exchange->next = http->exchanges;
    if (exchange->next)
        exchange->next->previous = exchange;
    http->exchanges = exchange;
    choose_id(exchange);
    return exchange;
}

void roco_exchange_release(roco_exchange *exchange)
{
    if (--exchange->n_holders > 0)
        return;
    roco_buffer_free(&exchange->body);
    roco_buffer_free(&exchange->out);
    roco_account_release(exchange->account);
    free(exchange);
}

/* --- waiting --- */

static void free_watch(uv_handle_t *handle)
{
    free(handle);
}

/* Any event means that the peer will send nothing more: end of input, reset (which arrives as an error), half-close.
 * Level-triggered, so it is stopped first. */
static void on_peer_close(uv_poll_t *watch, int status, int events)
{
    uv_poll_stop(watch);
    roco_exchange_lose(watch->data);
}

/* While it is suspended the daemon does not look at a connection's socket. libuv watches the same descriptor in its own
 * epoll set; the watch must be closed before the socket is, thus in the completed callback. */
static void watch_peer(roco_exchange *exchange)
{
    if (exchange->watch)
        return;
    int descriptor = MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    uv_poll_t *watch = malloc(sizeof *watch);
    if (!watch || uv_poll_init(exchange->http->loop, watch, descriptor) != 0) {
        free(watch);
        roco_log(ROCO_LOG_WARN, "%s: a leaving client will not be noticed while the request waits", exchange->id);
        return;
    }
    watch->data = exchange;
    exchange->watch = watch;
    uv_poll_start(watch, UV_DISCONNECT, on_peer_close);
}

void roco_exchange_suspend(roco_exchange *exchange)
{
    watch_peer(exchange);
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection);
}

void roco_exchange_resume(roco_exchange *exchange)
{
    if (exchange->suspended && !exchange->listed) {
        exchange->http->due = true;
        exchange->listed = true;
        exchange->next_resume = exchange->http->resumes;
        exchange->http->resumes = exchange;
    }
}

/* --- the end --- */

static void tell_producer(roco_exchange *exchange)
{
    if (!exchange->producing || !exchange->on_gone)
        return; /* without a callback the producer holds on until it has answered into the void */
    exchange->producing = false;
    exchange->on_gone(exchange->gone_context);
    roco_exchange_release(exchange);
}

void roco_exchange_lose(roco_exchange *exchange)
{
    if (exchange->gone)
        return;
    exchange->gone = true;
    if (exchange->http->closing && exchange->producing && !exchange->response) {
        exchange->refusal = (roco_refusal){503, "shutting_down", "the server is shutting down"};
        roco_exchange_refuse(exchange);
    }
    exchange->n_holders++; /* the callback may be the last use otherwise */
    tell_producer(exchange);
    roco_exchange_resume(exchange);
    roco_exchange_release(exchange);
}

void roco_http_on_completed(void *cls, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode code)
{
    roco_http *http = cls;
    roco_exchange *exchange = *state;
    if (!exchange)
        return;
    *state = NULL;
    ROCO_CHECK(!exchange->suspended);
    exchange->client->begun = false;
    roco_http_await(exchange->client, http->idle_timeout_ms + http->receive_timeout_ms);
    if (exchange->watch) {
        uv_poll_stop(exchange->watch);
        uv_close((uv_handle_t *)exchange->watch, free_watch);
        exchange->watch = NULL;
    }
    *(exchange->previous ? &exchange->previous->next : &http->exchanges) = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
    http->body_bytes -= exchange->body.size;
    exchange->connection = NULL;
    exchange->client = NULL;
    if (exchange->response) {
        MHD_destroy_response(exchange->response); /* never queued; a stream's holds the exchange */
        exchange->response = NULL;
    }
    if (exchange->active) {
        exchange->active = false;
        http->n_active--;
    }
    exchange->gone = true;
    tell_producer(exchange);
    roco_exchange_release(exchange);
}

/* --- the request, as handlers see it --- */

roco_method roco_exchange_method(const roco_exchange *exchange)
{
    return exchange->route->method;
}

const char *roco_exchange_path(const roco_exchange *exchange)
{
    return exchange->route->path;
}

const char *roco_exchange_header(const roco_exchange *exchange, const char *name)
{
    return exchange->connection ? MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name) : NULL;
}

const char *roco_exchange_body(const roco_exchange *exchange, size_t *size)
{
    *size = exchange->body.size;
    return exchange->body.data ? exchange->body.data : "";
}

void roco_exchange_drop_body(roco_exchange *exchange)
{
    if (exchange->connection) /* else it counts no more */
        exchange->http->body_bytes -= exchange->body.size;
    roco_buffer_free(&exchange->body);
}

const char *roco_exchange_id(const roco_exchange *exchange)
{
    return exchange->id;
}

struct roco_account *roco_exchange_account(const roco_exchange *exchange)
{
    return exchange->account;
}

void roco_exchange_on_gone(roco_exchange *exchange, void (*gone)(void *context), void *context)
{
    exchange->on_gone = gone;
    exchange->gone_context = context;
}
