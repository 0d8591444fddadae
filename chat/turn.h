/* What a model's turn holds: text, reasoning and calls of functions, told apart as its text comes.
 *
 * The parts do not depend on how the text is cut into pieces, so a streamed answer joins to the plain one. Nothing is
 * lost: what only looks like a call is text. A call counts once its name is known and its arguments begin; from there
 * on it is reported as it comes, also when the answer ends before the call does. One thread at a time.
 */
#ifndef ROCO_CHAT_TURN_H
#define ROCO_CHAT_TURN_H

#include "chat/calls.h"
#include "config/buffer.h"

#include <stdint.h>

/* What to look for. All of it is borrowed as long as turns use it. */
typedef struct roco_turn_form {
    const roco_call_form *calls; /* NULL: calls are not looked for */
    bool single;                 /* the turn is over once one call is complete */
    bool first;                  /* calls are the whole answer: behind text there are none */
    const char *think, *answer;  /* the marks around reasoning; NULL: it is not told apart */
    /* Of a call that bears no mark: is there a function of that name? */
    bool (*offers)(const void *context, const char *name, size_t size);
    /* Of a call whose arguments are texts: appends one as a member of a JSON object, `"key": value`. ROCO_NO_MEMORY. */
    roco_status (*write_argument)(const void *context, const char *name, size_t name_size, const char *key,
                                  size_t key_size, const char *value, size_t size, roco_buffer *out);
    const void *context;
} roco_turn_form;

typedef enum roco_part_kind { ROCO_PART_TEXT, ROCO_PART_REASONING, ROCO_PART_CALL } roco_part_kind;

/* Parts come in the order of the text; two of one kind that is not CALL do not follow each other. Only the last grows.
 */
typedef struct roco_part {
    roco_part_kind kind;
    roco_buffer name; /* of a CALL */
    roco_buffer text; /* of a CALL: its arguments, the JSON text as the model wrote it, or made of its texts */
    bool complete;    /* of a CALL: the arguments are all there */
} roco_part;

typedef struct roco_turn {
    const roco_turn_form *form;
    roco_part *parts;
    size_t n_parts, capacity;
    size_t n_calls;
    bool over; /* `single`, and the call is complete: what follows does not count */

    /* the reader (turn.c) */
    int state;
    roco_buffer raw;   /* what is not decided yet */
    size_t at;         /* of raw: read up to here */
    size_t mark;       /* of raw: where the call's mark ends */
    size_t primed;     /* the first bytes of raw that stood in the prompt */
    roco_buffer space; /* white space that is text only if more text follows */
    bool list, started, bare, bare_tried;
    struct {
        int place, member;
        unsigned depth;
        bool quoted, escaped, named, open;
        size_t key, value; /* of raw: where they begin */
        size_t arguments, arguments_end;
        size_t sent; /* of raw: arguments handed on up to here */
        roco_buffer name;
    } call;
} roco_turn;

void roco_turn_init(roco_turn *turn, const roco_turn_form *form);
void roco_turn_free(roco_turn *turn);

/* First of all, if at all: the end of the prompt, where the turn begins in it. Text, reasoning and calls that are whole
 * in there are not reported; a call that goes on after it is, from its beginning. */
roco_status roco_turn_prime(roco_turn *turn, const char *data, size_t size);
/* The next bytes of the answer; UTF-8, though a character may be cut. All return ROCO_OK or ROCO_NO_MEMORY. */
roco_status roco_turn_take(roco_turn *turn, const char *data, size_t size);
/* There is no more. */
roco_status roco_turn_end(roco_turn *turn);

/* Is what comes next reasoning? */
bool roco_turn_reasons(const roco_turn *turn);

#endif
