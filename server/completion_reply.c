/* The JSON of completion replies: OpenAI's text_completion object, whole or in chunks. */
#include "server/completion.h"
#include "server/http_errors.h"
#include "server/sse.h"

#include <string.h>

static void write_head(roco_completion *c)
{
    const char *model = c->task.app->model.id;
    roco_json_format(&c->out, "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", c->id,
                     (long long)c->created);
    roco_json_string(&c->out, model, strlen(model));
    roco_json_raw(&c->out, ",\"choices\":[");
}

/* The choice's ready text, which for a plain reply is all of it. */
static void write_choice(roco_completion *c, const roco_completion_slot *slot)
{
    roco_json_format(&c->out, "{\"index\":%u,\"text\":", (unsigned)(slot - c->slots));
    roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
    const char *reason = roco_choice_finish_reason(&slot->choice);
    roco_json_raw(&c->out, ",\"logprobs\":null,\"finish_reason\":");
    if (reason)
        roco_json_format(&c->out, "\"%s\"}", reason);
    else
        roco_json_raw(&c->out, "null}");
}

static roco_usage usage_of(const roco_completion *c)
{
    roco_usage usage = {
        .prompt_tokens = c->jobs.prompt_tokens,
        .policy = c->jobs.policy,
        .budget = c->jobs.budget,
    };
    for (uint32_t i = 0; i < c->n_slots; i++)
        roco_usage_add(&usage, &c->slots[i].choice);
    return usage;
}

static void write_usage(roco_completion *c)
{
    roco_usage usage = usage_of(c);
    roco_json_raw(&c->out, "],\"usage\":");
    roco_usage_write(&c->out, &usage);
    roco_json_raw(&c->out, "}");
}

void roco_completion_write_chunk(roco_completion *c, const roco_completion_slot *slot)
{
    roco_sse_begin(&c->out);
    write_head(c);
    write_choice(c, slot);
    roco_json_raw(&c->out, "]}");
    roco_sse_end(&c->out);
}

void roco_completion_write_usage_chunk(roco_completion *c)
{
    roco_sse_begin(&c->out);
    write_head(c);
    write_usage(c);
    roco_sse_end(&c->out);
}

void roco_completion_write_whole(roco_completion *c)
{
    write_head(c);
    for (uint32_t i = 0; i < c->n_slots; i++) {
        if (i)
            roco_json_raw(&c->out, ",");
        write_choice(c, &c->slots[i]);
    }
    write_usage(c);
}

void roco_completion_write_error(roco_completion *c, const roco_problem *problem)
{
    roco_sse_begin(&c->out);
    if (roco_http_error_body(&c->out.buffer, roco_http_error_type(roco_problem_http(problem)), NULL,
                             roco_problem_code(problem), problem->error.message))
        c->out.failed = true;
    roco_sse_end(&c->out);
}
