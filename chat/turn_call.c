/* Reading calls: JSON objects and named argument lists, a byte at a time. */
#include "chat/turn_parts.h"

#include <string.h>

/* Names are short; what goes on and on is none. */
enum { MAX_HEADER = 512 };

/* Where an object's reader is. */
enum { AT_START, AT_KEY, IN_KEY, AT_COLON, AT_VALUE, IN_VALUE, CLOSED };
enum { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGUMENTS };

static void begin_call(roco_turn *turn)
{
    roco_buffer name = turn->call.name;
    roco_buffer_clear(&name);
    memset(&turn->call, 0, sizeof turn->call);
    turn->call.name = name;
}

/* --- values --- */

static void begin_value(roco_turn *turn)
{
    turn->call.value = turn->at;
    turn->call.depth = 0;
    turn->call.quoted = turn->call.escaped = false;
}

/* Reads one byte of a value. True: the value ended before it (a number, a word) or with it (all else). Brackets are
 * counted, not told apart: what a model wrote is handed on as it is. */
static bool end_of_value(roco_turn *turn, char c, bool *with)
{
    *with = true;
    if (turn->call.quoted) {
        bool ends = c == '"' && !turn->call.escaped;
        turn->call.escaped = c == '\\' && !turn->call.escaped;
        turn->call.quoted = !ends;
        return ends && turn->call.depth == 0;
    }
    if (c == '"') {
        turn->call.quoted = true;
    } else if (c == '{' || c == '[') {
        turn->call.depth++;
    } else if (c == '}' || c == ']' || c == ',') {
        if (turn->call.depth == 0) {
            *with = false;
            return true;
        }
        turn->call.depth -= c != ',';
        return turn->call.depth == 0 && c != ',';
    }
    return false;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = memchr(digits, c | 0x20, 16);
    return c && at ? (int)(at - digits) : -1;
}

static bool append_unit(roco_buffer *out, const char *digits, size_t size)
{
    unsigned unit = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i < size ? hex_digit(digits[i]) : -1;
        if (digit < 0)
            return false;
        unit = unit * 16 + (unsigned)digit;
    }
    char bytes[3];
    size_t n = 0;
    if (unit >= 0xd800 && unit < 0xe000)
        return false; /* halves of a pair: no name and no sane arguments hold them */
    if (unit < 0x80) {
        bytes[n++] = (char)unit;
    } else if (unit < 0x800) {
        bytes[n++] = (char)(0xc0 | unit >> 6);
        bytes[n++] = (char)(0x80 | (unit & 0x3f));
    } else {
        bytes[n++] = (char)(0xe0 | unit >> 12);
        bytes[n++] = (char)(0x80 | (unit >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (unit & 0x3f));
    }
    return roco_buffer_append(out, bytes, n) == ROCO_OK;
}

/* The text of a quoted value data[size], quotes included. False: it is no such text. */
static bool unquote(const char *data, size_t size, roco_buffer *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    for (size_t i = 1; i + 1 < size; i++) {
        if (data[i] != '\\') {
            if (roco_buffer_append(out, data + i, 1))
                return false;
            continue;
        }
        const char *at = memchr(from, data[++i], sizeof from - 1);
        if (data[i] == 'u') {
            if (!append_unit(out, data + i + 1, size - i - 2))
                return false;
            i += 4;
        } else if (!at || roco_buffer_append(out, to + (at - from), 1)) {
            return false;
        }
    }
    return true;
}

/* --- one object --- */

/* The name is known and the arguments have begun: from here on it is a call. */
static bool open_object(roco_turn *turn)
{
    turn->call.open = true;
    turn->call.sent = turn->call.arguments;
    return roco_turn_open_call(turn, turn->call.name.data, turn->call.name.size);
}

static bool take_name(roco_turn *turn)
{
    const char *value = turn->raw.data + turn->call.value;
    const roco_turn_form *form = turn->form;
    if (*value != '"' || turn->call.named || !unquote(value, turn->at - turn->call.value, &turn->call.name) ||
        turn->call.name.size == 0)
        return false;
    if (turn->bare && (!form->offers || !form->offers(form->context, turn->call.name.data, turn->call.name.size)))
        return false;
    return turn->call.named = true;
}

/* Arguments that are the text of an object, as the API has them: handed on once they are all there. */
static bool hand_on_text(roco_turn *turn)
{
    roco_buffer text = {0};
    bool good =
        unquote(turn->raw.data + turn->call.arguments, turn->call.arguments_end - turn->call.arguments, &text) &&
        roco_turn_add_arguments(turn, text.data ? text.data : "", text.size);
    roco_buffer_free(&text);
    turn->call.sent = turn->call.arguments_end;
    return good;
}

