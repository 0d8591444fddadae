/* Constrained answers: each sequence's place in its grammar, and the mask its next token is drawn under. Masks are made
 * between steps, on the engine thread. */
#ifndef ROCO_SCHEDULER_CONSTRAIN_H
#define ROCO_SCHEDULER_CONSTRAIN_H

#include "scheduler/state.h"

/* What all constraints share; nothing without a vocabulary. ROCO_NO_MEMORY. */
roco_status roco_constrain_open(roco_scheduler *scheduler, roco_error *error);
void roco_constrain_close(roco_scheduler *scheduler);

/* Makes the mask of the sequence's first token; a sequence without a constraint is left alone, as by all of these. A
 * sequence that cannot go on fails: ROCO_TOO_LARGE when its grammar needs more than one token may take, ROCO_INVALID
 * when the vocabulary has no token that fits. */
void roco_constrain_begin(roco_scheduler *scheduler, roco_sequence *sequence);
/* Goes on by the token that was drawn, and makes the next mask. */
void roco_constrain_advance(roco_scheduler *scheduler, roco_sequence *sequence, int32_t token);
/* Frees what begin made. */
void roco_constrain_end(roco_sequence *sequence);

#endif
