/* Attention on a rig: a CPU backend with nothing but attention, a poisoned pool, and beside every head a replay of the
 * algorithm in double precision on position-ordered lists, written from the definition,
 * not from the kernels. Included by the tests of attention and of the policies; all functions are static.
 */
#ifndef ROCO_TESTS_ATTENTION_RIG_H
#define ROCO_TESTS_ATTENTION_RIG_H

#include "kernels/cpu/cpu.h"
#include "kernels/kv_code.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RIG_LAYERS   2u
#define RIG_MAX_ROWS 600u

typedef enum rig_rule { RIG_FULL, RIG_ROCO, RIG_RECENCY, RIG_LAST /* what the last query paid */ } rig_rule;

typedef struct rig_shape {
    const char *isa;
    uint32_t threads;
    roco_kv_type type;
    bool mixed; /* the heads' types go round f16, q8 and q4, in a pool of `type` */
    uint32_t key_dim, value_dim, n_heads, n_kv_heads, stride, max_slots, n_pages;
    double peak;     /* standard deviation of a score; larger is sharper attention */
    uint32_t window; /* 0: none */
    double softcap;  /* 0: none */
} rig_shape;

typedef struct rig {
    rig_shape shape;
    roco_cpu cpu;
    roco_kv_layout layout;
    unsigned char *pool;
    uint32_t next_page;
    float *q, *k, *v, *out[RIG_LAYERS]; /* [RIG_MAX_ROWS, ...] */
} rig;

/* The replay's head: tokens in position order. */
typedef struct rig_head {
    uint32_t n;
    double *k, *v, *s, *s2;
    int32_t *position;
} rig_head;

typedef struct rig_cache {
    roco_kv_sequence sequence;
    rig_rule rule;
    uint64_t seed; /* of its queries, keys and values */
    uint32_t length, capacity;
    uint32_t *pages;
    rig_head *replay; /* [layers * kv heads] */
} rig_cache;

typedef struct rig_item {
    rig_cache *cache;
    uint32_t n_tokens;
    bool decode;
} rig_item;

static inline uint64_t rig_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Near-normal: the sum of four uniforms, variance 1. */
static inline double rig_normal(uint64_t *state)
{
    double sum = -2;
    for (int i = 0; i < 4; i++)
        sum += (double)(rig_draw(state) >> 40) / 16777216.0;
    return sum * 1.7320508;
}

/* What a head of that type keeps of n components, worked out from the codes' definition. */
static inline void rig_round(roco_kv_type type, const float *in, uint32_t n, double *out)
{
    uint8_t codes[256];
    uint16_t scales[8], leasts[8];
    if (roco_kv_type_is_quantized(type))
        roco_kv_encode(type, in, n, codes, scales, leasts);
    for (uint32_t i = 0; i < n; i++) {
        const double scale = roco_kv_type_is_quantized(type) ? (double)roco_f16_to_f32(scales[i / ROCO_KV_BLOCK]) : 0;
        out[i] = type == ROCO_KV_F32   ? (double)in[i]
                 : type == ROCO_KV_F16 ? (double)roco_f16_to_f32(roco_f16_from_f32(in[i]))
                 : type == ROCO_KV_Q8  ? (int8_t)codes[i] * scale
                                       : codes[i] * scale + (double)roco_f16_to_f32(leasts[i / ROCO_KV_BLOCK]);
    }
}

