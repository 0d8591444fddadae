/* How an endpoint words what the completions of this server have in common: the JSON of a whole reply, the events of a
 * stream. One writer for each endpoint (writer_*.c), chosen by roco_writer_of. Loop thread.
 *
 * A writer reads the completion and appends to c->out; it sends nothing and knows nothing of jobs or connections.
 */
#ifndef ROCO_SERVER_WRITER_H
#define ROCO_SERVER_WRITER_H

#include "server/completion.h"

typedef struct roco_writer {
    const char *id_prefix; /* of the ids of its replies */
    void (*whole)(roco_completion *c);
    /* A stream: what there is to say of a choice now, as often as it has something, then what comes after the last. */
    void (*advance)(roco_completion *c, roco_completion_slot *slot);
    void (*end)(roco_completion *c);
    /* The event of a stream that fails. */
    void (*error)(roco_completion *c, const roco_problem *problem);
} roco_writer;

const roco_writer *roco_writer_of(roco_endpoint endpoint);

extern const roco_writer roco_text_writer; /* /v1/completions */
extern const roco_writer roco_chat_writer; /* /v1/chat/completions */

/* What both of OpenAI's older forms share: the members in front of the choices' own, and what ends a stream. */
void roco_writer_head(roco_completion *c, const char *object);
void roco_writer_begin_chunk(roco_completion *c, const char *object);
void roco_writer_end_chunk(roco_completion *c);
/* Up to the choice's own member, and what comes after it: the log-probabilities that go with its text (`slot` NULL:
 * none now) and the reason. */
void roco_writer_begin_choice(roco_completion *c, const roco_completion_slot *slot);
void roco_writer_end_choice(roco_completion *c, roco_completion_slot *slot, const char *reason);
/* Closes the choices, adds the usage and closes the object. */
void roco_writer_usage(roco_completion *c);
void roco_writer_end_stream(roco_completion *c, const char *object);
void roco_writer_error(roco_completion *c, const roco_problem *problem);

roco_usage roco_completion_usage(const roco_completion *c);

#endif
