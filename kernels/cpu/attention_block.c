/* Query rows over the slots they see: softmax attention, two passes over a block of scores.
 *
 * Compute threads. Rows go in blocks of a few positions with all query heads of the group, so a page's K and V are read
 * once for the block and no more than the block's scores exist at a time. A row's own arithmetic does not see the
 * block: masked columns weigh exactly 0, and adding a product with 0 changes no sum.
 */
#include "kernels/cpu/attention.h"

#include <math.h>
#include <string.h>

typedef struct block {
    uint32_t first, n_positions; /* rows of the chunk */
    uint32_t n_group, n_rows;    /* n_positions * n_group */
    uint32_t n_pages, n_columns; /* columns: the pages', padded */
    size_t scores_stride, out_stride;
} block;

/* The queries, scaled and transposed: the kernel then reads neighbouring rows at constant distance. */
static void load_queries(const roco_attention_job *job, const roco_attention_span *span, const block *b)
{
    const roco_attention *args = job->args;
    uint32_t dim = job->layout.key_dim;
    for (uint32_t i = 0; i < b->n_positions; i++) {
        size_t row = (size_t)job->chunk->row + b->first + i;
        const float *q = args->q + (row * args->n_heads + (size_t)job->kv_head * b->n_group) * dim;
        for (uint32_t g = 0; g < b->n_group; g++) {
            const float *from = q + (size_t)g * dim;
            if (job->chunk->sequence->by_rank) {
                memcpy(job->worker->block, from, dim * sizeof *from);
                roco_rank_rotate(&args->rank_rope, span->old + b->first + i, job->worker->block);
                from = job->worker->block;
            }
            for (uint32_t d = 0; d < dim; d++)
                job->worker->q[d * b->n_rows + i * b->n_group + g] = from[d] * args->scale;
        }
    }
}

static void mask(float *row, uint32_t from, uint32_t to)
{
    for (uint32_t j = from; j < to; j++)
        row[j] = -INFINITY;
}

static void cap(float *row, uint32_t n_columns, float softcap)
{
    for (uint32_t j = 0; j < n_columns; j++)
        row[j] = softcap * tanhf(row[j] / softcap);
}

/* Columns whose token is `window` or more positions before the row's own. */
static void mask_outside_window(const roco_attention_job *job, float *row, uint32_t n_pages, int64_t position)
{
    const roco_kv_layout *l = &job->layout;
    int64_t oldest = position - (int64_t)job->args->window + 1;
    for (uint32_t page = 0; page < n_pages; page++) {
        const int32_t *positions = roco_kv_positions(l, job->worker->pages[page]);
        for (uint32_t j = 0; j < l->slots; j++)
            row[page * l->slots + j] = positions[j] < oldest ? -INFINITY : row[page * l->slots + j];
    }
}

/* Pages are scattered, so the processor's own prefetcher starts anew on each; in decode, where every step streams all
 * weights through the caches, the pages come from memory. */
#define PAGES_AHEAD 2u

static void fetch_keys(const roco_attention_job *job, uint32_t page, uint32_t n_pages)
{
    if (page >= n_pages)
        return;
    const unsigned char *keys = job->worker->pages[page];
    for (uint32_t i = 0; i < job->layout.value_offset; i += 64)
        __builtin_prefetch(keys + i);
}

static void fetch_values(const roco_attention_job *job, uint32_t page, uint32_t n_pages)
{
    if (page >= n_pages)
        return;
    const unsigned char *start = job->worker->pages[page];
    /* With statistics, the slots' state is next. */
    const uint32_t end = job->head->evicts ? job->layout.page_bytes : job->layout.position_offset;
    for (uint32_t i = job->layout.value_offset; i < end; i += 64)
        __builtin_prefetch(start + i);
}

