/* The daemon's life inside the loop: opening, running it when something is due, deadlines, drain, close.
 *
 * libmicrohttpd has no thread here. Whatever happens (its epoll descriptor turns readable, its time-out passes, an
 * exchange is to be resumed) only sets `due`; the prepare and check handles, which run before and after libuv polls,
 * then run the daemon once for the whole batch. So tokens for a thousand streams cost one run. Loop thread.
 */
#include "http/http.h"

#include "http/internal.h"

#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections over the limit that are accepted all the same, to be told 503; beyond them clients wait unaccepted. */
enum { SURPLUS_CONNECTIONS = 32 };
enum { SWEEP_MS = 250 };     /* a receive deadline is noticed this late at most */
enum { RUNS_AT_ONCE = 4 };   /* daemon runs in one pump; what is due after them waits for the next iteration */
enum { CROWD = 512 };        /* connections whose memory is worth giving back once nearly all of them have gone */
enum { FLUSH_AT_CLOSE = 4 }; /* runs that bring the last replies out */

/* --- clients and their receive deadlines --- */

static void sweep(uv_timer_t *timer)
{
    roco_http *http = timer->data;
    uint64_t now = uv_now(http->loop);
    bool waiting = false;
    for (roco_http_client *client = http->clients; client; client = client->next) {
        if (client->deadline_ms != 0 && now >= client->deadline_ms) {
            client->deadline_ms = 0;
            int descriptor = MHD_get_connection_info(client->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
            if (client->begun)
                roco_http_send_raw_error(client, 408, "request_timeout", "the request took too long to arrive");
            /* The daemon sees the end of input and closes; it offers no call for that. */
            shutdown(descriptor, SHUT_RDWR);
        }
        waiting |= client->deadline_ms != 0;
    }
    if (!waiting)
        uv_timer_stop(timer);
}

void roco_http_await(roco_http_client *client, uint64_t milliseconds)
{
    roco_http *http = client->http;
    client->deadline_ms = milliseconds != 0 ? uv_now(http->loop) + milliseconds : 0;
    if (client->deadline_ms != 0 && !http->closing && !uv_is_active((uv_handle_t *)&http->sweep))
        uv_timer_start(&http->sweep, sweep, SWEEP_MS, SWEEP_MS);
}

static void open_client(roco_http *http, struct MHD_Connection *connection, void **slot)
{
    roco_http_client *client = calloc(1, sizeof *client);
    *slot = client;
    if (!client)
        return; /* its requests are cut */
    client->http = http;
    client->connection = connection;
    client->next = http->clients;
    if (client->next)
        client->next->previous = client;
    http->clients = client;
    client->surplus = ++http->n_clients > http->max_connections;
    if (http->n_clients > http->n_crowd)
        http->n_crowd = http->n_clients;
    roco_http_await(client, http->receive_timeout_ms);
}

/* Each connection had 32 KiB. The allocator would keep them, since what is still used lies in between. */
static void give_memory_back(roco_http *http)
{
    if (http->n_crowd < CROWD || http->n_clients > http->n_crowd / 16)
        return;
    http->n_crowd = http->n_clients;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void close_client(roco_http *http, roco_http_client *client)
{
    if (!client)
        return;
    *(client->previous ? &client->previous->next : &http->clients) = client->next;
    if (client->next)
        client->next->previous = client->previous;
    http->n_clients--;
    free(client);
    give_memory_back(http);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    roco_http *http = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_client(http, connection, slot);
    } else {
        http->freed = true;
        close_client(http, *slot);
        *slot = NULL;
    }
}

/* --- running the daemon --- */

static void on_idle(uv_idle_t *idle)
{
    ((roco_http *)idle->data)->due = true;
}

static void on_timer(uv_timer_t *timer)
{
    ((roco_http *)timer->data)->due = true;
}

static void on_epoll(uv_poll_t *poll, int status, int events)
{
    ((roco_http *)poll->data)->due = true;
}

static void run_once(roco_http *http)
{
    http->due = false;
    for (roco_exchange *exchange; (exchange = http->resumes) != NULL;) {
        http->resumes = exchange->next_resume;
        exchange->listed = exchange->suspended = false;
        MHD_resume_connection(exchange->connection);
    }
    http->freed = false;
    http->n_runs++;
    MHD_run(http->daemon);
    if (http->freed) {
        /* At its connection limit the daemon stops accepting and takes it up again only in the run after a close. */
        http->n_runs++;
        MHD_run(http->daemon);
    }
}

/* A zero time-out goes through the idle handle: a 0 ms timer set from its own callback would keep libuv 1.44 in its
 * timer loop for good. */
static void schedule_next_run(roco_http *http)
{
    MHD_UNSIGNED_LONG_LONG timeout = 0;
    bool timed = http->due || MHD_get_timeout(http->daemon, &timeout) == MHD_YES;
    if (http->due)
        timeout = 0;
    if (timed && timeout == 0)
        uv_idle_start(&http->idle, on_idle);
    else
        uv_idle_stop(&http->idle);
    if (timed && timeout > 0)
        uv_timer_start(&http->timer, on_timer, timeout, 0);
    else
        uv_timer_stop(&http->timer);
}

static void pump(roco_http *http)
{
    if (!http->due || http->closing)
        return;
    for (int i = 0; i < RUNS_AT_ONCE && http->due; i++)
        run_once(http);
    schedule_next_run(http);
    if (http->drained && http->n_active == 0) {
        void (*drained)(void *) = http->drained;
        http->drained = NULL;
        drained(http->drained_context); /* may close http: last */
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    pump(prepare->data);
}

static void on_check(uv_check_t *check)
{
    pump(check->data);
}

/* --- open --- */

static struct MHD_Daemon *start_daemon(roco_http *http, const roco_http_config *config, int listener)
{
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)roco_http_choose_identity},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (http->identity ? MHD_USE_TLS : 0);
    return MHD_start_daemon(
        flags, 0, NULL, NULL, roco_http_on_request, http, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener, /* takes it */
        MHD_OPTION_CONNECTION_LIMIT, config->max_connections + SURPLUS_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)config->idle_timeout_s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_NOTIFY_COMPLETED, roco_http_on_completed, http, MHD_OPTION_URI_LOG_CALLBACK, roco_http_on_target,
        http, MHD_OPTION_ARRAY, http->identity ? tls : tls + 2, /* nothing but the end */
        MHD_OPTION_END);
}

