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
    /* A stream: what comes before the first token (NULL: nothing), what there is to say of a choice now, as often as it
     * has something, then what comes after the last. */
    void (*begin)(roco_completion *c);
    void (*advance)(roco_completion *c, roco_completion_slot *slot);
    void (*end)(roco_completion *c);
    /* The event of a stream that fails. */
    void (*error)(roco_completion *c, const roco_problem *problem);
    void (*keep_alive)(roco_json_out *out); /* what says that the line lives */
} roco_writer;

const roco_writer *roco_writer_of(roco_endpoint endpoint);

extern const roco_writer roco_text_writer; /* /v1/completions */
extern const roco_writer roco_chat_writer; /* /v1/chat/completions */
extern const roco_writer roco_responses_writer;
extern const roco_writer roco_messages_writer;

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

/* Why a choice ended: as roco_choice_finish_reason says, or "tool_calls". NULL: it goes on. */
const char *roco_writer_reason(const roco_completion_slot *slot);

/* Tells the parts of a stream that were not told yet: each is opened, comes in pieces, and is closed when another one
 * follows or the choice is done. Any of the three may be NULL. */
typedef struct roco_part_events {
    void (*open)(roco_completion *c, roco_completion_slot *slot, const roco_part *part);
    void (*piece)(roco_completion *c, roco_completion_slot *slot, const roco_part *part, const char *data, size_t size);
    void (*close)(roco_completion *c, roco_completion_slot *slot, const roco_part *part);
} roco_part_events;
void roco_writer_tell(roco_completion *c, roco_completion_slot *slot, const roco_part_events *events);

/* Reasoning may have to be left out; the place of a part among those that are told. */
bool roco_writer_tells(const roco_completion *c, const roco_part *part);
unsigned roco_writer_place(const roco_completion *c, const roco_completion_slot *slot, const roco_part *part);
/* The number of a call among its choice's, and its id, quoted; the same in a stream and in a whole reply. */
size_t roco_writer_call_index(const roco_completion_slot *slot, const roco_part *call);
void roco_writer_call_id(roco_completion *c, const roco_completion_slot *slot, const roco_part *call,
                         const char *prefix);
/* All text of one kind, quoted. */
void roco_writer_text(roco_completion *c, const roco_completion_slot *slot, roco_part_kind kind);
bool roco_writer_has(const roco_completion_slot *slot, roco_part_kind kind);

roco_usage roco_completion_usage(const roco_completion *c);

#endif
