/* What is kept of the attention weights for the policy: S and S2, the last query's p, or the newest queries' alone.
 *
 * Compute threads. A slot has two floats for it, whichever it is. Weights come a block of rows at a time, into arrays
 * of a part's own; when the chunk is done, they go to the pages in the order of the parts.
 */
#include "kernels/cpu/attention.h"

#include <string.h>

static const roco_policy *policy_of(const roco_attention_job *job)
{
    return job->chunk->sequence->policy;
}

/* A head that holds its whole window gives up what has left it, and no policy is asked. */
bool roco_statistics_kept(const roco_attention_job *job)
{
    const roco_policy *policy = policy_of(job);
    bool whole = job->head->budget == job->args->window && job->head->reserved == 0;
    return job->head->evicts && !whole && (policy->needs_statistics || policy->needs_last || policy->window > 0);
}

static int32_t last_position(const roco_chunk *chunk)
{
    return chunk->position + (int32_t)chunk->n_rows - 1;
}

/* to = max(to, row), or to += the mean of the group's rows. */
static void add_position(bool peak, const float *rows, size_t stride, uint32_t n_group, uint32_t n_columns, float *to)
{
    if (peak) {
        for (uint32_t g = 0; g < n_group; g++)
            for (uint32_t j = 0; j < n_columns; j++)
                to[j] = rows[g * stride + j] > to[j] ? rows[g * stride + j] : to[j];
        return;
    }
    const float scale = 1.0f / (float)n_group;
    for (uint32_t j = 0; j < n_columns; j++) {
        float mean = 0;
        for (uint32_t g = 0; g < n_group; g++)
            mean += rows[g * stride + j];
        to[j] += mean * scale;
    }
}

/* The newest block of positions and the one before; earlier rows are of no interest. */
static void add_to_window(const roco_attention_job *job, const roco_weights *w, float *newest, float *before)
{
    const int32_t window = (int32_t)policy_of(job)->window, block = last_position(job->chunk) / window;
    for (uint32_t i = 0; i < w->n_positions; i++) {
        const int32_t age = block - (job->chunk->position + (int32_t)(w->first + i)) / window;
        if (age <= 1)
            add_position(policy_of(job)->peak, w->rows + (size_t)i * w->n_group * w->stride, w->stride, w->n_group,
                         w->n_columns, age ? before : newest);
    }
}

/* Of one query alone S is p. */
static bool is_sum_of_one(const roco_attention_job *job)
{
    return policy_of(job)->needs_statistics && job->chunk->n_rows == 1;
}

static void keep_last(const roco_attention_job *job, const roco_weights *w)
{
    if (policy_of(job)->needs_last || is_sum_of_one(job) || w->first + w->n_positions < job->chunk->n_rows)
        return;
    memset(job->stage->last, 0, w->n_columns * sizeof *job->stage->last);
    add_position(false, w->rows + (size_t)(w->n_positions - 1) * w->n_group * w->stride, w->stride, w->n_group,
                 w->n_columns, job->stage->last);
}

void roco_statistics_add_weights(const roco_attention_job *job, const roco_weights *w, float *sum, float *sum_sq)
{
    uint32_t n = w->n_positions;
    const float *rows = w->rows;
    keep_last(job, w);
    if (policy_of(job)->window > 0) {
        add_to_window(job, w, sum, sum_sq);
        return;
    }
    if (policy_of(job)->needs_last) { /* of the chunk's last position alone */
        if (w->first + n < job->chunk->n_rows)
            return;
        rows += (size_t)(n - 1) * w->n_group * w->stride;
        n = 1;
    }
    job->scratch->kernels->statistics(rows, w->stride, n, w->n_group, w->n_columns, sum, sum_sq);
}

/* Makes room for what the chunk adds. The last query's p stands alone; a window moves on. */
static void forget(const roco_attention_job *job, float *sum, float *sum_sq)
{
    const roco_policy *policy = policy_of(job);
    const size_t bytes = job->layout.slots * sizeof *sum;
    if (policy->needs_last)
        memset(sum, 0, bytes);
    if (policy->window == 0 || job->chunk->position == 0)
        return;
    const int32_t window = (int32_t)policy->window;
    const int32_t moved = last_position(job->chunk) / window - (job->chunk->position - 1) / window;
    if (moved > 0) {
        if (moved == 1)
            memcpy(sum_sq, sum, bytes);
        else
            memset(sum_sq, 0, bytes);
        memset(sum, 0, bytes);
    }
}

/* to += or max= from, a page's slots: a multiple of 8, which the compiler makes vectors of. */
static void join(bool peak, float *restrict to, const float *restrict from, uint32_t n_slots)
{
    if (peak) {
        for (uint32_t j = 0; j < n_slots; j++)
            to[j] = from[j] > to[j] ? from[j] : to[j];
        return;
    }
    for (uint32_t j = 0; j < n_slots; j += 8)
        for (uint32_t i = 0; i < 8; i++)
            to[j + i] += from[j + i];
}

void roco_statistics_commit(const roco_attention_job *job, uint32_t n_pages)
{
    const roco_kv_layout *l = &job->layout;
    const uint32_t n_parts = roco_attention_n_parts(job->scratch, job->chunk);
    for (uint32_t i = 0; i < n_pages; i++) {
        float *sum = roco_kv_sums(l, job->worker->pages[i]), *sum_sq = roco_kv_sums_sq(l, job->worker->pages[i]);
        forget(job, sum, sum_sq);
        for (uint32_t part = 0; part < n_parts; part++) {
            size_t column = part * job->scratch->columns + (size_t)i * l->slots;
            join(policy_of(job)->peak, sum, job->stage->sum + column, l->slots);
            join(policy_of(job)->peak, sum_sq, job->stage->sum_sq + column, l->slots);
        }
    }
}

const float *roco_statistics_last(const roco_attention_job *job)
{
    const roco_policy *policy = policy_of(job);
    if (policy->needs_last)
        return job->stage->sum + (roco_attention_n_parts(job->scratch, job->chunk) - 1) * job->scratch->columns;
    return is_sum_of_one(job) ? job->stage->sum : job->stage->last;
}
