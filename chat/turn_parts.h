/* The inside of a turn, shared by turn*.c. */
#ifndef ROCO_CHAT_TURN_PARTS_H
#define ROCO_CHAT_TURN_PARTS_H

#include "chat/turn.h"

typedef enum turn_state {
    TURN_TEXT,
    TURN_REASONING,
    TURN_BEFORE, /* behind a mark: a call is to begin */
    TURN_OBJECT, /* in a call that is one JSON object */
    TURN_HEADER, /* in front of the arguments of a call that is not */
    TURN_ARGUMENTS,
    TURN_AFTER, /* behind a call: another one, or a mark that closes */
} turn_state;

/* What became of the undecided bytes. */
typedef enum turn_step {
    TURN_ON,     /* the state has changed or bytes were used: look again */
    TURN_WAIT,   /* more bytes are needed */
    TURN_REJECT, /* this is no call */
    TURN_FAILED, /* out of memory */
} turn_step;

static inline bool roco_turn_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The first byte of raw from `at` on that is no space, or its end. */
static inline size_t roco_turn_skip_space(const roco_turn *turn, size_t at)
{
    while (at < turn->raw.size && roco_turn_is_space(turn->raw.data[at]))
        at++;
    return at;
}

/* turn_call.c: goes on with a call, in the states from BEFORE to AFTER. */
turn_step roco_turn_read_call(roco_turn *turn);
/* The answer is over: makes a call of what is decided. False: what is left is text. */
bool roco_turn_end_call(roco_turn *turn);
/* A call has been read to its end, turn->at: on to what stands behind it. */
turn_step roco_turn_leave_call(roco_turn *turn);

/* turn_tagged.c: the states HEADER and ARGUMENTS of calls whose arguments stand between marks; and as above. */
turn_step roco_turn_read_tagged_name(roco_turn *turn);
turn_step roco_turn_read_tagged_arguments(roco_turn *turn);
void roco_turn_end_tagged(roco_turn *turn);

/* turn.c */
bool roco_turn_open_call(roco_turn *turn, const char *name, size_t size);
bool roco_turn_add_arguments(roco_turn *turn, const char *data, size_t size);
void roco_turn_close_call(roco_turn *turn);
/* Drops the first bytes of raw. */
void roco_turn_consume(roco_turn *turn, size_t size);

#endif
