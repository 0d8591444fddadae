/* OpenAI's text_completion objects, whole or in chunks. */
#include "server/writer.h"

static const char object[] = "text_completion";

/* The choice's ready text, which for a plain reply is all of it. */
static void write_choice(roco_completion *c, const roco_completion_slot *slot)
{
    roco_writer_begin_choice(c, slot);
    roco_json_raw(&c->out, "\"text\":");
    roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
    roco_writer_end_choice(c, roco_choice_finish_reason(&slot->choice));
}

static void advance(roco_completion *c, roco_completion_slot *slot)
{
    roco_writer_begin_chunk(c, object);
    write_choice(c, slot);
    roco_writer_end_chunk(c);
}

static void end(roco_completion *c)
{
    roco_writer_end_stream(c, object);
}

static void whole(roco_completion *c)
{
    roco_writer_head(c, object);
    for (uint32_t i = 0; i < c->n_slots; i++) {
        if (i)
            roco_json_raw(&c->out, ",");
        write_choice(c, &c->slots[i]);
    }
    roco_writer_usage(c);
}

const roco_writer roco_text_writer = {
    .id_prefix = "cmpl-",
    .whole = whole,
    .advance = advance,
    .end = end,
    .error = roco_writer_error,
};
