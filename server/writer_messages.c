/* Anthropic's message objects, whole or as typed events. Each part of a turn is a block of the content. */
#include "server/writer.h"

#include "http/errors.h"

#include <inttypes.h>
#include <string.h>

/* --- blocks --- */

/* An input must be an object. What the model wrote that is none is wrapped, so that it is not lost. */
static void write_input(roco_completion *c, const roco_part *part)
{
    cJSON *parsed = NULL;
    bool good = roco_json_parse(part->text.data ? part->text.data : "", part->text.size, &parsed, NULL) == ROCO_OK &&
                cJSON_IsObject(parsed);
    cJSON_Delete(parsed);
    if (good) {
        roco_json_raw(&c->out, part->text.data);
        return;
    }
    roco_json_raw(&c->out, "{\"INVALID_JSON\":");
    roco_json_string(&c->out, part->text.data, part->text.size);
    roco_json_raw(&c->out, "}");
}

static void write_block(roco_completion *c, const roco_completion_slot *slot, const roco_part *part, bool whole)
{
    size_t size = whole ? part->text.size : 0;
    switch (part->kind) {
    case ROCO_PART_TEXT:
        roco_json_raw(&c->out, "{\"type\":\"text\",\"text\":");
        roco_json_string(&c->out, part->text.data, size);
        roco_json_raw(&c->out, "}");
        return;
    case ROCO_PART_REASONING:
        roco_json_raw(&c->out, "{\"type\":\"thinking\",\"thinking\":");
        roco_json_string(&c->out, part->text.data, size);
        roco_json_raw(&c->out, ",\"signature\":\"\"}");
        return;
    case ROCO_PART_CALL:
        roco_json_raw(&c->out, "{\"type\":\"tool_use\",\"id\":");
        roco_writer_call_id(c, slot, part, "toolu_");
        roco_json_raw(&c->out, ",\"name\":");
        roco_json_string(&c->out, part->name.data, part->name.size);
        roco_json_raw(&c->out, ",\"input\":");
        if (whole)
            write_input(c, part);
        roco_json_raw(&c->out, whole ? "}" : "{}}");
        return;
    }
}

/* --- the message --- */

static void write_stop(roco_completion *c)
{
    const roco_completion_slot *slot = c->slots;
    const roco_stop_set *stops = &c->jobs.stops;
    int stop = slot->choice.cut ? roco_stop_matched(stops, &slot->choice.stop_state) : -1;
    const char *reason = slot->choice.finish == ROCO_FINISH_LENGTH ? "max_tokens"
                         : stop >= 0                               ? "stop_sequence"
                         : slot->turn.n_calls                      ? "tool_use"
                                                                   : "end_turn";
    roco_json_format(&c->out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (stop >= 0)
        roco_json_string(&c->out, stops->text[stop], stops->length[stop]);
    else
        roco_json_raw(&c->out, "null");
}

static void write_usage(roco_completion *c)
{
    roco_usage usage = roco_completion_usage(c);
    roco_json_format(&c->out,
                     "\"usage\":{\"input_tokens\":%" PRIu64 ",\"output_tokens\":%" PRIu64
                     ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0",
                     usage.prompt_tokens, usage.completion_tokens);
    roco_usage_write_kv(&c->out, &usage);
    roco_json_raw(&c->out, "}");
}

static void write_head(roco_completion *c)
{
    const char *model = c->task.app->model.id;
    roco_json_format(&c->out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", c->id);
    roco_json_string(&c->out, model, strlen(model));
    roco_json_raw(&c->out, ",\"content\":[");
}

static void whole(roco_completion *c)
{
    const char *between = "";
    write_head(c);
    for (size_t i = 0; i < c->slots->turn.n_parts; i++) {
        const roco_part *part = &c->slots->turn.parts[i];
        if (!roco_writer_tells(c, part))
            continue;
        roco_json_raw(&c->out, between);
        write_block(c, c->slots, part, true);
        between = ",";
    }
    roco_json_raw(&c->out, "],");
    write_stop(c);
    roco_json_raw(&c->out, ",");
    write_usage(c);
    roco_json_raw(&c->out, "}");
}

/* --- events --- */

static void begin_event(roco_completion *c, const char *type)
{
    roco_json_format(&c->out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void end_event(roco_completion *c)
{
    roco_json_raw(&c->out, "}\n\n");
}

static void begin(roco_completion *c)
{
    begin_event(c, "message_start");
    roco_json_raw(&c->out, ",\"message\":");
    write_head(c);
    roco_json_raw(&c->out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    write_usage(c);
    roco_json_raw(&c->out, "}");
    end_event(c);
}

static void open_part(roco_completion *c, roco_completion_slot *slot, const roco_part *part)
{
    if (!roco_writer_tells(c, part))
        return;
    begin_event(c, "content_block_start");
    roco_json_format(&c->out, ",\"index\":%u,\"content_block\":", roco_writer_place(c, slot, part));
    write_block(c, slot, part, false);
    end_event(c);
}

static void write_piece(roco_completion *c, roco_completion_slot *slot, const roco_part *part, const char *data,
                        size_t size)
{
    static const char *const deltas[] = {
        [ROCO_PART_TEXT] = "{\"type\":\"text_delta\",\"text\":",
        [ROCO_PART_REASONING] = "{\"type\":\"thinking_delta\",\"thinking\":",
        [ROCO_PART_CALL] = "{\"type\":\"input_json_delta\",\"partial_json\":",
    };
    if (!roco_writer_tells(c, part))
        return;
    begin_event(c, "content_block_delta");
    roco_json_format(&c->out, ",\"index\":%u,\"delta\":%s", roco_writer_place(c, slot, part), deltas[part->kind]);
    roco_json_string(&c->out, data, size);
    roco_json_raw(&c->out, "}");
    end_event(c);
}

static void close_part(roco_completion *c, roco_completion_slot *slot, const roco_part *part)
{
    if (!roco_writer_tells(c, part))
        return;
    begin_event(c, "content_block_stop");
    roco_json_format(&c->out, ",\"index\":%u", roco_writer_place(c, slot, part));
    end_event(c);
}

static const roco_part_events events = {.open = open_part, .piece = write_piece, .close = close_part};

static void advance(roco_completion *c, roco_completion_slot *slot)
{
    roco_writer_tell(c, slot, &events);
}

static void end(roco_completion *c)
{
    begin_event(c, "message_delta");
    roco_json_raw(&c->out, ",\"delta\":{");
    write_stop(c);
    roco_json_raw(&c->out, "},");
    write_usage(c);
    end_event(c);
    begin_event(c, "message_stop");
    end_event(c);
}

static void error(roco_completion *c, const roco_problem *problem)
{
    roco_json_raw(&c->out, "event: error\ndata: ");
    if (roco_http_anthropic_body(&c->out.buffer, roco_problem_http(problem), problem->error.message))
        c->out.failed = true;
    roco_json_raw(&c->out, "\n\n");
}

static void keep_alive(roco_json_out *out)
{
    roco_json_raw(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

const roco_writer roco_messages_writer = {
    .id_prefix = "msg_",
    .whole = whole,
    .begin = begin,
    .advance = advance,
    .end = end,
    .error = error,
    .keep_alive = keep_alive,
};
