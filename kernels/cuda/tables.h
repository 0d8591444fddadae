/* What a step brings from the host, in one transfer, and how its chunks are cut into launches. Engine thread. */
#ifndef ROCO_KERNELS_CUDA_TABLES_H
#define ROCO_KERNELS_CUDA_TABLES_H

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda.h"

/* Neighbouring entries of the order that one launch works on. */
typedef struct roco_cuda_span {
    uint32_t first, n, most_rows, most_columns;
    bool kept;   /* some head may keep statistics */
    bool ranked; /* some head may need ranks */
} roco_cuda_span;

/* Chunks whose strides and scores the scratch holds together; mostly there is one wave. */
typedef struct roco_cuda_wave {
    roco_cuda_span decode;
    uint32_t first_level, n_levels;
} roco_cuda_wave;

/* Where layers have a sliding window every head may evict, so chunks of all sequences follow each other; elsewhere
 * those of evicting policies. So there are two plans. */
typedef struct roco_cuda_plan {
    roco_cuda_wave *waves; /* [max_rows] */
    uint32_t n_waves;
    roco_cuda_span *levels; /* [max_rows] */
    uint32_t n_levels;
    const roco_cuda_chunk *chunks; /* device */
    const uint32_t *order;         /* device */
} roco_cuda_plan;

/* What plans have to fit into. */
typedef struct roco_cuda_room {
    size_t n_scores, n_cells;
    uint32_t n_stage_pages;
    uint32_t n_heads, n_kv_heads; /* of any layer at most */
} roco_cuda_room;

roco_status roco_cuda_tables_open(roco_cuda *cuda, const roco_cuda_room *room, roco_error *error);
void roco_cuda_tables_close(roco_cuda *cuda);

/* What the launches of a step depend on whose rows all decode. */
typedef struct roco_cuda_bucket {
    uint32_t rows;    /* to launch for, the step's own rounded up; 0: its launches depend on more than this */
    uint32_t columns; /* of attention at most, a power of two */
    bool ranked;      /* some sequence is by rank, so there are rotations for it */
} roco_cuda_bucket;

/* Sends a step's tables, with empty rows up to those of the bucket, which lie where those of every step of that bucket
 * do. *moved: they have new memory since the last call. */
roco_cuda_bucket roco_cuda_tables_fill(roco_cuda *cuda, const roco_step_tables *step, bool *moved);
/* Starts the step's copies from its tables to where the operations read. */
void roco_cuda_tables_copy(roco_cuda *cuda);
/* Device copies of what an operation is given: the step's, or sent now. Valid until the next call. */
const int32_t *roco_cuda_tables_ids(roco_cuda *cuda, const int32_t *ids, uint32_t n);
const uint32_t *roco_cuda_tables_rows(roco_cuda *cuda, const uint32_t *rows, uint32_t n);
/* NULL when there was no memory for the tables. *pins: device. */
const roco_cuda_plan *roco_cuda_tables_plan(roco_cuda *cuda, const roco_attention *args, const roco_pin **pins);

#endif