static inline rig *rig_open(const rig_shape *shape)
{
    rig *r = calloc(1, sizeof *r);
    r->shape = *shape;
    r->layout = roco_kv_layout_make(shape->type, shape->key_dim, shape->value_dim);
    r->cpu.config = (roco_backend_config){.threads = shape->threads,
                                          .max_rows = RIG_MAX_ROWS,
                                          .max_slots = shape->max_slots + shape->stride,
                                          .stride = shape->stride,
                                          .max_group = shape->n_heads / shape->n_kv_heads,
                                          .layout = r->layout};
    assert_int_equal(roco_isa_choose(shape->isa, &r->cpu.isa, NULL), ROCO_OK);
    assert_int_equal(roco_threads_open(shape->threads, &r->cpu.threads, NULL), ROCO_OK);
    assert_int_equal(roco_attention_open(&r->cpu, NULL), ROCO_OK);
    /* All ones: NaN in every type. What was never written must never be used. */
    r->pool = aligned_alloc(64, (size_t)shape->n_pages * r->layout.page_bytes);
    memset(r->pool, 0xff, (size_t)shape->n_pages * r->layout.page_bytes);
    r->q = malloc(sizeof(float) * RIG_MAX_ROWS * shape->n_heads * shape->key_dim);
    r->k = malloc(sizeof(float) * RIG_MAX_ROWS * shape->n_kv_heads * shape->key_dim);
    r->v = malloc(sizeof(float) * RIG_MAX_ROWS * shape->n_kv_heads * shape->value_dim);
    for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
        r->out[layer] = malloc(sizeof(float) * RIG_MAX_ROWS * shape->n_heads * shape->value_dim);
    return r;
}

static inline void rig_close(rig *r)
{
    roco_attention_close(&r->cpu);
    roco_threads_close(r->cpu.threads);
    free(r->pool);
    free(r->q);
    free(r->k);
    free(r->v);
    for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
        free(r->out[layer]);
    free(r);
}

/* budgets [layers * kv heads]; capacity: the most tokens that will be fed. */
static inline rig_cache *rig_cache_open(rig *r, const roco_policy *policy, rig_rule rule, const uint32_t *budgets,
                                        uint32_t capacity, uint64_t seed)
{
    static const roco_kv_type mixed[] = {ROCO_KV_Q8, ROCO_KV_F16, ROCO_KV_Q4};
    uint32_t n_heads = RIG_LAYERS * r->shape.n_kv_heads, n_pages = 0;
    rig_cache *c = calloc(1, sizeof *c);
    c->sequence = (roco_kv_sequence){.policy = policy, .sink = 4, .recent = 10};
    c->sequence.heads = calloc(n_heads, sizeof *c->sequence.heads);
    c->replay = calloc(n_heads, sizeof *c->replay);
    c->rule = rule;
    c->seed = seed;
    c->capacity = capacity;
    for (uint32_t i = 0; i < n_heads; i++) {
        uint32_t budget = rule != RIG_FULL && budgets[i] < capacity ? budgets[i] : capacity;
        budget = r->shape.window > 0 && r->shape.window < budget ? r->shape.window : budget;
        bool evicts = budget < capacity;
        c->sequence.heads[i] =
            (roco_kv_head){.budget = budget, .victim = ROCO_NO_SLOT, .first_page = n_pages, .evicts = evicts};
        c->sequence.heads[i].type = r->shape.mixed ? mixed[i % 3] : r->shape.type;
        const roco_kv_layout layout = roco_kv_layout_of(&r->layout, c->sequence.heads[i].type);
        n_pages += roco_kv_pages_for(&layout, budget);
        c->replay[i].k = malloc(sizeof(double) * capacity * r->shape.key_dim);
        c->replay[i].v = malloc(sizeof(double) * capacity * r->shape.value_dim);
        c->replay[i].s = malloc(sizeof(double) * capacity);
        c->replay[i].s2 = malloc(sizeof(double) * capacity);
        c->replay[i].position = malloc(sizeof(int32_t) * capacity);
    }
    c->pages = malloc(sizeof *c->pages * n_pages);
    for (uint32_t i = 0; i < n_pages; i++) /* scattered over the pool: 7919 is prime */
        c->pages[i] = (uint32_t)((uint64_t)r->next_page++ * 7919 % r->shape.n_pages);
    assert_true(r->next_page <= r->shape.n_pages && r->shape.n_pages % 7919 != 0);
    c->sequence.pages = c->pages;
    return c;
}

