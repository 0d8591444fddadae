/* One sequence's KV cache: how its pages are dealt to layers and heads, and what it holds. Engine thread.
 *
 * The block table is written here once, layer-major and head-major; the backend fills the pages and keeps held and
 * victim of each head.
 */
#include "engine/profile.h"
#include "engine/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t count_heads(const roco_engine *engine)
{
    return engine->info.n_layers * engine->info.n_kv_heads;
}

static uint32_t layer_of(const roco_engine *engine, uint32_t head)
{
    return head / engine->info.n_kv_heads;
}

/* Slots that no policy may take, at most. */
static uint64_t guarded(const roco_cache_spec *spec)
{
    uint64_t n = (uint64_t)spec->sink + spec->recent + spec->compensate;
    for (uint32_t i = 0; i < spec->n_pins; i++)
        n += spec->pins[i].end - spec->pins[i].first;
    return n;
}

/* The most tokens that are of use to a head: its layer's window, or the whole sequence. */
static uint32_t most_slots(const roco_engine *engine, const roco_cache_spec *spec, uint32_t head)
{
    const uint32_t window = roco_shape_window(&engine->model.shape, layer_of(engine, head));
    return window > 0 && window < spec->length ? window : spec->length;
}

static uint32_t pages_for(const roco_engine *engine, roco_kv_type type, uint32_t slots)
{
    const roco_kv_layout layout = roco_kv_layout_of(&engine->info.layout, type);
    return roco_kv_pages_for(&layout, slots);
}

/* Pages that the ranked heads may fill with what is capped: those of equal budgets, less what heads with a window take,
 * which hold what they would, and less what comes on top of the budget; and no more tokens than the budget says. */
static uint32_t ranked_pages(const roco_engine *engine, const roco_cache_spec *spec, roco_kv_type type)
{
    const uint64_t whole = (uint64_t)spec->budget + spec->uncapped;
    int64_t pages = 0, slots = 0, windowed = 0;
    for (uint32_t head = 0; head < count_heads(engine); head++) {
        const uint32_t most = most_slots(engine, spec, head), all = whole < most ? (uint32_t)whole : most;
        const uint32_t capped = spec->budget < most ? spec->budget : most;
        const bool ranked = engine->ranks[head] != ROCO_NO_RANK;
        pages += pages_for(engine, engine->info.layout.type, all);
        pages -= pages_for(engine, type, ranked ? spec->uncapped : all);
        slots += capped;
        windowed += ranked ? 0 : pages_for(engine, type, capped);
    }
    const int64_t by_tokens = slots / engine->info.layout.slots - windowed, n = pages < by_tokens ? pages : by_tokens;
    return n > 0 ? (uint32_t)n : 0;
}

/* Where heads differ. Without any, `whole` is 0. */
static roco_head_shares shares_for(const roco_engine *engine, const roco_cache_spec *spec)
{
    const bool by_profile = engine->info.has_profile && !spec->uniform && !spec->by_rank && !spec->head_budgets &&
                            !spec->head_types && spec->policy->evicts && spec->budget < spec->length - spec->uncapped &&
                            guarded(spec) < spec->budget;
    if (!by_profile)
        return (roco_head_shares){0};
    const roco_kv_type pool = engine->info.layout.type;
    roco_head_room room = {.n_heads = engine->n_ranked,
                           .n_needed = engine->n_needed,
                           .n_wanted = engine->n_wanted,
                           .length = spec->length - spec->uncapped,
                           .budget = spec->budget,
                           .guarded = (uint32_t)guarded(spec),
                           .type = pool,
                           .quantise = engine->backend->ops->takes_types && pool == ROCO_KV_F16};
    for (uint32_t type = 0; type < ROCO_N_KV_TYPES; type++)
        room.slots[type] = roco_kv_layout_of(&engine->info.layout, (roco_kv_type)type).slots;
    room.n_pages = ranked_pages(engine, spec, room.quantise ? ROCO_KV_Q8 : pool);
    return roco_head_shares_make(&room);
}

