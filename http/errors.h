/* The form of every error reply: {"error": {"message", "type", "param", "code"}}; on paths that speak Anthropic's API
 * {"type": "error", "error": {"type", "message"}}. Loop thread. */
#ifndef ROCO_HTTP_ERRORS_H
#define ROCO_HTTP_ERRORS_H

#include "config/buffer.h"
#include "http/http.h"

/* "invalid_request_error" (other 4xx), "authentication_error" (401), "rate_limit_error" (429), "server_error" (5xx). */
const char *roco_http_error_type(unsigned status);

/* Appends the JSON object. `type`, `param` and `code` may be NULL (null in the JSON). Quotes and control characters are
 * escaped; bytes over 126 become '?', so the text is valid whatever it was made of. */
roco_status roco_http_error_body(roco_buffer *out, const char *type, const char *param, const char *code,
                                 const char *message);

/* The other form. */
roco_status roco_http_anthropic_body(roco_buffer *out, unsigned status, const char *message);
/* The form that the exchange's path has. */
roco_status roco_exchange_error_body(const roco_exchange *exchange, roco_buffer *out, unsigned status, const char *type,
                                     const char *param, const char *code, const char *message);

/* roco_exchange_reply with that body. `type` NULL: the status' own. 429 and 503 carry Retry-After, 401 carries
 * "WWW-Authenticate: Bearer". */
void roco_exchange_error(roco_exchange *exchange, unsigned status, const char *type, const char *param,
                         const char *code, const char *message);

#endif
