/* From status codes to what clients see. Loop thread. */
#include "server/reply.h"

#include "http/errors.h"

unsigned roco_problem_http(const roco_problem *problem)
{
    if (problem->http)
        return problem->http;
    switch (problem->error.status) {
    case ROCO_BUSY: return 429;      /* clients know to come back; 503 says that the server itself is not up */
    case ROCO_CANCELLED: return 503; /* seen only by a client whose own request the server ended */
    default: return (unsigned)roco_status_http(problem->error.status);
    }
}

const char *roco_problem_code(const roco_problem *problem)
{
    if (problem->code)
        return problem->code;
    switch (problem->error.status) {
    case ROCO_INVALID: return "invalid_value";
    case ROCO_UNSUPPORTED: return "unsupported_parameter";
    case ROCO_TOO_LARGE: return "request_too_large";
    case ROCO_BUSY: return "queue_full";
    case ROCO_TIMEOUT: return "timeout";
    case ROCO_SHUTDOWN: return "shutting_down";
    case ROCO_DEVICE: return "device_failed";
    case ROCO_NUMERIC: return "numeric_failure";
    case ROCO_NO_MEMORY: return "out_of_memory";
    default: return NULL;
    }
}

void roco_problem_reply(const roco_problem *problem, roco_exchange *exchange)
{
    const char *field = problem->error.field[0] ? problem->error.field : NULL;
    roco_exchange_error(exchange, roco_problem_http(problem), NULL, field, roco_problem_code(problem),
                        problem->error.message);
}

void roco_text_reply(roco_json_out *out, const char *content_type, roco_exchange *exchange)
{
    if (out->failed) {
        roco_problem problem = {0};
        roco_fail(&problem.error, ROCO_NO_MEMORY, NULL, "out of memory");
        roco_problem_reply(&problem, exchange);
    } else {
        roco_exchange_reply(exchange, 200, content_type, out->buffer.data, out->buffer.size, NULL);
    }
    roco_json_out_free(out);
}

void roco_json_reply(roco_json_out *out, roco_exchange *exchange)
{
    roco_text_reply(out, "application/json", exchange);
}
