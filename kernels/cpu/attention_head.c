/* One KV head's part of a chunk: append or overwrite, attend, keep statistics, evict.
 *
 * Compute threads. `prepare` and `finish` own the head; parts only read its pages. Knows of policies only what
 * kernels/policy.h says.
 */
#include "kernels/cpu/attention.h"

#include <string.h>

/* The page of a slot of the head's own cache. */
static unsigned char *page_of(const roco_attention_job *job, uint32_t slot)
{
    const roco_kv_layout *l = &job->layout;
    uint32_t page = job->chunk->sequence->pages[job->head->first_page + slot / l->slots];
    return roco_kv_page(l, job->args->pool, page);
}

/* Lists the pages of slots 0..n_slots-1. Returns how many those are. */
static uint32_t list_pages(const roco_attention_job *job, uint32_t n_slots)
{
    uint32_t n_pages = roco_kv_pages_for(&job->layout, n_slots);
    for (uint32_t i = 0; i < n_pages; i++)
        job->worker->pages[i] = page_of(job, i * job->layout.slots);
    return n_pages;
}

/* 4-byte values of a page's slots: a multiple of 8, so that no copy is a call. */
static void copy_slots(void *to, const void *from, uint32_t n_slots)
{
    for (size_t at = 0; at < 4 * (size_t)n_slots; at += 32)
        memcpy((char *)to + at, (const char *)from + at, 32);
}

/* The listed pages' state into the worker's column arrays. */
static void load_columns(const roco_attention_job *job, uint32_t n_pages)
{
    const roco_kv_layout *l = &job->layout;
    roco_attention_worker *w = job->worker;
    bool statistics = roco_statistics_kept(job);
    for (uint32_t i = 0; i < n_pages; i++) {
        copy_slots(w->position + i * l->slots, roco_kv_positions(l, w->pages[i]), l->slots);
        if (!statistics)
            continue;
        copy_slots(w->sum + i * l->slots, roco_kv_sums(l, w->pages[i]), l->slots);
        copy_slots(w->sum_sq + i * l->slots, roco_kv_sums_sq(l, w->pages[i]), l->slots);
    }
}

/* Slots that a prompt may fill. */
static uint32_t prompt_budget(const roco_attention_job *job)
{
    return job->head->budget - job->head->reserved;
}

/* Asks the policy for `surplus` of n columns, those of `inside` when that is not NULL; the answer is in
 * worker->victims.
 */
static void ask_policy(const roco_attention_job *job, const roco_attention_span *span, uint32_t n,
                       const uint32_t *inside, uint32_t surplus)
{
    const roco_kv_sequence *sequence = job->chunk->sequence;
    const roco_policy *policy = sequence->policy;
    const roco_attention_vectors keys = roco_attention_vectors_make(job, span, n, inside, false);
    const roco_attention_vectors values = roco_attention_vectors_make(job, span, n, inside, true);
    roco_attention_worker *w = job->worker;
    const bool sums = policy->needs_statistics || policy->window > 0;
    const roco_policy_view view = {.n = n,
                                   .position = w->position,
                                   .sum = sums ? w->sum : NULL,
                                   .sum_sq = sums ? w->sum_sq : NULL,
                                   .last = policy->needs_last ? w->sum : NULL,
                                   .keys = policy->needs_keys ? &keys.vectors : NULL,
                                   .values = policy->needs_values ? &values.vectors : NULL,
                                   .stream = (uint64_t)job->args->layer << 32 | job->kv_head,
                                   .now = job->chunk->position + (int32_t)job->chunk->n_rows - 1,
                                   .budget = job->chunk->decode ? job->head->budget : prompt_budget(job),
                                   .pins = sequence->pins,
                                   .n_pins = sequence->n_pins,
                                   .sink = sequence->sink,
                                   .recent = sequence->recent,
                                   .scratch = w->policy_scratch,
                                   .vector = policy->needs_keys || policy->needs_values ? w->vector : NULL,
                                   .order = w->order};
    policy->select(&view, surplus, w->victims);
}

/* What the last query paid to the first n victims, columns or numbers of inside ones. */
static float mass_of_victims(const roco_attention_job *job, const roco_attention_span *span, uint32_t n,
                             const uint32_t *inside)
{
    if (!roco_statistics_kept(job))
        return 0;
    const float *last = roco_statistics_last(job);
    float mass = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t victim = job->worker->victims[i], column = inside ? inside[victim] : victim;
        mass += last[column + (column >= span->old ? span->base - span->old : 0)];
    }
    return mass;
}

static uint32_t count_up_to(const int32_t *position, uint32_t n, int32_t last)
{
    uint32_t count = 0;
    for (uint32_t j = 0; j < n; j++)
        count += position[j] <= last;
    return count;
}

/* The position of the count-th oldest of n columns; positions differ. */
static int32_t nth_oldest(const int32_t *position, uint32_t n, uint32_t count)
{
    int32_t low = 0, high = INT32_MAX;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (count_up_to(position, n, middle) < count)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The policy's victims are numbers of w->inside; w->victims becomes those columns and all that are not inside. */
static void merge_victims(roco_attention_worker *w, uint32_t n, uint32_t n_inside, uint32_t n_chosen)
{
    uint32_t inside = 0, chosen = 0, n_victims = 0;
    memcpy(w->order, w->victims, n_chosen * sizeof *w->order);
    for (uint32_t j = 0; j < n; j++) {
        bool is_inside = inside < n_inside && w->inside[inside] == j;
        bool is_chosen = is_inside && chosen < n_chosen && w->order[chosen] == inside;
        if (!is_inside || is_chosen)
            w->victims[n_victims++] = j;
        inside += is_inside;
        chosen += is_chosen;
    }
}

/* Tokens that fell out of the window go first, oldest before newer; the policy chooses the rest among the others.
 * Returns what the last query paid to those. */
static float select_victims(const roco_attention_job *job, const roco_attention_span *span, uint32_t n,
                            uint32_t surplus)
{
    roco_attention_worker *w = job->worker;
    int64_t last = (int64_t)job->chunk->position + job->chunk->n_rows - job->args->window;
    uint32_t n_out = job->args->window > 0 && last >= 0 ? count_up_to(w->position, n, (int32_t)last) : 0;
    if (n_out == 0) {
        ask_policy(job, span, n, NULL, surplus);
        return mass_of_victims(job, span, surplus, NULL);
    }
    uint32_t n_victims = 0, n_inside = 0;
    if (n_out >= surplus) {
        int32_t newest = nth_oldest(w->position, n, surplus);
        for (uint32_t j = 0; j < n; j++)
            if (w->position[j] <= newest)
                w->victims[n_victims++] = j;
        return 0;
    }
    for (uint32_t j = 0; j < n; j++) {
        if (w->position[j] <= last)
            continue;
        w->inside[n_inside] = j;
        w->position[n_inside] = w->position[j];
        w->sum[n_inside] = w->sum[j];
        w->sum_sq[n_inside++] = w->sum_sq[j];
    }
    ask_policy(job, span, n_inside, w->inside, surplus - n_out);
    const float mass = mass_of_victims(job, span, surplus - n_out, w->inside);
    merge_victims(w, n, n_inside, surplus - n_out);
    return mass;
}

/* A prompt's stride of an evicting head waits outside the cache, so the cache never needs more than its budget's pages.
 * All other tokens go straight to their slots. */
static bool is_staged(const roco_attention_job *job)
{
    return job->head->evicts && !job->chunk->decode;
}

static unsigned char *staged_page(const roco_attention_job *job, uint32_t chunk_row)
{
    const roco_kv_layout *l = &job->layout;
    return job->stage->pages + (size_t)(chunk_row / l->slots) * l->page_bytes;
}

/* The whole chunk's span, and its pages listed. Returns how many those are. Valid between prepare and finish. */
static uint32_t open_span(const roco_attention_job *job, roco_attention_span *span)
{
    uint32_t held = job->head->held, n_rows = job->chunk->n_rows, slots = job->layout.slots;
    *span = (roco_attention_span){.n_rows = n_rows, .old = held, .base = held};
    if (is_staged(job)) {
        uint32_t n_pages = list_pages(job, held);
        span->base = n_pages * slots;
        for (uint32_t i = 0; i < n_rows; i += slots)
            job->worker->pages[n_pages++] = staged_page(job, i);
        return n_pages;
    }
    /* A decoded token over a victim: it sees all slots, which is what the last one of them sees in position order. */
    if (job->head->evicts && held == job->head->budget)
        span->old = span->base = held - 1;
    return list_pages(job, span->base + n_rows);
}

uint32_t roco_attention_n_parts(const roco_attention_scratch *scratch, const roco_chunk *chunk)
{
    return (chunk->n_rows + scratch->part_rows - 1) / scratch->part_rows;
}

static void put_tokens(const roco_attention_job *job)
{
    roco_kv_head *head = job->head;
    uint32_t slots = job->layout.slots, n_rows = job->chunk->n_rows;
    ROCO_CHECK(n_rows == 1 || !job->chunk->decode);
    if (head->compensates && job->chunk->position == 0)
        roco_compensation_open(job, page_of(job, 0));
    if (is_staged(job)) {
        for (uint32_t i = 0; i < n_rows; i++)
            roco_slot_put(job, i, staged_page(job, i), i % slots);
    } else if (head->evicts && head->held == head->budget) {
        ROCO_CHECK(head->victim < head->held);
        head->evicted_mass += head->victim_mass;
        if (head->compensates) {
            roco_compensation_add(job, page_of(job, head->victim), head->victim % slots);
            roco_compensation_store(job, page_of(job, 0));
        }
        roco_slot_put(job, 0, page_of(job, head->victim), head->victim % slots);
    } else {
        /* A plain head is only ever appended to: slots are in position order, and a row sees those before its own. */
        ROCO_CHECK(n_rows <= head->budget - head->held);
        for (uint32_t i = 0; i < n_rows; i++)
            roco_slot_put(job, i, page_of(job, head->held + i), (head->held + i) % slots);
    }
}

void roco_attention_prepare(const roco_attention_job *job)
{
    roco_attention_span span;
    put_tokens(job);
    if (!job->chunk->sequence->by_rank)
        return;
    open_span(job, &span);
    roco_rank_prepare(job, &span);
}

void roco_attention_part(const roco_attention_job *job, uint32_t part)
{
    const roco_attention_scratch *scratch = job->scratch;
    roco_attention_span span;
    size_t n_columns = roco_column_pad(open_span(job, &span) * job->layout.slots);
    span.first = part * scratch->part_rows;
    span.n_rows = span.n_rows - span.first < scratch->part_rows ? span.n_rows - span.first : scratch->part_rows;
    float *sum = NULL, *sum_sq = NULL;
    if (roco_statistics_kept(job)) {
        sum = job->stage->sum + part * scratch->columns;
        sum_sq = job->stage->sum_sq + part * scratch->columns;
        memset(sum, 0, n_columns * sizeof *sum);
        memset(sum_sq, 0, n_columns * sizeof *sum_sq);
    }
    roco_attention_rows(job, &span, sum, sum_sq);
}

/* Moves the stride's survivors into the free slots, then over the `surplus` victims of the cache, which come first in
 * the ascending list. */
static void commit_stride(const roco_attention_job *job, uint32_t surplus)
{
    const roco_attention_worker *w = job->worker;
    roco_kv_head *head = job->head;
    uint32_t slots = job->layout.slots, held = head->held, n_over = 0;
    while (n_over < surplus && w->victims[n_over] < held)
        n_over++;
    uint32_t free_slot = held, over = 0, gone = n_over;
    for (uint32_t i = 0; i < job->chunk->n_rows; i++) {
        if (gone < surplus && w->victims[gone] == held + i) {
            gone++;
            continue;
        }
        uint32_t slot = free_slot < prompt_budget(job) ? free_slot++ : w->victims[over++];
        roco_slot_copy(&job->layout, staged_page(job, i), i % slots, page_of(job, slot), slot % slots);
    }
    ROCO_CHECK(over == n_over && gone == surplus);
    head->held = free_slot;
}

/* Before the victims' slots are used again. Columns of the stride begin at span->base. */
static void compensate(const roco_attention_job *job, const roco_attention_span *span, uint32_t surplus)
{
    const roco_attention_worker *w = job->worker;
    const uint32_t slots = job->layout.slots;
    for (uint32_t i = 0; i < surplus; i++) {
        const uint32_t victim = w->victims[i], column = victim + (victim < span->old ? 0 : span->base - span->old);
        roco_compensation_add(job, w->pages[column / slots], column % slots);
    }
    roco_compensation_store(job, page_of(job, 0));
}

static void evict_surplus(const roco_attention_job *job, const roco_attention_span *span, uint32_t n_pages)
{
    roco_attention_worker *w = job->worker;
    uint32_t n = span->old + span->n_rows, budget = prompt_budget(job), surplus = n > budget ? n - budget : 0;
    if (surplus > 0) {
        load_columns(job, n_pages);
        /* Without the hole, columns are what the policy is asked about. */
        memmove(w->position + span->old, w->position + span->base, span->n_rows * sizeof *w->position);
        memmove(w->sum + span->old, w->sum + span->base, span->n_rows * sizeof *w->sum);
        memmove(w->sum_sq + span->old, w->sum_sq + span->base, span->n_rows * sizeof *w->sum_sq);
        job->head->evicted_mass += select_victims(job, span, n, surplus);
        if (job->head->compensates)
            compensate(job, span, surplus);
    }
    commit_stride(job, surplus);
}

void roco_attention_finish(const roco_attention_job *job)
{
    roco_kv_head *head = job->head;
    roco_attention_span span;
    uint32_t n_pages = open_span(job, &span);
    if (roco_statistics_kept(job))
        roco_statistics_commit(job, n_pages);
    if (is_staged(job))
        evict_surplus(job, &span, n_pages);
    else
        head->held = span.base + span.n_rows;
    if (!head->evicts)
        return;
    head->victim = ROCO_NO_SLOT;
    if (head->held == head->budget) {
        load_columns(job, list_pages(job, head->held));
        span.old = span.base = head->held;
        const float mass = select_victims(job, &span, head->held, 1);
        /* After a stride of the prompt its columns are no slots any more, and the first victim counts nothing. */
        head->victim_mass = job->chunk->decode ? mass : 0;
        head->victim = job->worker->victims[0];
    }
}
