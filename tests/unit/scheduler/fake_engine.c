#include "tests/unit/scheduler/fake_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct roco_cache {
    roco_engine *engine;
    uint32_t number, length, n_drawn;
    uint64_t hash, last_step;
    int32_t first_token;
    bool evicts;
    uint32_t budget, limit; /* limit: tokens it was opened for */
    uint32_t *pages, n_pages;
};

struct roco_engine {
    fake_config config;
    roco_engine_info info;
    roco_cache **owner; /* [n_pages] */
    uint32_t n_open, most_open, n_opened;
    uint64_t n_steps;
    fake_step *steps;
    size_t steps_capacity;

    bool bound; /* to the thread of the first call */
    pthread_t thread;

    pthread_mutex_t mutex;
    pthread_cond_t gate, held;
    uint64_t allowed;
    bool gated, is_held;
};

fake_config fake_config_default(void)
{
    return (fake_config){
        .n_vocab = 101,
        .n_context = 4096,
        .n_layers = 2,
        .n_kv_heads = 2,
        .stride = 16,
        .step_tokens = 64,
        .n_pages = 256,
        .nan_token = -1,
    };
}

roco_engine *fake_engine_open(const fake_config *config)
{
    roco_engine *e = calloc(1, sizeof *e);
    ROCO_CHECK(e != NULL);
    e->config = *config;
    e->info = (roco_engine_info){
        .model_name = "fake",
        .architecture = "fake",
        .n_vocab = config->n_vocab,
        .n_context = config->n_context,
        .n_layers = config->n_layers,
        .n_heads = config->n_kv_heads,
        .n_kv_heads = config->n_kv_heads,
        .stride = config->stride,
        .step_tokens = config->step_tokens,
        .layout = roco_kv_layout_make(ROCO_KV_F16, 16, 16),
        .n_pages = config->n_pages,
        .backend = "fake",
    };
    e->owner = calloc(config->n_pages, sizeof(roco_cache *));
    e->gated = config->gated;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->gate, NULL);
    pthread_cond_init(&e->held, NULL);
    return e;
}

roco_status roco_engine_open(const roco_engine_config *config, roco_engine **out, roco_error *error)
{
    return roco_fail(error, ROCO_UNSUPPORTED, NULL, "the fake engine is opened by fake_engine_open");
}

void roco_engine_close(roco_engine *e)
{
    ROCO_CHECK(e->n_open == 0);
    for (uint64_t i = 0; e->config.record && i < e->n_steps; i++)
        free(e->steps[i].items);
    free(e->steps);
    free(e->owner);
    pthread_cond_destroy(&e->gate);
    pthread_cond_destroy(&e->held);
    pthread_mutex_destroy(&e->mutex);
    free(e);
}

const roco_engine_info *roco_engine_describe(const roco_engine *e)
{
    return &e->info;
}

void roco_engine_fault_nan(roco_engine *e, uint64_t countdown)
{
    e->config.nan_index = (uint32_t)countdown;
}

static void check_thread(roco_engine *e)
{
    if (!e->bound) {
        e->bound = true;
        e->thread = pthread_self();
    }
    ROCO_CHECK(pthread_equal(e->thread, pthread_self()));
}

/* ---- caches ---- */

uint32_t roco_cache_pages(const roco_engine *e, const roco_cache_spec *spec)
{
    uint32_t held = spec->policy->evicts && spec->budget < spec->length ? spec->budget : spec->length;
    return e->info.n_layers * e->info.n_kv_heads * roco_kv_pages_for(&e->info.layout, held);
}

roco_status roco_cache_serves(const roco_engine *e, const roco_cache_spec *spec, roco_error *error)
{
    return e->config.no_ranks && spec->by_rank ? roco_fail(error, ROCO_UNSUPPORTED, "kv_positions", "no ranks")
                                               : ROCO_OK;
}

