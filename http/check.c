/* What a request's head must satisfy before its body is read or its handler asked. Loop thread.
 *
 * libmicrohttpd lets through what other servers on the way may read differently: two lengths, a length beside chunks,
 * unknown transfer encodings, names with spaces, missing or doubled hosts. All of that is refused here and the
 * connection closed, since where its next request begins is then a matter of opinion.
 */
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ADDRESS_RANGE = 64 * 1024 }; /* more than a connection's buffer in libmicrohttpd */

/* What of the head counts for framing. */
typedef struct head {
    unsigned n_hosts, n_lengths, n_encodings;
    bool chunked, bad_name;
    bool expect_continue, expect_other;
    uint64_t length;
} head;

/* RFC 9110, section 5.6.2 */
static bool is_token(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    return *name != '\0' && name[strspn(name, allowed)] == '\0';
}

static enum MHD_Result scan_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    head *h = cls;
    value = value ? value : "";
    if (!is_token(name)) {
        h->bad_name = true;
    } else if (strcasecmp(name, "Host") == 0) {
        h->n_hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        h->n_lengths++;
        h->length = strtoull(value, NULL, 10); /* its form was checked by the parser */
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        h->n_encodings++;
        h->chunked = strcasecmp(value, "chunked") == 0;
    } else if (strcasecmp(name, "Expect") == 0) {
        bool known = strcasecmp(value, "100-continue") == 0;
        h->expect_continue |= known;
        h->expect_other |= !known;
    }
    return MHD_YES;
}

static const char *malformed(const head *h, const roco_http_client *client, const char *version)
{
    bool http11 = strcmp(version, "HTTP/1.1") == 0;
    /* The version follows the target in the daemon's buffer; bytes between them were cut off by a NUL. */
    uintptr_t gap = (uintptr_t)version - client->target_end;
    if (gap > 0 && gap < ADDRESS_RANGE)
        return "the request target holds a NUL byte";
    if (h->bad_name)
        return "a header name holds a character that is not allowed";
    if (h->n_lengths > 1 || (h->n_lengths > 0 && h->n_encodings > 0))
        return "the length of the body is given more than once";
    if (h->n_encodings > 1 || (h->n_encodings == 1 && (!h->chunked || !http11)))
        return "the only transfer encoding known is chunked, and only in HTTP/1.1";
    if (h->n_hosts > 1 || (http11 && h->n_hosts == 0))
        return "exactly one Host header is needed";
    return NULL;
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    if (!content_type || strncasecmp(content_type, json, sizeof json - 1) != 0)
        return false;
    const char *rest = content_type + sizeof json - 1;
    rest += strspn(rest, " \t");
    return *rest == '\0' || *rest == ';';
}

static const roco_route *find_method(const roco_route *path, const char *method)
{
    roco_method wanted = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ? ROCO_GET
                         : strcmp(method, "POST") == 0                             ? ROCO_POST
                                                                                   : 0;
    for (const roco_route *route = path; route->path; route++)
        if (route->method == wanted && strcmp(route->path, path->path) == 0)
            return route;
    return NULL;
}

static bool over_connection_limit(const roco_exchange *exchange, const roco_route *route)
{
    const roco_http *http = exchange->http;
    return exchange->client->surplus && http->n_clients > http->max_connections && !(route && route->open);
}

/* With a key that is accepted, it counts to the key's owner from here on. */
static bool accept_key(roco_exchange *exchange)
{
    const roco_api_keys *keys = exchange->http->keys;
    if (!roco_api_keys_accept(keys, roco_exchange_header(exchange, "Authorization"), &exchange->account) &&
        !roco_api_keys_accept_key(keys, roco_exchange_header(exchange, "X-API-Key"), &exchange->account))
        return false;
    if (exchange->account)
        roco_account_hold(exchange->account);
    return true;
}

/* Route, limits, key, type; status 0 when the handler may have it. */
static roco_refusal judge(roco_exchange *exchange, const char *method, const head *h)
{
    const roco_route *route = exchange->route;
    const roco_http *http = exchange->http;
    if (over_connection_limit(exchange, route))
        return (roco_refusal){503, "too_many_connections", "the server has as many connections as it may"};
    if (!exchange->path)
        return (roco_refusal){404, "unknown_url", "there is nothing at this path"};
    if (roco_http_is_preflight(exchange, method)) /* browsers send no key with it */
        return (roco_refusal){204, NULL, NULL};
    if (!route)
        return (roco_refusal){405, "method_not_allowed", "this path does not take this method; see Allow"};
    if (http->keys && !route->open && !accept_key(exchange))
        return (roco_refusal){401, "invalid_api_key", "a valid API key is needed: Authorization: Bearer KEY"};
    if (http->closing || (http->draining && route->method == ROCO_POST))
        return (roco_refusal){503, "shutting_down", "the server is shutting down"};
    if (h->n_lengths == 1 && h->length > http->max_body)
        return (roco_refusal){413, "body_too_large", http->over_max_body};
    if (route->json && !is_json(roco_exchange_header(exchange, "Content-Type"))) {
        return (roco_refusal){415, "unsupported_media_type",
                              "the body must be JSON: send the header Content-Type: application/json"};
    }
    return (roco_refusal){0};
}

bool roco_http_check(roco_exchange *exchange, const char *method, const char *version)
{
    head h = {0};
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, scan_header, &h);
    const char *fault = malformed(&h, exchange->client, version);
    if (fault) {
        exchange->refusal = (roco_refusal){400, "malformed_request", fault};
        return true;
    }
    if (h.expect_other) {
        exchange->refusal = (roco_refusal){417, "unknown_expectation", "only Expect: 100-continue is known"};
        return true;
    }
    exchange->head = strcmp(method, "HEAD") == 0;
    exchange->route = exchange->path ? find_method(exchange->path, method) : NULL;
    exchange->refusal = judge(exchange, method, &h);
    /* A refusal before the body closes the connection. It is worth that when a client waits to be told whether to send,
     * or would send more than the server reads; a short body is read and dropped instead. */
    bool large = h.n_lengths == 1 && h.length > exchange->http->max_body;
    return exchange->refusal.status != 0 && (large || h.expect_continue || exchange->refusal.status == 503);
}