static inline void rig_cache_close(rig *r, rig_cache *c)
{
    for (uint32_t i = 0; i < RIG_LAYERS * r->shape.n_kv_heads; i++) {
        free(c->replay[i].k);
        free(c->replay[i].v);
        free(c->replay[i].s);
        free(c->replay[i].s2);
        free(c->replay[i].position);
    }
    free(c->replay);
    free(c->sequence.heads);
    free(c->pages);
    free(c);
}

typedef struct rig_rank {
    double key;
    int32_t position;
    uint32_t index;
} rig_rank;

static inline int rig_by_rank(const void *a, const void *b)
{
    const rig_rank *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* The definition, by two full sorts. gone: n flags. */
static inline void rig_rule_victims(rig_rule rule, uint32_t n, const int32_t *position, const double *s,
                                    const double *s2, uint32_t budget, uint32_t surplus, int32_t now, uint32_t sink,
                                    uint32_t recent, bool *gone)
{
    rig_rank *rank = malloc(n * sizeof *rank);
    uint32_t m = 0, k = n;
    for (uint32_t i = 0; i < n; i++) {
        gone[i] = false;
        if (position[i] < (int32_t)sink || position[i] > now - (int32_t)recent)
            continue;
        double seen = (double)now - position[i] + 1, mean = rule == RIG_ROCO ? s[i] / seen : 0;
        double key = rule == RIG_ROCO   ? sqrt(fmax(s2[i] / seen - mean * mean, 0))
                     : rule == RIG_LAST ? s[i]
                                        : position[i];
        rank[m++] = (rig_rank){key, position[i], i};
    }
    qsort(rank, m, sizeof *rank, rig_by_rank);
    if (rule == RIG_ROCO) {
        int scope = (int)budget - (int)(budget * 0.1) - (int)sink;
        k = scope > (int)surplus ? (uint32_t)scope : surplus;
        k = k < m ? k : m;
        for (uint32_t i = 0; i < k; i++)
            rank[i].key = s[rank[i].index] / ((double)now - rank[i].position + 1);
        qsort(rank, k, sizeof *rank, rig_by_rank);
    }
    for (uint32_t i = 0; i < surplus; i++)
        gone[rank[i].index] = true;
    free(rank);
}

/* The same in a layer with a window: what the row after `now` cannot see goes first, oldest first. Tokens are in
 * position order. */
static inline void rig_victims(rig_rule rule, uint32_t window, uint32_t n, const int32_t *position, const double *s,
                               const double *s2, uint32_t budget, uint32_t surplus, int32_t now, uint32_t sink,
                               uint32_t recent, bool *gone)
{
    uint32_t n_out = 0;
    while (window > 0 && n_out < n && n_out < surplus && position[n_out] + (int32_t)window <= now + 1)
        gone[n_out++] = true;
    if (surplus > n_out)
        rig_rule_victims(rule, n - n_out, position + n_out, s + n_out, s2 + n_out, budget, surplus - n_out, now, sink,
                         recent, gone + n_out);
    else
        memset(gone + n_out, 0, (n - n_out) * sizeof *gone);
}

static inline void rig_drop(const rig *r, rig_head *h, const bool *gone)
{
    uint32_t kept = 0, dk = r->shape.key_dim, dv = r->shape.value_dim;
    for (uint32_t j = 0; j < h->n; j++) {
        if (gone[j])
            continue;
        memmove(h->k + (size_t)kept * dk, h->k + (size_t)j * dk, dk * sizeof(double));
        memmove(h->v + (size_t)kept * dv, h->v + (size_t)j * dv, dv * sizeof(double));
        h->s[kept] = h->s[j], h->s2[kept] = h->s2[j], h->position[kept] = h->position[j];
        kept++;
    }
    h->n = kept;
}

static inline void rig_evict(const rig *r, const rig_cache *c, rig_head *h, uint32_t budget, uint32_t left, int32_t now)
{
    if (h->n <= left)
        return;
    bool *gone = malloc(h->n * sizeof *gone);
    rig_victims(c->rule, r->shape.window, h->n, h->position, h->s, h->s2, budget, h->n - left, now, c->sequence.sink,
                c->sequence.recent, gone);
    rig_drop(r, h, gone);
    free(gone);
}

/* One row over the first n tokens; out [group, value_dim]. Statistics grow, or are the row's own. */
static inline void rig_attend(const rig *r, rig_rule rule, rig_head *h, uint32_t n, const float *q, double *out)
{
    uint32_t dk = r->shape.key_dim, dv = r->shape.value_dim, group = r->shape.n_heads / r->shape.n_kv_heads;
    double *p = malloc(n * sizeof *p), *mean = calloc(n, sizeof *mean);
    for (uint32_t g = 0; g < group; g++) {
        double top = -INFINITY, sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            p[j] = 0;
            for (uint32_t d = 0; d < dk; d++)
                p[j] += (double)q[g * dk + d] * h->k[(size_t)j * dk + d];
            p[j] /= sqrt(dk);
            if (r->shape.softcap > 0)
                p[j] = r->shape.softcap * tanh(p[j] / r->shape.softcap);
            if (r->shape.window > 0 && h->position[j] + (int32_t)r->shape.window <= h->position[n - 1])
                p[j] = -INFINITY;
            top = p[j] > top ? p[j] : top;
        }
        for (uint32_t j = 0; j < n; j++)
            sum += p[j] = exp(p[j] - top);
        for (uint32_t d = 0; d < dv; d++)
            out[g * dv + d] = 0;
        for (uint32_t j = 0; j < n; j++) {
            mean[j] += p[j] / sum / group;
            for (uint32_t d = 0; d < dv; d++)
                out[g * dv + d] += p[j] / sum * h->v[(size_t)j * dv + d];
        }
    }
    for (uint32_t j = 0; j < n; j++) {
        h->s[j] = rule == RIG_LAST ? mean[j] : h->s[j] + mean[j];
        h->s2[j] += mean[j] * mean[j];
    }
    free(p);
    free(mean);
}

