/* What the writers share. */
#include "server/writer.h"

#include "http/errors.h"
#include "server/logprobs.h"
#include "http/sse.h"

#include <string.h>

const roco_writer *roco_writer_of(roco_endpoint endpoint)
{
    static const roco_writer *const writers[] = {
        [ROCO_ENDPOINT_COMPLETIONS] = &roco_text_writer,
        [ROCO_ENDPOINT_CHAT] = &roco_chat_writer,
        [ROCO_ENDPOINT_RESPONSES] = &roco_responses_writer,
        [ROCO_ENDPOINT_MESSAGES] = &roco_messages_writer,
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

/* --- what a turn holds --- */

const char *roco_writer_reason(const roco_completion_slot *slot)
{
    if (slot->choice.done && slot->choice.finish == ROCO_FINISH_STOP && slot->turn.n_calls)
        return "tool_calls";
    return roco_choice_finish_reason(&slot->choice);
}

void roco_writer_tell(roco_completion *c, roco_completion_slot *slot, const roco_part_events *events)
{
    for (; slot->part < slot->turn.n_parts; slot->part++) {
        const roco_part *part = &slot->turn.parts[slot->part];
        bool last = slot->part + 1 == slot->turn.n_parts;
        if (!slot->part_opened && events->open)
            events->open(c, slot, part);
        slot->part_opened = true;
        if (part->text.size > slot->part_told)
            events->piece(c, slot, part, part->text.data + slot->part_told, part->text.size - slot->part_told);
        slot->part_told = part->text.size;
        if (last && !slot->choice.done)
            return;
        if (events->close)
            events->close(c, slot, part);
        slot->part_opened = false;
        slot->part_told = 0;
    }
}

bool roco_writer_tells(const roco_completion *c, const roco_part *part)
{
    return part->kind != ROCO_PART_REASONING || c->jobs.turn.include_reasoning;
}

unsigned roco_writer_place(const roco_completion *c, const roco_completion_slot *slot, const roco_part *part)
{
    unsigned place = 0;
    for (const roco_part *at = slot->turn.parts; at < part; at++)
        place += roco_writer_tells(c, at);
    return place;
}

size_t roco_writer_call_index(const roco_completion_slot *slot, const roco_part *call)
{
    size_t index = 0;
    for (const roco_part *part = slot->turn.parts; part < call; part++)
        index += part->kind == ROCO_PART_CALL;
    return index;
}

/* Mistral's templates take nothing but nine letters and digits. */
static void write_short_id(roco_json_out *out, uint64_t unique, size_t slot, size_t index)
{
    char id[] = "123456789";
    uint64_t left = (unique + 1000003 * slot + index) * 0x9e3779b97f4a7c15u;
    for (char *at = id; *at; at++, left /= 36)
        *at = "0123456789abcdefghijklmnopqrstuvwxyz"[left % 36];
    roco_json_format(out, "\"%s\"", id);
}

void roco_writer_call_id(roco_completion *c, const roco_completion_slot *slot, const roco_part *call,
                         const char *prefix)
{
    size_t number = (size_t)(slot - c->slots), index = roco_writer_call_index(slot, call);
    const roco_call_form *form = c->jobs.turn.form.calls;
    if (form && form->short_ids)
        write_short_id(&c->out, c->unique, number, index);
    else
        roco_json_format(&c->out, "\"%s%016llx%02zx%02zx\"", prefix, (unsigned long long)c->unique, number, index);
}

bool roco_writer_has(const roco_completion_slot *slot, roco_part_kind kind)
{
    for (size_t i = 0; i < slot->turn.n_parts; i++)
        if (slot->turn.parts[i].kind == kind)
            return true;
    return false;
}

void roco_writer_text(roco_completion *c, const roco_completion_slot *slot, roco_part_kind kind)
{
    roco_buffer text = {0};
    for (size_t i = 0; i < slot->turn.n_parts; i++) {
        const roco_part *part = &slot->turn.parts[i];
        if (part->kind == kind && roco_buffer_append(&text, part->text.data, part->text.size))
            c->out.failed = true;
    }
    roco_json_string(&c->out, text.data, text.size);
    roco_buffer_free(&text);
}

/* --- OpenAI's older forms --- */

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
