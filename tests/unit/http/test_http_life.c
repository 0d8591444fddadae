/* Connections over time: clients that leave, crawl or crowd, and the server's own end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/clock.h"
#include "support_http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST "Host: a\r\n"

enum { MANY = 64 };

static const char wait_request[] = "GET /wait HTTP/1.1\r\n" HOST "\r\n";
static const char plain_request[] = "GET /plain HTTP/1.1\r\n" HOST "\r\n";

typedef void leave_function(int descriptor);

static void leave_by_close(int descriptor)
{
    close(descriptor);
}

static void leave_by_half_close(int descriptor)
{
    shutdown(descriptor, SHUT_WR);
}

/* Pipelined bytes lie unread before the end of input: a peek at the socket would never see the close. */
static void leave_with_pipelined_data(int descriptor)
{
    support_send(descriptor, plain_request);
    close(descriptor);
}

/* Plain and stream, silent and talking, left in each way: noticed within 100 ms, counters back to nothing. */
static void test_gone_clients_are_noticed(void **state)
{
    static const char *const paths[] = {"/wait", "/silent", "/forever"};
    leave_function *const ways[] = {leave_by_close, support_reset, leave_by_half_close, leave_with_pipelined_data};
    support_server *server = support_server_open((roco_http_config){0});
    unsigned expected = 0;
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            char request[64];
            snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[p]);
            int d = support_connect(server);
            support_send(d, request);
            assert_true(support_until(&server->n_held, 1));
            uint64_t start = roco_now_ns();
            ways[w](d);
            assert_true(support_until(&server->n_gone, ++expected));
            assert_true(support_until(&server->n_held, 0));
            assert_true(roco_now_ns() - start < 500000000u);
            if (ways[w] == leave_by_half_close) {
                assert_true(support_closed(d));
                close(d);
            }
        }
    }
    support_refresh(server);
    assert_true(support_until(&server->n_active, 0));
    support_server_close(server);
}

static void test_many_suspended_clients_killed(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    int clients[MANY];
    for (int i = 0; i < MANY; i++) {
        clients[i] = support_connect(server);
        support_send(clients[i], i % 2 == 0 ? wait_request : "GET /forever HTTP/1.1\r\n" HOST "\r\n");
    }
    assert_true(support_until(&server->n_held, MANY));
    support_refresh(server);
    assert_int_equal(server->n_active, MANY);
    for (int i = 0; i < MANY; i++)
        (i % 3 == 0 ? support_reset : leave_by_close)(clients[i]);
    assert_true(support_until(&server->n_gone, MANY));
    assert_true(support_until(&server->n_held, 0));
    assert_int_equal(support_status(server, plain_request), 200);
    support_server_close(server);
}

static void test_late_answers(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    int clients[MANY];
    for (int i = 0; i < MANY; i++) {
        clients[i] = support_connect(server);
        support_send(clients[i], wait_request);
        support_send(clients[i], plain_request);
    }
    assert_true(support_until(&server->n_held, MANY));
    support_answer_all(server);
    for (int i = 0; i < MANY; i++) {
        support_reply r = support_read(clients[i], false);
        assert_string_equal(r.body, "waited");
        support_reply_free(&r);
        r = support_read(clients[i], false);
        assert_string_equal(r.body, "plain");
        support_reply_free(&r);
        close(clients[i]);
    }
    assert_int_equal(server->n_gone, 0);
    support_server_close(server);
}

/* Without a gone callback the exchange stays valid, and swallows its reply. */
static void test_an_answer_to_nobody(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    int d = support_connect(server);
    support_send(d, "GET /deaf HTTP/1.1\r\n" HOST "\r\n");
    assert_true(support_until(&server->n_held, 1));
    close(d);
    for (int i = 0; i < 500 && server->n_active + (i == 0) > 0; i++) {
        usleep(10000);
        support_refresh(server);
    }
    assert_int_equal(server->n_active, 0);
    support_answer_all(server);
    assert_true(support_until(&server->n_held, 0));
    support_server_close(server);
}

static void test_idle_costs_nothing(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    int clients[MANY];
    for (int i = 0; i < MANY; i++) {
        clients[i] = support_connect(server);
        support_send(clients[i], i % 2 == 0 ? wait_request : "GET /silent HTTP/1.1\r\n" HOST "\r\n");
    }
    assert_true(support_until(&server->n_held, MANY));
    usleep(20000);
    support_refresh(server);
    unsigned long before = server->n_runs;
    usleep(200000);
    support_refresh(server);
    assert_in_range(server->n_runs - before, 0, 4);
    for (int i = 0; i < MANY; i++)
        close(clients[i]);
    support_server_close(server);
}

