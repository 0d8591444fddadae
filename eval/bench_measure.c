#include "eval/bench_measure.h"

#include "config/clock.h"

#include <stdlib.h>
#include <string.h>

enum { WARM_STEPS = 4 }; /* not counted: caches and branch predictors */

/* Sequences under way. */
typedef struct group {
    const roco_bench *bench;
    uint32_t n, next_page;
    roco_cache **caches;   /* [n] */
    roco_step_item *items; /* [n] */
    roco_sampling greedy;
    int32_t *tokens; /* [n] each one's last */
} group;

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(double *sorted, uint32_t n, double share)
{
    return sorted[(uint32_t)(share * (n - 1) + 0.5)];
}

static void close_group(group *g)
{
    for (uint32_t i = 0; g->caches && i < g->n; i++)
        if (g->caches[i])
            roco_cache_close(g->bench->setup->engine, g->caches[i]);
    free(g->caches);
    free(g->items);
    free(g->tokens);
    *g = (group){0};
}

static roco_cache_spec spec_of(const roco_bench *bench, uint32_t budget, uint32_t length)
{
    static const roco_policy full = {.name = "full"};
    return (roco_cache_spec){.policy = budget ? bench->policy : &full,
                             .budget = budget,
                             .length = length,
                             .sink = (uint32_t)bench->setup->options.kv_sink,
                             .recent = (uint32_t)bench->setup->options.kv_recent};
}

/* Adds a sequence to one of the group's places, on the pool's next pages. */
static roco_status open_cache(group *g, uint32_t at, uint32_t budget, uint32_t length, roco_error *error)
{
    roco_engine *engine = g->bench->setup->engine;
    const roco_cache_spec spec = spec_of(g->bench, budget, length);
    const uint32_t n_pages = roco_cache_pages(engine, &spec);
    uint32_t *pages = malloc(n_pages * sizeof *pages);
    if (!pages)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < n_pages; i++)
        pages[i] = g->next_page++;
    roco_status status = roco_cache_open(engine, &spec, pages, &g->caches[at], error);
    free(pages);
    return status;
}

static roco_status open_group(group *g, const roco_bench *bench, uint32_t n, roco_error *error)
{
    *g = (group){.bench = bench, .n = n};
    g->caches = calloc(n, sizeof(roco_cache *));
    g->items = calloc(n, sizeof *g->items);
    g->tokens = calloc(n, sizeof *g->tokens);
    return g->caches && g->items && g->tokens ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
}

/* Reads `n` tokens of the prompt into one sequence, and draws the first token of its answer. */
static roco_status read_prompt(group *g, uint32_t at, uint32_t n, roco_error *error)
{
    const roco_engine_info *info = roco_engine_describe(g->bench->setup->engine);
    const uint32_t most = info->step_tokens / info->stride * info->stride;
    for (uint32_t done = 0; done < n;) {
        const uint32_t size = n - done < most ? n - done : most;
        roco_step_item item = {.cache = g->caches[at],
                               .tokens = g->bench->ids + done,
                               .n_tokens = size,
                               .sampling = done + size == n ? &g->greedy : NULL};
        roco_status status = roco_engine_step(g->bench->setup->engine, &item, 1, error);
        if (status)
            return status;
        done += size;
        g->tokens[at] = item.token;
    }
    return ROCO_OK;
}

/* One token of the sequences first..first+n-1. */
static roco_status decode(group *g, uint32_t first, uint32_t n, uint64_t *ns, roco_error *error)
{
    for (uint32_t i = 0; i < n; i++)
        g->items[i] = (roco_step_item){.cache = g->caches[first + i],
                                       .tokens = &g->tokens[first + i],
                                       .n_tokens = 1,
                                       .decode = true,
                                       .sampling = &g->greedy};
    const uint64_t began = roco_now_ns();
    roco_status status = roco_engine_step(g->bench->setup->engine, g->items, n, error);
    *ns = roco_now_ns() - began;
    for (uint32_t i = 0; i < n; i++)
        g->tokens[first + i] = g->items[i].token;
    return status;
}

