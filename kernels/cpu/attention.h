/* Inside the attention operation: its kernels, its scratch, and how a head's cache looks to a query.
 *
 *   attention.c            open, close, the operation: which thread does which head
 *   attention_head.c       one head's chunk: append, attend, evict
 *   attention_block.c      a few query rows over all slots: scores, softmax, statistics, weighted sum
 *   attention_slot.c       tokens in and out of pages
 *   attention_vectors.c    keys and values as policies see them
 *   attention_rank.c       rotation by rank in the cache
 *   attention_compensation.c  one slot for all that was evicted
 *   attention_statistics.c what is kept of the weights for the policy
 *   attention_<isa>.c      the kernels
 *
 * A query row's result depends on its query and the slots it sees, bit for bit: every sum over slots or components runs
 * in an order that no blocking, thread or neighbour changes. Variants differ from each other by rounding.
 */
#ifndef ROCO_KERNELS_CPU_ATTENTION_H
#define ROCO_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/kv_code.h"

/* Columns of a block of scores are padded to a multiple of this, what is beyond the pages masked. */
#define ROCO_COLUMN_STEP   32u
/* Query rows that share one pass over the pages; more when a group alone is larger. 24 rows of scores over a budget of
 * a thousand slots stay in the second-level cache. */
#define ROCO_BLOCK_ROWS    24u
/* Rows of outputs are padded to a multiple of this many floats, so that kernels need no tails there. */
#define ROCO_VECTOR_FLOATS 16u
/* Distance added between rows of scores: budgets are often powers of two, and rows would share cache sets. */
#define ROCO_ROW_PADDING   32u

static inline size_t roco_row_floats(uint32_t n)
{
    return ((size_t)n + ROCO_VECTOR_FLOATS - 1) / ROCO_VECTOR_FLOATS * ROCO_VECTOR_FLOATS;
}

static inline uint32_t roco_column_pad(uint32_t n)
{
    return (n + ROCO_COLUMN_STEP - 1) / ROCO_COLUMN_STEP * ROCO_COLUMN_STEP;
}

/* The inner loops. Columns are slots in page order. Arrays by roco_kv_type; a layout is of that type. */
typedef struct roco_attention_kernels {
    /* s[r * s_stride + j] = sum_d q[d * n_rows + r] K[d][j] for a page's slots j; q [dim][n_rows], scaled. Up to
     * ROCO_ROW_PADDING columns behind the page's may be overwritten. */
    void (*scores[ROCO_N_KV_TYPES])(const float *q, uint32_t n_rows, const roco_kv_layout *layout,
                                    const unsigned char *page, float *s, size_t s_stride);
    /* n_columns is a multiple of ROCO_COLUMN_STEP. s[0..n_columns) to its softmax; -infinity gives exactly 0. */
    void (*softmax)(float *s, uint32_t n_columns);
    /* For each of n_positions groups of n_group rows of p in turn: m = mean of the rows, sum += m, sum_sq += m^2. */
    void (*statistics)(const float *p, size_t p_stride, uint32_t n_positions, uint32_t n_group, uint32_t n_columns,
                       float *sum, float *sum_sq);
    /* out[r * out_stride + c] += sum_j p[r * p_stride + j] V[j][c] for the page's first n_slots slots j and c <
     * value_dim; up to the next multiple of ROCO_VECTOR_FLOATS, out may be overwritten and the bytes after a value
     * read. */
    void (*weigh[ROCO_N_KV_TYPES])(const float *p, size_t p_stride, uint32_t n_rows, const roco_kv_layout *layout,
                                   const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride);
    /* To f16, nearest even; beyond f16's range to its largest finite value, so that a weight of 0 still gives 0. */
    void (*to_f16)(const float *in, uint16_t *out, uint32_t n);
    /* roco_kv_encode */
    void (*encode)(roco_kv_type type, const float *in, uint32_t n, uint8_t *codes, uint16_t *scales, uint16_t *leasts);
} roco_attention_kernels;

extern const roco_attention_kernels roco_attention_portable;
extern const roco_attention_kernels roco_attention_avx2;
extern const roco_attention_kernels roco_attention_avx512;

/* One compute thread's scratch; `columns` below is the most a head's pages and a stride's can have. */
typedef struct roco_attention_worker {
    float *q;                  /* [key_dim][rows] */
    float *scores;             /* [rows][columns + padding] */
    float *out;                /* [rows][value_dim, padded] */
    float *sum, *sum_sq;       /* [columns] S and S2 by column */
    int32_t *position;         /* [columns] */
    unsigned char **pages;     /* [columns / slots] the pages a chunk attends to */
    uint16_t *half;            /* [key_dim] a key on its way to f16 */
    uint8_t *codes;            /* [key_dim or value_dim] a key or value on its way to q8 or q4 */
    uint16_t *numbers;         /* [2 blocks] its scales and leasts */
    double *policy_scratch;    /* [2 columns] */
    uint32_t *order, *victims; /* [columns] */
    uint32_t *inside;          /* [columns] those that a sliding window still covers */
    float *block;              /* [key_dim or value_dim][ROCO_POLICY_BLOCK] what a policy reads, or a key and a value */
    double *vector;            /* [key_dim or value_dim] */
} roco_attention_worker;

/* What one KV head's stride needs from its first row to its eviction, whichever threads work on it. */
typedef struct roco_attention_stage {
    unsigned char *pages; /* the stride's own K and V, in page form, until its survivors are known */
    float *sum, *sum_sq;  /* [parts][columns] what each part of the stride adds to S and S2 */
    uint32_t *rank;       /* [columns] of each token, in sequences by rank */
    float *last;          /* [columns] p of the last query, where it is neither of those */
} roco_attention_stage;