roco_status roco_cache_open(roco_engine *e, const roco_cache_spec *spec, const uint32_t *pages, roco_cache **out,
                            roco_error *error)
{
    check_thread(e);
    ROCO_CHECK(spec->length >= 1 && spec->length <= e->info.n_context);
    if (e->config.refuse_open && spec->length == (uint32_t)e->config.refuse_open)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for this cache");
    roco_cache *cache = calloc(1, sizeof *cache);
    ROCO_CHECK(cache != NULL);
    *cache = (roco_cache){.engine = e,
                          .number = e->n_opened++,
                          .evicts = spec->policy->evicts,
                          .budget = spec->budget,
                          .limit = spec->length,
                          .n_pages = roco_cache_pages(e, spec)};
    cache->pages = malloc(cache->n_pages * sizeof *cache->pages);
    for (uint32_t i = 0; i < cache->n_pages; i++) {
        ROCO_CHECK(pages[i] < e->info.n_pages && !e->owner[pages[i]]);
        e->owner[pages[i]] = cache;
        cache->pages[i] = pages[i];
    }
    if (++e->n_open > e->most_open)
        e->most_open = e->n_open;
    *out = cache;
    return ROCO_OK;
}

void roco_cache_close(roco_engine *e, roco_cache *cache)
{
    check_thread(e);
    for (uint32_t i = 0; i < cache->n_pages; i++) {
        ROCO_CHECK(e->owner[cache->pages[i]] == cache);
        e->owner[cache->pages[i]] = NULL;
    }
    e->n_open--;
    free(cache->pages);
    free(cache);
}

void roco_cache_measure(const roco_cache *cache, roco_cache_usage *out)
{
    uint32_t held = cache->evicts && cache->budget < cache->length ? cache->budget : cache->length;
    uint32_t n_heads = cache->engine->info.n_layers * cache->engine->info.n_kv_heads;
    *out = (roco_cache_usage){cache->length, held, cache->length - held, (uint64_t)(cache->length - held) * n_heads};
}

uint32_t roco_cache_positions(const roco_engine *e, const roco_cache *cache, uint32_t layer, uint32_t head,
                              int32_t *out)
{
    return 0;
}

void roco_cache_check(const roco_engine *e, const roco_cache *cache)
{
}

/* ---- steps ---- */

uint64_t fake_feed(uint64_t hash, int32_t token)
{
    return (hash ^ (uint64_t)(uint32_t)token) * 6364136223846793005u + 1442695040888963407u;
}

int32_t fake_draw(uint64_t hash, uint32_t n_vocab)
{
    return (int32_t)((hash >> 33) % n_vocab);
}

static void check_item(const roco_engine *e, const roco_step_item *item)
{
    const roco_cache *cache = item->cache;
    ROCO_CHECK(cache->last_step < e->n_steps); /* once a step */
    ROCO_CHECK(item->n_tokens >= 1 && cache->length + item->n_tokens <= cache->limit);
    if (item->decode) {
        ROCO_CHECK(item->n_tokens == 1 && item->sampling && cache->n_drawn > 0);
    } else {
        ROCO_CHECK(cache->n_drawn == 0 && cache->length % e->info.stride == 0);
        ROCO_CHECK(item->sampling || item->n_tokens % e->info.stride == 0 ||
                   cache->length + item->n_tokens == cache->limit);
    }
    ROCO_CHECK(!item->sampling || item->sample_index == cache->n_drawn);
}

static void score(const roco_step_item *item, uint32_t row, int32_t token, uint32_t position)
{
    roco_logprob *out = item->logprobs + (size_t)row * (1 + item->n_top);
    out[0] = (roco_logprob){token, -(float)position};
    for (uint32_t i = 1; i <= item->n_top; i++)
        out[i] = (roco_logprob){(int32_t)i - 1, -(float)i};
}

