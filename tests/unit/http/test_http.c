/* The HTTP transport towards well-formed and hostile requests: what each gets, and in which form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/auth.h"
#include "support_http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST "Host: a\r\n"
#define JSON "Content-Type: application/json\r\n"

static int open_server(void **state)
{
    *state = support_server_open((roco_http_config){.max_body = 4096});
    return 0;
}

static int close_server(void **state)
{
    support_server_close(*state);
    return 0;
}

static bool is_error_json(const support_reply *reply)
{
    return reply->complete && strstr(reply->head, "Content-Type: application/json\r\n") != NULL &&
           strncmp(reply->body, "{\"error\":{\"message\":\"", 21) == 0 && strstr(reply->body, "\"type\":") != NULL &&
           strstr(reply->body, "\"param\":null") != NULL && strstr(reply->body, "\"code\":\"") != NULL &&
           strcmp(reply->body + reply->size - 2, "}}") == 0;
}

static bool has_header(const support_reply *reply, const char *line)
{
    char text[256];
    snprintf(text, sizeof text, "\r\n%s\r\n", line);
    return strstr(reply->head, text) != NULL;
}

static void test_plain_reply(void **state)
{
    int d = support_connect(*state);
    support_send(d, "GET /plain?x=1 HTTP/1.1\r\n" HOST "X-Request-Id: my.id-1_A\r\n\r\n");
    support_reply r = support_read(d, false);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "plain");
    assert_true(has_header(&r, "X-Request-Id: my.id-1_A"));
    assert_true(has_header(&r, "X-One: 1") && has_header(&r, "X-Two: two words"));
    support_reply_free(&r);
    support_send(d, "GET /plain HTTP/1.1\r\n" HOST "X-Request-Id: no spaces\r\n\r\n");
    r = support_read(d, false);
    const char *id = strstr(r.head, "X-Request-Id: req-");
    assert_non_null(id);
    assert_int_equal(strspn(id + strlen("X-Request-Id: req-"), "0123456789abcdef"), 16);
    support_reply_free(&r);
    close(d);
}

static void test_head_has_no_body(void **state)
{
    int d = support_connect(*state);
    support_send(d, "HEAD /plain HTTP/1.1\r\n" HOST "\r\nHEAD /silent HTTP/1.1\r\n" HOST "\r\n"
                    "GET /plain HTTP/1.1\r\n" HOST "\r\n");
    support_reply r = support_read(d, true);
    assert_int_equal(r.status, 200);
    assert_true(has_header(&r, "Content-Length: 5"));
    r = support_read(d, true);
    assert_int_equal(r.status, 200);
    r = support_read(d, false);
    assert_string_equal(r.body, "plain");
    support_reply_free(&r);
    close(d);
    support_server *server = *state;
    assert_true(support_until(&server->n_held, 0));
}

static void test_keep_alive_and_pipelining(void **state)
{
    int d = support_connect(*state);
    for (int i = 0; i < 20; i++) {
        support_send(d, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 4\r\n\r\n[12]"
                        "GET /ticks HTTP/1.1\r\n" HOST "\r\n");
    }
    for (int i = 0; i < 20; i++) {
        support_reply r = support_read(d, false);
        assert_int_equal(r.status, 200);
        assert_string_equal(r.body, "[12]");
        support_reply_free(&r);
        r = support_read(d, false);
        assert_true(r.complete);
        assert_string_equal(r.body, "tick\ntick\ntick\ntick\ntick\n");
        support_reply_free(&r);
    }
    support_send(d, "GET /nope HTTP/1.1\r\n" HOST "\r\nGET /plain HTTP/1.1\r\n" HOST "\r\n");
    support_reply r = support_read(d, false);
    assert_int_equal(r.status, 404);
    support_reply_free(&r);
    r = support_read(d, false);
    assert_int_equal(r.status, 200);
    support_reply_free(&r);
    close(d);
}

typedef struct request_case {
    const char *what, *request;
    int status;      /* the application's reply */
    bool keeps;      /* the connection serves another request afterwards */
    const char *has; /* header line of the reply, or NULL */
} request_case;

