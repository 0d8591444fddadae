/* One choice of a completion: from the tokens of one sequence to the text a client may see.
 *
 * Two things are held back: bytes of an unfinished UTF-8 character, and a tail that may still become a stop string.
 * What is released does not depend on how it is fetched, so a streamed answer joins to exactly the plain one. Loop
 * thread; knows nothing of HTTP.
 */
#ifndef ROCO_SERVER_CHOICE_H
#define ROCO_SERVER_CHOICE_H

#include "config/buffer.h"
#include "engine/tokenizer.h"
#include "scheduler/scheduler.h"
#include "server/stop.h"

/* Where a token's text begins in the text of its choice, which starts with the prompt when that is echoed. A token that
 * goes on with a character begins where the character does. */
typedef struct roco_token_place {
    uint32_t byte, character;
} roco_token_place;

typedef struct roco_choice {
    const roco_stop_set *stops; /* borrowed */
    roco_stop_state stop_state;
    const int32_t *shown; /* [n_shown] control tokens with a text */
    uint32_t n_shown;
    roco_buffer bytes; /* an unfinished character, under four bytes between calls */
    roco_buffer text;  /* valid UTF-8: ready bytes first, then what the stop matcher holds back */
    size_t ready;      /* bytes of text that may be sent */
    size_t sent;       /* bytes of it that were sent before and are gone */

    bool places_wanted;  /* set it before the first token */
    roco_buffer places;  /* roco_token_place of each token with text of its own; an end token has none */
    uint32_t characters; /* of all text so far, counted when places are wanted */

    bool done;          /* nothing more will be added */
    bool cut;           /* by a stop string */
    roco_finish finish; /* when done */
    roco_status status; /* when finish is ROCO_FINISH_ERROR */
    uint32_t n_generated;
    roco_cache_usage kv; /* after the last token that counts */
    double evicted_mass; /* likewise */
} roco_choice;

void roco_choice_init(roco_choice *choice, const roco_stop_set *stops);
void roco_choice_free(roco_choice *choice);
/* These control tokens have a text; others have none. Borrows. */
void roco_choice_show(roco_choice *choice, const int32_t *shown, uint32_t n_shown);

/* The prompt's text goes in front; stop strings are not looked for in it. `unsaid` bytes at its start are left out.
 * Before the first event. ROCO_NO_MEMORY. */
roco_status roco_choice_echo(roco_choice *choice, const roco_tokenizer *tokenizer, const int32_t *prompt, uint32_t n,
                             uint32_t unsaid);

/* Takes an event of the choice's job. An event after `done` changes nothing. */
roco_status roco_choice_take(roco_choice *choice, const roco_tokenizer *tokenizer, const roco_event *event);

/* The steps roco_choice_take is made of. Append returns true when a stop string was completed: the text is cut before
 * its first character. Flush releases everything; an unfinished character becomes U+FFFD. */
roco_status roco_choice_append(roco_choice *choice, const char *data, size_t size, bool *stopped);
roco_status roco_choice_flush(roco_choice *choice);
/* Drops the ready bytes, once sent. */
void roco_choice_sent(roco_choice *choice);

/* How many tokens have their places in the text that was sent or is ready, given that `from` have: once the choice is
 * done all that have a place at all, but for those that begin behind a stop string's cut. */
uint32_t roco_choice_placed(const roco_choice *choice, uint32_t from);
roco_token_place roco_choice_place(const roco_choice *choice, uint32_t index);

/* "stop", "length", or NULL: it failed or goes on. */
const char *roco_choice_finish_reason(const roco_choice *choice);

/* Appends data[size] to `out` with each ill-formed part replaced by U+FFFD, one for each maximal part of a character
 * (as Unicode recommends and Python's "replace" does). */
roco_status roco_append_clean(roco_buffer *out, const char *data, size_t size);

#endif
