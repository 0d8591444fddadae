#include "eval/generate.h"

#include "eval/progress.h"

#include <math.h>
#include <stdlib.h>

static const roco_sampling greedy = {.temperature = 0, .top_p = 1};

/* An answer on its way. */
typedef struct seat {
    roco_answer *answer;
    roco_cache *cache;
    uint32_t fed; /* of the prompt */
    bool done;
    bool decoded;  /* in this step */
    float *logits; /* [n_vocab] of the last place, when places are compared */
} seat;

typedef struct generation {
    const roco_eval_setup *setup;
    const roco_engine_info *info;
    uint32_t group, n_new, n_seats;
    seat *seats;           /* [most seats] */
    roco_step_item *items; /* of the step */
    seat **busy;
    float *logits; /* [most seats, n_vocab] */
    roco_progress progress;
} generation;

static uint32_t stride_of(const generation *g, const roco_eval_case *c)
{
    return c->stride ? c->stride : g->info->stride;
}

static roco_status open_seat(generation *g, roco_answer *answer, uint32_t *next_page, seat *out, roco_error *error)
{
    const roco_cache_spec spec = roco_eval_case_spec(g->setup, &answer->how, answer->n_prompt + g->n_new);
    const uint32_t n_pages = roco_cache_pages(g->setup->engine, &spec);
    uint32_t *pages = malloc((n_pages + 1u) * sizeof *pages);
    if (!pages)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < n_pages; i++)
        pages[i] = (*next_page)++;
    *out = (seat){.answer = answer, .logits = out->logits};
    answer->n_drawn = 0;
    answer->kl = 0;
    roco_status status = roco_cache_open(g->setup->engine, &spec, pages, &out->cache, error);
    free(pages);
    return status;
}

static uint32_t pages_of(const generation *g, const roco_answer *answers)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->group; i++) {
        const roco_cache_spec spec = roco_eval_case_spec(g->setup, &answers[i].how, answers[i].n_prompt + g->n_new);
        n += roco_cache_pages(g->setup->engine, &spec);
    }
    return n;
}

/* Seats as many groups as steps and pages hold; how many answers those are in *n. */
static roco_status open_wave(generation *g, roco_answer *answers, uint32_t n_answers, uint32_t *n, roco_error *error)
{
    const uint32_t most = g->info->step_tokens / g->info->stride;
    uint32_t next_page = 0;
    roco_status status = ROCO_OK;
    for (*n = 0; *n < n_answers && *n + g->group <= most && !status; *n += g->group) {
        if (pages_of(g, answers + *n) > g->info->n_pages - next_page)
            break;
        for (uint32_t i = 0; i < g->group && !status; i++)
            status = open_seat(g, &answers[*n + i], &next_page, &g->seats[*n + i], error);
    }
    if (!status && *n == 0)
        status = roco_fail(error, ROCO_TOO_LARGE, "kv-pool-bytes",
                           "%u sequences of %u tokens side by side fit neither into the KV pool nor into a step; raise "
                           "--kv-pool-bytes or --step-tokens, or ask for fewer cases",
                           g->group, answers[0].n_prompt + g->n_new);
    g->n_seats = *n;
    return status;
}

/* What the seat feeds next: the prompt's next stride, or the token before, its leader's when it has one. */
static void add_item(generation *g, uint32_t index, uint32_t to)
{
    seat *s = &g->seats[index];
    const roco_answer *a = s->answer, *leader = g->seats[index - index % g->group].answer;
    const uint32_t left = a->n_prompt - s->fed, stride = stride_of(g, &a->how);
    roco_step_item item = {.cache = s->cache, .sampling = &greedy, .sample_index = a->n_drawn, .n_tokens = 1};
    if (left) {
        item.tokens = a->prompt + s->fed;
        item.n_tokens = left < stride ? left : stride;
        if (item.n_tokens < left)
            item.sampling = NULL;
    } else {
        item.tokens = &leader->drawn[a->n_drawn - 1];
        item.decode = true;
        item.logits = g->group > 1 ? s->logits : NULL;
    }
    g->busy[to] = s;
    g->items[to] = item;
}

static double log_sum(const float *logits, uint32_t n)
{
    float highest = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        highest = logits[i] > highest ? logits[i] : highest;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += expf(logits[i] - highest);
    return highest + log(sum);
}

