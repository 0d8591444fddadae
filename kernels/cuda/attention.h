/* What attention's kernels are given: one table for a step, one struct for a layer. Host and device.
 *
 * How a layer's attention goes, in launches:
 *
 *   store    K and V to their slots; a stride of an evicting head waits in `stage`, in the form of pages
 *   rank     sequences by rank: ranks of what evicting heads hold
 *   attend   tiles of query rows over all slots they see; decode cut into splits, and scores kept for the statistics
 *   finish   decode: joins the splits, adds to S and S2, chooses the next victim
 *   pay      prompt strides of evicting heads: column sums of p and p^2
 *   evict    the same: chooses victims, moves the stride's survivors into the pool
 *
 * Chunks of one sequence that evict follow each other level by level; all else runs at once.
 */
#ifndef ROCO_KERNELS_CUDA_ATTENTION_H
#define ROCO_KERNELS_CUDA_ATTENTION_H

#include "kernels/backend.h"
#include "kernels/cuda/gpu.h"

/* Bytes of a column's cell: what policies and ranks need beside the scores (cache.h: column_cells). */
#define ROCO_CUDA_CELL_BYTES  32u
/* Tokens of a stride at most. */
#define ROCO_CUDA_MOST_STRIDE 1024u

/* What a slot's two floats hold for the policy (kernels/policy.h). */
typedef enum roco_cuda_kept {
    ROCO_KEPT_NOTHING,
    ROCO_KEPT_SUMS,   /* S, S2 */
    ROCO_KEPT_LAST,   /* the last query's p */
    ROCO_KEPT_WINDOW, /* the newest block's and the one's before */
} roco_cuda_kept;

typedef struct roco_cuda_chunk {
    roco_kv_head *heads;   /* all of the sequence's */
    const uint32_t *pages; /* its block table */
    uint32_t row, n_rows;  /* n_rows 0: an empty place of the table */
    int32_t position;
    uint32_t decode;
    uint32_t is_last; /* of its sequence in this step */
    uint32_t policy, kept, policy_window, peak;
    uint32_t by_rank;
    uint32_t sink, recent, first_pin, n_pins;
    uint32_t first_stage; /* page of KV head 0's stride */
    uint32_t columns;     /* at most, of any head: cache and stride, rounded up to 32 */
    uint64_t first_score; /* its place in `scores`: decode [n_heads][columns], the first head's of a group then the p
                             that the query paid; prompt [n_kv_heads][columns], the p that the last query paid */
    uint64_t first_cell;  /* its place in `cells`: [n_kv_heads][columns] */
} roco_cuda_chunk;

/* Passed to kernels by value. */
typedef struct roco_cuda_layer {
    uint32_t layer, n_heads, n_kv_heads, window;
    float scale, softcap;
    const float *q, *k, *v;
    float *out;
    unsigned char *pool, *stage;
    roco_kv_layout layouts[ROCO_N_KV_TYPES]; /* by a head's type */
    const roco_cuda_chunk *chunks;
    const uint32_t *order; /* chunk numbers: decode, then prompts by level */
    const roco_pin *pins;
    float *scores;
    unsigned char *cells;
    roco_rank_rope rank_rope;
    float *normals;  /* [rows, n_heads, 2] of each row's softmax: its greatest score, 1 / its sum */
    float *partials; /* [entries, n_heads, n_splits, value_dim + 2] of decode */
    uint32_t n_splits;
} roco_cuda_layer;

#ifdef __cplusplus
extern "C" {
#endif

/* attend_<components>.cu, store.cu, rank.cu, finish.cu, pay.cu, evict.cu. Chunks order[first] .. order[first + n - 1];
 * most_rows of any of them. */
void roco_cuda_launch_store(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n,
                            uint32_t most_rows);
void roco_cuda_launch_rank(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n);
void roco_cuda_launch_finish(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t n);
void roco_cuda_launch_pay(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n,
                          uint32_t most_columns);
void roco_cuda_launch_evict(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif
