/* One POST /v1/completions or /v1/chat/completions from its body to its last event; shared by completions.c and the
 * writers. Loop thread.
 *
 * It outlives its exchange: events of its jobs come until each job's last one was taken.
 */
#ifndef ROCO_SERVER_COMPLETION_H
#define ROCO_SERVER_COMPLETION_H

#include "chat/turn.h"
#include "server/app_state.h"
#include "server/choice.h"
#include "server/completion_jobs.h"
#include "server/task.h"
#include "server/usage.h"

/* One choice and its job. */
typedef struct roco_completion_slot {
    roco_completion *owner;
    roco_choice choice;
    uint64_t job;
    uint32_t index;         /* in the reply */
    roco_logprob *logprobs; /* owned; the job writes them until it ended; NULL: none are kept */
    uint32_t n_scored;      /* rows of it that are the prompt's */
    uint32_t n_logprobs;    /* rows that were told */
    bool taken;             /* best_of: it is one of the best */
    bool started, ended;    /* left the queue; its last event was taken */
    bool opened;            /* chat: the chunk with the role was written */

    /* Of a chat: what the answer holds, and how much of that a stream has told: the parts in front of `part`, and of
     * that one, once `part_opened`, its first `part_told` bytes. */
    roco_turn turn;
    size_t part, part_told;
    bool part_opened;
    uint32_t n_reasoning; /* tokens of the answer that were reasoning */
} roco_completion_slot;

struct roco_completion {
    roco_task task; /* first: completions are cast from it */
    roco_completion *previous, *next;
    roco_exchange *exchange; /* NULL once answered or gone */
    roco_account *account;   /* held; NULL: nobody's */
    char label[129];         /* the exchange's id, which the jobs borrow */
    uint64_t unique;         /* what its ids are made of */
    char id[32];             /* of the reply: the writer's prefix and 16 digits */
    roco_endpoint endpoint;
    const struct roco_writer *writer; /* of the endpoint */
    time_t created;
    uint64_t arrival_ns;

    roco_completion_jobs jobs; /* until submitted; then its settings only */
    roco_status status;
    roco_problem problem;

    roco_completion_slot *slots;
    uint32_t n_slots, n_done, n_running; /* choices, those done, jobs whose last event has not come */
    bool streaming;
    uint32_t n_events;   /* of a stream that numbers them */
    roco_json_out out;   /* scratch of one write */
    uint64_t written_ms; /* loop time of the stream's last bytes */

    bool settled; /* the outcome is counted */
};

#endif
