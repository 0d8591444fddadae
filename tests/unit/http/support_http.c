#include "support_http.h"

#include "http/errors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the server side; everything but open and the commands runs on the loop thread --- */

typedef enum command { COMMAND_NONE, COMMAND_ANSWER, COMMAND_REFRESH, COMMAND_DRAIN, COMMAND_CLOSE } command;

typedef struct held {
    struct held *next, *previous;
    support_server *server;
    roco_exchange *exchange;
    int left; /* ticks */
    bool deaf, stream;
} held;

struct support_loop {
    uv_loop_t loop;
    uv_async_t async;
    uv_timer_t ticker;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    command command;
    held *first;
};

static void drop(held *h)
{
    *(h->previous ? &h->previous->next : &h->server->inside->first) = h->next;
    if (h->next)
        h->next->previous = h->previous;
    atomic_fetch_sub(&h->server->n_held, 1);
    free(h);
}

static void on_gone(void *context)
{
    held *h = context;
    atomic_fetch_add(&h->server->n_gone, 1);
    drop(h);
}

static held *hold(roco_exchange *exchange, support_server *server, int ticks)
{
    held *h = calloc(1, sizeof *h);
    ROCO_CHECK(h);
    *h = (held){.next = server->inside->first, .server = server, .exchange = exchange, .left = ticks};
    if (h->next)
        h->next->previous = h;
    server->inside->first = h;
    roco_exchange_on_gone(exchange, on_gone, h);
    atomic_fetch_add(&server->n_held, 1);
    return h;
}

static void on_tick(uv_timer_t *timer)
{
    struct support_loop *inside = timer->data;
    for (held *h = inside->first, *next; h; h = next) {
        next = h->next;
        if (h->left > 0) {
            roco_exchange_stream_write(h->exchange, "tick\n", 5);
            if (--h->left == 0) {
                roco_exchange_stream_end(h->exchange, true);
                drop(h);
            }
        }
    }
}

static void say(roco_exchange *exchange, const char *text)
{
    roco_exchange_reply(exchange, 200, "text/plain", text, strlen(text), NULL);
}

static void get_health(roco_exchange *exchange, void *context)
{
    say(exchange, "ok");
}

static void get_plain(roco_exchange *exchange, void *context)
{
    static const char *const headers[] = {"X-One: 1", "X-Two: two words", NULL};
    roco_exchange_reply(exchange, 200, "text/plain", "plain", 5, headers);
}

static void post_plain(roco_exchange *exchange, void *context)
{
    say(exchange, "posted");
}

static void post_echo(roco_exchange *exchange, void *context)
{
    size_t size;
    const char *body = roco_exchange_body(exchange, &size);
    ROCO_CHECK(body[size] == '\0');
    roco_exchange_reply(exchange, 200, "application/json", body, size, NULL);
}

static void get_wait(roco_exchange *exchange, void *context)
{
    hold(exchange, context, 0);
}

static void get_deaf(roco_exchange *exchange, void *context)
{
    hold(exchange, context, 0)->deaf = true;
    roco_exchange_on_gone(exchange, NULL, NULL);
}

static void begin_stream(roco_exchange *exchange)
{
    roco_exchange_stream_begin(exchange, 200, "text/event-stream", NULL);
}

static void get_ticks(roco_exchange *exchange, void *context)
{
    hold(exchange, context, 5);
    begin_stream(exchange);
}

static void get_forever(roco_exchange *exchange, void *context)
{
    hold(exchange, context, 1 << 30);
    begin_stream(exchange);
}

static void get_silent(roco_exchange *exchange, void *context)
{
    hold(exchange, context, 0)->stream = true;
    begin_stream(exchange);
}

static void get_cut(roco_exchange *exchange, void *context)
{
    begin_stream(exchange);
    roco_exchange_stream_write(exchange, "half", 4);
    roco_exchange_stream_end(exchange, false);
}

static void get_flood(roco_exchange *exchange, void *context)
{
    size_t size = 1 << 20;
    char *data = malloc(size);
    ROCO_CHECK(data);
    memset(data, 'f', size);
    begin_stream(exchange);
    roco_exchange_stream_write(exchange, data, size);
    ROCO_CHECK(roco_exchange_stream_pending(exchange) == size);
    roco_exchange_stream_end(exchange, true);
    free(data);
}

static void get_burst(roco_exchange *exchange, void *context)
{
    begin_stream(exchange);
    for (int i = 0; i < 1000; i++)
        roco_exchange_stream_write(exchange, "0123456789", 10);
    roco_exchange_stream_end(exchange, true);
}

#define ROUTE(method_, path_, open_, json_, handle_)                                                                   \
    {                                                                                                                  \
        .method = method_, .path = path_, .open = open_, .json = json_, .handle = handle_                              \
    }

static const roco_route routes[] = {
    ROUTE(ROCO_GET, "/health", true, false, get_health),
    ROUTE(ROCO_GET, "/plain", false, false, get_plain),
    ROUTE(ROCO_POST, "/plain", false, false, post_plain),
    ROUTE(ROCO_POST, "/echo", false, true, post_echo),
    ROUTE(ROCO_GET, "/wait", false, false, get_wait),
    ROUTE(ROCO_GET, "/ticks", false, false, get_ticks),
    ROUTE(ROCO_GET, "/forever", false, false, get_forever),
    ROUTE(ROCO_GET, "/silent", false, false, get_silent),
    ROUTE(ROCO_GET, "/cut", false, false, get_cut),
    ROUTE(ROCO_GET, "/flood", false, false, get_flood),
    ROUTE(ROCO_GET, "/burst", false, false, get_burst),
    ROUTE(ROCO_GET, "/deaf", false, false, get_deaf),
    {0},
};

static void answer_all(support_server *server)
{
    for (held *h = server->inside->first, *next; h; h = next) {
        next = h->next;
        if (h->left == 0) {
            if (h->deaf)
                roco_exchange_error(h->exchange, 503, NULL, NULL, "late", "too late");
            else if (h->stream)
                roco_exchange_stream_end(h->exchange, true);
            else
                say(h->exchange, "waited");
            drop(h);
        }
    }
}

static void on_drained(void *context)
{
    atomic_store(&((support_server *)context)->drained, true);
}

static void on_command(uv_async_t *async)
{
    support_server *server = async->data;
    struct support_loop *inside = server->inside;
    pthread_mutex_lock(&inside->mutex);
    switch (inside->command) {
    case COMMAND_NONE: break;
    case COMMAND_ANSWER: answer_all(server); break;
    case COMMAND_REFRESH:
        atomic_store(&server->n_active, roco_http_active(server->http));
        atomic_store(&server->n_runs, roco_http_runs(server->http));
        break;
    case COMMAND_DRAIN: roco_http_drain(server->http, on_drained, server); break;
    case COMMAND_CLOSE:
        roco_http_close(server->http);
        uv_close((uv_handle_t *)&inside->async, NULL);
        uv_close((uv_handle_t *)&inside->ticker, NULL);
        break;
    }
    inside->command = COMMAND_NONE;
    pthread_cond_signal(&inside->done);
    pthread_mutex_unlock(&inside->mutex);
}

static void *run_loop(void *context)
{
    uv_run(context, UV_RUN_DEFAULT);
    return NULL;
}

support_server *support_server_open(roco_http_config config)
{
    support_server *server = calloc(1, sizeof *server);
    struct support_loop *inside = calloc(1, sizeof *inside);
    ROCO_CHECK(server && inside);
    server->inside = inside;
    config.host = "127.0.0.1";
    config.port = 0;
    config.routes = routes;
    config.context = server;
    config.max_body = config.max_body != 0 ? config.max_body : 1 << 20;
    config.max_connections = config.max_connections != 0 ? config.max_connections : 500;
    config.idle_timeout_s = config.idle_timeout_s != 0 ? config.idle_timeout_s : 60;
    config.receive_timeout_s = config.receive_timeout_s != 0 ? config.receive_timeout_s : 60;
    uv_loop_init(&inside->loop);
    uv_async_init(&inside->loop, &inside->async, on_command);
    uv_timer_init(&inside->loop, &inside->ticker);
    inside->async.data = server;
    inside->ticker.data = inside;
    uv_timer_start(&inside->ticker, on_tick, 2, 2);
    pthread_mutex_init(&inside->mutex, NULL);
    pthread_cond_init(&inside->done, NULL);
    roco_error error;
    int status = roco_http_open(&inside->loop, &config, &server->http, &error);
    ROCO_CHECK(status == ROCO_OK);
    server->port = roco_http_port(server->http);
    pthread_create(&inside->thread, NULL, run_loop, &inside->loop);
    return server;
}

static void give(support_server *server, command c)
{
    struct support_loop *inside = server->inside;
    pthread_mutex_lock(&inside->mutex);
    inside->command = c;
    uv_async_send(&inside->async);
    while (inside->command != COMMAND_NONE)
        pthread_cond_wait(&inside->done, &inside->mutex);
    pthread_mutex_unlock(&inside->mutex);
}

void support_answer_all(support_server *server)
{
    give(server, COMMAND_ANSWER);
}

void support_refresh(support_server *server)
{
    give(server, COMMAND_REFRESH);
}

void support_drain(support_server *server)
{
    give(server, COMMAND_DRAIN);
}

