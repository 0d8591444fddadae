/* One KV head's part of a chunk: append or overwrite, attend, keep statistics, evict.
 *
 * Compute threads; a head of a sequence is worked on by one thread at a time, its chunks in order. Knows of policies
 * only what kernels/policy.h says.
 */
#include "kernels/cpu/attention.h"

#include <string.h>

static uint32_t round_up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The page of a slot of the head's own cache. */
static unsigned char *page_of(const roco_attention_job *job, uint32_t slot)
{
    const roco_kv_layout *l = &job->args->layout;
    uint32_t page = job->chunk->sequence->pages[job->head->first_page + slot / l->slots];
    return roco_kv_page(l, job->args->pool, page);
}

/* Lists the pages of slots 0..n_slots-1. Returns how many those are. */
static uint32_t list_pages(const roco_attention_job *job, uint32_t n_slots)
{
    uint32_t n_pages = roco_kv_pages_for(&job->args->layout, n_slots);
    for (uint32_t i = 0; i < n_pages; i++)
        job->worker->pages[i] = page_of(job, i * job->args->layout.slots);
    return n_pages;
}

/* Between the listed pages and the column arrays. */
static void load_positions(const roco_attention_job *job, uint32_t n_pages)
{
    const roco_kv_layout *l = &job->args->layout;
    for (uint32_t i = 0; i < n_pages; i++)
        memcpy(job->worker->position + i * l->slots, roco_kv_positions(l, job->worker->pages[i]),
               l->slots * sizeof(int32_t));
}

static void load_statistics(const roco_attention_job *job, uint32_t n_pages)
{
    const roco_kv_layout *l = &job->args->layout;
    roco_attention_worker *w = job->worker;
    for (uint32_t i = 0; i < n_pages; i++) {
        memcpy(w->sum + i * l->slots, roco_kv_sums(l, w->pages[i]), l->slots * sizeof(float));
        memcpy(w->sum_sq + i * l->slots, roco_kv_sums_sq(l, w->pages[i]), l->slots * sizeof(float));
    }
}

static void store_statistics(const roco_attention_job *job, uint32_t n_pages)
{
    const roco_kv_layout *l = &job->args->layout;
    roco_attention_worker *w = job->worker;
    for (uint32_t i = 0; i < n_pages; i++) {
        memcpy(roco_kv_sums(l, w->pages[i]), w->sum + i * l->slots, l->slots * sizeof(float));
        memcpy(roco_kv_sums_sq(l, w->pages[i]), w->sum_sq + i * l->slots, l->slots * sizeof(float));
    }
}

/* Asks the policy for `surplus` of the first n columns; the answer is in worker->victims. */
static void select_victims(const roco_attention_job *job, uint32_t n, uint32_t surplus)
{
    const roco_kv_sequence *sequence = job->chunk->sequence;
    roco_attention_worker *w = job->worker;
    bool statistics = sequence->policy->needs_statistics;
    const roco_policy_view view = {.n = n,
                                   .position = w->position,
                                   .sum = statistics ? w->sum : NULL,
                                   .sum_sq = statistics ? w->sum_sq : NULL,
                                   .now = job->chunk->position + (int32_t)job->chunk->n_rows - 1,
                                   .budget = job->head->budget,
                                   .sink = sequence->sink,
                                   .recent = sequence->recent,
                                   .scratch = w->policy_scratch,
                                   .order = w->order};
    sequence->policy->select(&view, surplus, w->victims);
}

/* The next decoded token's slot, from the column arrays of the slots held. */
static void choose_next_victim(const roco_attention_job *job)
{
    job->head->victim = ROCO_NO_SLOT;
    if (job->head->held < job->head->budget)
        return;
    select_victims(job, job->head->held, 1);
    job->head->victim = job->worker->victims[0];
}

static void attend_plain(const roco_attention_job *job)
{
    roco_kv_head *head = job->head;
    uint32_t slots = job->args->layout.slots, n_rows = job->chunk->n_rows;
    ROCO_CHECK(n_rows <= head->budget - head->held);
    for (uint32_t i = 0; i < n_rows; i++)
        roco_slot_put(job, i, page_of(job, head->held + i), (head->held + i) % slots);
    list_pages(job, head->held + n_rows);
    /* Only ever appended to, so slots are in position order and a row sees those before its own. */
    const roco_attention_span span = {.n_rows = n_rows, .old = head->held, .base = head->held};
    roco_attention_rows(job, &span, false);
    head->held += n_rows;
}

