/* The JSON of replies: OpenAI's text_completion and chat.completion objects, whole or in chunks. */
#include "server/completion.h"
#include "server/http_errors.h"
#include "server/sse.h"

#include <string.h>

static const char *object_of(const roco_completion *c)
{
    if (c->endpoint == ROCO_ENDPOINT_COMPLETIONS)
        return "text_completion";
    return c->streaming ? "chat.completion.chunk" : "chat.completion";
}

static void write_head(roco_completion *c)
{
    const char *model = c->task.app->model.id;
    roco_json_format(&c->out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object_of(c),
                     (long long)c->created);
    roco_json_string(&c->out, model, strlen(model));
    roco_json_raw(&c->out, ",\"choices\":[");
}

/* Up to the choice's own member. */
static void begin_choice(roco_completion *c, const roco_completion_slot *slot)
{
    roco_json_format(&c->out, "{\"index\":%u,", (unsigned)(slot - c->slots));
}

static void end_choice(roco_completion *c, const char *reason)
{
    roco_json_raw(&c->out, ",\"logprobs\":null,\"finish_reason\":");
    if (reason)
        roco_json_format(&c->out, "\"%s\"}", reason);
    else
        roco_json_raw(&c->out, "null}");
}

/* The choice's ready text, which for a plain reply is all of it. */
static void write_choice(roco_completion *c, const roco_completion_slot *slot)
{
    bool chat = c->endpoint == ROCO_ENDPOINT_CHAT;
    begin_choice(c, slot);
    roco_json_raw(&c->out, chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
    roco_json_raw(&c->out, chat ? ",\"refusal\":null}" : "");
    end_choice(c, roco_choice_finish_reason(&slot->choice));
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

static void begin_chunk(roco_completion *c)
{
    roco_sse_begin(&c->out);
    write_head(c);
}

static void end_chunk(roco_completion *c)
{
    roco_json_raw(&c->out, "]}");
    roco_sse_end(&c->out);
}

/* First a delta with the role, then deltas with text, last an empty one with the reason. */
static void write_deltas(roco_completion *c, roco_completion_slot *slot)
{
    const char *reason = roco_choice_finish_reason(&slot->choice);
    if (!slot->opened) {
        begin_chunk(c);
        begin_choice(c, slot);
        roco_json_raw(&c->out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
        end_choice(c, NULL);
        end_chunk(c);
        slot->opened = true;
    }
    if (slot->choice.ready) {
        begin_chunk(c);
        begin_choice(c, slot);
        roco_json_raw(&c->out, "\"delta\":{\"content\":");
        roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
        roco_json_raw(&c->out, "}");
        end_choice(c, NULL);
        end_chunk(c);
    }
    if (reason) {
        begin_chunk(c);
        begin_choice(c, slot);
        roco_json_raw(&c->out, "\"delta\":{}");
        end_choice(c, reason);
        end_chunk(c);
    }
}

void roco_completion_write_chunks(roco_completion *c, roco_completion_slot *slot)
{
    if (c->endpoint == ROCO_ENDPOINT_CHAT) {
        write_deltas(c, slot);
        return;
    }
    begin_chunk(c);
    write_choice(c, slot);
    end_chunk(c);
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
