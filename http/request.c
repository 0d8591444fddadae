/* libmicrohttpd's calls for a request: its target, its head, its body, the handler, and every look after a resume.
 * Loop thread, inside the daemon's run. */
#include "http/internal.h"

#include <string.h>

/* Body bytes read and dropped beyond the limit in the hope that the client ends and reads its 413. */
enum { OVERRUN = 256 * 1024 };
/* What all bodies may hold, in the largest ones there may be: else each connection could fill the memory of one. */
enum { BODIES_AT_ONCE = 32 };

static const roco_route *find_path(const roco_route *routes, const char *target)
{
    size_t size = strcspn(target, "?");
    for (const roco_route *route = routes; route->path; route++)
        if (strlen(route->path) == size && memcmp(route->path, target, size) == 0)
            return route;
    return NULL;
}

/* Routes are matched on the raw target, before libmicrohttpd decodes it: no escape can spell a path, nor end one. */
void *roco_http_on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    roco_http *http = cls;
    roco_http_client *client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (client) {
        client->path = target ? find_path(http->routes, target) : NULL;
        client->target_end = target ? (uintptr_t)target + strlen(target) + 1 : 0;
        if (!client->begun) {
            client->begun = true;
            roco_http_await(client, http->receive_timeout_ms);
        }
    }
    return NULL; /* the exchange begins with the whole head */
}

static enum MHD_Result queue_response(roco_exchange *exchange)
{
    exchange->queued = true;
    enum MHD_Result result = MHD_queue_response(exchange->connection, exchange->status, exchange->response);
    MHD_destroy_response(exchange->response); /* the connection has its own count */
    exchange->response = NULL;
    return result;
}

static enum MHD_Result refuse_now(roco_exchange *exchange)
{
    roco_http_await(exchange->client, 0);
    roco_exchange_refuse(exchange);
    return exchange->response ? queue_response(exchange) : MHD_NO;
}

static enum MHD_Result begin(roco_http *http, struct MHD_Connection *connection, const char *method,
                             const char *version, void **state)
{
    roco_http_client *client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    roco_exchange *exchange = client ? roco_exchange_open(http, client) : NULL;
    *state = exchange;
    if (!exchange)
        return MHD_NO;
    return roco_http_check(exchange, method, version) ? refuse_now(exchange) : MHD_YES;
}

static enum MHD_Result take_body(roco_exchange *exchange, const char *data, size_t size)
{
    roco_http *http = exchange->http;
    exchange->received += size;
    if (exchange->received > http->max_body) {
        /* Only a chunked body gets here; its reply must wait for the last call of the request, if that ever comes. */
        exchange->refusal = (roco_refusal){413, "body_too_large", http->over_max_body};
        roco_exchange_drop_body(exchange);
        if (exchange->received - http->max_body > OVERRUN) {
            roco_http_send_raw_error(exchange->client, 413, exchange->refusal.code, exchange->refusal.message);
            return MHD_NO;
        }
    }
    if (exchange->refusal.status != 0)
        return MHD_YES;
    if (http->body_bytes + size > BODIES_AT_ONCE * http->max_body ||
        roco_buffer_append(&exchange->body, data, size) != ROCO_OK) {
        exchange->refusal = (roco_refusal){503, "out_of_memory", "no memory for the request body now"};
        roco_exchange_drop_body(exchange);
        return MHD_YES;
    }
    http->body_bytes += size;
    return MHD_YES;
}

static void hand_over(roco_exchange *exchange)
{
    exchange->active = true;
    exchange->http->n_active++;
    exchange->producing = true;
    exchange->n_holders++;
    exchange->route->handle(exchange, exchange->http->context);
}

enum MHD_Result roco_http_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                     const char *version, const char *upload, size_t *upload_size, void **state)
{
    roco_exchange *exchange = *state;
    if (!exchange)
        return begin(cls, connection, method, version, state);
    if (*upload_size > 0) {
        size_t size = *upload_size;
        *upload_size = 0;
        return take_body(exchange, upload, size);
    }
    if (!exchange->received_all) {
        exchange->received_all = true;
        exchange->client->begun = false;
        roco_http_await(exchange->client, 0);
        if (exchange->refusal.status == 0 && exchange->http->closing)
            exchange->refusal = (roco_refusal){503, "shutting_down", "the server is shutting down"};
        if (exchange->refusal.status != 0)
            return refuse_now(exchange);
        hand_over(exchange);
    }
    if (exchange->response)
        return queue_response(exchange);
    if (exchange->gone)
        return MHD_NO;
    roco_exchange_suspend(exchange);
    return MHD_YES;
}
