/* Which rows go into the next step. This is the whole scheduling rule; it looks at positions only. Engine thread. */
#ifndef ROCO_SCHEDULER_BATCH_H
#define ROCO_SCHEDULER_BATCH_H

#include "scheduler/sequence.h"

typedef struct roco_batch {
    roco_step_item *items; /* [n_items] */
    uint32_t *source;      /* [n_items], index of the item's sequence in `running` */
    uint32_t n_items, rows;
    uint32_t capacity; /* items */
} roco_batch;

roco_status roco_batch_init(roco_batch *batch, uint32_t max_seqs);
void roco_batch_free(roco_batch *batch);

/* Packs running[n], which are in order of admission, into at most step_tokens rows: every decoding sequence one row;
 * then the prompts, oldest first, as many whole strides as the rows left allow, or up to the prompt's end. Never empty
 * when n > 0, given step_tokens >= capacity + stride. The items borrow from the sequences and their jobs. */
void roco_batch_pack(roco_batch *batch, const roco_sequence *running, uint32_t n, uint32_t stride,
                     uint32_t step_tokens);

#endif