/* Queries, keys and values of one row, a function of (sequence, layer, position) alone. */
static inline void rig_fill_row(rig *r, const rig_cache *c, uint32_t layer, uint32_t position, uint32_t row)
{
    const rig_shape *s = &r->shape;
    uint64_t state = c->seed * 1000003 + layer * 500009 + position * 77;
    double query = s->peak; /* scores of unit-variance keys have standard deviation |q| / sqrt(dim) */
    for (uint32_t i = 0; i < s->n_heads * s->key_dim; i++)
        r->q[(size_t)row * s->n_heads * s->key_dim + i] = (float)(query * rig_normal(&state));
    for (uint32_t i = 0; i < s->n_kv_heads * s->key_dim; i++)
        r->k[(size_t)row * s->n_kv_heads * s->key_dim + i] = (float)rig_normal(&state);
    for (uint32_t i = 0; i < s->n_kv_heads * s->value_dim; i++)
        r->v[(size_t)row * s->n_kv_heads * s->value_dim + i] = (float)rig_normal(&state);
}

static inline void rig_replay_append(rig *r, rig_head *h, roco_kv_type type, uint32_t kv_head, uint32_t row,
                                     int32_t position)
{
    uint32_t dk = r->shape.key_dim, dv = r->shape.value_dim, n_kv = r->shape.n_kv_heads;
    rig_round(type, r->k + ((size_t)row * n_kv + kv_head) * dk, dk, h->k + (size_t)h->n * dk);
    rig_round(type, r->v + ((size_t)row * n_kv + kv_head) * dv, dv, h->v + (size_t)h->n * dv);
    h->s[h->n] = h->s2[h->n] = 0;
    h->position[h->n++] = position;
}