static void take_times(const roco_bench *bench, roco_bench_case *c)
{
    if (c->timed)
        c->n_ops = roco_engine_times(bench->setup->engine, c->ops);
}

/* values [n]: tokens/s, of rounds or steps. */
static void summarise(roco_bench_case *c, double *values, uint32_t n, double tokens)
{
    c->step_ns = 0;
    for (uint32_t i = 0; i < n; i++)
        c->step_ns += tokens * 1e9 / values[i] / n;
    qsort(values, n, sizeof *values, ascending);
    c->rate = percentile(values, n, 0.5);
    c->low = percentile(values, n, 0.1);
    c->high = percentile(values, n, 0.9);
    c->n_steps = n;
}

static roco_status run_prefill(const roco_bench *bench, roco_bench_case *c, double *rates, roco_error *error)
{
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i <= bench->rounds && !status; i++) { /* the first is for the caches */
        group g;
        status = open_group(&g, bench, 1, error);
        if (!status)
            status = open_cache(&g, 0, c->budget, c->context + 1, error);
        if (i == 1)
            take_times(bench, c);
        const uint64_t began = roco_now_ns();
        if (!status)
            status = read_prompt(&g, 0, c->context, error);
        if (i > 0)
            rates[i - 1] = c->context * 1e9 / (double)(roco_now_ns() - began);
        close_group(&g);
    }
    take_times(bench, c);
    summarise(c, rates, bench->rounds, c->context);
    return status;
}

static uint32_t prompt_of(const roco_bench_case *c)
{
    return c->context ? c->context : 1;
}

static roco_status run_decode(const roco_bench *bench, roco_bench_case *c, double *rates, roco_error *error)
{
    group g;
    roco_status status = open_group(&g, bench, c->batch, error);
    for (uint32_t i = 0; i < c->batch && !status; i++) {
        status = open_cache(&g, i, c->budget, prompt_of(c) + WARM_STEPS + bench->steps, error);
        if (!status && i == 0)
            status = read_prompt(&g, 0, prompt_of(c), error);
        else if (!status && (status = roco_cache_copy(bench->setup->engine, g.caches[0], g.caches[i])))
            roco_fail(error, status, NULL, "out of memory");
        g.tokens[i] = g.tokens[0]; /* they all say the same, each from its own pages */
    }
    for (uint32_t i = 0; i < WARM_STEPS + bench->steps && !status; i++) {
        uint64_t ns;
        if (i == WARM_STEPS)
            take_times(bench, c);
        status = decode(&g, 0, c->batch, &ns, error);
        if (i >= WARM_STEPS)
            rates[i - WARM_STEPS] = c->batch * 1e9 / (double)ns;
    }
    if (!status) {
        take_times(bench, c);
        summarise(c, rates, bench->steps, c->batch);
        roco_cache_usage usage;
        const roco_engine_info *info = roco_engine_describe(bench->setup->engine);
        roco_cache_measure(g.caches[0], &usage);
        c->bytes = roco_bench_weight_bytes(bench->setup) + (double)c->batch * usage.held * info->n_layers *
                                                               info->n_kv_heads * info->layout.page_bytes /
                                                               info->layout.slots;
    }
    close_group(&g);
    return status;
}

static bool fits(const roco_bench *bench, const roco_bench_case *c)
{
    const roco_engine_info *info = roco_engine_describe(bench->setup->engine);
    const uint32_t length = prompt_of(c) + (c->decode ? WARM_STEPS + bench->steps : 1);
    const roco_cache_spec spec = spec_of(bench, c->budget, length);
    return length <= info->n_context && c->batch <= info->step_tokens &&
           (uint64_t)roco_cache_pages(bench->setup->engine, &spec) * c->batch <= info->n_pages;
}

