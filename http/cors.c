/* Which web pages may use the server, as browsers ask it (Fetch standard, CORS protocol). None by default. Credentials
 * are never allowed: a page needs the key itself. Loop thread. */
#include "http/internal.h"

#include <string.h>

static bool is_listed(const char *list, const char *origin)
{
    size_t size = strlen(origin);
    while (*list) {
        size_t item = strcspn(list, ", ");
        if (item > 0 && item == size && memcmp(list, origin, size) == 0)
            return true;
        list += item + strspn(list + item, ", ");
    }
    return false;
}

/* What the reply says to the page that asks; NULL: nothing. */
static const char *allowed_origin(const roco_exchange *exchange)
{
    const char *list = exchange->http->cors_origins;
    const char *origin = *list ? roco_exchange_header(exchange, "Origin") : NULL;
    if (!origin)
        return NULL;
    if (strcmp(list, "*") == 0)
        return list;
    return is_listed(list, origin) ? origin : NULL;
}

bool roco_http_is_preflight(const roco_exchange *exchange, const char *method)
{
    return strcmp(method, "OPTIONS") == 0 && roco_exchange_header(exchange, "Access-Control-Request-Method") &&
           allowed_origin(exchange);
}

/* What the page's library means to send is granted as asked: clients of OpenAI and Anthropic send a dozen headers of
 * their own. libmicrohttpd adds no header whose value holds a line end. */
static void grant_headers(const roco_exchange *exchange, struct MHD_Response *response)
{
    const char *asked = roco_exchange_header(exchange, "Access-Control-Request-Headers");
    if (asked && *asked)
        MHD_add_response_header(response, "Access-Control-Allow-Headers", asked);
}

void roco_http_add_cors(const roco_exchange *exchange, struct MHD_Response *response)
{
    const char *list = exchange->http->cors_origins;
    const char *origin = allowed_origin(exchange);
    if (*list && strcmp(list, "*") != 0)
        MHD_add_response_header(response, "Vary", "Origin"); /* a cache must not give one page another's permission */
    if (!origin)
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (exchange->refusal.status == 204) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
        grant_headers(exchange, response);
        MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    }
}
