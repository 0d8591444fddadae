/* OpenAI's chat.completion objects, whole or in chunks. */
#include "http/sse.h"
#include "server/writer.h"

static const char object[] = "chat.completion", chunk[] = "chat.completion.chunk";

/* --- whole --- */

static void write_call(roco_completion *c, const roco_completion_slot *slot, const roco_part *call)
{
    roco_json_raw(&c->out, "{\"id\":");
    roco_writer_call_id(c, slot, call, "call_");
    roco_json_raw(&c->out, ",\"type\":\"function\",\"function\":{\"name\":");
    roco_json_string(&c->out, call->name.data, call->name.size);
    roco_json_raw(&c->out, ",\"arguments\":");
    roco_json_string(&c->out, call->text.data, call->text.size);
    roco_json_raw(&c->out, "}}");
}

static void write_calls(roco_completion *c, const roco_completion_slot *slot)
{
    const char *between = ",\"tool_calls\":[";
    for (size_t i = 0; i < slot->turn.n_parts; i++) {
        if (slot->turn.parts[i].kind != ROCO_PART_CALL)
            continue;
        roco_json_raw(&c->out, between);
        write_call(c, slot, &slot->turn.parts[i]);
        between = ",";
    }
    roco_json_raw(&c->out, slot->turn.n_calls ? "]" : "");
}

static void write_message(roco_completion *c, roco_completion_slot *slot)
{
    bool silent = slot->turn.n_calls && !roco_writer_has(slot, ROCO_PART_TEXT);
    roco_writer_begin_choice(c, slot);
    roco_json_raw(&c->out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (silent)
        roco_json_raw(&c->out, "null");
    else
        roco_writer_text(c, slot, ROCO_PART_TEXT);
    if (c->jobs.turn.include_reasoning && roco_writer_has(slot, ROCO_PART_REASONING)) {
        roco_json_raw(&c->out, ",\"reasoning_content\":");
        roco_writer_text(c, slot, ROCO_PART_REASONING);
    }
    write_calls(c, slot);
    roco_json_raw(&c->out, ",\"refusal\":null}");
    roco_writer_end_choice(c, slot, roco_writer_reason(slot));
}

static void whole(roco_completion *c)
{
    roco_writer_head(c, object);
    for (uint32_t i = 0; i < c->n_slots; i++) {
        if (i)
            roco_json_raw(&c->out, ",");
        write_message(c, &c->slots[i]);
    }
    roco_writer_usage(c);
}

/* --- in chunks --- */

static void begin_delta(roco_completion *c, const roco_completion_slot *slot)
{
    roco_writer_begin_chunk(c, chunk);
    roco_writer_begin_choice(c, slot);
    roco_json_raw(&c->out, "\"delta\":{");
}

static void end_delta(roco_completion *c, roco_completion_slot *slot, const char *reason)
{
    roco_json_raw(&c->out, "}");
    roco_writer_end_choice(c, slot, reason);
    roco_writer_end_chunk(c);
}

static void begin_call_delta(roco_completion *c, const roco_completion_slot *slot, const roco_part *call)
{
    begin_delta(c, slot);
    roco_json_format(&c->out, "\"tool_calls\":[{\"index\":%zu,", roco_writer_call_index(slot, call));
}

static void open_part(roco_completion *c, roco_completion_slot *slot, const roco_part *part)
{
    if (part->kind != ROCO_PART_CALL)
        return;
    begin_call_delta(c, slot, part);
    roco_json_raw(&c->out, "\"id\":");
    roco_writer_call_id(c, slot, part, "call_");
    roco_json_raw(&c->out, ",\"type\":\"function\",\"function\":{\"name\":");
    roco_json_string(&c->out, part->name.data, part->name.size);
    roco_json_raw(&c->out, ",\"arguments\":\"\"}}]");
    end_delta(c, NULL, NULL);
}

static void write_piece(roco_completion *c, roco_completion_slot *slot, const roco_part *part, const char *data,
                        size_t size)
{
    if (!roco_writer_tells(c, part))
        return;
    if (part->kind == ROCO_PART_CALL) {
        begin_call_delta(c, slot, part);
        roco_json_raw(&c->out, "\"function\":{\"arguments\":");
        roco_json_string(&c->out, data, size);
        roco_json_raw(&c->out, "}}]");
    } else {
        begin_delta(c, slot);
        roco_json_raw(&c->out, part->kind == ROCO_PART_TEXT ? "\"content\":" : "\"reasoning_content\":");
        roco_json_string(&c->out, data, size);
    }
    end_delta(c, slot, NULL);
}

static const roco_part_events events = {.open = open_part, .piece = write_piece};

/* First a delta with the role, then deltas with what the turn holds, last an empty one with the reason. */
static void advance(roco_completion *c, roco_completion_slot *slot)
{
    const char *reason = roco_writer_reason(slot);
    if (!slot->opened && (reason || slot->turn.n_parts)) {
        begin_delta(c, slot);
        roco_json_raw(&c->out, "\"role\":\"assistant\",\"content\":\"\"");
        end_delta(c, NULL, NULL);
        slot->opened = true;
    }
    roco_writer_tell(c, slot, &events);
    if (reason) {
        begin_delta(c, slot);
        end_delta(c, slot, reason);
    }
}

static void end(roco_completion *c)
{
    roco_writer_end_stream(c, chunk);
}

const roco_writer roco_chat_writer = {
    .id_prefix = "chatcmpl-",
    .whole = whole,
    .advance = advance,
    .end = end,
    .error = roco_writer_error,
    .keep_alive = roco_sse_comment,
};