static void run_item(roco_engine *e, roco_step_item *item)
{
    roco_cache *cache = item->cache;
    check_item(e, item);
    cache->last_step = e->n_steps;
    if (cache->length == 0)
        cache->first_token = item->tokens[0];
    for (uint32_t i = 0; i < item->n_tokens; i++) {
        ROCO_CHECK(item->tokens[i] >= 0 && (uint32_t)item->tokens[i] < e->info.n_vocab);
        cache->hash = fake_feed(cache->hash, item->tokens[i]);
    }
    for (uint32_t i = 0; i < item->n_targets; i++)
        score(item, i, item->targets[i], cache->length + i + 1);
    cache->length += item->n_tokens;
    item->status = ROCO_OK;
    if (!item->sampling)
        return;
    if (cache->first_token == e->config.nan_token && cache->n_drawn == e->config.nan_index)
        item->status = ROCO_NUMERIC;
    item->token = fake_draw(cache->hash, e->info.n_vocab);
    cache->n_drawn++;
    if (item->logprobs)
        score(item, item->n_targets, item->token, cache->length);
}

static void record(roco_engine *e, const roco_step_item *items, uint32_t n_items, uint32_t rows)
{
    if (e->n_steps > e->steps_capacity) {
        e->steps_capacity = e->steps_capacity * 2 + 64;
        e->steps = realloc(e->steps, e->steps_capacity * sizeof *e->steps);
        ROCO_CHECK(e->steps != NULL);
    }
    fake_step *step = &e->steps[e->n_steps - 1];
    *step = (fake_step){.items = calloc(n_items, sizeof *step->items), .n_items = n_items, .rows = rows};
    for (uint32_t i = 0; i < n_items; i++)
        step->items[i] = (fake_item){items[i].cache->number, items[i].cache->length, items[i].n_tokens, items[i].decode,
                                     items[i].sampling != NULL};
}

static void pass_gate(roco_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    while (e->gated && e->allowed == 0) {
        e->is_held = true;
        pthread_cond_broadcast(&e->held);
        pthread_cond_wait(&e->gate, &e->mutex);
    }
    e->is_held = false;
    if (e->allowed > 0)
        e->allowed--;
    pthread_mutex_unlock(&e->mutex);
}

roco_status roco_engine_step(roco_engine *e, roco_step_item *items, uint32_t n_items, roco_error *error)
{
    check_thread(e);
    e->n_steps++;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n_items; i++)
        rows += items[i].n_tokens;
    ROCO_CHECK(n_items > 0 && rows <= e->info.step_tokens);
    if (e->config.record)
        record(e, items, n_items, rows);
    pass_gate(e);
    if (e->config.sleep_us)
        usleep(e->config.sleep_us);
    if (e->n_steps == e->config.fail_step)
        return roco_fail(error, ROCO_DEVICE, NULL, "the fake device failed");
    for (uint32_t i = 0; i < n_items; i++)
        run_item(e, &items[i]);
    return ROCO_OK;
}

uint64_t fake_engine_n_steps(const roco_engine *e)
{
    return e->n_steps;
}

const fake_step *fake_engine_step_at(const roco_engine *e, uint64_t index)
{
    ROCO_CHECK(e->config.record && index < e->n_steps);
    return &e->steps[index];
}

uint32_t fake_engine_most_open(const roco_engine *e)
{
    return e->most_open;
}

void fake_engine_allow(roco_engine *e, uint64_t n)
{
    pthread_mutex_lock(&e->mutex);
    e->allowed += n;
    e->is_held = false;
    pthread_cond_broadcast(&e->gate);
    pthread_mutex_unlock(&e->mutex);
}

void fake_engine_wait_held(roco_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    while (!e->is_held)
        pthread_cond_wait(&e->held, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
}

void fake_engine_open_gate(roco_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    e->gated = false;
    pthread_cond_broadcast(&e->gate);
    pthread_mutex_unlock(&e->mutex);
}

double roco_cache_evicted_mass(const roco_engine *engine, const roco_cache *cache)
{
    return cache->evicts && cache->length > cache->budget ? 0.25 : 0;
}