static const request_case refused[] = {
    {"unknown path", "GET /v1/nope HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"other method", "PUT /plain HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab", 405, true, "Allow: GET, HEAD, POST"},
    {"get on post", "GET /echo HTTP/1.1\r\n" HOST "\r\n", 405, true, "Allow: POST"},
    {"head on post", "DELETE /wait HTTP/1.1\r\n" HOST "\r\n", 405, true, "Allow: GET, HEAD"},
    {"odd method", "GEt /plain HTTP/1.1\r\n" HOST "\r\n", 405, true, NULL},
    {"options", "OPTIONS /echo HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n\r\n", 405, true, NULL},
    {"no type", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}", 415, true, NULL},
    {"text", "POST /echo HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, true, NULL},
    {"form", "POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/jsonx\r\nContent-Length: 2\r\n\r\n{}", 415, true,
     NULL},
    {"traversal", "GET /../../etc/passwd HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"escaped traversal", "GET /%2e%2e%2fetc/passwd HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"backslash", "GET /..%5c HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"double slash", "GET //etc/passwd HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"escaped NUL", "GET /health%00x HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"escaped letter", "GET /%68ealth HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"whole URL", "GET http://a/health HTTP/1.1\r\n" HOST "\r\n", 404, true, NULL},
    {"two lengths",
     "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 30\r\n\r\n"
     "GET /plain HTTP/1.1\r\n" HOST "\r\n",
     400, false, NULL},
    {"equal lengths", "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400, false,
     NULL},
    {"length and chunks",
     "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
     "0\r\n\r\n",
     400, false, NULL},
    {"gzip", "POST /plain HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\nabc", 400, false, NULL},
    {"gzip, chunked", "POST /plain HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, false,
     NULL},
    {"two encodings",
     "POST /plain HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"
     "0\r\n\r\n",
     400, false, NULL},
    {"space before colon", "GET /plain HTTP/1.1\r\n" HOST "Content-Length : 3\r\n\r\n", 400, false, NULL},
    {"space in name", "GET /plain HTTP/1.1\r\n" HOST "X Y: 3\r\n\r\n", 400, false, NULL},
    {"no host", "GET /plain HTTP/1.1\r\n\r\n", 400, false, NULL},
    {"two hosts", "GET /plain HTTP/1.1\r\n" HOST HOST "\r\n", 400, false, NULL},
    {"odd expectation", "POST /plain HTTP/1.1\r\n" HOST "Expect: x\r\nContent-Length: 1\r\n\r\na", 417, false, NULL},
    {"long body", "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 4097\r\n\r\n", 413, false, "Connection: close"},
    {"longest body", "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551614\r\n\r\n", 413, false, NULL},
    {"long body with Expect", "POST /plain HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n",
     413, false, NULL},
    {"wrong type with Expect", "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", 415,
     false, NULL},
};

static void test_refusals_are_json(void **state)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const request_case *c = &refused[i];
        int d = support_connect(*state);
        support_send(d, c->request);
        support_reply r = support_read(d, false);
        /* libmicrohttpd 1.0 refuses some malformed requests before the application is asked. */
        bool worded = is_error_json(&r) || (c->status == 400 && MHD_get_version()[0] != '0');
        if (r.status != c->status || !worded || (c->has && !has_header(&r, c->has)))
            fail_msg("%s: %d, not %d: %s%s", c->what, r.status, c->status, r.head, r.body ? r.body : "");
        support_reply_free(&r);
        if (c->keeps) {
            support_send(d, "GET /plain HTTP/1.1\r\n" HOST "\r\n");
            r = support_read(d, false);
            if (r.status != 200)
                fail_msg("%s: the next request got %d", c->what, r.status);
            support_reply_free(&r);
        } else if (support_read(d, false).status != 0) {
            fail_msg("%s: the connection went on", c->what);
        }
        close(d);
    }
}

static void test_accepted(void **state)
{
    static const char *const requests[] = {
        "GET /health HTTP/1.1\r\nhost:\r\n\r\n",
        "GET /health HTTP/1.0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "content-type: Application/JSON ; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: Chunked\r\n\r\n3\r\n{ \n\r\n1\r\n}\r\n0\r\n\r\n",
        "GET /plain HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
        "GET /ticks HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int status = support_status(*state, requests[i]);
        if (status != 200)
            fail_msg("%d: %s", status, requests[i]);
    }
}

/* The parser answers these itself, in its own words; the server must answer something and live. */
static void test_parser_refusals_leave_server_alive(void **state)
{
    static const char *const requests[] = {
        "POST /plain HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n",
        "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\nabc",
        "POST /plain HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",
        "POST /plain HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /plain HTTP/9.9\r\n\r\n",
        "GET\r\n\r\n",
        "nonsense\r\n\r\n",
        "\x16\x03\x01\x02\x01\xfc\x03\x03\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int status = support_status(*state, requests[i]);
        if (status != 0 && (status < 400 || status > 505))
            fail_msg("%d: %s", status, requests[i]);
    }
    char *large = malloc(50000);
    memset(large, 'a', 50000);
    memcpy(large, "GET /", 5);
    memcpy(large + 49000, " HTTP/1.1\r\n" HOST "\r\n", 23);
    large[49022] = '\0';
    assert_int_equal(support_status(*state, large), 414);
    free(large);
    assert_int_equal(support_status(*state, "GET /health HTTP/1.1\r\n" HOST "\r\n"), 200);
}

static void test_nul_in_target(void **state)
{
    static const char request[] = "GET /health\0x HTTP/1.1\r\n" HOST "\r\n";
    int d = support_connect(*state);
    support_send_bytes(d, request, sizeof request - 1);
    support_reply r = support_read(d, false);
    /* libmicrohttpd 1.0 closes such a connection itself. */
    if (r.status != 0 || MHD_get_version()[0] == '0')
        assert_int_equal(r.status, 400);
    support_reply_free(&r);
    close(d);
}

static void test_expect_continue(void **state)
{
    int d = support_connect(*state);
    support_send(d, "POST /echo HTTP/1.1\r\n" HOST JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    char head[26] = {0};
    assert_int_equal(read(d, head, 25), 25);
    assert_string_equal(head, "HTTP/1.1 100 Continue\r\n\r\n");
    support_send(d, "[]");
    support_reply r = support_read(d, false);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "[]");
    support_reply_free(&r);
    close(d);
}

static void send_chunked(int d, size_t total, bool end)
{
    char chunk[1031];
    memset(chunk, '1', sizeof chunk);
    memcpy(chunk, "400\r\n", 5);
    memcpy(chunk + 1029, "\r\n", 2);
    support_send(d, "POST /echo HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t sent = 0; sent < total; sent += 1024)
        support_send_bytes(d, chunk, sizeof chunk);
    if (end)
        support_send(d, "0\r\n\r\n");
}

static void test_chunked_body_limit(void **state)
{
    int d = support_connect(*state);
    send_chunked(d, 4096, true);
    support_reply r = support_read(d, false);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.size, 4096);
    support_reply_free(&r);
    send_chunked(d, 5 * 1024, true);
    r = support_read(d, false);
    assert_int_equal(r.status, 413);
    assert_true(is_error_json(&r));
    assert_non_null(strstr(r.body, "4096 bytes"));
    support_reply_free(&r);
    close(d);

    d = support_connect(*state);
    send_chunked(d, 2 << 20, false); /* never ends */
    r = support_read(d, false);
    assert_int_equal(r.status, 413);
    assert_true(is_error_json(&r));
    support_reply_free(&r);
    assert_true(support_closed(d));
    close(d);
}

static void test_large_body_in_pieces(void **state)
{
    int d = support_connect(*state);
    support_send(d, "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 4096\r\n\r\n");
    for (int i = 0; i < 64; i++) {
        support_send(d, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n");
        usleep(i % 16 == 0 ? 2000 : 0);
    }
    support_reply r = support_read(d, false);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.size, 4096);
    assert_memory_equal(r.body + 4032, "0123456789", 10);
    support_reply_free(&r);
    close(d);
}

static void test_streams(void **state)
{
    int d = support_connect(*state);
    support_send(d, "GET /burst HTTP/1.1\r\n" HOST "\r\nGET /flood HTTP/1.1\r\n" HOST "\r\n");
    support_reply r = support_read(d, false);
    assert_true(r.complete);
    assert_int_equal(r.size, 10000);
    assert_memory_equal(r.body + 9990, "0123456789", 10);
    support_reply_free(&r);
    r = support_read(d, false);
    assert_true(r.complete);
    assert_int_equal(r.size, 1 << 20);
    support_reply_free(&r);
    support_send(d, "GET /cut HTTP/1.1\r\n" HOST "\r\n");
    r = support_read(d, false);
    assert_int_equal(r.status, 200);
    assert_false(r.complete);
    assert_string_equal(r.body, "half");
    support_reply_free(&r);
    close(d);
}

static void test_keys(void **state)
{
    char path[] = "/tmp/roco-keys-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "secret-one\nsecret-two\n", 22), 22);
    close(file);
    roco_api_keys *keys;
    assert_int_equal(roco_api_keys_read(path, NULL, &keys, NULL), ROCO_OK);
    unlink(path);
    support_server *server = support_server_open((roco_http_config){.keys = keys});
    assert_int_equal(support_status(server, "GET /health HTTP/1.1\r\n" HOST "\r\n"), 200);
    assert_int_equal(support_status(server, "GET /plain HTTP/1.1\r\n" HOST "Authorization: Bearer secret-two\r\n\r\n"),
                     200);
    static const char *const wrong[] = {"", "Authorization: Bearer xecret-one\r\n",
                                        "Authorization: Bearer secret-onx\r\n", "Authorization: Bearer secret\r\n",
                                        "Authorization: Basic secret-one\r\n"};
    char first[512] = "";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char request[256];
        snprintf(request, sizeof request, "POST /echo HTTP/1.1\r\n" HOST "%sContent-Length: 2\r\n\r\n{}", wrong[i]);
        int d = support_connect(server);
        support_send(d, request);
        support_reply r = support_read(d, false);
        assert_int_equal(r.status, 401);
        assert_true(is_error_json(&r));
        assert_true(has_header(&r, "WWW-Authenticate: Bearer"));
        if (i == 0)
            snprintf(first, sizeof first, "%s", r.body);
        assert_string_equal(r.body, first);
        support_reply_free(&r);
        close(d);
    }
    support_server_close(server);
    roco_api_keys_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain_reply, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_head_has_no_body, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_keep_alive_and_pipelining, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_refusals_are_json, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_accepted, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_parser_refusals_leave_server_alive, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_nul_in_target, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_expect_continue, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_chunked_body_limit, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_large_body_in_pieces, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_streams, open_server, close_server),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
