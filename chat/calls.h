/* The forms in which published models write calls of functions, one row each.
 *
 * A chat template teaches a model its form by showing it, so a row is found by what the template's text holds. A row
 * says how calls are read (turn.h) and how one is written. Constant data: any thread.
 */
#ifndef ROCO_CHAT_CALLS_H
#define ROCO_CHAT_CALLS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum roco_call_shape {
    ROCO_CALLS_OBJECT, /* {"name": ..., "arguments": {...}}, one, several or a list of them */
    ROCO_CALLS_HEADED, /* the name and a separator, then the object of the arguments */
    ROCO_CALLS_TAGGED, /* the name, then each argument between marks, its text as it is */
} roco_call_shape;

#define ROCO_CALL_MARKS 3 /* of one kind, in one row */

/* How a call is written: lead, name, middle, arguments, tail; more calls after `join`; `last` behind all. TAGGED: each
 * argument is key, its name, value, its text, next; behind the last one stands the tags' `end`. */
typedef struct roco_call_spelling {
    const char *lead, *middle, *tail, *join, *last;
    const char *key, *value, *next;
} roco_call_spelling;

/* Where the parts of a TAGGED call end. */
typedef struct roco_call_tags {
    const char *name_end;                          /* NULL: white space does, or the next mark */
    const char *key, *key_end, *value, *value_end; /* around an argument's name and text; `value` may be NULL */
    const char *end;                               /* behind the last argument */
} roco_call_tags;

typedef struct roco_call_form {
    const char *name;
    const char *signs[2];   /* what a template of this form holds, all of it */
    const char *without[2]; /* and none of these */
    roco_call_shape shape;
    const char *open[ROCO_CALL_MARKS];    /* any of them begins a call */
    bool bare;                            /* an object at the very start of an answer is a call too */
    const char *close;                    /* NULL: none. It may be missing where the answer ends */
    const char *frame[ROCO_CALL_MARKS];   /* marks around the calls that mean nothing by themselves */
    const char *before_name, *after_name; /* HEADED: the name's neighbours; before_name may be NULL */
    const char *inner[2];                 /* HEADED: marks between name and arguments */
    const char *after_arguments;          /* HEADED: may stand in front of `close`; NULL: nothing */
    roco_call_tags tags;                  /* TAGGED */
    bool short_ids;                       /* the template wants ids of nine letters and digits */
    roco_call_spelling spelling;
} roco_call_form;

/* The row of the template source[size]; NULL: it shows none. */
const roco_call_form *roco_call_form_find(const char *source, size_t size);
/* The row of that name, which exists. */
const roco_call_form *roco_call_form_named(const char *name);
/* The form for models whose template shows none: Hermes', as most models know it. */
const roco_call_form *roco_call_form_general(void);

#endif