static bool hand_on(roco_turn *turn)
{
    size_t end = turn->call.arguments_end ? turn->call.arguments_end : turn->at;
    if (turn->raw.data[turn->call.arguments] == '"')
        return !turn->call.arguments_end || turn->call.sent == end || hand_on_text(turn);
    bool good = roco_turn_add_arguments(turn, turn->raw.data + turn->call.sent, end - turn->call.sent);
    turn->call.sent = end;
    return good;
}

static bool end_member(roco_turn *turn)
{
    if (turn->call.member == MEMBER_ARGUMENTS)
        turn->call.arguments_end = turn->at;
    if (turn->call.member == MEMBER_NAME && !take_name(turn))
        return false;
    turn->call.place = AT_KEY;
    return true;
}

static bool begin_member_value(roco_turn *turn)
{
    begin_value(turn);
    turn->call.place = IN_VALUE;
    if (turn->call.member != MEMBER_ARGUMENTS)
        return true;
    char c = turn->raw.data[turn->at];
    bool again = turn->call.arguments != 0;
    turn->call.arguments = turn->at;
    return !again && (c == '{' || c == '"');
}

static int member_of(const roco_turn *turn)
{
    const char *key = turn->raw.data + turn->call.key;
    size_t size = turn->at - turn->call.key;
    static const char *const arguments[] = {"arguments", "parameters"};
    if (size == 4 && memcmp(key, "name", 4) == 0)
        return MEMBER_NAME;
    for (size_t i = 0; i < 2; i++)
        if (size == strlen(arguments[i]) && memcmp(key, arguments[i], size) == 0)
            return MEMBER_ARGUMENTS;
    return MEMBER_OTHER;
}

/* One byte; *used: go on behind it. */
static bool read_byte(roco_turn *turn, char c, bool *used)
{
    bool with;
    *used = true;
    if (roco_turn_is_space(c) && turn->call.place != IN_KEY && turn->call.place != IN_VALUE)
        return true;
    switch (turn->call.place) {
    case AT_START: turn->call.place = AT_KEY; return c == '{';
    case AT_KEY:
        if (c == '"') {
            turn->call.place = IN_KEY;
            turn->call.key = turn->at + 1;
        } else if (c == '}') {
            turn->call.place = CLOSED;
        }
        return c == '"' || c == '}' || c == ',';
    case IN_KEY:
        if (c == '"') {
            turn->call.member = member_of(turn);
            turn->call.place = AT_COLON;
        }
        return c != '\\'; /* of the keys that matter, none has an escape */
    case AT_COLON: turn->call.place = AT_VALUE; return c == ':';
    case AT_VALUE: *used = false; return begin_member_value(turn);
    case IN_VALUE:
        if (!end_of_value(turn, c, &with))
            return true;
        turn->at += with;
        *used = false;
        return end_member(turn);
    default: return false;
    }
}

/* Hands on what is known so far. Only then, so that pieces are as long as they come. */
static turn_step report(roco_turn *turn)
{
    if (!turn->call.open && turn->call.named && turn->call.arguments && !open_object(turn))
        return TURN_FAILED;
    if (turn->call.open && !hand_on(turn))
        return TURN_FAILED;
    return TURN_WAIT;
}

turn_step roco_turn_leave_call(roco_turn *turn)
{
    roco_turn_close_call(turn);
    roco_turn_consume(turn, turn->at);
    turn->at = turn->mark = 0;
    turn->state = TURN_AFTER;
    return TURN_ON;
}

static turn_step close_object(roco_turn *turn)
{
    if (!turn->call.named)
        return TURN_REJECT;
    if (!turn->call.open) { /* no arguments: the function takes none */
        turn->call.open = true;
        if (!roco_turn_open_call(turn, turn->call.name.data, turn->call.name.size) ||
            !roco_turn_add_arguments(turn, "{}", 2))
            return TURN_FAILED;
    }
    return roco_turn_leave_call(turn);
}

static turn_step read_object(roco_turn *turn)
{
    bool good = true;
    while (good && turn->at < turn->raw.size && turn->call.place != CLOSED) {
        bool used;
        good = read_byte(turn, turn->raw.data[turn->at], &used);
        turn->at += good && used;
    }
    /* Broken behind its arguments, it is a call still. */
    if (!good && !turn->call.open && !(turn->call.named && turn->call.arguments_end))
        return TURN_REJECT;
    turn_step step = report(turn);
    if (step == TURN_FAILED || (good && turn->call.place != CLOSED))
        return step;
    return close_object(turn);
}

/* --- a name in front of its arguments --- */

static bool name_of(const roco_call_form *form, const char *header, size_t size, const char **name, size_t *name_size)
{
    if (form->before_name) {
        const char *before = memmem(header, size, form->before_name, strlen(form->before_name));
        if (!before)
            return false;
        size -= (size_t)(before - header) + strlen(form->before_name);
        header = before + strlen(form->before_name);
    }
    const char *after = memmem(header, size, form->after_name, strlen(form->after_name));
    if (!after)
        return false;
    size = (size_t)(after - header);
    while (size && roco_turn_is_space(*header))
        header++, size--;
    while (size && roco_turn_is_space(header[size - 1]))
        size--;
    *name = header;
    *name_size = size;
    return size > 0 && !memchr(header, '\n', size);
}