/* Tokens the head may hold of what is capped. */
static uint32_t head_budget(const roco_engine *engine, const roco_cache_spec *spec, const roco_head_shares *shares,
                            uint32_t head)
{
    if (shares->whole && engine->ranks[head] != ROCO_NO_RANK)
        return roco_head_share(shares, engine->ranks[head]);
    if (!spec->policy->evicts)
        return spec->length;
    return spec->head_budgets ? spec->head_budgets[head] : spec->budget;
}

static roco_kv_type head_type(const roco_engine *engine, const roco_cache_spec *spec, const roco_head_shares *shares,
                              uint32_t head)
{
    if (!shares->whole)
        return spec->head_types ? spec->head_types[head] : engine->info.layout.type;
    return engine->ranks[head] < shares->n_whole ? shares->whole_type : shares->low_type;
}

/* Budget (never more than is of use), what of it is the answer's alone, and whether slots can run out. */
static roco_kv_head head_make(const roco_engine *engine, const roco_cache_spec *spec, const roco_head_shares *shares,
                              uint32_t head)
{
    const uint32_t most = most_slots(engine, spec, head);
    const uint64_t budget = head_budget(engine, spec, shares, head);
    uint64_t slots = budget + spec->uncapped < most ? budget + spec->uncapped : most;
    const bool evicts = slots < spec->length;
    const bool compensates =
        evicts && spec->compensate && !roco_shape_window(&engine->model.shape, layer_of(engine, head));
    return (roco_kv_head){.budget = (uint32_t)slots,
                          .reserved =
                              budget + spec->uncapped < spec->length && budget < slots ? (uint32_t)(slots - budget) : 0,
                          .held = compensates,
                          .victim = ROCO_NO_SLOT,
                          .evicts = evicts,
                          .compensates = compensates,
                          .type = head_type(engine, spec, shares, head)};
}

static uint32_t pages_of(const roco_engine *engine, const roco_kv_head *head)
{
    return pages_for(engine, head->type, head->budget);
}

uint32_t roco_cache_pages(const roco_engine *engine, const roco_cache_spec *spec)
{
    const roco_head_shares shares = shares_for(engine, spec);
    const roco_kv_head first = head_make(engine, spec, &shares, 0);
    if (!spec->head_budgets && !spec->head_types && !shares.whole && !engine->model.shape.window)
        return count_heads(engine) * pages_of(engine, &first);
    uint32_t n_pages = 0;
    for (uint32_t at = 0; at < count_heads(engine); at++) {
        const roco_kv_head head = head_make(engine, spec, &shares, at);
        n_pages += pages_of(engine, &head);
    }
    return n_pages;
}

static roco_status check_spec(const roco_engine *engine, const roco_cache_spec *spec, roco_error *error)
{
    const uint32_t longest = spec->by_rank ? ROCO_MAX_STREAM : engine->info.n_context;
    if (spec->length < 1 || spec->length > longest)
        return roco_fail(error, ROCO_INVALID, "length", "a sequence of %u tokens; allowed: 1..%u", spec->length,
                         longest);
    if (spec->stride > engine->info.stride)
        return roco_fail(error, ROCO_INVALID, "kv_stride", "a stride of %u tokens; allowed: 1..%u", spec->stride,
                         engine->info.stride);
    ROCO_CHECK(spec->uncapped < spec->length);
    const roco_head_shares shares = shares_for(engine, spec);
    for (uint32_t head = 0; head < count_heads(engine); head++) {
        const roco_kv_head made = head_make(engine, spec, &shares, head);
        const uint32_t slots = made.budget - made.reserved;
        ROCO_CHECK(made.type != ROCO_KV_F32 || engine->info.layout.type == ROCO_KV_F32);
        if (spec->by_rank && (uint64_t)made.budget + engine->info.stride > engine->info.n_context)
            return roco_fail(error, ROCO_INVALID, "kv_budget",
                             "with kv_positions \"cache\" a head's cache (%u tokens) and a stride (%u) must fit into "
                             "the context of %u",
                             made.budget, engine->info.stride, engine->info.n_context);
        /* A head that holds its whole window gives up what has left it: no policy is asked. */
        if (slots < most_slots(engine, spec, head) && guarded(spec) >= slots)
            return roco_fail(error, ROCO_INVALID, "kv_budget",
                             "%u protected first tokens, %u newest ones and %llu pinned ones leave no room in a budget "
                             "of %u",
                             spec->sink, spec->recent,
                             (unsigned long long)(guarded(spec) - spec->sink - spec->recent - spec->compensate), slots);
    }
    return ROCO_OK;
}

static roco_status check_compensation(const roco_engine *engine, const roco_cache_spec *spec, roco_error *error)
{
    if (!engine->backend->ops->takes_compensation)
        return roco_fail(error, ROCO_UNSUPPORTED, "kv_compensation", "kv_compensation is not for the backend %s",
                         engine->backend->ops->name);
    if (spec->policy->evicts && !spec->policy->needs_statistics)
        return roco_fail(
            error, ROCO_INVALID, "kv_compensation",
            "kv_compensation weighs by the attention each token drew, which kv_policy \"%s\" keeps no sum of",
            spec->policy->name);
    if (spec->by_rank)
        return roco_fail(error, ROCO_INVALID, "kv_compensation", "kv_compensation needs kv_positions \"text\"");
    return ROCO_OK;
}

static roco_status deal_pages(roco_engine *engine, const roco_cache_spec *spec, const uint32_t *pages,
                              roco_cache *cache)
{
    const roco_backend_ops *ops = engine->backend->ops;
    const size_t head_bytes = cache->n_heads * sizeof *cache->heads, page_bytes = cache->n_pages * sizeof *pages;
    cache->heads = calloc(cache->n_heads, sizeof *cache->heads);
    cache->sequence.heads = ops->memory_open(engine->backend, head_bytes);
    uint32_t *table = ops->memory_open(engine->backend, page_bytes);
    cache->sequence.pages = table;
    cache->pins = calloc(spec->n_pins + 1u, sizeof *cache->pins);
    if (spec->compensate)
        cache->sequence.evicted =
            ops->memory_open(engine->backend, (size_t)cache->n_heads * roco_kv_evicted_floats(&engine->info.layout) *
                                                  sizeof *cache->sequence.evicted);
    if ((spec->compensate && !cache->sequence.evicted) || !cache->pins || !cache->heads || !cache->sequence.heads ||
        !table)
        return ROCO_NO_MEMORY;
    if (spec->n_pins)
        memcpy(cache->pins, spec->pins, spec->n_pins * sizeof *cache->pins);
    cache->sequence.pins = cache->pins;
    cache->sequence.n_pins = spec->n_pins;
    const roco_head_shares shares = shares_for(engine, spec);
    uint32_t next = 0;
    for (uint32_t head = 0; head < cache->n_heads; head++) {
        roco_kv_head *h = &cache->heads[head];
        *h = head_make(engine, spec, &shares, head);
        h->first_page = next;
        next += pages_of(engine, h);
        if (h->budget > cache->sequence.most_slots)
            cache->sequence.most_slots = h->budget;
    }
    ops->upload(engine->backend, cache->sequence.heads, cache->heads, head_bytes);
    ops->upload(engine->backend, table, pages, page_bytes);
    return ROCO_OK;
}

roco_status roco_cache_serves(const roco_engine *engine, const roco_cache_spec *spec, roco_error *error)
{
    const roco_backend_ops *ops = engine->backend->ops;
    if (ops->knows_policy && !ops->knows_policy(engine->backend, spec->policy))
        return roco_fail(error, ROCO_UNSUPPORTED, "kv_policy", "kv_policy \"%s\" is not for the backend %s",
                         spec->policy->name, ops->name);
    if (spec->by_rank && !ops->takes_ranks)
        return roco_fail(error, ROCO_UNSUPPORTED, "kv_positions", "kv_positions \"cache\" is not for the backend %s",
                         ops->name);
    return spec->compensate ? check_compensation(engine, spec, error) : ROCO_OK;
}

roco_status roco_cache_open(roco_engine *engine, const roco_cache_spec *spec, const uint32_t *pages, roco_cache **out,
                            roco_error *error)
{
    roco_status status = check_spec(engine, spec, error);
    if (!status)
        status = roco_cache_serves(engine, spec, error);
    if (status)
        return status;
    roco_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for a cache's tables");
    cache->n_heads = count_heads(engine);
    cache->type = engine->info.layout.type;
    for (uint32_t type = 0; type < ROCO_N_KV_TYPES; type++)
        cache->slots[type] = roco_kv_layout_of(&engine->info.layout, (roco_kv_type)type).slots;
    cache->stride = spec->stride ? spec->stride : engine->info.stride;
    cache->n_pages = roco_cache_pages(engine, spec);
    cache->sequence = (roco_kv_sequence){
        .policy = spec->policy, .by_rank = spec->by_rank, .sink = spec->sink, .recent = spec->recent};
    status = deal_pages(engine, spec, pages, cache);
    if (!status && spec->by_rank)
        status = roco_ranks_reach(engine, cache->sequence.most_slots + cache->stride);
    if (status) {
        roco_cache_close(engine, cache);
        return roco_fail(error, status, NULL, "out of memory for a cache's tables");
    }
    *out = cache;
    return ROCO_OK;
}

void roco_cache_close(roco_engine *engine, roco_cache *cache)
{
    if (!cache)
        return;
    engine->backend->ops->memory_close(engine->backend, cache->sequence.heads);
    engine->backend->ops->memory_close(engine->backend, cache->sequence.evicted);
    engine->backend->ops->memory_close(engine->backend, (void *)cache->sequence.pages);
    free(cache->pins);
    free(cache->heads);
    free(cache);
}

roco_status roco_cache_copy(roco_engine *engine, const roco_cache *from, roco_cache *to)
{
    const roco_backend_ops *ops = engine->backend->ops;
    const uint32_t n = from->n_pages;
    const size_t bytes = engine->info.layout.page_bytes;
    ROCO_CHECK(to->length == 0 && to->n_pages == n);
    uint32_t *pages = malloc(2 * (size_t)n * sizeof *pages), *own = pages + n;
    if (!pages)
        return ROCO_NO_MEMORY;
    ops->download(engine->backend, pages, from->sequence.pages, n * sizeof *pages);
    ops->download(engine->backend, own, to->sequence.pages, n * sizeof *pages);
    for (uint32_t i = 0, run; i < n; i += run) {
        run = 1; /* neighbours go together */
        while (i + run < n && pages[i + run] == pages[i] + run && own[i + run] == own[i] + run)
            run++;
        ops->copy(engine->backend, (char *)engine->pool + own[i] * bytes, (const char *)engine->pool + pages[i] * bytes,
                  run * bytes);
    }
    free(pages);
    ops->copy(engine->backend, to->sequence.heads, from->sequence.heads, from->n_heads * sizeof *from->heads);
    to->length = from->length;
    to->n_decoded = from->n_decoded;
    return ROCO_OK;
}

/* The tokens a head holds follow from its budget and those fed, so nothing has to come back from the device. */
static uint32_t held_by(const roco_cache *cache, const roco_kv_head *head)
{
    const uint32_t prompt = cache->length - cache->n_decoded, slots = head->budget - head->compensates;
    const uint32_t most = slots - head->reserved, held = (prompt < most ? prompt : most) + cache->n_decoded;
    return held < slots ? held : slots;
}

