/* Text, reasoning and marks; what is inside a call is read in turn_call.c. */
#include "chat/turn_parts.h"

#include <stdlib.h>
#include <string.h>

void roco_turn_init(roco_turn *turn, const roco_turn_form *form)
{
    memset(turn, 0, sizeof *turn);
    turn->form = form;
}

static void free_part(roco_part *part)
{
    roco_buffer_free(&part->name);
    roco_buffer_free(&part->text);
}

void roco_turn_free(roco_turn *turn)
{
    for (size_t i = 0; i < turn->n_parts; i++)
        free_part(&turn->parts[i]);
    free(turn->parts);
    roco_buffer_free(&turn->raw);
    roco_buffer_free(&turn->space);
    roco_buffer_free(&turn->call.name);
    memset(turn, 0, sizeof *turn);
}

/* --- parts --- */

static roco_part *last_part(roco_turn *turn)
{
    return turn->n_parts ? &turn->parts[turn->n_parts - 1] : NULL;
}

static roco_part *add_part(roco_turn *turn, roco_part_kind kind)
{
    if (turn->n_parts == turn->capacity) {
        size_t capacity = turn->capacity * 2 + 4;
        roco_part *parts = realloc(turn->parts, capacity * sizeof *parts);
        if (!parts)
            return NULL;
        turn->parts = parts;
        turn->capacity = capacity;
    }
    roco_part *part = &turn->parts[turn->n_parts++];
    *part = (roco_part){.kind = kind};
    return part;
}

static bool append(roco_turn *turn, roco_part_kind kind, const char *data, size_t size)
{
    roco_part *part = last_part(turn);
    if (!part || part->kind != kind)
        part = add_part(turn, kind);
    return part && roco_buffer_append(&part->text, data, size) == ROCO_OK;
}

/* White space around calls and reasoning belongs to their layout. So it waits for what follows; in front of the first
 * part, and between two pieces of one, it is text. */
static bool add_text(roco_turn *turn, roco_part_kind kind, const char *data, size_t size)
{
    const roco_turn_form *form = turn->form;
    if (!form->calls && !form->answer)
        return size == 0 || append(turn, kind, data, size);
    const roco_part *last = last_part(turn);
    bool kept = (last && last->kind == kind) || (!last && !turn->started && kind == ROCO_PART_TEXT);
    size_t end = size, start = 0;
    while (end && roco_turn_is_space(data[end - 1]))
        end--;
    if (end == 0)
        return roco_buffer_append(&turn->space, data, size) == ROCO_OK;
    while (!kept && roco_turn_is_space(data[start]))
        start++;
    if (kept && turn->space.size && !append(turn, kind, turn->space.data, turn->space.size))
        return false;
    roco_buffer_clear(&turn->space);
    turn->started = true;
    return append(turn, kind, data + start, end - start) &&
           roco_buffer_append(&turn->space, data + end, size - end) == ROCO_OK;
}

static void drop_space(roco_turn *turn)
{
    roco_buffer_clear(&turn->space);
    turn->started = true;
}

bool roco_turn_open_call(roco_turn *turn, const char *name, size_t size)
{
    drop_space(turn);
    roco_part *part = add_part(turn, ROCO_PART_CALL);
    if (!part || roco_buffer_append(&part->name, name, size))
        return false;
    turn->n_calls++;
    return true;
}

bool roco_turn_add_arguments(roco_turn *turn, const char *data, size_t size)
{
    return size == 0 || roco_buffer_append(&last_part(turn)->text, data, size) == ROCO_OK;
}

void roco_turn_close_call(roco_turn *turn)
{
    last_part(turn)->complete = true;
    turn->over = turn->form->single;
}

void roco_turn_consume(roco_turn *turn, size_t size)
{
    roco_buffer_consume(&turn->raw, size);
    turn->primed -= turn->primed < size ? turn->primed : size;
}

/* --- marks --- */

/* Places a mark in data[size]: its start; or, when it may begin at the end, that start with *whole false; else size. */
static size_t find(const char *data, size_t size, const char *mark, bool *whole)
{
    size_t length = strlen(mark);
    for (size_t i = 0; i < size; i++) {
        const char *first = memchr(data + i, mark[0], size - i);
        if (!first)
            break;
        i = (size_t)(first - data);
        size_t there = size - i < length ? size - i : length;
        if (memcmp(first, mark, there) == 0) {
            *whole = there == length;
            return i;
        }
    }
    return size;
}

typedef struct sighting {
    size_t at, length;
    bool whole;
    turn_state next;
} sighting;

static void look_for(const roco_turn *turn, const char *mark, turn_state next, sighting *first)
{
    bool whole = false;
    if (!mark)
        return;
    size_t at = find(turn->raw.data, turn->raw.size, mark, &whole);
    /* Of two at one place the longer one counts, so the shorter waits until the longer is out of the question. */
    if (at < first->at || (at == first->at && at < turn->raw.size && strlen(mark) > first->length))
        *first = (sighting){at, strlen(mark), whole, next};
}

static sighting look(const roco_turn *turn)
{
    const roco_turn_form *form = turn->form;
    sighting first = {.at = turn->raw.size};
    if (turn->state == TURN_REASONING) {
        look_for(turn, form->answer, TURN_TEXT, &first);
        return first;
    }
    look_for(turn, form->think, TURN_REASONING, &first);
    for (size_t i = 0; form->calls && i < ROCO_CALL_MARKS; i++) {
        look_for(turn, form->calls->open[i], TURN_BEFORE, &first);
        look_for(turn, form->calls->frame[i], TURN_TEXT, &first);
    }
    return first;
}

