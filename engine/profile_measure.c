/* Measuring a head profile: a forward pass over `passage, filler, passage` that looks at the attention weights.
 *
 * Engine thread, before anything is served. Attention itself never shows its weights, so they are computed again here,
 * from the step's queries and from the keys in the pool; that is slow, and only done for the second copy's rows.
 */
#include "engine/profile.h"
#include "engine/state.h"
#include "kernels/kv_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct measure {
    roco_engine *engine;
    roco_cache *cache;
    uint32_t n_passage, offset; /* of the second copy from the first: passage and filler */
    uint32_t first, n_rows;     /* positions of the step that runs */
    float *q;                   /* [step_tokens, n_heads * key_dim] */
    float *keys;                /* [pages of the whole sequence][key_dim][page slots], one head's */
    float *weights;             /* [the same pages][page slots], one row's */
    unsigned char *page;
    double *sums; /* [n_layers * n_heads], by query head */
} measure;

static void load_keys(const measure *m, uint32_t at, uint32_t n_pages)
{
    const roco_kv_layout *l = &m->engine->info.layout;
    const roco_backend_ops *ops = m->engine->backend->ops;
    const size_t values = (size_t)l->key_dim * l->slots;
    for (uint32_t i = 0; i < n_pages; i++) {
        /* Pages are dealt in order: the block table is its own index. */
        const uint32_t page = m->cache->heads[at].first_page + i;
        float *out = m->keys + i * values;
        ops->download(m->engine->backend, m->page, (const char *)m->engine->pool + (size_t)page * l->page_bytes,
                      l->value_offset);
        for (uint32_t d = 0; d < l->key_dim; d++)
            for (uint32_t slot = 0; slot < l->slots; slot++)
                out[(size_t)d * l->slots + slot] = roco_kv_key(l, m->page, slot, d);
    }
}

static void score_page(const float *q, const float *keys, const roco_kv_layout *l, float *out)
{
    memset(out, 0, l->slots * sizeof *out);
    for (uint32_t d = 0; d < l->key_dim; d++)
        for (uint32_t j = 0; j < l->slots; j++)
            out[j] += q[d] * keys[d * l->slots + j];
}

/* What one query at `position` pays to its first copy and to the token after that. */
static double retrieved(const measure *m, const roco_attention *args, const float *q, uint32_t position)
{
    const roco_kv_layout *l = &args->layout;
    for (uint32_t i = 0; i * l->slots <= position; i++)
        score_page(q, m->keys + (size_t)i * l->key_dim * l->slots, l, m->weights + i * l->slots);
    float highest = -INFINITY;
    for (uint32_t j = 0; j <= position; j++) {
        const float score = m->weights[j] * args->scale;
        m->weights[j] = args->softcap > 0 ? args->softcap * tanhf(score / args->softcap) : score;
        highest = fmaxf(highest, m->weights[j]);
    }
    double total = 0;
    for (uint32_t j = 0; j <= position; j++)
        total += expf(m->weights[j] - highest);
    const float *copy = m->weights + (position - m->offset);
    return ((double)expf(copy[0] - highest) + expf(copy[1] - highest)) / total;
}

/* After a layer's attention: its queries are in the buffers, its keys in the pool. */
static void observe(void *context, const roco_attention *args)
{
    const measure *m = context;
    const roco_engine_info *info = &m->engine->info;
    const uint32_t layer = args->layer, dim = info->layout.key_dim, n_group = info->n_heads / info->n_kv_heads;
    const uint32_t from = m->first > m->offset ? m->first : m->offset;
    const uint32_t last = m->offset + m->n_passage - 1; /* it has no token after its first copy that counts */
    const uint32_t end = m->first + m->n_rows < last ? m->first + m->n_rows : last;
    /* A sliding window that ends before the first copy retrieves nothing, and its score stays 0. */
    if (from >= end || (args->window && args->window <= m->offset + m->n_passage))
        return;
    m->engine->backend->ops->download(m->engine->backend, m->q, args->q,
                                      (size_t)m->n_rows * info->n_heads * dim * sizeof *m->q);
    for (uint32_t h = 0; h < info->n_kv_heads; h++) {
        load_keys(m, layer * info->n_kv_heads + h, roco_kv_pages_for(&info->layout, end));
        for (uint32_t head = h * n_group; head < (h + 1) * n_group; head++)
            for (uint32_t position = from; position < end; position++) {
                const float *q = m->q + ((size_t)(position - m->first) * info->n_heads + head) * dim;
                m->sums[layer * info->n_heads + head] += retrieved(m, args, q, position);
            }
    }
}

static void close_measure(measure *m)
{
    m->engine->observe = NULL;
    if (m->cache)
        roco_cache_close(m->engine, m->cache);
    free(m->q);
    free(m->keys);
    free(m->weights);
    free(m->page);
    free(m->sums);
}

static roco_status open_measure(measure *m, uint32_t length, roco_error *error)
{
    const roco_engine_info *info = &m->engine->info;
    const roco_policy full = {.name = "full"};
    const roco_cache_spec spec = {.policy = &full, .length = length};
    const size_t columns = (size_t)roco_kv_pages_for(&info->layout, length) * info->layout.slots;
    const uint32_t n_pages = roco_cache_pages(m->engine, &spec);
    if (length > info->n_context || n_pages > info->n_pages)
        return roco_fail(error, ROCO_TOO_LARGE, NULL,
                         "a head profile takes %u tokens; the context is %u tokens and the pool has %u of %u pages",
                         length, info->n_context, info->n_pages, n_pages);
    m->q = malloc((size_t)info->step_tokens * info->n_heads * info->layout.key_dim * sizeof *m->q);
    m->keys = malloc(columns * info->layout.key_dim * sizeof *m->keys);
    m->weights = malloc(columns * sizeof *m->weights);
    m->page = malloc(info->layout.page_bytes);
    m->sums = calloc((size_t)info->n_layers * info->n_heads, sizeof *m->sums);
    uint32_t *pages = malloc(n_pages * sizeof *pages);
    for (uint32_t i = 0; pages && i < n_pages; i++)
        pages[i] = i;
    roco_status status = roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for a head profile");
    if (m->q && m->keys && m->weights && m->page && m->sums && pages)
        status = roco_cache_open(m->engine, &spec, pages, &m->cache, error);
    free(pages);
    return status;
}

static roco_status feed(measure *m, const int32_t *tokens, uint32_t n, roco_profile_progress *progress, void *context,
                        roco_error *error)
{
    const roco_engine_info *info = &m->engine->info;
    const uint32_t most = info->step_tokens / info->stride * info->stride;
    for (uint32_t at = 0; at < n; at += m->n_rows) {
        m->first = at;
        m->n_rows = n - at < most ? n - at : most;
        roco_step_item item = {.cache = m->cache, .tokens = tokens + at, .n_tokens = m->n_rows};
        roco_status status = roco_engine_step(m->engine, &item, 1, error);
        if (status)
            return status;
        if (progress)
            progress(context, at + m->n_rows, n);
    }
    return ROCO_OK;
}

roco_status roco_profile_measure(roco_engine *engine, const int32_t *ids, uint32_t n_passage, uint32_t n_filler,
                                 roco_profile_progress *progress, void *context, float *scores, roco_error *error)
{
    ROCO_CHECK(n_passage >= 2);
    const roco_engine_info *info = &engine->info;
    const uint32_t n = 2 * n_passage + n_filler, n_group = info->n_heads / info->n_kv_heads;
    measure m = {.engine = engine, .n_passage = n_passage, .offset = n_passage + n_filler};
    int32_t *tokens = malloc(n * sizeof *tokens);
    roco_status status = tokens ? open_measure(&m, n, error)
                                : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for a head profile");
    if (status == ROCO_OK) {
        memcpy(tokens, ids, m.offset * sizeof *tokens);
        memcpy(tokens + m.offset, ids, n_passage * sizeof *tokens);
        engine->observe = observe;
        engine->observe_context = &m;
        status = feed(&m, tokens, n, progress, context, error);
    }
    for (uint32_t i = 0; status == ROCO_OK && i < info->n_layers * info->n_kv_heads; i++) {
        double best = 0; /* a group's query heads follow each other */
        for (uint32_t g = 0; g < n_group; g++)
            best = fmax(best, m.sums[i * n_group + g] / (n_passage - 1));
        scores[i] = (float)best;
    }
    close_measure(&m);
    free(tokens);
    return status;
}

uint32_t roco_profile_part(const roco_engine *engine)
{
    const roco_engine_info *info = &engine->info;
    const uint64_t pool = info->n_pages / ((uint64_t)info->n_layers * info->n_kv_heads) * info->layout.slots;
    const uint64_t room = (pool < info->n_context ? pool : info->n_context) / 3;
    const uint32_t part = room < ROCO_PROFILE_PART ? (uint32_t)room : ROCO_PROFILE_PART;
    return part < ROCO_PROFILE_MIN_PART ? 0 : part;
}

/* splitmix64 (Steele, Lea and Flood 2014). Which tokens are drawn matters little: the same heads come out on top. */
void roco_profile_draw(const roco_tokenizer *tokenizer, int32_t *ids, uint32_t n)
{
    const uint32_t n_vocab = roco_tokenizer_n_vocab(tokenizer);
    uint64_t state = 1;
    for (uint32_t i = 0, tries = 0; i < n; tries++) {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        const int32_t id = (int32_t)((z ^ (z >> 31)) % n_vocab);
        const bool any = tries >= 1000 * n; /* hardly a token has a text: this is no model of text */
        if (any || roco_tokenizer_piece(tokenizer, id, false).size)
            ids[i++] = id;
    }
}