/* Replays one chunk of one KV head and compares its output rows. */
static inline void rig_replay(rig *r, const roco_chunk *chunk, rig_cache *c, uint32_t layer, uint32_t kv_head,
                              double tolerance)
{
    const rig_shape *s = &r->shape;
    uint32_t group = s->n_heads / s->n_kv_heads, index = layer * s->n_kv_heads + kv_head;
    uint32_t budget = c->sequence.heads[index].budget;
    rig_head *h = &c->replay[index];
    double *out = malloc(sizeof *out * group * s->value_dim);
    if (chunk->decode)
        rig_evict(r, c, h, budget, budget - 1, chunk->position - 1);
    uint32_t old = h->n;
    for (uint32_t i = 0; i < chunk->n_rows; i++)
        rig_replay_append(r, h, c->sequence.heads[index].type, kv_head, chunk->row + i, chunk->position + (int32_t)i);
    for (uint32_t i = 0; i < chunk->n_rows; i++) {
        size_t row = chunk->row + i;
        rig_attend(r, c->rule, h, old + i + 1, r->q + (row * s->n_heads + kv_head * group) * s->key_dim, out);
        const float *got = r->out[layer] + (row * s->n_heads + kv_head * group) * s->value_dim;
        for (uint32_t d = 0; d < group * s->value_dim; d++)
            if (!(fabs(got[d] - out[d]) <= tolerance))
                fail_msg("layer %u head %u position %d: %.9g, should be %.9g", layer, kv_head,
                         chunk->position + (int32_t)i, (double)got[d], out[d]);
    }
    rig_evict(r, c, h, budget, budget, chunk->position + (int32_t)chunk->n_rows - 1);
    free(out);
}

/* Feeds the items as one batch, strides counted from each sequence's position 0; with tolerance > 0 compares every
 * output row with the replay. */
static inline void rig_step(rig *r, const rig_item *items, uint32_t n_items, double tolerance)
{
    const rig_shape *s = &r->shape;
    roco_chunk chunks[RIG_MAX_ROWS];
    rig_cache *owner[RIG_MAX_ROWS];
    uint32_t n_chunks = 0, n_rows = 0;
    for (uint32_t i = 0; i < n_items; i++)
        for (uint32_t done = 0; done < items[i].n_tokens; done += chunks[n_chunks++].n_rows) {
            uint32_t left = items[i].n_tokens - done, most = items[i].decode ? 1 : s->stride;
            owner[n_chunks] = items[i].cache;
            chunks[n_chunks] = (roco_chunk){.sequence = &items[i].cache->sequence,
                                            .row = n_rows + done,
                                            .n_rows = left < most ? left : most,
                                            .position = (int32_t)(items[i].cache->length + done),
                                            .decode = items[i].decode};
            if (done + chunks[n_chunks].n_rows == items[i].n_tokens)
                n_rows += items[i].n_tokens;
        }
    assert_true(n_rows <= RIG_MAX_ROWS);
    for (uint32_t layer = 0; layer < RIG_LAYERS; layer++) {
        for (uint32_t i = 0; i < n_chunks; i++)
            for (uint32_t j = 0; j < chunks[i].n_rows; j++)
                rig_fill_row(r, owner[i], layer, (uint32_t)chunks[i].position + j, chunks[i].row + j);
        const roco_attention args = {.layer = layer,
                                     .n_heads = s->n_heads,
                                     .n_kv_heads = s->n_kv_heads,
                                     .window = s->window,
                                     .scale = (float)(1 / sqrt(s->key_dim)),
                                     .softcap = (float)s->softcap,
                                     .q = r->q,
                                     .k = r->k,
                                     .v = r->v,
                                     .out = r->out[layer],
                                     .chunks = chunks,
                                     .n_chunks = n_chunks,
                                     .layout = r->layout,
                                     .pool = r->pool};
        roco_cpu_attention(&r->cpu.base, &args);
        for (uint32_t i = 0; i < n_chunks && tolerance > 0; i++)
            for (uint32_t h = 0; h < s->n_kv_heads; h++)
                rig_replay(r, &chunks[i], owner[i], layer, h, tolerance);
    }
    for (uint32_t i = 0; i < n_items; i++)
        items[i].cache->length += items[i].n_tokens;
}

