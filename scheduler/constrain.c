#include "scheduler/constrain.h"

#include <stdlib.h>

/* Masks of all constraints together: some thousands, of which each costs one walk over the vocabulary. */
#define MASK_BYTES ((size_t)64 << 20)

roco_status roco_constrain_open(roco_scheduler *s, roco_error *error)
{
    return s->config.vocabulary ? roco_masks_open(s->config.vocabulary, MASK_BYTES, &s->masks, error) : ROCO_OK;
}

void roco_constrain_close(roco_scheduler *s)
{
    roco_masks_close(s->masks);
}

static void make_mask(roco_scheduler *s, roco_sequence *sequence)
{
    roco_counters *c = &s->counters;
    roco_status status = roco_matcher_mask(sequence->matcher, sequence->allowed);
    const roco_mask_stats stats = roco_masks_stats(s->masks);
    atomic_store_explicit(&c->masks, stats.masks, memory_order_relaxed);
    atomic_store_explicit(&c->mask_walks, stats.walks, memory_order_relaxed);
    atomic_store_explicit(&c->mask_ns, stats.ns, memory_order_relaxed);
    if (status == ROCO_INVALID && roco_matcher_may_end(sequence->matcher))
        sequence->finish = ROCO_FINISH_STOP; /* complete, and the model has no token to say so with */
    else if (status != ROCO_OK)
        roco_sequence_fail(sequence, status);
}

void roco_constrain_begin(roco_scheduler *s, roco_sequence *sequence)
{
    roco_constraint *constraint = sequence->job->constraint;
    if (!constraint)
        return;
    sequence->matcher = roco_matcher_open(constraint, s->masks);
    sequence->allowed = malloc(roco_mask_words(s->config.vocabulary) * sizeof *sequence->allowed);
    if (sequence->matcher && sequence->allowed)
        make_mask(s, sequence);
    else
        roco_sequence_fail(sequence, ROCO_NO_MEMORY);
}

void roco_constrain_advance(roco_scheduler *s, roco_sequence *sequence, int32_t token)
{
    if (!sequence->matcher)
        return;
    roco_status status = roco_matcher_advance(sequence->matcher, token);
    if (status != ROCO_OK)
        roco_sequence_fail(sequence, status);
    else
        make_mask(s, sequence);
}

void roco_constrain_end(roco_sequence *sequence)
{
    roco_matcher_close(sequence->matcher);
    free(sequence->allowed);
    sequence->matcher = NULL;
    sequence->allowed = NULL;
}
