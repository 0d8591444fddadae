/* Error replies as JSON text. It must not know cJSON: the smallest error path may not depend on an allocation pattern
 * of its own. Loop thread. */
#include "http/errors.h"

#include "http/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

const char *roco_http_error_type(unsigned status)
{
    if (status >= 500)
        return "server_error";
    switch (status) {
    case 401: return "authentication_error";
    case 429: return "rate_limit_error";
    default: return "invalid_request_error";
    }
}

static roco_status append_string(roco_buffer *out, const char *text)
{
    if (!text)
        return roco_buffer_append_text(out, "null");
    roco_status status = roco_buffer_append_text(out, "\"");
    for (; *text != '\0' && status == ROCO_OK; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            status = roco_buffer_append(out, (const char[]){'\\', (char)c}, 2);
        else if (c < 0x20)
            status = roco_buffer_append_format(out, "\\u%04x", c);
        else
            status = roco_buffer_append(out, c < 0x7f ? text : "?", 1);
    }
    return status == ROCO_OK ? roco_buffer_append_text(out, "\"") : status;
}

roco_status roco_http_error_body(roco_buffer *out, const char *type, const char *param, const char *code,
                                 const char *message)
{
    const struct {
        const char *name, *value;
    } fields[] = {{"{\"error\":{\"message\":", message ? message : ""},
                  {",\"type\":", type},
                  {",\"param\":", param},
                  {",\"code\":", code}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        roco_status status = roco_buffer_append_text(out, fields[i].name);
        if (status == ROCO_OK)
            status = append_string(out, fields[i].value);
        if (status != ROCO_OK)
            return status;
    }
    return roco_buffer_append_text(out, "}}");
}

static const char *anthropic_type(unsigned status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
    }
}

roco_status roco_http_anthropic_body(roco_buffer *out, unsigned status, const char *message)
{
    roco_status failed = roco_buffer_append_format(
        out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", anthropic_type(status));
    failed = failed ? failed : append_string(out, message ? message : "");
    return failed ? failed : roco_buffer_append_text(out, "}}");
}

/* `path` NULL: no such path. */
static roco_status path_error_body(const roco_route *path, roco_buffer *out, unsigned status, const char *type,
                                   const char *param, const char *code, const char *message)
{
    if (path && path->anthropic)
        return roco_http_anthropic_body(out, status, message);
    return roco_http_error_body(out, type ? type : roco_http_error_type(status), param, code, message);
}

roco_status roco_exchange_error_body(const roco_exchange *exchange, roco_buffer *out, unsigned status, const char *type,
                                     const char *param, const char *code, const char *message)
{
    return path_error_body(exchange->path, out, status, type, param, code, message);
}

void roco_exchange_error(roco_exchange *exchange, unsigned status, const char *type, const char *param,
                         const char *code, const char *message)
{
    char seconds[32];
    snprintf(seconds, sizeof seconds, "Retry-After: %u", exchange->retry_s ? exchange->retry_s : 1);
    const char *retry[] = {seconds, NULL};
    const char *challenge[] = {"WWW-Authenticate: Bearer", NULL};
    const char *const *headers = status == 429 || status == 503 ? retry : status == 401 ? challenge : NULL;
    roco_buffer body = {0};
    roco_exchange_error_body(exchange, &body, status, type, param, code, message);
    roco_exchange_reply(exchange, status, "application/json", body.data, body.size, headers);
    roco_buffer_free(&body);
}

void roco_http_send_raw_error(const roco_http_client *client, unsigned status, const char *code, const char *message)
{
    if (client->http->identity)
        return;
    int descriptor = MHD_get_connection_info(client->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    roco_buffer body = {0}, reply = {0};
    if (path_error_body(client->path, &body, status, NULL, NULL, code, message) == ROCO_OK &&
        roco_buffer_append_format(&reply,
                                  "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                                  "Connection: close\r\n\r\n%s",
                                  status, MHD_get_reason_phrase_for(status), body.size, body.data) == ROCO_OK) {
        /* A client that does not even take this much gets no reply. */
        ssize_t sent = send(descriptor, reply.data, reply.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent;
    }
    roco_buffer_free(&body);
    roco_buffer_free(&reply);
}
