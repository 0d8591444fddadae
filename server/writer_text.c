/* OpenAI's text_completion objects, whole or in chunks. */
#include "server/logprobs.h"
#include "http/sse.h"
#include "server/writer.h"

static const char object[] = "text_completion";

/* The choice's ready text, which for a plain reply is all of it. */
static void write_choice(roco_completion *c, roco_completion_slot *slot)
{
    roco_writer_begin_choice(c, slot);
    roco_json_raw(&c->out, "\"text\":");
    roco_json_string(&c->out, slot->choice.text.data, slot->choice.ready);
    roco_writer_end_choice(c, slot, roco_choice_finish_reason(&slot->choice));
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

/* The most probable of tried[n] that was not taken yet, the first among equals. */
static roco_completion_slot *take_best(const roco_completion *c, roco_completion_slot *tried, uint32_t n)
{
    roco_completion_slot *best = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!tried[i].taken && (!best || roco_logprobs_mean(c, &tried[i]) > roco_logprobs_mean(c, best)))
            best = &tried[i];
    best->taken = true;
    return best;
}

static void whole(roco_completion *c)
{
    const uint32_t n_asked = c->jobs.n_asked, n_tried = c->jobs.n_tried, n = c->n_slots / n_tried * n_asked;
    roco_writer_head(c, object);
    for (uint32_t i = 0; i < n; i++) {
        roco_completion_slot *slot = &c->slots[i];
        if (n_asked < n_tried)
            slot = take_best(c, c->slots + i / n_asked * n_tried, n_tried);
        slot->index = i;
        roco_json_raw(&c->out, i ? "," : "");
        write_choice(c, slot);
    }
    roco_writer_usage(c);
}

const roco_writer roco_text_writer = {
    .id_prefix = "cmpl-",
    .whole = whole,
    .advance = advance,
    .end = end,
    .error = roco_writer_error,
    .keep_alive = roco_sse_comment,
};
