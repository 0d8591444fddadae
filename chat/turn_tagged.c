/* Reading calls whose arguments stand between marks, each as a text of its own. */
#include "chat/turn_parts.h"

#include <string.h>

enum { MAX_NAME = 64, MAX_KEY = 512 };

typedef enum sight { IS_THERE, MAY_COME, IS_OTHER } sight;

/* Is `mark` at raw[at..]? */
static sight see(const roco_turn *turn, size_t at, const char *mark)
{
    size_t length = strlen(mark), there = turn->raw.size - at;
    there = there < length ? there : length;
    if (memcmp(turn->raw.data + at, mark, there) != 0)
        return IS_OTHER;
    return there == length ? IS_THERE : MAY_COME;
}

/* Names are words, as the API has them: whatever else stands here, it is no call. */
static size_t end_of_name(const roco_turn *turn, size_t at)
{
    static const char others[] = "_.-";
    while (at < turn->raw.size) {
        char c = turn->raw.data[at], letter = (char)(c | 0x20);
        if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') && !memchr(others, c, 3))
            break;
        at++;
    }
    return at;
}

turn_step roco_turn_read_tagged_name(roco_turn *turn)
{
    const roco_call_tags *tags = &turn->form->calls->tags;
    size_t start = roco_turn_skip_space(turn, turn->mark), end = end_of_name(turn, start);
    size_t next = roco_turn_skip_space(turn, end);
    if (end - start > MAX_NAME)
        return TURN_REJECT;
    if (next == turn->raw.size)
        return TURN_WAIT;
    if (end == start)
        return TURN_REJECT;
    if (tags->name_end) {
        if (see(turn, end, tags->name_end) != IS_THERE)
            return TURN_REJECT;
        next = end + strlen(tags->name_end);
    } else {
        sight key = see(turn, next, tags->key), close = see(turn, next, tags->end);
        if (key != IS_THERE && close != IS_THERE)
            return key == MAY_COME || close == MAY_COME ? TURN_WAIT : TURN_REJECT;
    }
    if (!roco_turn_open_call(turn, turn->raw.data + start, end - start) || !roco_turn_add_arguments(turn, "{", 1))
        return TURN_FAILED;
    turn->at = turn->call.sent = next;
    turn->call.open = true;
    turn->state = TURN_ARGUMENTS;
    return TURN_ON;
}

/* A line end on either side of a value is the layout's. */
static void trim_lines(const char **value, size_t *size)
{
    if (*size && (*value)[0] == '\n')
        *value += 1, *size -= 1;
    if (*size && (*value)[*size - 1] == '\n')
        *size -= 1;
}

static bool hand_on(roco_turn *turn, const char *key, size_t key_size, const char *value, size_t size)
{
    const roco_turn_form *form = turn->form;
    const roco_part *call = &turn->parts[turn->n_parts - 1];
    roco_buffer out = {0};
    bool good = roco_buffer_append_text(&out, call->text.size > 1 ? ", " : "") == ROCO_OK &&
                form->write_argument(form->context, call->name.data, call->name.size, key, key_size, value, size,
                                     &out) == ROCO_OK &&
                roco_turn_add_arguments(turn, out.data, out.size);
    roco_buffer_free(&out);
    return good;
}

/* An argument that begins at raw[at], behind its first mark. `sent` is how far the value's end was looked for. */
static turn_step read_argument(roco_turn *turn)
{
    const roco_call_tags *tags = &turn->form->calls->tags;
    const char *data = turn->raw.data;
    size_t key = turn->at + strlen(tags->key), all = turn->raw.size, ends = strlen(tags->value_end);
    const char *key_end = memmem(data + key, all - key, tags->key_end, strlen(tags->key_end));
    if (!key_end)
        return all - key > MAX_KEY ? TURN_REJECT : TURN_WAIT;
    size_t value = (size_t)(key_end - data) + strlen(tags->key_end);
    if (tags->value) {
        size_t mark = roco_turn_skip_space(turn, value);
        sight seen = mark == all ? MAY_COME : see(turn, mark, tags->value);
        if (seen != IS_THERE)
            return seen == MAY_COME ? TURN_WAIT : TURN_REJECT;
        value = mark + strlen(tags->value);
    }
    size_t from = turn->call.sent > value ? turn->call.sent : value;
    const char *end = from <= all ? memmem(data + from, all - from, tags->value_end, ends) : NULL;
    if (!end) {
        turn->call.sent = all > value + ends ? all - ends : value;
        return TURN_WAIT;
    }
    const char *text = data + value;
    size_t size = (size_t)(end - text), key_size = (size_t)(key_end - data) - key;
    trim_lines(&text, &size);
    if (!hand_on(turn, data + key, key_size, text, size))
        return TURN_FAILED;
    turn->at = (size_t)(end - data) + ends;
    turn->call.sent = turn->at;
    return TURN_ON;
}

/* Broken behind its name, it is a call still. */
static turn_step close_call(roco_turn *turn)
{
    return roco_turn_add_arguments(turn, "}", 1) ? roco_turn_leave_call(turn) : TURN_FAILED;
}

turn_step roco_turn_read_tagged_arguments(roco_turn *turn)
{
    const roco_call_tags *tags = &turn->form->calls->tags;
    size_t next = roco_turn_skip_space(turn, turn->at);
    if (next == turn->raw.size)
        return TURN_WAIT;
    sight end = see(turn, next, tags->end), key = see(turn, next, tags->key);
    if (end == IS_THERE) {
        turn->at = next + strlen(tags->end);
        return close_call(turn);
    }
    if (key == IS_THERE) {
        turn->at = next;
        turn_step step = read_argument(turn);
        return step == TURN_REJECT ? close_call(turn) : step;
    }
    return end == MAY_COME || key == MAY_COME ? TURN_WAIT : close_call(turn);
}

/* Between two arguments the call may just as well end. */
void roco_turn_end_tagged(roco_turn *turn)
{
    size_t next = roco_turn_skip_space(turn, turn->at);
    if (turn->call.open && (next == turn->raw.size || see(turn, next, turn->form->calls->tags.end) == MAY_COME))
        close_call(turn);
}