/* KL(p || q) in nats. */
static double divergence(const float *p, const float *q, uint32_t n)
{
    const double p_sum = log_sum(p, n), q_sum = log_sum(q, n);
    double kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double log_p = p[i] - p_sum;
        kl += log_p > -40 ? exp(log_p) * (log_p - (q[i] - q_sum)) : 0;
    }
    return kl > 0 ? kl : 0;
}

static void take(generation *g, seat *s, const roco_step_item *item)
{
    roco_answer *a = s->answer;
    g->progress.done += item->n_tokens;
    s->decoded = item->decode;
    if (!item->decode)
        s->fed += item->n_tokens;
    if (!item->sampling)
        return;
    a->drawn[a->n_drawn++] = item->token;
    const bool ends = g->group == 1 && roco_tokenizer_is_end(g->setup->tokenizer, item->token);
    s->done = ends || a->n_drawn == g->n_new;
}

/* Followers' places against their leader's. Members of a group go in step once they decode. */
static void compare(generation *g)
{
    for (uint32_t i = 0; i < g->n_seats; i += g->group)
        for (uint32_t k = i + 1; k < i + g->group; k++)
            if (g->seats[k].decoded)
                g->seats[k].answer->kl += divergence(g->seats[i].logits, g->seats[k].logits, g->info->n_vocab);
}

/* A group decodes when all its members have read the prompt: strides may differ. */
static bool may_go_on(const generation *g, uint32_t index)
{
    const uint32_t first = index - index % g->group;
    if (g->seats[index].fed < g->seats[index].answer->n_prompt)
        return true;
    for (uint32_t k = first; k < first + g->group; k++)
        if (g->seats[k].fed < g->seats[k].answer->n_prompt)
            return false;
    return true;
}

static roco_status run_wave(generation *g, roco_error *error)
{
    for (;;) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < g->n_seats; i++) {
            g->seats[i].decoded = false;
            if (!g->seats[i].done && may_go_on(g, i))
                add_item(g, i, n++);
        }
        if (!n)
            return ROCO_OK;
        roco_status status = roco_engine_step(g->setup->engine, g->items, n, error);
        if (status)
            return status;
        for (uint32_t i = 0; i < n; i++)
            take(g, g->busy[i], &g->items[i]);
        compare(g);
        roco_progress_print(&g->progress);
    }
}

static void close_wave(generation *g)
{
    for (uint32_t i = 0; i < g->n_seats; i++) {
        seat *s = &g->seats[i];
        if (s->cache) {
            roco_cache_measure(s->cache, &s->answer->kept);
            s->answer->evicted_mass = roco_cache_evicted_mass(g->setup->engine, s->cache);
            roco_cache_close(g->setup->engine, s->cache);
        }
        s->cache = NULL;
    }
}

roco_status roco_generate(const roco_eval_setup *setup, roco_answer *answers, uint32_t n, uint32_t group,
                          uint32_t n_new, roco_error *error)
{
    generation g = {.setup = setup, .info = roco_engine_describe(setup->engine), .group = group, .n_new = n_new};
    const uint32_t most = g.info->step_tokens / g.info->stride;
    g.seats = calloc(most, sizeof *g.seats);
    g.items = calloc(most, sizeof *g.items);
    g.busy = calloc(most, sizeof *g.busy);
    g.logits = malloc(group > 1 ? (size_t)most * g.info->n_vocab * sizeof *g.logits : 1);
    roco_status status =
        g.seats && g.items && g.busy && g.logits ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; !status && i < most; i++)
        g.seats[i].logits = group > 1 ? g.logits + (size_t)i * g.info->n_vocab : NULL;
    for (uint32_t i = 0; i < n; i++)
        g.progress.total += answers[i].n_prompt + n_new - 1u;
    for (uint32_t at = 0, taken; at < n && !status; at += taken) {
        status = open_wave(&g, answers + at, n - at, &taken, error);
        if (!status)
            status = run_wave(&g, error);
        close_wave(&g);
    }
    roco_progress_end(&g.progress);
    free(g.seats);
    free(g.items);
    free(g.busy);
    free(g.logits);
    return status;
}