/* Suspended plain requests get their 503, streams are cut, nothing leaks, the loop ends. */
static void test_close_with_suspended_clients(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    enum { N = 20 };
    int waiting[N], streams[N];
    for (int i = 0; i < N; i++) {
        waiting[i] = support_connect(server);
        support_send(waiting[i], wait_request);
        streams[i] = support_connect(server);
        support_send(streams[i],
                     i % 2 == 0 ? "GET /forever HTTP/1.1\r\n" HOST "\r\n" : "GET /silent HTTP/1.1\r\n" HOST "\r\n");
    }
    int idle = support_connect(server), partial = support_connect(server);
    support_send(partial, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc");
    assert_true(support_until(&server->n_held, 2 * N));
    support_server_close(server); /* checks that the loop is clean and every gone callback ran */
    for (int i = 0; i < N; i++) {
        support_reply r = support_read(waiting[i], false);
        assert_int_equal(r.status, 503);
        assert_non_null(strstr(r.head, "Retry-After: 1"));
        assert_non_null(strstr(r.body, "shutting_down"));
        support_reply_free(&r);
        r = support_read(streams[i], false);
        assert_int_equal(r.status, 200);
        assert_false(r.complete);
        support_reply_free(&r);
        close(waiting[i]);
        close(streams[i]);
    }
    assert_true(support_closed(idle) && support_closed(partial));
    close(idle);
    close(partial);
}

static void test_drain(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    int waiting = support_connect(server), kept = support_connect(server);
    support_send(waiting, wait_request);
    support_send(kept, plain_request);
    support_reply r = support_read(kept, false);
    support_reply_free(&r);
    assert_true(support_until(&server->n_held, 1));
    support_drain(server);
    assert_int_equal(support_status(server, "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"), 503);
    support_send(kept, "GET /health HTTP/1.1\r\n" HOST "\r\n");
    r = support_read(kept, false);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Connection: close"));
    support_reply_free(&r);
    assert_true(support_closed(kept));
    assert_false(server->drained);
    support_answer_all(server);
    r = support_read(waiting, false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    for (int i = 0; i < 1000 && !server->drained; i++)
        usleep(1000);
    assert_true(server->drained);
    close(waiting);
    close(kept);
    support_server_close(server);
}

/* One byte now and then keeps libmicrohttpd's idle time-out away for ever; the total deadline does not care. */
static void crawl(int d, const char *text, double seconds)
{
    for (size_t i = 0; i < 40 * seconds && text[i] != '\0'; i++) {
        support_send_bytes(d, text + i, 1);
        usleep(25000);
    }
}

static void test_receive_deadline(void **state)
{
    support_server *server = support_server_open((roco_http_config){.receive_timeout_s = 1, .idle_timeout_s = 30});
    int head = support_connect(server), body = support_connect(server), silent = support_connect(server);
    int waiting = support_connect(server);
    support_send(waiting, wait_request); /* a whole request may wait for its answer as long as it takes */
    support_send(body, "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc");
    crawl(head, "GET /plain HTTP/1.1\r\nHost: a very long name that does not end for quite some time\r\n", 1.6);
    support_reply r = support_read(body, false);
    assert_int_equal(r.status, 408);
    assert_non_null(strstr(r.body, "request_timeout"));
    support_reply_free(&r);
    r = support_read(head, false);
    assert_int_equal(r.status, 408);
    support_reply_free(&r);
    assert_true(support_closed(head) && support_closed(body) && support_closed(silent));
    support_answer_all(server);
    r = support_read(waiting, false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    close(head);
    close(body);
    close(silent);
    close(waiting);
    support_server_close(server);
}

static void test_idle_timeout(void **state)
{
    support_server *server = support_server_open((roco_http_config){.idle_timeout_s = 1});
    int kept = support_connect(server), reader = support_connect(server);
    support_send(kept, plain_request);
    support_reply r = support_read(kept, false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    /* A client that does not read: the kernel's buffers fill, then nothing moves. */
    int small = 4096;
    setsockopt(reader, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 8; i++)
        support_send(reader, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    uint64_t start = roco_now_ns();
    assert_true(support_closed(kept));
    assert_true(roco_now_ns() - start < 3000000000u);
    support_refresh(server);
    for (int i = 0; i < 30 && server->n_active > 0; i++) {
        usleep(100000);
        support_refresh(server);
    }
    assert_int_equal(server->n_active, 0);
    close(kept);
    close(reader);
    support_server_close(server);
}

/* Time that an answer takes is nobody's idle time: it counts from the reply's end. */
static void test_idle_time_begins_behind_the_reply(void **state)
{
    static const char *const paths[] = {"/wait", "/silent"};
    support_server *server = support_server_open((roco_http_config){.idle_timeout_s = 2});
    int clients[2];
    for (unsigned i = 0; i < 2; i++) {
        char request[64];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
        clients[i] = support_connect(server);
        support_send(clients[i], request);
    }
    assert_true(support_until(&server->n_held, 2));
    usleep(2500000);
    support_answer_all(server);
    for (unsigned i = 0; i < 2; i++) {
        for (int reply = 0; reply < 2; reply++) {
            support_reply r = support_read(clients[i], false);
            assert_int_equal(r.status, 200);
            assert_true(r.complete);
            support_reply_free(&r);
            if (reply == 0)
                support_send(clients[i], plain_request);
        }
        close(clients[i]);
    }
    support_server_close(server);
}

/* Until the daemon has nothing to do: it stands still between two looks of the loop. */
static void wait_for_quiet(support_server *server)
{
    unsigned long before;
    do {
        before = server->n_runs;
        usleep(1000);
        support_refresh(server);
    } while (server->n_runs != before);
}

/* Bodies that wait for their ends hold as much as 32 of the largest; more are told to come back. */
static void test_bodies_share_a_limit(void **state)
{
    enum { BODIES = 32, SIZE = 64 * 1024, PART = SIZE - 1 };
    static char part[PART];
    static const char head[] = "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 65536\r\n\r\n";
    support_server *server = support_server_open((roco_http_config){.max_body = SIZE});
    int clients[BODIES + 1];
    memset(part, 'b', PART);
    for (int i = 0; i <= BODIES; i++) {
        clients[i] = support_connect(server);
        support_send(clients[i], head);
        support_send_bytes(clients[i], part, PART);
        wait_for_quiet(server); /* this one's part has arrived */
    }
    support_send(clients[BODIES], "b");
    support_reply r = support_read(clients[BODIES], false);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After"));
    support_reply_free(&r);
    support_send(clients[0], "b");
    r = support_read(clients[0], false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    support_send(clients[0], head);
    support_send_bytes(clients[0], part, PART);
    support_send(clients[0], "b");
    r = support_read(clients[0], false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    for (int i = 0; i <= BODIES; i++)
        close(clients[i]);
    support_server_close(server);
}

static void test_connection_limit(void **state)
{
    enum { LIMIT = 4, SURPLUS = 32 };
    support_server *server = support_server_open((roco_http_config){.max_connections = LIMIT});
    int clients[LIMIT];
    for (int i = 0; i < LIMIT; i++) {
        clients[i] = support_connect(server);
        support_send(clients[i], wait_request);
    }
    assert_true(support_until(&server->n_held, LIMIT));
    int d = support_connect(server);
    support_send(d, plain_request);
    support_reply r = support_read(d, false);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After: "));
    assert_non_null(strstr(r.body, "too_many_connections"));
    support_reply_free(&r);
    assert_true(support_closed(d));
    close(d);
    assert_int_equal(support_status(server, "GET /health HTTP/1.1\r\n" HOST "\r\n"), 200);

    /* The daemon's own limit: the next client waits unaccepted and is served when a place is free. */
    int crowd[SURPLUS];
    for (int i = 0; i < SURPLUS; i++)
        crowd[i] = support_connect(server);
    d = support_connect(server);
    support_send(d, "GET /health HTTP/1.1\r\n" HOST "\r\n");
    usleep(50000);
    close(crowd[0]);
    r = support_read(d, false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    close(d);
    for (int i = 1; i < SURPLUS; i++)
        close(crowd[i]);
    for (int i = 0; i < LIMIT; i++)
        close(clients[i]);
    assert_true(support_until(&server->n_held, 0));
    assert_int_equal(support_status(server, plain_request), 200);
    support_server_close(server);
}

static void test_taken_port(void **state)
{
    support_server *server = support_server_open((roco_http_config){0});
    static const roco_route none[] = {{0}};
    uv_loop_t loop;
    uv_loop_init(&loop);
    roco_http *second;
    roco_error error;
    roco_http_config config = {.host = "127.0.0.1", .port = server->port, .routes = none, .max_connections = 1};
    assert_int_equal(roco_http_open(&loop, &config, &second, &error), ROCO_IO);
    assert_null(second);
    assert_non_null(strstr(error.message, "127.0.0.1"));
    assert_non_null(strstr(error.message, "in use"));
    config.host = "no.such.host.invalid";
    assert_int_equal(roco_http_open(&loop, &config, &second, &error), ROCO_IO);
    assert_int_equal(uv_loop_close(&loop), 0);
    support_server_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gone_clients_are_noticed),
        cmocka_unit_test(test_many_suspended_clients_killed),
        cmocka_unit_test(test_late_answers),
        cmocka_unit_test(test_an_answer_to_nobody),
        cmocka_unit_test(test_idle_costs_nothing),
        cmocka_unit_test(test_close_with_suspended_clients),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_receive_deadline),
        cmocka_unit_test(test_idle_timeout),
        cmocka_unit_test(test_idle_time_begins_behind_the_reply),
        cmocka_unit_test(test_bodies_share_a_limit),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_taken_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