void support_server_close(support_server *server)
{
    struct support_loop *inside = server->inside;
    give(server, COMMAND_CLOSE);
    pthread_join(inside->thread, NULL);
    int busy = uv_loop_close(&inside->loop);
    ROCO_CHECK(busy == 0 && !inside->first);
    pthread_mutex_destroy(&inside->mutex);
    pthread_cond_destroy(&inside->done);
    free(inside);
    free(server);
}

/* --- the client side --- */

int support_connect(const support_server *server)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(server->port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = connect(descriptor, (struct sockaddr *)&address, sizeof address);
    ROCO_CHECK(descriptor >= 0 && result == 0);
    return descriptor;
}

/* A server that answers early closes while the client still sends: not an error here. */
void support_send_bytes(int descriptor, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(descriptor, data, size, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        size -= (size_t)n;
    }
}

void support_send(int descriptor, const char *text)
{
    support_send_bytes(descriptor, text, strlen(text));
}

/* Bytes read; 0: end of input, a reset, or nothing for 5 s. */
static size_t read_some(int descriptor, char *out, size_t room)
{
    struct pollfd poller = {.fd = descriptor, .events = POLLIN};
    ssize_t n = poll(&poller, 1, 5000) == 1 ? recv(descriptor, out, room, 0) : 0;
    return n > 0 ? (size_t)n : 0;
}

static bool read_byte(int descriptor, char *out)
{
    return read_some(descriptor, out, 1) == 1;
}

static bool read_head(int descriptor, support_reply *reply)
{
    size_t n = 0;
    while (n + 1 < sizeof reply->head && read_byte(descriptor, &reply->head[n])) {
        reply->head[++n] = '\0';
        if (n >= 4 && memcmp(&reply->head[n - 4], "\r\n\r\n", 4) == 0) {
            reply->status = atoi(reply->head + strlen("HTTP/1.1 "));
            return true;
        }
    }
    return false;
}

static bool read_exactly(int descriptor, support_reply *reply, size_t size)
{
    reply->body = realloc(reply->body, reply->size + size + 1);
    ROCO_CHECK(reply->body);
    for (size_t n; size > 0 && (n = read_some(descriptor, &reply->body[reply->size], size)) > 0; size -= n)
        reply->size += n;
    reply->body[reply->size] = '\0';
    return size == 0;
}

static bool read_chunks(int descriptor, support_reply *reply)
{
    for (;;) {
        char line[32];
        size_t n = 0;
        while (n < sizeof line - 1 && read_byte(descriptor, &line[n]) && line[n] != '\n')
            n++;
        line[n] = '\0';
        size_t size = strtoul(line, NULL, 16);
        char end[2];
        if (n == 0 || !read_exactly(descriptor, reply, size) || !read_byte(descriptor, &end[0]) ||
            !read_byte(descriptor, &end[1]))
            return false;
        if (size == 0)
            return true;
    }
}

support_reply support_read(int descriptor, bool head)
{
    support_reply reply = {0};
    do {
        reply.status = 0;
    } while (read_head(descriptor, &reply) && reply.status == 100);
    if (reply.status == 0)
        return reply;
    const char *length = strcasestr(reply.head, "\r\nContent-Length:");
    if (head) {
        reply.complete = true;
    } else if (length) {
        reply.complete = read_exactly(descriptor, &reply, strtoul(length + strlen("\r\nContent-Length:"), NULL, 10));
    } else if (strcasestr(reply.head, "\r\nTransfer-Encoding: chunked") != NULL) {
        reply.complete = read_chunks(descriptor, &reply);
    } else {
        while (read_exactly(descriptor, &reply, 1)) {
        }
        reply.complete = true;
    }
    return reply;
}

void support_reply_free(support_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}

bool support_closed(int descriptor)
{
    for (;;) {
        char dropped[4096];
        struct pollfd poller = {.fd = descriptor, .events = POLLIN};
        if (poll(&poller, 1, 5000) != 1)
            return false;
        ssize_t n = recv(descriptor, dropped, sizeof dropped, 0);
        if (n <= 0)
            return n == 0 || errno == ECONNRESET;
    }
}

void support_reset(int descriptor)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(descriptor);
}

int support_status(const support_server *server, const char *request)
{
    int descriptor = support_connect(server);
    support_send(descriptor, request);
    support_reply reply = support_read(descriptor, strncmp(request, "HEAD", 4) == 0);
    support_reply_free(&reply);
    close(descriptor);
    return reply.status;
}

bool support_until(const atomic_uint *value, unsigned wanted)
{
    for (int i = 0; i < 5000; i++) {
        if (atomic_load(value) == wanted)
            return true;
        usleep(1000);
    }
    return false;
}