static turn_step read_header(roco_turn *turn)
{
    const char *start = turn->raw.data + turn->mark, *name;
    size_t size = turn->raw.size - turn->mark, name_size;
    const char *brace = memchr(start, '{', size);
    if (!brace)
        return size > MAX_HEADER ? TURN_REJECT : TURN_WAIT;
    if (!name_of(turn->form->calls, start, (size_t)(brace - start), &name, &name_size))
        return TURN_REJECT;
    if (!roco_turn_open_call(turn, name, name_size))
        return TURN_FAILED;
    turn->at = (size_t)(brace - turn->raw.data);
    turn->call.named = turn->call.open = true;
    turn->call.arguments = turn->call.sent = turn->at;
    begin_value(turn);
    turn->state = TURN_ARGUMENTS;
    return TURN_ON;
}

static turn_step read_arguments(roco_turn *turn)
{
    bool ended = false, with;
    while (!ended && turn->at < turn->raw.size)
        ended = end_of_value(turn, turn->raw.data[turn->at++], &with);
    if (ended)
        turn->call.arguments_end = turn->at;
    if (!hand_on(turn))
        return TURN_FAILED;
    return ended ? close_object(turn) : TURN_WAIT;
}

/* --- around calls --- */

static turn_step read_before(roco_turn *turn)
{
    if (turn->form->calls->shape != ROCO_CALLS_OBJECT) {
        begin_call(turn);
        turn->state = TURN_HEADER;
        return TURN_ON;
    }
    turn->at = roco_turn_skip_space(turn, turn->at);
    if (turn->at == turn->raw.size)
        return TURN_WAIT;
    char c = turn->raw.data[turn->at];
    if (c == '[' && !turn->list) {
        turn->list = true;
        turn->at++;
        return TURN_ON;
    }
    if (c != '{')
        return TURN_REJECT;
    begin_call(turn);
    turn->state = TURN_OBJECT;
    return TURN_ON;
}

/* Does raw[at..] begin with `mark`? Waits while it may. */
static turn_step skip_mark(roco_turn *turn, const char *mark)
{
    size_t length = strlen(mark), there = turn->raw.size - turn->at;
    there = there < length ? there : length;
    if (memcmp(turn->raw.data + turn->at, mark, there) != 0)
        return TURN_REJECT;
    if (there < length)
        return TURN_WAIT;
    turn->at += length;
    return TURN_ON;
}

static turn_step end_calls(roco_turn *turn)
{
    roco_turn_consume(turn, turn->at);
    turn->at = turn->mark = 0;
    turn->state = TURN_TEXT;
    return TURN_ON;
}

static turn_step read_after(roco_turn *turn)
{
    const roco_call_form *calls = turn->form->calls;
    turn->at = roco_turn_skip_space(turn, turn->at);
    if (turn->at == turn->raw.size)
        return TURN_WAIT;
    char c = turn->raw.data[turn->at];
    bool separates = c == ',' || (calls->bare && c == ';');
    if (turn->list && c == ']') {
        turn->list = false;
        turn->at++;
        return TURN_ON;
    }
    if (calls->shape == ROCO_CALLS_OBJECT && (c == '{' || separates)) {
        turn->at += separates;
        turn->mark = separates ? turn->at : 0;
        turn->state = TURN_BEFORE;
        return TURN_ON;
    }
    turn_step step = calls->after_arguments ? skip_mark(turn, calls->after_arguments) : TURN_REJECT;
    if (step != TURN_REJECT)
        return step;
    step = calls->close ? skip_mark(turn, calls->close) : TURN_REJECT;
    return step == TURN_WAIT ? TURN_WAIT : end_calls(turn);
}

turn_step roco_turn_read_call(roco_turn *turn)
{
    bool tagged = turn->form->calls->shape == ROCO_CALLS_TAGGED;
    switch (turn->state) {
    case TURN_BEFORE: return read_before(turn);
    case TURN_OBJECT: return read_object(turn);
    case TURN_HEADER: return tagged ? roco_turn_read_tagged_name(turn) : read_header(turn);
    case TURN_ARGUMENTS: return tagged ? roco_turn_read_tagged_arguments(turn) : read_arguments(turn);
    default: return read_after(turn);
    }
}

bool roco_turn_end_call(roco_turn *turn)
{
    if (turn->state == TURN_AFTER)
        return true;
    bool object = turn->state == TURN_OBJECT || turn->state == TURN_ARGUMENTS;
    if (turn->state == TURN_ARGUMENTS && turn->form->calls->shape == ROCO_CALLS_TAGGED)
        roco_turn_end_tagged(turn);
    if (object && turn->call.open && turn->call.arguments_end)
        roco_turn_close_call(turn);
    return object && turn->call.open;
}