struct roco_attention_scratch {
    const roco_attention_kernels *kernels;
    roco_attention_worker *workers;   /* [threads] */
    roco_attention_stage *stages;     /* [threads] for heads done by one thread */
    roco_attention_stage *cut_stages; /* [n_cut_stages] for heads whose strides are cut into parts */
    uint32_t n_cut_stages;
    uint32_t part_rows; /* rows of a part; follows from the stride alone, so sums do not depend on the threads */
    size_t columns;
    uint32_t *runs; /* [max_rows + 1] first chunk of each sequence */
    uint32_t max_rows;
    void *memory;
};

/* One KV head of one chunk. */
typedef struct roco_attention_job {
    const roco_attention *args;
    const roco_attention_scratch *scratch;
    roco_attention_worker *worker;
    const roco_attention_stage *stage;
    const roco_chunk *chunk;
    uint32_t kv_head;
    roco_kv_head *head;
    roco_kv_layout layout; /* of the head's type */
} roco_attention_job;

/* attention_head.c. What backend.h says of one chunk and KV head, in three steps: `prepare` puts the chunk's tokens
 * where they are attended to, `part` attends from some of its rows, `finish` adds the statistics and evicts. The parts
 * may run at the same time, on any threads; a chunk has roco_attention_n_parts. */
uint32_t roco_attention_n_parts(const roco_attention_scratch *scratch, const roco_chunk *chunk);
void roco_attention_prepare(const roco_attention_job *job);
void roco_attention_part(const roco_attention_job *job, uint32_t part);
void roco_attention_finish(const roco_attention_job *job);

/* What rows first..first+n_rows-1 of a chunk see of worker->pages: columns 0..old-1, and of the chunk's own tokens,
 * which are columns base.., those up to their own. Columns old..base-1 are the unused end of the last page. */
typedef struct roco_attention_span {
    uint32_t first, n_rows;
    uint32_t old, base;
} roco_attention_span;

/* attention_block.c: attends and writes args->out. sum, sum_sq [columns]: grow by p and p^2; NULL without statistics.
 */
void roco_attention_rows(const roco_attention_job *job, const roco_attention_span *span, float *sum, float *sum_sq);

/* attention_statistics.c: does the chunk's head keep anything? */
bool roco_statistics_kept(const roco_attention_job *job);

/* Softmax weights of some neighbouring positions of a chunk, each with the rows of its group's query heads. */
typedef struct roco_weights {
    const float *rows; /* [n_positions * n_group], `stride` floats apart */
    size_t stride;
    uint32_t first, n_positions; /* rows of the chunk */
    uint32_t n_group, n_columns;
} roco_weights;

/* Into a part's sum and sum_sq [columns]. */
void roco_statistics_add_weights(const roco_attention_job *job, const roco_weights *weights, float *sum, float *sum_sq);
/* What the parts found goes to the first n_pages pages of worker->pages. */
void roco_statistics_commit(const roco_attention_job *job, uint32_t n_pages);
/* By column, p that the chunk's last query paid, as a mean over the group; valid after the chunk's parts. */
const float *roco_statistics_last(const roco_attention_job *job);

/* attention_vectors.c: the keys or values of a view of n tokens. `span` tells which of worker->pages hold them;
 * `inside` [n], or NULL: all columns. Borrows all three. */
typedef struct roco_attention_vectors {
    roco_policy_vectors vectors;
    const roco_attention_job *job;
    const roco_attention_span *span;
    const uint32_t *inside;
    uint32_t n;
    bool values;
} roco_attention_vectors;
roco_attention_vectors roco_attention_vectors_make(const roco_attention_job *job, const roco_attention_span *span,
                                                   uint32_t n, const uint32_t *inside, bool values);

/* Keys of slots first.. of a page as floats, [key_dim][ROCO_POLICY_BLOCK]; n <= ROCO_POLICY_BLOCK. */
void roco_keys_read(const roco_kv_layout *layout, const unsigned char *page, uint32_t first, uint32_t n, float *out);

/* attention_rank.c: for sequences by rank. `prepare` fills stage->rank, once the chunk's tokens are in their slots and
 * worker->pages is listed. */
void roco_rank_prepare(const roco_attention_job *job, const roco_attention_span *span);
/* Rotates one vector. */
void roco_rank_rotate(const roco_rank_rope *rope, uint32_t rank, float *x);
/* As the kernel `scores`, for worker->pages[page]. Overwrites worker->block. */
void roco_rank_scores(const roco_attention_job *job, const roco_attention_span *span, uint32_t page, uint32_t n_rows,
                      float *scores, size_t stride);

/* attention_compensation.c: for heads that compensate; `page` is the head's first, of which slot 0 is written. `add`
 * takes in a token that is being evicted, before its slot is used again; `store` makes the means. */
void roco_compensation_open(const roco_attention_job *job, unsigned char *page);
void roco_compensation_add(const roco_attention_job *job, const unsigned char *page, uint32_t slot);
void roco_compensation_store(const roco_attention_job *job, unsigned char *page);
/* What its logit is raised by; minus infinity while nothing is evicted. */
float roco_compensation_logit(const roco_attention_job *job);

/* attention_slot.c. `slot` counts from the page's start. Statistics begin at 0. */
void roco_slot_write(const roco_attention_job *job, const float *k, const float *v, unsigned char *page, uint32_t slot,
                     int32_t position);
void roco_slot_put(const roco_attention_job *job, uint32_t chunk_row, unsigned char *page, uint32_t slot);
void roco_slot_copy(const roco_kv_layout *layout, unsigned char *from, uint32_t from_slot, unsigned char *to,
                    uint32_t to_slot);

#endif
