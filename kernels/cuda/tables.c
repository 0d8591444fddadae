/* A step's tables: made in host memory that the device reads by itself, sent at once, and kept until the next step.
 * Operations that are called without a step's announcement (tests, a profile's measure) get theirs sent on the spot. */
#include "kernels/cuda/tables.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

/* An array's place in the tables. */
typedef struct place {
    size_t offset, bytes;
} place;

typedef struct plan_places {
    place chunks, order;
} plan_places;

struct roco_cuda_tables {
    roco_cuda_room room;
    unsigned char *host, *device;
    size_t bytes;       /* of each */
    uint32_t *level_of; /* [max_rows] by chunk */
    roco_cuda_plan plans[2];
    /* what the tables hold; NULL and 0: nothing */
    const int32_t *ids;
    const uint32_t *rows;
    const roco_chunk *chunks;
    uint32_t n_ids, n_rows, n_chunks;
    place ids_place, rows_place, pins_place;
    plan_places plan_places[2];
    roco_copy copies[ROCO_STEP_COPIES];
    place copy_places[ROCO_STEP_COPIES];
    uint32_t n_copies;
    bool failed; /* no memory for them */
};

/* --- open and close --- */

static roco_status open_memory(roco_cuda *cuda, size_t bytes, roco_error *error)
{
    roco_cuda_tables *t = cuda->tables;
    t->host = roco_gpu_host_open(cuda->gpu, bytes);
    t->device = roco_gpu_memory_open(cuda->gpu, bytes);
    t->bytes = bytes;
    if (t->host == NULL || t->device == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for a step's tables of %zu bytes", bytes);
    return ROCO_OK;
}

static void close_memory(roco_cuda *cuda)
{
    roco_gpu_host_close(cuda->gpu, cuda->tables->host);
    roco_gpu_memory_close(cuda->gpu, cuda->tables->device);
    cuda->tables->host = cuda->tables->device = NULL;
}

roco_status roco_cuda_tables_open(roco_cuda *cuda, const roco_cuda_room *room, roco_error *error)
{
    const uint32_t rows = cuda->config.max_rows;
    roco_cuda_tables *t = cuda->tables = calloc(1, sizeof *t);
    if (t == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for a step's tables");
    t->room = *room;
    t->level_of = calloc(rows, sizeof *t->level_of);
    bool ok = t->level_of != NULL;
    for (int i = 0; i < 2; i++) {
        t->plans[i].waves = calloc(rows, sizeof *t->plans[i].waves);
        t->plans[i].levels = calloc(rows, sizeof *t->plans[i].levels);
        ok = ok && t->plans[i].waves != NULL && t->plans[i].levels != NULL;
    }
    if (!ok)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for a step's tables");
    return open_memory(cuda, rows * 2 * sizeof(roco_cuda_chunk), error);
}

void roco_cuda_tables_close(roco_cuda *cuda)
{
    roco_cuda_tables *t = cuda->tables;
    if (t == NULL)
        return;
    close_memory(cuda);
    for (int i = 0; i < 2; i++) {
        free(t->plans[i].waves);
        free(t->plans[i].levels);
    }
    free(t->level_of);
    free(t);
    cuda->tables = NULL;
}

/* --- chunks --- */

static uint32_t round_up_32(uint32_t n)
{
    return (n + 31u) & ~31u;
}

static roco_cuda_kept kept_by(const roco_policy *policy)
{
    if (!policy->evicts)
        return ROCO_KEPT_NOTHING;
    return policy->window > 0         ? ROCO_KEPT_WINDOW
           : policy->needs_last       ? ROCO_KEPT_LAST
           : policy->needs_statistics ? ROCO_KEPT_SUMS
                                      : ROCO_KEPT_NOTHING;
}

/* Columns that any of the chunk's heads may have: all its tokens, or a full cache and the stride beside it. */
static uint32_t columns_for(const roco_cuda *cuda, const roco_chunk *chunk)
{
    const uint32_t most = chunk->sequence->most_slots > 0 ? chunk->sequence->most_slots : cuda->config.max_slots;
    const uint32_t before = (uint32_t)chunk->position, end = before + chunk->n_rows;
    if (chunk->decode)
        return round_up_32(end < most ? end : most);
    return round_up_32(before < most ? before : most) + round_up_32(chunk->n_rows);
}

static void fill_chunk(const roco_cuda *cuda, const roco_chunk *from, bool is_last, uint32_t first_pin,
                       roco_cuda_chunk *to)
{
    const roco_kv_sequence *s = from->sequence;
    *to = (roco_cuda_chunk){.heads = s->heads,
                            .pages = s->pages,
                            .row = from->row,
                            .n_rows = from->n_rows,
                            .position = from->position,
                            .decode = from->decode,
                            .is_last = is_last,
                            .policy = (uint32_t)s->policy->id,
                            .kept = kept_by(s->policy),
                            .policy_window = s->policy->window,
                            .peak = s->policy->peak,
                            .by_rank = s->by_rank,
                            .sink = s->sink,
                            .recent = s->recent,
                            .first_pin = first_pin,
                            .n_pins = s->n_pins,
                            .columns = columns_for(cuda, from)};
}

/* What a chunk takes of the scratch. */
typedef struct need {
    size_t scores, cells;
    uint32_t stage_pages;
} need;

static need need_of(const roco_cuda_room *room, const roco_policy *policy, bool evicts, const roco_cuda_chunk *chunk)
{
    need n = {0};
    if (chunk->kept != ROCO_KEPT_NOTHING)
        n.scores = (size_t)(chunk->decode ? room->n_heads : room->n_kv_heads) * chunk->columns;
    if (!chunk->decode)
        n.stage_pages = room->n_kv_heads * ((chunk->n_rows + ROCO_PAGE_SLOTS - 1) / ROCO_PAGE_SLOTS);
    if (evicts && (chunk->by_rank || policy->needs_keys || policy->needs_values || policy->window > 0))
        n.cells = (size_t)room->n_kv_heads * chunk->columns;
    return n;
}

/* --- plans --- */

static void grow(roco_cuda_span *s, const roco_cuda_chunk *chunk)
{
    s->n++;
    s->most_rows = chunk->n_rows > s->most_rows ? chunk->n_rows : s->most_rows;
    s->most_columns = chunk->columns > s->most_columns ? chunk->columns : s->most_columns;
    s->kept |= chunk->kept != ROCO_KEPT_NOTHING;
    s->ranked |= chunk->by_rank != 0;
}

/* The order of chunks first..end-1, which is a wave: decode, then prompts level by level. */
static void order_wave(roco_cuda_plan *plan, const uint32_t *level_of, const roco_cuda_chunk *chunks, uint32_t first,
                       uint32_t end, uint32_t *order)
{
    roco_cuda_wave *w = &plan->waves[plan->n_waves++];
    uint32_t at = first, n_levels = 0;
    *w = (roco_cuda_wave){.decode.first = first, .first_level = plan->n_levels};
    for (uint32_t i = first; i < end; i++) {
        if (chunks[i].decode) {
            order[at++] = i;
            grow(&w->decode, &chunks[i]);
        } else if (level_of[i] + 1 > n_levels) {
            n_levels = level_of[i] + 1;
        }
    }
    w->n_levels = n_levels;
    for (uint32_t level = 0; level < n_levels; level++) {
        roco_cuda_span *s = &plan->levels[plan->n_levels++];
        *s = (roco_cuda_span){.first = at};
        for (uint32_t i = first; i < end; i++)
            if (!chunks[i].decode && level_of[i] == level) {
                order[at++] = i;
                grow(s, &chunks[i]);
            }
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* One sequence's chunks run..end-1: their levels, and what they take together. Levels follow each other, so one place
 * serves them all. */
static need measure_run(const roco_cuda_tables *t, const roco_policy *policy, const roco_cuda_chunk *chunks,
                        uint32_t run, uint32_t end, bool evicts)
{
    need sum = {0};
    for (uint32_t i = run; i < end; i++) {
        const need one = need_of(&t->room, policy, evicts, &chunks[i]);
        sum.scores = larger(sum.scores, one.scores);
        sum.cells = larger(sum.cells, one.cells);
        if (evicts && one.stage_pages > sum.stage_pages)
            sum.stage_pages = one.stage_pages;
        t->level_of[i] = evicts ? i - run : 0;
    }
    return sum;
}

/* Cuts the chunks into waves and says where in the scratch each has its place. */
static void make_plan(roco_cuda_tables *t, roco_cuda_plan *plan, bool windowed, const roco_chunk *from, uint32_t n,
                      roco_cuda_chunk *chunks, uint32_t *order)
{
    need used = {0};
    uint32_t first = 0;
    plan->n_waves = plan->n_levels = 0;
    for (uint32_t run = 0, end; run < n; run = end) {
        for (end = run + 1; end < n && from[end].sequence == from[run].sequence;)
            end++;
        const roco_policy *policy = from[run].sequence->policy;
        const need wanted = measure_run(t, policy, chunks, run, end, windowed || policy->evicts);
        if (used.scores + wanted.scores > t->room.n_scores || used.cells + wanted.cells > t->room.n_cells ||
            used.stage_pages + wanted.stage_pages > t->room.n_stage_pages) {
            ROCO_CHECK(run > first);
            order_wave(plan, t->level_of, chunks, first, run, order);
            used = (need){0};
            first = run;
        }
        for (uint32_t i = run; i < end; i++) {
            chunks[i].first_score = used.scores;
            chunks[i].first_cell = used.cells;
            chunks[i].first_stage = used.stage_pages;
        }
        used.scores += wanted.scores;
        used.cells += wanted.cells;
        used.stage_pages += wanted.stage_pages;
    }
    if (first < n)
        order_wave(plan, t->level_of, chunks, first, n, order);
}

/* --- a step's tables --- */

static place take(size_t *used, size_t bytes)
{
    const place p = {*used, bytes};
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return p;
}

static bool is_first_of_sequence(const roco_chunk *chunks, uint32_t i)
{
    return i == 0 || chunks[i - 1].sequence != chunks[i].sequence;
}

static uint32_t count_pins(const roco_chunk *chunks, uint32_t n)
{
    uint32_t n_pins = 0;
    for (uint32_t i = 0; i < n; i++)
        n_pins += is_first_of_sequence(chunks, i) ? chunks[i].sequence->n_pins : 0;
    return n_pins;
}

static void fill_plan(roco_cuda *cuda, bool windowed, const roco_chunk *from, uint32_t n, roco_pin *pins)
{
    roco_cuda_tables *t = cuda->tables;
    const plan_places *at = &t->plan_places[windowed];
    roco_cuda_chunk *chunks = (roco_cuda_chunk *)(void *)(t->host + at->chunks.offset);
    uint32_t n_pins = 0;
    for (uint32_t i = 0; i < n; i++) {
        const roco_kv_sequence *s = from[i].sequence;
        if (is_first_of_sequence(from, i)) {
            if (s->n_pins > 0)
                memcpy(pins + n_pins, s->pins, s->n_pins * sizeof *pins);
            n_pins += s->n_pins;
        }
        fill_chunk(cuda, &from[i], i + 1 == n || from[i + 1].sequence != s, n_pins - s->n_pins, &chunks[i]);
    }
    roco_cuda_plan *plan = &t->plans[windowed];
    make_plan(t, plan, windowed, from, n, chunks, (uint32_t *)(void *)(t->host + at->order.offset));
    plan->chunks = (const roco_cuda_chunk *)(const void *)(t->device + at->chunks.offset);
    plan->order = (const uint32_t *)(const void *)(t->device + at->order.offset);
}

/* Pins are few but not bounded by the configuration. */
static bool make_room(roco_cuda *cuda, size_t bytes, bool *moved)
{
    roco_cuda_tables *t = cuda->tables;
    *moved = bytes > t->bytes;
    if (*moved) {
        close_memory(cuda);
        t->failed = open_memory(cuda, 2 * bytes, NULL) != ROCO_OK;
    }
    return !t->failed;
}

/* Rows to launch for: few different numbers, none much larger than what is asked for, in eights where the products read
 * their matrix once for every eight. */
static uint32_t round_up_rows(uint32_t n)
{
    uint32_t step = n <= 8 ? 1 : n <= 64 ? 8 : n <= 128 ? 16 : 32;
    if (n <= 8)
        while (step < n)
            step *= 2;
    return (n + step - 1) / step * step;
}

/* The rows of the step's bucket; 0 where rows are left out or do other things than decode. */
static uint32_t rows_of_bucket(const roco_step_tables *step)
{
    const uint32_t rows = round_up_rows(step->n_ids);
    bool fits = rows <= step->most_rows && step->n_rows == step->n_ids && step->n_chunks == step->n_ids;
    for (uint32_t i = 0; i < step->n_chunks && fits; i++)
        fits = step->chunks[i].decode;
    return fits ? rows : 0;
}

/* Where everything of a step lies; what has no bound comes last, so that the places before it follow from `rows`. */
static size_t place_all(roco_cuda_tables *t, const roco_step_tables *step, uint32_t rows)
{
    const uint32_t padding = rows - step->n_ids;
    const size_t n_chunks = step->n_chunks + padding;
    size_t used = 0;
    t->ids_place = take(&used, rows * sizeof *step->ids);
    t->rows_place = take(&used, (step->n_rows + padding) * sizeof *step->rows);
    for (uint32_t i = 0; i < 2; i++) {
        t->plan_places[i].chunks = take(&used, n_chunks * sizeof(roco_cuda_chunk));
        t->plan_places[i].order = take(&used, n_chunks * sizeof(uint32_t));
    }
    t->n_copies = step->n_copies;
    for (uint32_t i = 0; i < step->n_copies; i++) {
        t->copies[i] = step->copies[i];
        t->copy_places[i] = take(&used, rows * step->copies[i].row_bytes);
    }
    t->pins_place = take(&used, count_pins(step->chunks, step->n_chunks) * sizeof(roco_pin));
    return used;
}

/* A step of one wave, all of it decode, is launched as its bucket is: with chunks without rows behind its own. */
static roco_cuda_bucket widen_plans(roco_cuda_tables *t, uint32_t n, uint32_t rows)
{
    roco_cuda_bucket bucket = {0};
    if (t->plans[0].n_waves != 1 || t->plans[1].n_waves != 1)
        return bucket;
    bucket = (roco_cuda_bucket){rows, 32, t->plans[0].waves[0].decode.ranked};
    while (bucket.columns < t->plans[0].waves[0].decode.most_columns)
        bucket.columns *= 2;
    for (int i = 0; i < 2; i++) {
        roco_cuda_chunk *chunks = (roco_cuda_chunk *)(void *)(t->host + t->plan_places[i].chunks.offset);
        uint32_t *order = (uint32_t *)(void *)(t->host + t->plan_places[i].order.offset);
        memset(chunks + n, 0, (rows - n) * sizeof *chunks);
        for (uint32_t entry = n; entry < rows; entry++)
            order[entry] = entry;
        t->plans[i].waves[0].decode.n = rows;
        t->plans[i].waves[0].decode.most_columns = bucket.columns;
    }
    return bucket;
}

/* `rows` entries, zeros behind the `n` that there are. */
static void put(const roco_cuda_tables *t, place at, const void *from, uint32_t n, uint32_t rows, size_t row_bytes)
{
    if (n > 0)
        memcpy(t->host + at.offset, from, n * row_bytes);
    if (rows > n)
        memset(t->host + at.offset + n * row_bytes, 0, (rows - n) * row_bytes);
}

roco_cuda_bucket roco_cuda_tables_fill(roco_cuda *cuda, const roco_step_tables *step, bool *moved)
{
    roco_cuda_tables *t = cuda->tables;
    const uint32_t n = step->n_ids, widened = rows_of_bucket(step), rows = widened > 0 ? widened : n;
    roco_cuda_bucket bucket = {0};
    ROCO_CHECK(step->n_chunks <= cuda->config.max_rows && step->n_copies <= ROCO_STEP_COPIES);
    roco_gpu_finish(cuda->gpu, NULL); /* the tables before may still be on their way */
    const size_t used = place_all(t, step, rows);
    t->ids = NULL;
    t->rows = NULL;
    t->chunks = NULL;
    if (!make_room(cuda, used, moved))
        return bucket;
    put(t, t->ids_place, step->ids, n, rows, sizeof *step->ids);
    put(t, t->rows_place, step->rows, step->n_rows, step->n_rows + rows - n, sizeof *step->rows);
    for (uint32_t i = 0; i < step->n_copies; i++)
        put(t, t->copy_places[i], step->copies[i].from, n, rows, step->copies[i].row_bytes);
    for (int i = 0; i < 2; i++)
        fill_plan(cuda, i == 1, step->chunks, step->n_chunks, (roco_pin *)(void *)(t->host + t->pins_place.offset));
    if (widened > 0)
        bucket = widen_plans(t, n, rows);
    roco_gpu_upload(cuda->gpu, t->device, t->host, used);
    t->ids = step->ids;
    t->rows = step->rows;
    t->chunks = step->chunks;
    t->n_ids = rows;
    t->n_rows = step->n_rows + rows - n;
    t->n_chunks = step->n_chunks;
    return bucket;
}

void roco_cuda_tables_copy(roco_cuda *cuda)
{
    const roco_cuda_tables *t = cuda->tables;
    for (uint32_t i = 0; i < t->n_copies && !t->failed; i++)
        roco_gpu_copy(cuda->gpu, t->copies[i].to, t->device + t->copy_places[i].offset, t->copy_places[i].bytes);
}

const int32_t *roco_cuda_tables_ids(roco_cuda *cuda, const int32_t *ids, uint32_t n)
{
    const roco_cuda_tables *t = cuda->tables;
    if (t->ids != NULL && ids >= t->ids && ids + n <= t->ids + t->n_ids)
        return (const int32_t *)(const void *)(t->device + t->ids_place.offset) + (ids - t->ids);
    roco_gpu_upload(cuda->gpu, cuda->ids, ids, n * sizeof *ids);
    return cuda->ids;
}

const uint32_t *roco_cuda_tables_rows(roco_cuda *cuda, const uint32_t *rows, uint32_t n)
{
    const roco_cuda_tables *t = cuda->tables;
    if (t->rows != NULL && rows >= t->rows && rows + n <= t->rows + t->n_rows)
        return (const uint32_t *)(const void *)(t->device + t->rows_place.offset) + (rows - t->rows);
    roco_gpu_upload(cuda->gpu, cuda->rows, rows, n * sizeof *rows);
    return cuda->rows;
}

const roco_cuda_plan *roco_cuda_tables_plan(roco_cuda *cuda, const roco_attention *args, const roco_pin **pins)
{
    roco_cuda_tables *t = cuda->tables;
    if (t->chunks != args->chunks || t->n_chunks != args->n_chunks) {
        const roco_step_tables step = {.chunks = args->chunks, .n_chunks = args->n_chunks};
        bool moved;
        roco_cuda_tables_fill(cuda, &step, &moved);
        t->chunks = NULL; /* the caller may change them without a word */
    }
    *pins = (const roco_pin *)(const void *)(t->device + t->pins_place.offset);
    return t->failed ? NULL : &t->plans[args->window > 0];
}
