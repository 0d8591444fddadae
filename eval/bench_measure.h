/* Speed of the engine alone: what `roco bench` measures. Main thread; steps run on the engine's own threads. */
#ifndef ROCO_EVAL_BENCH_MEASURE_H
#define ROCO_EVAL_BENCH_MEASURE_H

#include "eval/setup.h"

/* One line of the report: a prompt of `context` tokens read at once, or `batch` sequences that answer after as many. */
typedef struct roco_bench_case {
    bool decode;
    uint32_t context, batch;
    uint32_t budget;                 /* 0: full cache */
    bool fits;                       /* out: in context and pool; nothing else is written when not */
    double rate;                     /* out: tokens/s of all sequences together, the median of rounds or steps */
    double low, high;                /* out: the same of a slow and a fast one: the tenth and ninetieth percentile */
    double bytes;                    /* out: weights, K and V that one step reads; decode */
    bool timed;                      /* in: also where the time goes */
    roco_op_time ops[ROCO_OP_TIMES]; /* out, when timed: sums over n_steps */
    uint32_t n_ops, n_steps;
    double step_ns; /* out, when timed: of one step, the mean, timers included */
} roco_bench_case;

typedef struct roco_bench {
    const roco_eval_setup *setup;
    const roco_policy *policy; /* of cases with a budget */
    uint32_t rounds, steps;    /* prompts read, tokens decoded for each case */
    int32_t *ids;              /* [n_context] a prompt */
} roco_bench;

/* ROCO_NO_MEMORY, or what a step says. */
roco_status roco_bench_run(const roco_bench *bench, roco_bench_case *c, roco_error *error);

/* What statistics and eviction add to a step: sequences of `budget` slots, one that evicts and one with a plain cache
 * of that length, take turns. A share of the plain step. */
roco_status roco_bench_eviction(const roco_bench *bench, uint32_t budget, double *share, roco_error *error);

/* Nanoseconds of one draw from the model's logits. */
roco_status roco_bench_draw(const roco_bench *bench, const roco_sampling *sampling, double *ns, roco_error *error);

/* Bytes of weights that one decode step reads: all but an embedding that is not the output head too. */
double roco_bench_weight_bytes(const roco_eval_setup *setup);

/* bandwidth.c: bytes per second at which n_threads read `bytes` of memory over and over, the median of some passes; 0
 * without memory. */
double roco_read_bandwidth(uint32_t n_threads, size_t bytes);

#endif