roco_status roco_bench_run(const roco_bench *bench, roco_bench_case *c, roco_error *error)
{
    const uint32_t n = c->decode ? bench->steps : bench->rounds;
    c->fits = fits(bench, c);
    if (!c->fits)
        return ROCO_OK;
    double *rates = calloc(n, sizeof *rates);
    if (!rates)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_status status = c->decode ? run_decode(bench, c, rates, error) : run_prefill(bench, c, rates, error);
    free(rates);
    return status;
}

/* --- statistics and eviction --- */

roco_status roco_bench_eviction(const roco_bench *bench, uint32_t budget, double *share, roco_error *error)
{
    const uint32_t steps = bench->steps, around = steps / 2;
    double *ns[2] = {calloc(steps, sizeof(double)), calloc(steps, sizeof(double))};
    group g;
    roco_status status = open_group(&g, bench, 2, error);
    if (!status && (!ns[0] || !ns[1]))
        status = roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    /* The plain cache grows; at half of the steps it holds the budget. */
    if (!status && !(status = open_cache(&g, 0, 0, budget + steps, error)) &&
        !(status = open_cache(&g, 1, budget, 2 * budget + steps, error)) &&
        !(status = read_prompt(&g, 0, budget - around, error)))
        status = read_prompt(&g, 1, 2 * budget, error);
    for (uint32_t i = 0; i < 2 * steps && !status; i++) {
        uint64_t took;
        status = decode(&g, i % 2, 1, &took, error);
        ns[i % 2][i / 2] = (double)took;
    }
    close_group(&g);
    if (!status) {
        qsort(ns[0], steps, sizeof(double), ascending);
        qsort(ns[1], steps, sizeof(double), ascending);
        *share = percentile(ns[1], steps, 0.5) / percentile(ns[0], steps, 0.5) - 1;
    }
    free(ns[0]);
    free(ns[1]);
    return status;
}

/* --- drawing tokens --- */

roco_status roco_bench_draw(const roco_bench *bench, const roco_sampling *sampling, double *ns, roco_error *error)
{
    enum { DRAWS = 25 };
    const uint32_t n_vocab = roco_engine_describe(bench->setup->engine)->n_vocab;
    float *logits = malloc(2 * n_vocab * sizeof *logits), *copy = logits + n_vocab;
    void *scratch = malloc(roco_sampler_scratch_bytes(n_vocab));
    double took[DRAWS] = {0};
    group g;
    roco_status status = open_group(&g, bench, 1, error);
    if (!status && (!logits || !scratch))
        status = roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    if (!status)
        status = open_cache(&g, 0, 0, 2, error);
    if (!status) {
        roco_step_item item = {.cache = g.caches[0], .tokens = bench->ids, .n_tokens = 1, .logits = logits};
        status = roco_engine_step(bench->setup->engine, &item, 1, error);
    }
    for (uint32_t i = 0; i < DRAWS && !status; i++) {
        int32_t token;
        const roco_draw draw = {.sampling = sampling, .index = i};
        memcpy(copy, logits, n_vocab * sizeof *copy);
        const uint64_t began = roco_now_ns();
        status = roco_sample(&draw, copy, n_vocab, scratch, &token);
        took[i] = (double)(roco_now_ns() - began);
    }
    qsort(took, DRAWS, sizeof *took, ascending);
    *ns = percentile(took, DRAWS, 0.5);
    close_group(&g);
    free(logits);
    free(scratch);
    return status;
}

double roco_bench_weight_bytes(const roco_eval_setup *setup)
{
    double all = 0, idle = 0;
    for (uint64_t i = 0; i < roco_source_n_tensors(setup->source); i++) {
        const roco_source_tensor *t = roco_source_tensor_at(setup->source, i);
        const double values = (double)t->dims[0] * (double)t->dims[1];
        all += values;
        if (roco_text_is(t->name, "token_embd.weight") && roco_source_tensor_find(setup->source, "output.weight"))
            idle = values;
    }
    return (double)roco_engine_describe(setup->engine)->weight_bytes * (1 - idle / all);
}