static void weights(const roco_attention_job *job, const roco_attention_span *span, const block *b)
{
    const roco_kv_layout *l = &job->layout;
    float *scores = job->worker->scores;
    for (uint32_t page = 0; page < b->n_pages; page++) {
        fetch_keys(job, page + PAGES_AHEAD, b->n_pages);
        if (job->chunk->sequence->by_rank)
            roco_rank_scores(job, span, page, b->n_rows, scores, b->scores_stride);
        else
            job->scratch->kernels->scores[l->type](job->worker->q, b->n_rows, l, job->worker->pages[page],
                                                   scores + page * l->slots, b->scores_stride);
    }
    for (uint32_t page = 0; page < PAGES_AHEAD; page++)
        fetch_values(job, page, b->n_pages);
    const float raise = job->head->compensates ? roco_compensation_logit(job) : 0;
    for (uint32_t r = 0; r < b->n_rows; r++) {
        float *row = scores + r * b->scores_stride;
        if (job->args->softcap > 0)
            cap(row, b->n_columns, job->args->softcap);
        if (job->head->compensates)
            row[0] += raise;
        if (job->args->window > 0 && job->head->evicts)
            mask_outside_window(job, row, b->n_pages, (int64_t)job->chunk->position + b->first + r / b->n_group);
        mask(row, span->old, span->base);
        mask(row, span->base + b->first + r / b->n_group + 1, b->n_columns);
        job->scratch->kernels->softmax(row, b->n_columns);
    }
}

static void weighted_sum(const roco_attention_job *job, const roco_attention_span *span, const block *b)
{
    const roco_kv_layout *l = &job->layout;
    roco_attention_worker *w = job->worker;
    uint32_t end = span->base + b->first + b->n_positions;
    memset(w->out, 0, b->n_rows * b->out_stride * sizeof *w->out);
    for (uint32_t column = 0; column < end; column += l->slots) {
        /* A page of older tokens alone ends at `old`; what follows there was never written or is another's. */
        uint32_t limit = span->old < span->base && column < span->base ? span->old : end;
        fetch_values(job, column / l->slots + PAGES_AHEAD, b->n_pages);
        uint32_t n_slots = limit - column < l->slots ? limit - column : l->slots;
        job->scratch->kernels->weigh[l->type](w->scores + column, b->scores_stride, b->n_rows, l,
                                              w->pages[column / l->slots], n_slots, w->out, b->out_stride);
    }
}

static void store_rows(const roco_attention_job *job, const block *b)
{
    const roco_attention *args = job->args;
    uint32_t dim = job->layout.value_dim;
    for (uint32_t r = 0; r < b->n_rows; r++) {
        size_t row = (size_t)job->chunk->row + b->first + r / b->n_group;
        size_t head = (size_t)job->kv_head * b->n_group + r % b->n_group;
        memcpy(args->out + (row * args->n_heads + head) * dim, job->worker->out + r * b->out_stride,
               dim * sizeof(float));
    }
}

void roco_attention_rows(const roco_attention_job *job, const roco_attention_span *span, float *sum, float *sum_sq)
{
    const roco_kv_layout *l = &job->layout;
    uint32_t n_group = job->args->n_heads / job->args->n_kv_heads;
    uint32_t n_positions = n_group < ROCO_BLOCK_ROWS ? ROCO_BLOCK_ROWS / n_group : 1;
    uint32_t end = span->first + span->n_rows;
    for (uint32_t first = span->first; first < end; first += n_positions) {
        block b = {.first = first, .n_group = n_group};
        b.n_positions = end - first < n_positions ? end - first : n_positions;
        b.n_rows = b.n_positions * n_group;
        b.n_pages = roco_kv_pages_for(l, span->base + first + b.n_positions);
        b.n_columns = roco_column_pad(b.n_pages * l->slots);
        b.scores_stride = b.n_columns + ROCO_ROW_PADDING;
        b.out_stride = roco_row_floats(l->value_dim);
        load_queries(job, span, &b);
        weights(job, span, &b);
        if (sum != NULL) {
            const roco_weights weights_of_block = {.rows = job->worker->scores,
                                                   .stride = b.scores_stride,
                                                   .first = b.first,
                                                   .n_positions = b.n_positions,
                                                   .n_group = b.n_group,
                                                   .n_columns = b.n_columns};
            roco_statistics_add_weights(job, &weights_of_block, sum, sum_sq);
        }
        weighted_sum(job, span, &b);
        store_rows(job, &b);
    }
}
