#include "eval/score.h"

#include "eval/progress.h"

#include <math.h>
#include <stdlib.h>

/* A run on its way. */
typedef struct seat {
    roco_score_run *run;
    roco_cache *cache;
    uint32_t fed;
} seat;

typedef struct scoring {
    const roco_eval_setup *setup;
    const roco_engine_info *info;
    uint32_t n_seats;      /* at once: each gets a stride of every step */
    seat *seats;           /* [n_seats] */
    roco_step_item *items; /* [n_seats] of the step */
    seat **busy;           /* [n_seats] whose those are */
    float *logits;         /* [n_seats * stride, n_vocab] */
    roco_progress progress;
} scoring;

static double nll_of(const float *logits, uint32_t n_vocab, int32_t target)
{
    float highest = -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i++)
        highest = logits[i] > highest ? logits[i] : highest;
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += expf(logits[i] - highest);
    return highest + log(sum) - logits[target];
}

/* Opens the next runs' caches while seats and pages last. Returns how many in *n. */
static roco_status open_wave(scoring *s, roco_score_run *runs, uint32_t n_runs, uint32_t *n, roco_error *error)
{
    uint32_t next_page = 0;
    for (*n = 0; *n < n_runs && *n < s->n_seats; ++*n) {
        const roco_cache_spec spec = roco_eval_case_spec(s->setup, &runs[*n].how, runs[*n].n_ids);
        const uint32_t n_pages = roco_cache_pages(s->setup->engine, &spec);
        if (n_pages > s->info->n_pages - next_page)
            break;
        uint32_t *pages = malloc((n_pages + 1u) * sizeof *pages);
        if (!pages)
            return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
        for (uint32_t i = 0; i < n_pages; i++)
            pages[i] = next_page++;
        s->seats[*n] = (seat){.run = &runs[*n]};
        roco_status status = roco_cache_open(s->setup->engine, &spec, pages, &s->seats[*n].cache, error);
        free(pages);
        if (status)
            return status;
    }
    if (*n == 0)
        return roco_fail(error, ROCO_TOO_LARGE, "kv-pool-bytes", "the KV pool is too small for %u tokens",
                         runs[0].n_ids);
    return ROCO_OK;
}

/* One step: a stride of every sequence that is not through. Returns how many those were in *n_items. */
static roco_status step(scoring *s, uint32_t n_seats, uint32_t *n_items, roco_error *error)
{
    const uint32_t most = s->info->stride, n_vocab = s->info->n_vocab;
    *n_items = 0;
    for (uint32_t i = 0; i < n_seats; i++) {
        seat *at = &s->seats[i];
        const uint32_t left = at->run->n_ids - at->fed, stride = at->run->how.stride ? at->run->how.stride : most;
        if (!left)
            continue;
        s->busy[*n_items] = at;
        s->items[*n_items] = (roco_step_item){.cache = at->cache,
                                              .tokens = at->run->ids + at->fed,
                                              .n_tokens = left < stride ? left : stride,
                                              .logits = s->logits + (size_t)*n_items * most * n_vocab};
        ++*n_items;
    }
    if (!*n_items)
        return ROCO_OK;
    roco_status status = roco_engine_step(s->setup->engine, s->items, *n_items, error);
    for (uint32_t i = 0; i < *n_items && !status; i++) {
        seat *at = s->busy[i];
        for (uint32_t t = 0; t < s->items[i].n_tokens; t++, at->fed++)
            if (at->fed + 1 < at->run->n_ids)
                at->run->nll[at->fed] =
                    nll_of(s->items[i].logits + (size_t)t * n_vocab, n_vocab, at->run->ids[at->fed + 1]);
        s->progress.done += s->items[i].n_tokens;
    }
    roco_progress_print(&s->progress);
    return status;
}

static roco_status run_waves(scoring *s, roco_score_run *runs, uint32_t n_runs, roco_error *error)
{
    roco_status status = ROCO_OK;
    for (uint32_t at = 0, n; at < n_runs && !status; at += n) {
        status = open_wave(s, runs + at, n_runs - at, &n, error);
        for (uint32_t n_items = 1; n_items && !status;)
            status = step(s, n, &n_items, error);
        for (uint32_t i = 0; i < s->n_seats; i++) {
            if (!s->seats[i].cache)
                continue;
            roco_cache_measure(s->seats[i].cache, &s->seats[i].run->kept);
            roco_cache_close(s->setup->engine, s->seats[i].cache);
            s->seats[i] = (seat){0};
        }
    }
    return status;
}

roco_status roco_score(const roco_eval_setup *setup, roco_score_run *runs, uint32_t n_runs, roco_error *error)
{
    const roco_engine_info *info = roco_engine_describe(setup->engine);
    scoring s = {.setup = setup, .info = info, .n_seats = info->step_tokens / info->stride};
    s.seats = calloc(s.n_seats, sizeof *s.seats);
    s.items = calloc(s.n_seats, sizeof *s.items);
    s.busy = calloc(s.n_seats, sizeof *s.busy);
    s.logits = malloc((size_t)s.n_seats * info->stride * info->n_vocab * sizeof *s.logits);
    for (uint32_t i = 0; i < n_runs; i++)
        s.progress.total += runs[i].n_ids;
    roco_status status = s.seats && s.items && s.busy && s.logits
                             ? run_waves(&s, runs, n_runs, error)
                             : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    if (!status)
        roco_progress_end(&s.progress);
    free(s.seats);
    free(s.items);
    free(s.busy);
    free(s.logits);
    return status;
}

double roco_perplexity(const double *nll, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += nll[i];
    return exp(sum / (to - from));
}