static void start_handles(roco_http *http)
{
    int epoll = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    ROCO_CHECK(uv_poll_init(http->loop, &http->epoll, epoll) == 0);
    uv_timer_init(http->loop, &http->timer);
    uv_timer_init(http->loop, &http->sweep);
    uv_idle_init(http->loop, &http->idle);
    uv_prepare_init(http->loop, &http->prepare);
    uv_check_init(http->loop, &http->check);
    http->epoll.data = http->timer.data = http->sweep.data = http;
    http->idle.data = http->prepare.data = http->check.data = http;
    uv_poll_start(&http->epoll, UV_READABLE, on_epoll);
    uv_prepare_start(&http->prepare, on_prepare);
    uv_check_start(&http->check, on_check);
}

roco_status roco_http_open(uv_loop_t *loop, const roco_http_config *config, roco_http **out, roco_error *error)
{
    *out = NULL;
    roco_http *http = calloc(1, sizeof *http);
    if (!http) {
        roco_identity_free(config->identity);
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the HTTP server");
    }
    http->loop = loop;
    http->keys = config->keys;
    http->identity = config->identity;
    http->cors_origins = config->cors_origins ? config->cors_origins : "";
    http->routes = config->routes;
    http->context = config->context;
    http->max_body = config->max_body;
    snprintf(http->over_max_body, sizeof http->over_max_body, "the request body is over the limit of %" PRIu64 " bytes",
             config->max_body);
    http->max_connections = config->max_connections;
    http->idle_timeout_ms = (uint64_t)config->idle_timeout_s * 1000;
    http->receive_timeout_ms = (uint64_t)config->receive_timeout_s * 1000;
    if (getrandom(&http->id_state, sizeof http->id_state, GRND_NONBLOCK) < 0)
        http->id_state = uv_hrtime(); /* ids need to differ, not to be secret */
    int listener = roco_http_listen(config->host, config->port, &http->port, error);
    if (listener < 0) {
        roco_identity_free(http->identity);
        free(http);
        return ROCO_IO;
    }
    http->daemon = start_daemon(http, config, listener);
    if (!http->daemon) {
        close(listener);
        roco_identity_free(http->identity);
        free(http);
        return roco_fail(error, ROCO_IO, NULL, "the HTTP daemon cannot start");
    }
    start_handles(http);
    http->due = true; /* arms the listening socket */
    *out = http;
    return ROCO_OK;
}

void roco_http_set_keys(roco_http *http, const roco_api_keys *keys)
{
    http->keys = keys;
}

uint16_t roco_http_port(const roco_http *http)
{
    return http->port;
}

uint32_t roco_http_active(const roco_http *http)
{
    return http->n_active;
}

uint64_t roco_http_runs(const roco_http *http)
{
    return http->n_runs;
}

/* --- the end --- */

void roco_http_drain(roco_http *http, void (*done)(void *context), void *context)
{
    http->draining = true;
    http->drained = done;
    http->drained_context = context;
    http->due = true;
}

static void on_handle_closed(uv_handle_t *handle)
{
    roco_http *http = handle->data;
    if (--http->n_handles == 0)
        free(http);
}

static void close_handles(roco_http *http)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&http->epoll, (uv_handle_t *)&http->timer,   (uv_handle_t *)&http->sweep,
                              (uv_handle_t *)&http->idle,  (uv_handle_t *)&http->prepare, (uv_handle_t *)&http->check};
    http->n_handles = sizeof handles / sizeof *handles;
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        uv_close(handles[i], on_handle_closed);
}

/* The order matters: a daemon must not be stopped while a connection is suspended, its epoll descriptor must leave the
 * loop before it is closed, and the last replies need runs to reach their sockets. */
void roco_http_close(roco_http *http)
{
    http->closing = true;
    MHD_socket listener = MHD_quiesce_daemon(http->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    for (roco_exchange *exchange = http->exchanges, *next; exchange; exchange = next) {
        next = exchange->next;
        if (exchange->producing) /* the others have answered: their last bytes may still leave */
            roco_exchange_lose(exchange);
    }
    for (int i = 0; i < FLUSH_AT_CLOSE; i++)
        run_once(http);
    close_handles(http);
    MHD_stop_daemon(http->daemon);
    roco_identity_free(http->identity);
    http->identity = NULL;
    ROCO_CHECK(!http->exchanges && !http->clients);
}