void roco_cache_measure(const roco_cache *cache, roco_cache_usage *out)
{
    uint64_t tokens = 0;
    double held = 0; /* in tokens of the pool's type */
    for (uint32_t head = 0; head < cache->n_heads; head++) {
        const uint32_t n = held_by(cache, &cache->heads[head]);
        tokens += n;
        held += (double)(n + cache->heads[head].compensates) * cache->slots[cache->type] /
                cache->slots[cache->heads[head].type];
    }
    *out = (roco_cache_usage){.length = cache->length,
                              .held = (uint32_t)(held / cache->n_heads + 0.5),
                              .slots_evicted = (uint64_t)cache->length * cache->n_heads - tokens};
    out->evicted = (uint32_t)((out->slots_evicted + cache->n_heads / 2) / cache->n_heads);
}

double roco_cache_evicted_mass(const roco_engine *engine, const roco_cache *cache)
{
    const roco_policy *policy = cache->sequence.policy;
    double share = 0;
    bool fetched = false;
    for (uint32_t at = 0; at < cache->n_heads; at++) {
        if (!cache->heads[at].evicts)
            continue;
        if (!policy->needs_statistics && !policy->needs_last && !policy->window)
            return NAN;
        if (!fetched) /* all at once: on a GPU it is the waiting that costs */
            engine->backend->ops->download(engine->backend, engine->head_states, cache->sequence.heads,
                                           cache->n_heads * sizeof *cache->heads);
        fetched = true;
        const roco_kv_head head = engine->head_states[at];
        /* A broken sequence's statistics may be no numbers; it fails, and is still told of. */
        share += head.evicted_mass > 0 ? 1 - 1 / (1 + (double)head.evicted_mass) : 0;
    }
    return share / cache->n_heads;
}

uint32_t roco_cache_positions(const roco_engine *engine, const roco_cache *cache, uint32_t layer, uint32_t head,
                              int32_t *out)
{
    const roco_backend_ops *ops = engine->backend->ops;
    const uint32_t at = layer * engine->info.n_kv_heads + head;
    const roco_kv_layout layout = roco_kv_layout_of(&engine->info.layout, cache->heads[at].type);
    roco_kv_head state;
    ops->download(engine->backend, &state, &cache->sequence.heads[at], sizeof state);
    for (uint32_t slot = 0; slot < state.held; slot += layout.slots) {
        uint32_t page, n = state.held - slot < layout.slots ? state.held - slot : layout.slots;
        ops->download(engine->backend, &page, &cache->sequence.pages[state.first_page + slot / layout.slots],
                      sizeof page);
        const char *positions = (const char *)engine->pool + (size_t)page * layout.page_bytes;
        const uint32_t skipped = state.compensates && slot == 0; /* slot 0 is no token */
        ops->download(engine->backend, out + slot - (state.compensates && !skipped),
                      positions + layout.position_offset + skipped * sizeof *out, (n - skipped) * sizeof *out);
    }
    return state.held - state.compensates;
}

static int ascending(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

void roco_cache_check(const roco_engine *engine, const roco_cache *cache)
{
    int32_t *positions = malloc((cache->length + 1u) * sizeof *positions);
    ROCO_CHECK(positions != NULL);
    for (uint32_t at = 0; at < cache->n_heads; at++) {
        const uint32_t held =
            roco_cache_positions(engine, cache, at / engine->info.n_kv_heads, at % engine->info.n_kv_heads, positions);
        ROCO_CHECK(held == held_by(cache, &cache->heads[at]));
        qsort(positions, held, sizeof *positions, ascending);
        for (uint32_t i = 0; i < held; i++) {
            ROCO_CHECK(positions[i] >= 0 && (uint32_t)positions[i] < cache->length);
            ROCO_CHECK(i == 0 || positions[i] > positions[i - 1]);
        }
    }
    free(positions);
}
