#include "server/logprobs.h"

#include "config/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

roco_status roco_logprobs_open(const roco_completion_jobs *jobs, roco_completion_slot *slot, roco_job *job)
{
    if (!jobs->logprobs && jobs->n_tried == jobs->n_asked)
        return ROCO_OK;
    slot->choice.places_wanted = jobs->logprobs;
    slot->n_scored = jobs->echo && jobs->logprobs ? job->n_prompt : 0;
    slot->logprobs =
        malloc(((size_t)slot->n_scored + job->max_tokens + 1) * (1 + jobs->n_top) * sizeof *slot->logprobs);
    if (!slot->logprobs)
        return ROCO_NO_MEMORY;
    if (slot->n_scored) /* the first token of all has no probability */
        slot->logprobs->token = job->prompt[0];
    job->logprobs = slot->logprobs;
    job->n_top = jobs->n_top;
    job->score_prompt = slot->n_scored > 0;
    return ROCO_OK;
}

static const roco_logprob *row_of(const roco_completion *c, const roco_completion_slot *slot, uint32_t index)
{
    return slot->logprobs + (size_t)index * (1 + c->jobs.n_top);
}

static bool is_first_of_prompt(const roco_completion *c, uint32_t index)
{
    return c->jobs.echo && index == 0;
}

static void write_value(roco_json_out *out, float value)
{
    /* Nine digits read back to the same float. */
    roco_json_format(out, "%.9g", value > ROCO_LEAST_LOGPROB ? (double)value : ROCO_LEAST_LOGPROB);
}

static roco_text piece_of(const roco_completion *c, int32_t token)
{
    return roco_tokenizer_piece(c->task.app->tokenizer, token, true);
}

/* --- completions --- */

/* A token that is no text by itself is spelt as OpenAI does: bytes:\xe2\x80 */
static void write_legacy_token(roco_completion *c, roco_text piece)
{
    if (roco_utf8_valid(piece.data, piece.size)) {
        roco_json_string(&c->out, piece.data, piece.size);
        return;
    }
    roco_json_raw(&c->out, "\"bytes:");
    for (size_t i = 0; i < piece.size; i++)
        roco_json_format(&c->out, "\\\\x%02x", (unsigned char)piece.data[i]);
    roco_json_raw(&c->out, "\"");
}

static bool same_piece(roco_text a, roco_text b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* The most probable tokens by their text, and the token itself. Of equal texts one is told: the token's own, else the
 * most probable. */
static void write_map(roco_completion *c, const roco_logprob *row)
{
    const roco_text own = piece_of(c, row->token);
    roco_json_raw(&c->out, "{");
    write_legacy_token(c, own);
    roco_json_raw(&c->out, ":");
    write_value(&c->out, row->value);
    for (uint32_t i = 1; i <= c->jobs.n_top && row[i].token >= 0; i++) {
        const roco_text piece = piece_of(c, row[i].token);
        bool told = same_piece(piece, own);
        for (uint32_t j = 1; j < i && !told; j++)
            told = same_piece(piece, piece_of(c, row[j].token));
        if (told)
            continue;
        roco_json_raw(&c->out, ",");
        write_legacy_token(c, piece);
        roco_json_raw(&c->out, ":");
        write_value(&c->out, row[i].value);
    }
    roco_json_raw(&c->out, "}");
}

static void write_legacy(roco_completion *c, const roco_completion_slot *slot, uint32_t from, uint32_t end)
{
    static const char *const members[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                          "],\"text_offset\":["};
    for (int member = 0; member < 4; member++) {
        roco_json_raw(&c->out, members[member]);
        for (uint32_t i = from; i < end; i++) {
            const roco_logprob *row = row_of(c, slot, i);
            roco_json_raw(&c->out, i > from ? "," : "");
            if (member == 0)
                write_legacy_token(c, piece_of(c, row->token));
            else if (member == 3)
                roco_json_format(&c->out, "%u", roco_choice_place(&slot->choice, i).character);
            else if (is_first_of_prompt(c, i))
                roco_json_raw(&c->out, "null");
            else if (member == 1)
                write_value(&c->out, row->value);
            else
                write_map(c, row);
        }
    }
    roco_json_raw(&c->out, "]}");
}

/* --- chats --- */

/* `token`, `logprob` and `bytes` of one token, the object left open. */
static void begin_token(roco_completion *c, const roco_logprob *entry)
{
    const roco_text piece = piece_of(c, entry->token);
    roco_buffer clean = {0};
    if (roco_append_clean(&clean, piece.data, piece.size))
        c->out.failed = true;
    roco_json_raw(&c->out, "{\"token\":");
    roco_json_string(&c->out, clean.data, clean.size);
    roco_buffer_free(&clean);
    roco_json_raw(&c->out, ",\"logprob\":");
    write_value(&c->out, entry->value);
    roco_json_raw(&c->out, ",\"bytes\":[");
    for (size_t i = 0; i < piece.size; i++)
        roco_json_format(&c->out, i ? ",%u" : "%u", (unsigned char)piece.data[i]);
    roco_json_raw(&c->out, "]");
}

static void write_chat(roco_completion *c, const roco_completion_slot *slot, uint32_t from, uint32_t end)
{
    roco_json_raw(&c->out, "{\"content\":[");
    for (uint32_t i = from; i < end; i++) {
        const roco_logprob *row = row_of(c, slot, i);
        roco_json_raw(&c->out, i > from ? "," : "");
        begin_token(c, row);
        roco_json_raw(&c->out, ",\"top_logprobs\":[");
        for (uint32_t t = 1; t <= c->jobs.n_top && row[t].token >= 0; t++) {
            roco_json_raw(&c->out, t > 1 ? "," : "");
            begin_token(c, &row[t]);
            roco_json_raw(&c->out, "}");
        }
        roco_json_raw(&c->out, "]}");
    }
    roco_json_raw(&c->out, "],\"refusal\":null}");
}

void roco_logprobs_write(roco_completion *c, roco_completion_slot *slot)
{
    const uint32_t from = slot->n_logprobs, end = c->jobs.logprobs ? roco_choice_placed(&slot->choice, from) : 0;
    if (!c->jobs.logprobs || (c->streaming && from == end)) {
        roco_json_raw(&c->out, "null");
        return;
    }
    if (c->endpoint == ROCO_ENDPOINT_CHAT)
        write_chat(c, slot, from, end);
    else
        write_legacy(c, slot, from, end);
    slot->n_logprobs = end;
}

double roco_logprobs_mean(const roco_completion *c, const roco_completion_slot *slot)
{
    const uint32_t n = slot->choice.n_generated, first = slot->n_scored;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += row_of(c, slot, first + i)->value;
    return n ? sum / n : 0;
}