/* Hands on raw[..size] as text, but for what stood in the prompt. */
static bool pass(roco_turn *turn, size_t size)
{
    size_t skip = turn->primed < size ? turn->primed : size;
    roco_part_kind kind = turn->state == TURN_REASONING ? ROCO_PART_REASONING : ROCO_PART_TEXT;
    if (size > skip && !add_text(turn, kind, turn->raw.data + skip, size - skip))
        return false;
    roco_turn_consume(turn, size);
    return true;
}

/* Is this the object that some models answer with, no mark in front? */
static bool begins_bare(const roco_turn *turn)
{
    size_t i = 0;
    while (i < turn->raw.size && roco_turn_is_space(turn->raw.data[i]))
        i++;
    const roco_part *last = turn->n_parts ? &turn->parts[turn->n_parts - 1] : NULL;
    return turn->form->calls && turn->form->calls->bare && !turn->bare_tried && turn->state == TURN_TEXT &&
           i < turn->raw.size && turn->raw.data[i] == '{' && (!last || last->kind == ROCO_PART_REASONING);
}

/* Is this mark part of a text, because no call can come behind what the answer has said? */
static bool comes_late(const roco_turn *turn, const sighting *mark)
{
    if (!turn->form->first || turn->state != TURN_TEXT || mark->at == turn->raw.size || mark->next == TURN_REASONING)
        return false;
    bool said = turn->n_parts && turn->parts[turn->n_parts - 1].kind == ROCO_PART_TEXT;
    for (size_t i = turn->primed; i < mark->at && !said; i++)
        said = !roco_turn_is_space(turn->raw.data[i]);
    return said;
}

static turn_step read_text(roco_turn *turn)
{
    if (turn->raw.size == 0)
        return TURN_WAIT;
    if (begins_bare(turn)) {
        turn->state = TURN_BEFORE;
        turn->at = turn->mark = 0;
        turn->bare = turn->bare_tried = true;
        turn->list = false;
        return TURN_ON;
    }
    sighting mark = look(turn);
    if (comes_late(turn, &mark))
        return pass(turn, mark.whole ? mark.at + 1 : turn->raw.size) ? TURN_ON : TURN_FAILED;
    if (!pass(turn, mark.at))
        return TURN_FAILED;
    if (!mark.whole)
        return TURN_WAIT;
    if (mark.next == TURN_BEFORE) {
        turn->at = turn->mark = mark.length;
        turn->bare = turn->list = false;
    } else {
        drop_space(turn);
        roco_turn_consume(turn, mark.length);
    }
    turn->state = mark.next;
    return TURN_ON;
}

/* --- all together --- */

/* A call that is none: its mark, or its first byte, is text, and what follows is looked at again. */
static bool reject(roco_turn *turn)
{
    size_t size = turn->mark ? turn->mark : 1;
    turn->state = TURN_TEXT;
    return pass(turn, size < turn->raw.size ? size : turn->raw.size);
}

static roco_status run(roco_turn *turn)
{
    for (;;) {
        bool text = turn->state == TURN_TEXT || turn->state == TURN_REASONING;
        turn_step step = turn->over ? TURN_WAIT : text ? read_text(turn) : roco_turn_read_call(turn);
        if (step == TURN_REJECT)
            step = reject(turn) ? TURN_ON : TURN_FAILED;
        if (step != TURN_ON)
            return step == TURN_FAILED ? ROCO_NO_MEMORY : ROCO_OK;
    }
}

roco_status roco_turn_take(roco_turn *turn, const char *data, size_t size)
{
    if (turn->over)
        return ROCO_OK;
    roco_status status = roco_buffer_append(&turn->raw, data, size);
    return status ? status : run(turn);
}

roco_status roco_turn_prime(roco_turn *turn, const char *data, size_t size)
{
    roco_status status = roco_turn_take(turn, data, size);
    if (status)
        return status;
    bool open = turn->state >= TURN_OBJECT && turn->state <= TURN_ARGUMENTS && turn->call.open;
    const roco_part *last = last_part(turn);
    size_t keep = open ? 1 : 0;
    turn->started = last ? last->kind != ROCO_PART_TEXT : turn->started;
    for (size_t i = 0; i < turn->n_parts - keep; i++)
        free_part(&turn->parts[i]);
    if (open)
        turn->parts[0] = turn->parts[turn->n_parts - 1];
    turn->n_parts = turn->n_calls = keep;
    turn->primed = turn->raw.size;
    turn->over = false;
    roco_buffer_clear(&turn->space);
    return ROCO_OK;
}

bool roco_turn_reasons(const roco_turn *turn)
{
    return turn->state == TURN_REASONING;
}

roco_status roco_turn_end(roco_turn *turn)
{
    bool text = turn->state == TURN_TEXT || turn->state == TURN_REASONING;
    if (!turn->over && !text && !roco_turn_end_call(turn))
        turn->state = TURN_TEXT;
    else if (!text)
        return ROCO_OK;
    if (!pass(turn, turn->raw.size))
        return ROCO_NO_MEMORY;
    const roco_part *last = last_part(turn);
    bool kept = turn->space.size && (last ? last->kind == ROCO_PART_TEXT : !turn->started);
    return kept && !append(turn, ROCO_PART_TEXT, turn->space.data, turn->space.size) ? ROCO_NO_MEMORY : ROCO_OK;
}