static void decode_evicting(const roco_attention_job *job)
{
    roco_kv_head *head = job->head;
    bool statistics = job->chunk->sequence->policy->needs_statistics;
    ROCO_CHECK(job->chunk->n_rows == 1);
    uint32_t slot = head->held < head->budget ? head->held++ : head->victim;
    ROCO_CHECK(slot < head->held);
    roco_slot_put(job, 0, page_of(job, slot), slot % job->args->layout.slots);
    uint32_t n_pages = list_pages(job, head->held);
    load_positions(job, n_pages);
    if (statistics)
        load_statistics(job, n_pages);
    const roco_attention_span span = {.n_rows = 1, .old = head->held - 1, .base = head->held - 1};
    roco_attention_rows(job, &span, statistics);
    if (statistics)
        store_statistics(job, n_pages);
    choose_next_victim(job);
}

/* Moves the stride's survivors into the free slots, then over the `surplus` victims of the cache, which come first in
 * the ascending list. */
static void commit_stride(const roco_attention_job *job, uint32_t surplus)
{
    const roco_kv_layout *l = &job->args->layout;
    roco_attention_worker *w = job->worker;
    roco_kv_head *head = job->head;
    uint32_t held = head->held, n_rows = job->chunk->n_rows, n_over = 0;
    while (n_over < surplus && w->victims[n_over] < held)
        n_over++;
    uint32_t free_slot = held, over = 0, gone = n_over;
    for (uint32_t i = 0; i < n_rows; i++) {
        if (gone < surplus && w->victims[gone] == held + i) {
            gone++;
            continue;
        }
        uint32_t slot = free_slot < head->budget ? free_slot++ : w->victims[over++];
        roco_slot_copy(l, w->stride_pages + (size_t)(i / l->slots) * l->page_bytes, i % l->slots, page_of(job, slot),
                       slot % l->slots);
    }
    ROCO_CHECK(over == n_over && gone == surplus);
    head->held = free_slot;
}

static void prefill_evicting(const roco_attention_job *job)
{
    const roco_kv_layout *l = &job->args->layout;
    roco_attention_worker *w = job->worker;
    roco_kv_head *head = job->head;
    uint32_t held = head->held, n_rows = job->chunk->n_rows;
    bool statistics = job->chunk->sequence->policy->needs_statistics;

    /* The stride waits in pages of its own, so the cache never needs more than its budget's. */
    uint32_t n_pages = list_pages(job, held), base = round_up(held, l->slots);
    for (uint32_t i = 0; i < n_rows; i += l->slots)
        w->pages[n_pages++] = w->stride_pages + (size_t)(i / l->slots) * l->page_bytes;
    for (uint32_t i = 0; i < n_rows; i++)
        roco_slot_put(job, i, w->pages[(base + i) / l->slots], i % l->slots);

    load_positions(job, n_pages);
    if (statistics)
        load_statistics(job, n_pages);
    const roco_attention_span span = {.n_rows = n_rows, .old = held, .base = base};
    roco_attention_rows(job, &span, statistics);
    if (statistics)
        store_statistics(job, n_pages);

    uint32_t surplus = held + n_rows > head->budget ? held + n_rows - head->budget : 0;
    if (surplus > 0) { /* columns without the hole are what the policy is asked about */
        memmove(w->position + held, w->position + base, n_rows * sizeof *w->position);
        memmove(w->sum + held, w->sum + base, n_rows * sizeof *w->sum);
        memmove(w->sum_sq + held, w->sum_sq + base, n_rows * sizeof *w->sum_sq);
        select_victims(job, held + n_rows, surplus);
    }
    commit_stride(job, surplus);

    n_pages = list_pages(job, head->held);
    load_positions(job, n_pages);
    if (statistics)
        load_statistics(job, n_pages);
    choose_next_victim(job);
}

void roco_attention_head(const roco_attention_job *job)
{
    if (!job->head->evicts)
        attend_plain(job);
    else if (job->chunk->decode)
        decode_evicting(job);
    else
        prefill_evicting(job);
}