/* Slots dense, the kept positions the replay's, S and S2 close, the next victim the definition's. */
static inline void rig_check(rig *r, const rig_cache *c)
{
    for (uint32_t i = 0; i < RIG_LAYERS * r->shape.n_kv_heads; i++) {
        const roco_kv_head *head = &c->sequence.heads[i];
        const rig_head *h = &c->replay[i];
        assert_int_equal(head->held, h->n);
        assert_true(head->held <= head->budget);
        bool *gone = calloc(h->n, sizeof *gone), *seen = calloc(h->n, sizeof *seen);
        if (head->evicts && head->held == head->budget)
            rig_victims(c->rule, r->shape.window, h->n, h->position, h->s, h->s2, head->budget, 1,
                        (int32_t)c->length - 1, c->sequence.sink, c->sequence.recent, gone);
        else
            assert_int_equal(head->victim, ROCO_NO_SLOT);
        for (uint32_t slot = 0; slot < head->held; slot++) {
            const roco_kv_layout l = roco_kv_layout_of(&r->layout, head->type);
            unsigned char *page = roco_kv_page(&l, r->pool, c->pages[head->first_page + slot / l.slots]);
            uint32_t in_page = slot % l.slots, j = 0;
            int32_t position = roco_kv_positions(&l, page)[in_page];
            while (j < h->n && h->position[j] != position)
                j++;
            if (j == h->n)
                fail_msg("head %u holds position %d, which the replay evicted", i, position);
            assert_false(seen[j]);
            seen[j] = true;
            assert_int_equal(head->evicts && slot == head->victim, gone[j]);
            bool whole = head->budget == r->shape.window && head->reserved == 0; /* keeps no statistics */
            if (!head->evicts || whole || (c->rule != RIG_ROCO && c->rule != RIG_LAST))
                continue;
            double s = roco_kv_sums(&l, page)[in_page], s2 = roco_kv_sums_sq(&l, page)[in_page];
            assert_true(fabs(s - h->s[j]) <= 1e-5 * h->s[j] + 1e-7);
            assert_true(c->rule == RIG_LAST || fabs(s2 - h->s2[j]) <= 2e-5 * h->s2[j] + 1e-7);
        }
        free(gone);
        free(seen);
    }
}

/* The rules as policies that ask the definition itself, for tests of attention alone. */
static inline void rig_select(rig_rule rule, const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    double *s = malloc(view->n * sizeof *s), *s2 = malloc(view->n * sizeof *s2);
    bool *gone = malloc(view->n * sizeof *gone);
    for (uint32_t j = 0; j < view->n && rule == RIG_ROCO; j++)
        s[j] = view->sum[j], s2[j] = view->sum_sq[j];
    rig_rule_victims(rule, view->n, view->position, s, s2, view->budget, surplus, view->now, view->sink, view->recent,
                     gone);
    for (uint32_t j = 0; j < view->n; j++)
        if (gone[j])
            *victims++ = j;
    free(s);
    free(s2);
    free(gone);
}

static inline void rig_select_roco(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    rig_select(RIG_ROCO, view, surplus, victims);
}

static inline void rig_select_recency(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    assert_null(view->sum);
    rig_select(RIG_RECENCY, view, surplus, victims);
}

static const roco_policy rig_policies[] = {
    [RIG_FULL] = {.name = "full"},
    [RIG_ROCO] = {.name = "roco", .evicts = true, .needs_statistics = true, .select = rig_select_roco},
    [RIG_RECENCY] = {.name = "recency", .evicts = true, .select = rig_select_recency},
};

#endif
