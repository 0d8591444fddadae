/* What the writers share. */
#include "server/writer.h"

#include "server/http_errors.h"
#include "server/logprobs.h"
#include "server/sse.h"

#include <string.h>

const roco_writer *roco_writer_of(roco_endpoint endpoint)
{
    static const roco_writer *const writers[] = {
        [ROCO_ENDPOINT_COMPLETIONS] = &roco_text_writer,
        [ROCO_ENDPOINT_CHAT] = &roco_chat_writer,
    };
    return writers[endpoint];
}

roco_usage roco_completion_usage(const roco_completion *c)
{
    roco_usage usage = {
        .prompt_tokens = c->jobs.prompt_tokens,
        .policy = c->jobs.policy,
        .budget = c->jobs.budget,
        .pinned = c->jobs.pinned,
    };
    for (uint32_t i = 0; i < c->n_slots; i++)
        roco_usage_add(&usage, &c->slots[i].choice);
    return usage;
}

void roco_writer_head(roco_completion *c, const char *object)
{
    const char *model = c->task.app->model.id;
    roco_json_format(&c->out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
                     (long long)c->created);
    roco_json_string(&c->out, model, strlen(model));
    roco_json_raw(&c->out, ",\"choices\":[");
}

void roco_writer_begin_choice(roco_completion *c, const roco_completion_slot *slot)
{
    roco_json_format(&c->out, "{\"index\":%u,", slot->index);
}

void roco_writer_end_choice(roco_completion *c, roco_completion_slot *slot, const char *reason)
{
    roco_json_raw(&c->out, ",\"logprobs\":");
    if (slot)
        roco_logprobs_write(c, slot);
    else
        roco_json_raw(&c->out, "null");
    roco_json_raw(&c->out, ",\"finish_reason\":");
    if (reason)
        roco_json_format(&c->out, "\"%s\"}", reason);
    else
        roco_json_raw(&c->out, "null}");
}

void roco_writer_usage(roco_completion *c)
{
    roco_usage usage = roco_completion_usage(c);
    roco_json_raw(&c->out, "],\"usage\":");
    roco_usage_write(&c->out, &usage);
    roco_json_raw(&c->out, "}");
}

void roco_writer_begin_chunk(roco_completion *c, const char *object)
{
    roco_sse_begin(&c->out);
    roco_writer_head(c, object);
}

void roco_writer_end_chunk(roco_completion *c)
{
    roco_json_raw(&c->out, "]}");
    roco_sse_end(&c->out);
}

void roco_writer_end_stream(roco_completion *c, const char *object)
{
    if (c->jobs.include_usage) {
        roco_writer_begin_chunk(c, object);
        roco_writer_usage(c);
        roco_sse_end(&c->out);
    }
    roco_sse_done(&c->out);
}

void roco_writer_error(roco_completion *c, const roco_problem *problem)
{
    roco_sse_begin(&c->out);
    if (roco_http_error_body(&c->out.buffer, roco_http_error_type(roco_problem_http(problem)), NULL,
                             roco_problem_code(problem), problem->error.message))
        c->out.failed = true;
    roco_sse_end(&c->out);
}
