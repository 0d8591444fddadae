/* Text of one choice: bytes -> whole characters -> stop strings -> text. */
#include "server/choice.h"

#include "config/utf8.h"

#include <string.h>

void roco_choice_init(roco_choice *choice, const roco_stop_set *stops)
{
    memset(choice, 0, sizeof *choice);
    choice->stops = stops;
}

void roco_choice_free(roco_choice *choice)
{
    roco_buffer_free(&choice->bytes);
    roco_buffer_free(&choice->text);
    roco_buffer_free(&choice->places);
}

void roco_choice_show(roco_choice *choice, const int32_t *shown, uint32_t n_shown)
{
    choice->shown = shown;
    choice->n_shown = n_shown;
}

static bool is_shown(const roco_choice *choice, int32_t token)
{
    for (uint32_t i = 0; i < choice->n_shown; i++)
        if (choice->shown[i] == token)
            return true;
    return false;
}

/* Length of the ill-formed part at the front: as many bytes as could have begun a character, at least one. */
static size_t ill_formed(const char *data, size_t size)
{
    size_t length = 1;
    while (length < 3 && length < size && roco_utf8_complete_prefix(data, length + 1) == 0)
        length++;
    return length;
}

roco_status roco_append_clean(roco_buffer *out, const char *data, size_t size)
{
    while (size) {
        size_t valid = roco_utf8_valid_prefix(data, size);
        roco_status status = roco_buffer_append(out, data, valid);
        data += valid;
        size -= valid;
        if (!status && size) {
            size_t bad = ill_formed(data, size);
            status = roco_buffer_append(out, "\xef\xbf\xbd", 3);
            data += bad;
            size -= bad;
        }
        if (status)
            return status;
    }
    return ROCO_OK;
}

/* Runs the matcher over text[from..] and moves `ready` on. */
static bool match_stops(roco_choice *choice, size_t from)
{
    for (size_t i = from; i < choice->text.size; i++) {
        size_t length = roco_stop_step(choice->stops, &choice->stop_state, choice->text.data[i]);
        if (length) {
            choice->text.size = i + 1 - length;
            choice->text.data[choice->text.size] = '\0';
            choice->ready = choice->text.size;
            return true;
        }
    }
    choice->ready = choice->text.size - roco_stop_pending(choice->stops, &choice->stop_state);
    return false;
}

static uint32_t count_characters(const char *text, size_t size)
{
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Moves the first `size` held bytes on to the text. */
static roco_status add_text(roco_choice *choice, size_t size)
{
    size_t from = choice->text.size;
    roco_status status = roco_append_clean(&choice->text, choice->bytes.data, size);
    if (status)
        return status;
    roco_buffer_consume(&choice->bytes, size);
    if (choice->places_wanted)
        choice->characters += count_characters(choice->text.data + from, choice->text.size - from);
    return ROCO_OK;
}

static roco_status release(roco_choice *choice, size_t size, bool *stopped)
{
    size_t from = choice->text.size;
    roco_status status = add_text(choice, size);
    if (!status)
        *stopped = match_stops(choice, from);
    return status;
}

static roco_status place_token(roco_choice *choice)
{
    if (!choice->places_wanted)
        return ROCO_OK;
    const roco_token_place place = {(uint32_t)(choice->sent + choice->text.size), choice->characters};
    return roco_buffer_append(&choice->places, &place, sizeof place);
}

roco_status roco_choice_echo(roco_choice *choice, const roco_tokenizer *tokenizer, const int32_t *prompt, uint32_t n,
                             uint32_t unsaid)
{
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        roco_text piece = roco_tokenizer_piece(tokenizer, prompt[i], true);
        const size_t skipped = piece.size < unsaid ? piece.size : unsaid;
        unsaid -= (uint32_t)skipped;
        status = place_token(choice);
        if (!status)
            status = roco_buffer_append(&choice->bytes, piece.data + skipped, piece.size - skipped);
        if (!status)
            status = add_text(choice, roco_utf8_complete_prefix(choice->bytes.data, choice->bytes.size));
    }
    choice->ready = choice->text.size;
    return status;
}

roco_status roco_choice_append(roco_choice *choice, const char *data, size_t size, bool *stopped)
{
    *stopped = false;
    roco_status status = roco_buffer_append(&choice->bytes, data, size);
    if (status)
        return status;
    return release(choice, roco_utf8_complete_prefix(choice->bytes.data, choice->bytes.size), stopped);
}

roco_status roco_choice_flush(roco_choice *choice)
{
    bool stopped = false;
    roco_status status = choice->bytes.size ? release(choice, choice->bytes.size, &stopped) : ROCO_OK;
    choice->ready = choice->text.size;
    return status;
}

void roco_choice_sent(roco_choice *choice)
{
    choice->sent += choice->ready;
    roco_buffer_consume(&choice->text, choice->ready);
    choice->ready = 0;
}

roco_token_place roco_choice_place(const roco_choice *choice, uint32_t index)
{
    return ((const roco_token_place *)(const void *)choice->places.data)[index];
}

uint32_t roco_choice_placed(const roco_choice *choice, uint32_t from)
{
    const uint32_t n = (uint32_t)(choice->places.size / sizeof(roco_token_place));
    const size_t end = choice->sent + choice->ready;
    if (choice->done && !choice->cut)
        return n;
    while (from < n && roco_choice_place(choice, from).byte < end)
        from++;
    return from;
}

static roco_status finish(roco_choice *choice, roco_finish reason)
{
    choice->done = true;
    choice->finish = reason;
    return roco_choice_flush(choice);
}

static roco_status take_token(roco_choice *choice, const roco_tokenizer *tokenizer, const roco_event *event)
{
    choice->n_generated = event->n_generated;
    choice->kv = event->kv;
    choice->evicted_mass = event->evicted_mass;
    if (event->finish == ROCO_FINISH_STOP) /* an end token is counted but has no text of its own */
        return finish(choice, ROCO_FINISH_STOP);
    roco_text piece = roco_tokenizer_piece(tokenizer, event->token, is_shown(choice, event->token));
    bool stopped = false;
    roco_status status = place_token(choice);
    if (!status)
        status = roco_choice_append(choice, piece.data, piece.size, &stopped);
    if (status)
        return status;
    if (stopped) {
        choice->done = true;
        choice->cut = true;
        choice->finish = ROCO_FINISH_STOP;
        return ROCO_OK;
    }
    return event->finish == ROCO_FINISH_NONE ? ROCO_OK : finish(choice, event->finish);
}

roco_status roco_choice_take(roco_choice *choice, const roco_tokenizer *tokenizer, const roco_event *event)
{
    if (choice->done || event->kind == ROCO_EVENT_STARTED)
        return ROCO_OK;
    if (event->kind == ROCO_EVENT_TOKEN)
        return take_token(choice, tokenizer, event);
    choice->status = event->finish == ROCO_FINISH_ERROR ? event->status : ROCO_OK;
    if (event->n_generated == 0) /* the prompt was only read */
        choice->kv = event->kv;
    return finish(choice, event->finish);
}

const char *roco_choice_finish_reason(const roco_choice *choice)
{
    if (!choice->done)
        return NULL;
    if (choice->finish == ROCO_FINISH_STOP)
        return "stop";
    return choice->finish == ROCO_FINISH_LENGTH ? "length" : NULL;
}
