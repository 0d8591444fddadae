#include "http/sse.h"

const char *const roco_sse_headers[] = {"Cache-Control: no-cache", "X-Accel-Buffering: no", NULL};

void roco_sse_begin(roco_json_out *out)
{
    roco_json_raw(out, "data: ");
}

void roco_sse_end(roco_json_out *out)
{
    roco_json_raw(out, "\n\n");
}

void roco_sse_done(roco_json_out *out)
{
    roco_json_raw(out, "data: [DONE]\n\n");
}

void roco_sse_comment(roco_json_out *out)
{
    roco_json_raw(out, ": keep-alive\n\n");
}
