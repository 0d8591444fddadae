/* Server-sent events: the frame around each JSON object of a stream. */
#ifndef ROCO_HTTP_SSE_H
#define ROCO_HTTP_SSE_H

#include "http/json.h"

/* Event streams are UTF-8 by definition, but clients take text without a charset for Latin-1. */
#define ROCO_SSE_CONTENT_TYPE "text/event-stream; charset=utf-8"

/* NULL-terminated: no cache and no buffering proxy may hold an event back. */
extern const char *const roco_sse_headers[];

/* An event is begun, its one-line JSON written, then ended. */
void roco_sse_begin(roco_json_out *out);
void roco_sse_end(roco_json_out *out);
/* The event that says all was well. */
void roco_sse_done(roco_json_out *out);
/* A comment: clients skip it, proxies see that the line lives. */
void roco_sse_comment(roco_json_out *out);

#endif
