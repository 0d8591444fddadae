/* One running sequence: a job, its pages and its cache, and how far it has come. Engine thread. */
#ifndef ROCO_SCHEDULER_SEQUENCE_H
#define ROCO_SCHEDULER_SEQUENCE_H

#include "scheduler/scheduler.h"

typedef struct roco_sequence {
    roco_job *job;
    roco_cache *cache; /* NULL when it could not be opened */
    uint32_t *pages;   /* [n_pages], the block table; written at admission, never changed */
    uint32_t n_pages;
    uint32_t position;     /* tokens fed; below job->n_prompt the sequence is in prefill, after that in decode */
    uint32_t n_generated;  /* tokens drawn */
    int32_t last_token;    /* the one to feed next, in decode */
    roco_matcher *matcher; /* where it is in its grammar; owned; NULL without a constraint */
    uint32_t *allowed;     /* the mask of the next token; owned; NULL likewise */
    roco_cache_usage kv;   /* after the last step it took part in */
    double evicted_mass;   /* when it was measured last */
    uint64_t admitted_ns, first_token_ns, last_token_ns; /* roco_now_ns(); 0 when not yet */
    roco_finish finish;                                  /* NONE while it goes on; else it leaves after this step */
    roco_status status;                                  /* why, when finish is ERROR */
} roco_sequence;

static inline bool roco_sequence_in_prefill(const roco_sequence *sequence)
{
    return sequence->position < sequence->job->n_prompt;
}

/* Marks the sequence as over; the first reason stands. ROCO_CANCELLED gives CANCELLED, others ERROR. */
void roco_sequence_fail(roco_sequence *sequence, roco_status status);

#endif
