/* OpenAI's chat.completion objects, whole or in chunks. */
#include "server/writer.h"

static const char object[] = "chat.completion", chunk[] = "chat.completion.chunk";

static void write_message(roco_completion *c, roco_completion_slot *slot)
{
    roco_writer_begin_choice(c, slot);
    roco_json_raw(&c->out, "\"message\":{\"role\":\"assistant\",\"content\":");
    roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
    roco_json_raw(&c->out, ",\"refusal\":null}");
    roco_writer_end_choice(c, slot, roco_choice_finish_reason(&slot->choice));
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

/* First a delta with the role, then deltas with text, last an empty one with the reason. */
static void advance(roco_completion *c, roco_completion_slot *slot)
{
    const char *reason = roco_choice_finish_reason(&slot->choice);
    if (!slot->opened) {
        begin_delta(c, slot);
        roco_json_raw(&c->out, "\"role\":\"assistant\",\"content\":\"\"");
        end_delta(c, NULL, NULL);
        slot->opened = true;
    }
    if (slot->choice.ready) {
        begin_delta(c, slot);
        roco_json_raw(&c->out, "\"content\":");
        roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
        end_delta(c, slot, NULL);
    }
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
};
