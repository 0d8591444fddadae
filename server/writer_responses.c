/* OpenAI's response objects, whole or as typed events. Each part of a turn is an item of the output. */
#include "server/writer.h"

#include "http/sse.h"

#include <inttypes.h>
#include <string.h>

/* --- items --- */

static void write_id(roco_completion *c, const roco_completion_slot *slot, const roco_part *part)
{
    static const char *const prefixes[] = {
        [ROCO_PART_TEXT] = "msg", [ROCO_PART_REASONING] = "rs", [ROCO_PART_CALL] = "fc"};
    roco_json_format(&c->out, "\"%s_%016" PRIx64 "%04x\"", prefixes[part->kind], c->unique,
                     roco_writer_place(c, slot, part));
}

/* The text of a message or of reasoning; NULL: not yet. */
static void write_content(roco_completion *c, const roco_part *part, const roco_buffer *text)
{
    bool answer = part->kind == ROCO_PART_TEXT;
    roco_json_raw(&c->out, answer ? "{\"type\":\"output_text\",\"text\":" : "{\"type\":\"reasoning_text\",\"text\":");
    roco_json_string(&c->out, text ? text->data : "", text ? text->size : 0);
    roco_json_raw(&c->out, answer ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

static void write_item(roco_completion *c, const roco_completion_slot *slot, const roco_part *part, bool whole)
{
    bool cut = slot->choice.done && slot->choice.finish == ROCO_FINISH_LENGTH &&
               part + 1 == slot->turn.parts + slot->turn.n_parts;
    const char *status = !whole ? "in_progress" : cut ? "incomplete" : "completed";
    roco_json_raw(&c->out, "{\"id\":");
    write_id(c, slot, part);
    roco_json_format(&c->out, ",\"status\":\"%s\",", status);
    if (part->kind == ROCO_PART_CALL) {
        roco_json_raw(&c->out, "\"type\":\"function_call\",\"call_id\":");
        roco_writer_call_id(c, slot, part, "call_");
        roco_json_raw(&c->out, ",\"name\":");
        roco_json_string(&c->out, part->name.data, part->name.size);
        roco_json_raw(&c->out, ",\"arguments\":");
        roco_json_string(&c->out, part->text.data, whole ? part->text.size : 0);
        roco_json_raw(&c->out, "}");
        return;
    }
    roco_json_raw(&c->out, part->kind == ROCO_PART_TEXT ? "\"type\":\"message\",\"role\":\"assistant\",\"content\":["
                                                        : "\"type\":\"reasoning\",\"summary\":[],\"content\":[");
    if (whole)
        write_content(c, part, &part->text);
    roco_json_raw(&c->out, "]}");
}

/* --- the response --- */

static void write_usage(roco_completion *c)
{
    roco_usage usage = roco_completion_usage(c);
    roco_json_format(&c->out,
                     ",\"usage\":{\"input_tokens\":%" PRIu64 ",\"input_tokens_details\":{\"cached_tokens\":0,"
                     "\"cache_write_tokens\":0},\"output_tokens\":%" PRIu64
                     ",\"output_tokens_details\":{\"reasoning_tokens\":%u},\"total_tokens\":%" PRIu64,
                     usage.prompt_tokens, usage.completion_tokens, c->slots->n_reasoning,
                     usage.prompt_tokens + usage.completion_tokens);
    roco_usage_write_kv(&c->out, &usage);
    roco_json_raw(&c->out, "}");
}

static void write_output(roco_completion *c)
{
    const roco_completion_slot *slot = c->slots;
    const char *between = "";
    for (size_t i = 0; i < slot->turn.n_parts; i++) {
        if (!roco_writer_tells(c, &slot->turn.parts[i]))
            continue;
        roco_json_raw(&c->out, between);
        write_item(c, slot, &slot->turn.parts[i], true);
        between = ",";
    }
}

/* problem NULL: none. */
static void write_response(roco_completion *c, const roco_problem *problem)
{
    const roco_choice *choice = &c->slots->choice;
    const char *model = c->task.app->model.id;
    bool ended = choice->done && !problem, cut = ended && choice->finish == ROCO_FINISH_LENGTH;
    roco_json_format(&c->out,
                     "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"model\":", c->id,
                     (long long)c->created,
                     problem ? "failed"
                     : cut   ? "incomplete"
                     : ended ? "completed"
                             : "in_progress");
    roco_json_string(&c->out, model, strlen(model));
    roco_json_raw(&c->out,
                  cut ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}" : ",\"incomplete_details\":null");
    if (problem) {
        const char *code = roco_problem_code(problem);
        roco_json_raw(&c->out, ",\"error\":{\"code\":");
        roco_json_string(&c->out, code ? code : "server_error", strlen(code ? code : "server_error"));
        roco_json_raw(&c->out, ",\"message\":");
        roco_json_string(&c->out, problem->error.message, strlen(problem->error.message));
        roco_json_raw(&c->out, "}");
    } else {
        roco_json_raw(&c->out, ",\"error\":null");
    }
    roco_json_raw(&c->out, c->jobs.repeated.data);
    roco_json_raw(&c->out, ",\"output\":[");
    if (ended)
        write_output(c);
    roco_json_raw(&c->out, "]");
    if (ended)
        write_usage(c);
    roco_json_raw(&c->out, ended ? "}" : ",\"usage\":null}");
}

static void whole(roco_completion *c)
{
    write_response(c, NULL);
}

/* --- events --- */

static void begin_event(roco_completion *c, const char *type)
{
    roco_json_format(&c->out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type, c->n_events++);
}

static void end_event(roco_completion *c)
{
    roco_json_raw(&c->out, "}\n\n");
}

static void write_response_event(roco_completion *c, const char *type, const roco_problem *problem)
{
    begin_event(c, type);
    roco_json_raw(&c->out, ",\"response\":");
    write_response(c, problem);
    end_event(c);
}

static void begin(roco_completion *c)
{
    write_response_event(c, "response.created", NULL);
    write_response_event(c, "response.in_progress", NULL);
}

static void write_item_event(roco_completion *c, const roco_completion_slot *slot, const roco_part *part,
                             const char *type, bool whole_item)
{
    begin_event(c, type);
    roco_json_format(&c->out, ",\"output_index\":%u,\"item\":", roco_writer_place(c, slot, part));
    write_item(c, slot, part, whole_item);
    end_event(c);
}

/* Up to what the event says of the item's content. */
static void begin_part_event(roco_completion *c, const roco_completion_slot *slot, const roco_part *part,
                             const char *type)
{
    begin_event(c, type);
    roco_json_raw(&c->out, ",\"item_id\":");
    write_id(c, slot, part);
    roco_json_format(&c->out, ",\"output_index\":%u", roco_writer_place(c, slot, part));
    roco_json_raw(&c->out, part->kind == ROCO_PART_CALL ? "" : ",\"content_index\":0");
}

static void write_content_event(roco_completion *c, const roco_completion_slot *slot, const roco_part *part,
                                const char *type, const roco_buffer *text)
{
    if (part->kind == ROCO_PART_CALL)
        return;
    begin_part_event(c, slot, part, type);
    roco_json_raw(&c->out, ",\"part\":");
    write_content(c, part, text);
    end_event(c);
}

static void open_part(roco_completion *c, roco_completion_slot *slot, const roco_part *part)
{
    if (!roco_writer_tells(c, part))
        return;
    write_item_event(c, slot, part, "response.output_item.added", false);
    write_content_event(c, slot, part, "response.content_part.added", NULL);
}

static void write_piece(roco_completion *c, roco_completion_slot *slot, const roco_part *part, const char *data,
                        size_t size)
{
    static const char *const types[] = {[ROCO_PART_TEXT] = "response.output_text.delta",
                                        [ROCO_PART_REASONING] = "response.reasoning_text.delta",
                                        [ROCO_PART_CALL] = "response.function_call_arguments.delta"};
    if (!roco_writer_tells(c, part))
        return;
    begin_part_event(c, slot, part, types[part->kind]);
    roco_json_raw(&c->out, ",\"delta\":");
    roco_json_string(&c->out, data, size);
    roco_json_raw(&c->out, part->kind == ROCO_PART_TEXT ? ",\"logprobs\":[]" : "");
    end_event(c);
}

static void close_part(roco_completion *c, roco_completion_slot *slot, const roco_part *part)
{
    static const char *const types[] = {[ROCO_PART_TEXT] = "response.output_text.done",
                                        [ROCO_PART_REASONING] = "response.reasoning_text.done",
                                        [ROCO_PART_CALL] = "response.function_call_arguments.done"};
    if (!roco_writer_tells(c, part))
        return;
    begin_part_event(c, slot, part, types[part->kind]);
    roco_json_raw(&c->out, part->kind == ROCO_PART_CALL ? ",\"arguments\":" : ",\"text\":");
    roco_json_string(&c->out, part->text.data, part->text.size);
    if (part->kind == ROCO_PART_CALL) {
        roco_json_raw(&c->out, ",\"name\":");
        roco_json_string(&c->out, part->name.data, part->name.size);
    }
    roco_json_raw(&c->out, part->kind == ROCO_PART_TEXT ? ",\"logprobs\":[]" : "");
    end_event(c);
    write_content_event(c, slot, part, "response.content_part.done", &part->text);
    write_item_event(c, slot, part, "response.output_item.done", true);
}

static const roco_part_events events = {.open = open_part, .piece = write_piece, .close = close_part};

static void advance(roco_completion *c, roco_completion_slot *slot)
{
    roco_writer_tell(c, slot, &events);
}

static void end(roco_completion *c)
{
    bool cut = c->slots->choice.finish == ROCO_FINISH_LENGTH;
    write_response_event(c, cut ? "response.incomplete" : "response.completed", NULL);
}

static void error(roco_completion *c, const roco_problem *problem)
{
    write_response_event(c, "response.failed", problem);
}

const roco_writer roco_responses_writer = {
    .id_prefix = "resp_",
    .whole = whole,
    .begin = begin,
    .advance = advance,
    .end = end,
    .error = error,
    .keep_alive = roco_sse_comment,
};
