/* Attention, statistics and eviction: the CUDA backend beside the CPU one on the same sequences, layer by layer. Rows
 * agree by a tolerance, S and S2 too; what is held, where, and who goes next are equal. */
#include "support_cuda.h"
#include "support_tensor.h"

#include "engine/policies.h"
#include "kernels/kv_code.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LAYERS    2u
#define MOST      160u /* rows of a step */
#define MOST_SEQ  4u
#define MOST_RANK 128u

typedef struct shape {
    roco_kv_type type, other; /* of the pool; of every second head */
    uint32_t n_heads, n_kv_heads, key_dim, value_dim, stride, window;
    float peak, softcap;
    uint32_t rank_dim; /* > 0: sequences by rank, which turn so many components */
    bool halves;
} shape;

typedef struct sequence {
    roco_kv_sequence cpu, cuda;
    uint32_t length, n_pages;
    uint32_t *pages;
    roco_kv_head *heads;
} sequence;

typedef struct world {
    shape s;
    roco_backend *cpu, *cuda;
    roco_kv_layout layout;
    unsigned char *cpu_pool, *cuda_pool;
    unsigned char *copy; /* of the device's pool */
    float *rotations;    /* [2][MOST_RANK, rank_dim / 2]: cosines, sines */
    float *cuda_rotations;
    uint32_t n_pages, next_page;
    support_random random;
    sequence sequences[MOST_SEQ];
    uint32_t n_sequences;
} world;

static void open_rotations(world *w)
{
    const uint32_t half = w->s.rank_dim / 2, n = MOST_RANK * half;
    w->rotations = malloc(2 * n * sizeof *w->rotations + 1);
    for (uint32_t i = 0; i < n; i++) {
        const double angle = i / half * pow(100, -(double)(i % half) / half);
        w->rotations[i] = (float)cos(angle);
        w->rotations[n + i] = (float)sin(angle);
    }
    w->cuda_rotations = support_cuda_put(w->cuda, w->rotations, 2 * n);
}

static roco_rank_rope rope_of(const world *w, const float *rotations)
{
    return (roco_rank_rope){.cosines = rotations,
                            .sines = rotations + MOST_RANK * (w->s.rank_dim / 2),
                            .dim = w->s.rank_dim,
                            .halves = w->s.halves};
}

static world *open_world(const shape *s, uint32_t n_pages)
{
    world *w = calloc(1, sizeof *w);
    w->s = *s;
    w->layout = roco_kv_layout_make(s->type, s->key_dim, s->value_dim);
    w->n_pages = n_pages;
    w->random.state = 17 + s->key_dim + s->n_heads;
    roco_backend_config config = {.threads = 1,
                                  .max_rows = MOST,
                                  .max_width = s->n_heads * 256,
                                  .max_slots = 256 + s->stride,
                                  .stride = s->stride,
                                  .max_group = s->n_heads / s->n_kv_heads,
                                  .max_kv_heads = s->n_kv_heads,
                                  .layout = w->layout,
                                  .isa = "portable"};
    assert_int_equal(roco_backend_open("cpu", &config, &w->cpu, NULL), ROCO_OK);
    w->cuda = support_cuda_open(&config);
    w->cpu_pool = w->cpu->ops->memory_open(w->cpu, (size_t)n_pages * w->layout.page_bytes);
    w->cuda_pool = w->cuda->ops->memory_open(w->cuda, (size_t)n_pages * w->layout.page_bytes);
    /* All ones: NaN in every type. What was never written must never be used. */
    memset(w->cpu_pool, 0xff, (size_t)n_pages * w->layout.page_bytes);
    w->cuda->ops->upload(w->cuda, w->cuda_pool, w->cpu_pool, (size_t)n_pages * w->layout.page_bytes);
    w->copy = malloc((size_t)n_pages * w->layout.page_bytes);
    open_rotations(w);
    return w;
}

static void close_world(world *w)
{
    for (uint32_t i = 0; i < w->n_sequences; i++) {
        sequence *s = &w->sequences[i];
        w->cuda->ops->memory_close(w->cuda, s->cuda.heads);
        w->cuda->ops->memory_close(w->cuda, (void *)s->cuda.pages);
        free(s->heads);
        free(s->pages);
    }
    w->cpu->ops->memory_close(w->cpu, w->cpu_pool);
    w->cuda->ops->memory_close(w->cuda, w->cuda_pool);
    w->cuda->ops->memory_close(w->cuda, w->cuda_rotations);
    w->cpu->ops->close(w->cpu);
    w->cuda->ops->close(w->cuda);
    free(w->copy);
    free(w->rotations);
    free(w);
}

/* Budgets differ by head: budget, + 5, + 10. A head whose budget reaches `length` is plain. `reserved` slots of the
 * others are the answer's. */
static sequence *add_sequence(world *w, const char *policy, uint32_t budget, uint32_t reserved, uint32_t length,
                              const roco_pin *pins, uint32_t n_pins)
{
    const shape *s = &w->s;
    sequence *q = &w->sequences[w->n_sequences++];
    const uint32_t n_heads = LAYERS * s->n_kv_heads;
    q->cpu =
        (roco_kv_sequence){.policy = roco_policy_find(policy), .sink = 4, .recent = 6, .pins = pins, .n_pins = n_pins};
    q->cpu.by_rank = s->rank_dim > 0;
    assert_non_null(q->cpu.policy);
    assert_true(w->cuda->ops->knows_policy(w->cuda, q->cpu.policy));
    q->heads = calloc(n_heads, sizeof *q->heads);
    q->pages = calloc(w->n_pages, sizeof *q->pages);
    for (uint32_t i = 0; i < n_heads; i++) {
        uint32_t slots = q->cpu.policy->evicts ? budget + i % 3 * 5 + reserved : length;
        slots = slots < length ? slots : length;
        slots = s->window > 0 && s->window < slots ? s->window : slots;
        q->heads[i] = (roco_kv_head){.budget = slots,
                                     .reserved = slots < length && slots > reserved + 12 ? reserved : 0,
                                     .victim = ROCO_NO_SLOT,
                                     .first_page = q->n_pages,
                                     .evicts = slots < length,
                                     .type = i % 2 ? s->other : s->type};
        const roco_kv_layout own = roco_kv_layout_of(&w->layout, q->heads[i].type);
        q->cpu.most_slots = slots > q->cpu.most_slots ? slots : q->cpu.most_slots;
        for (uint32_t n = roco_kv_pages_for(&own, slots); n > 0; n--) /* scattered: 37 and the count share no factor */
            q->pages[q->n_pages++] = w->next_page++ * 37 % w->n_pages;
    }
    assert_true(w->next_page <= w->n_pages && w->n_pages % 37 != 0);
    q->cuda = q->cpu;
    q->cpu.heads = q->heads;
    q->cpu.pages = q->pages;
    q->cuda.heads = w->cuda->ops->memory_open(w->cuda, n_heads * sizeof *q->heads);
    uint32_t *pages = w->cuda->ops->memory_open(w->cuda, q->n_pages * sizeof *pages);
    w->cuda->ops->upload(w->cuda, q->cuda.heads, q->heads, n_heads * sizeof *q->heads);
    w->cuda->ops->upload(w->cuda, pages, q->pages, q->n_pages * sizeof *pages);
    q->cuda.pages = pages;
    return q;
}

typedef struct item {
    sequence *sequence;
    uint32_t n_tokens;
    bool decode;
} item;

static uint32_t cut_items(const world *w, const item *items, uint32_t n_items, roco_chunk *cpu, roco_chunk *cuda,
                          uint32_t *n_rows)
{
    uint32_t n = 0;
    *n_rows = 0;
    for (uint32_t i = 0; i < n_items; i++)
        for (uint32_t done = 0; done < items[i].n_tokens;) {
            const uint32_t left = items[i].n_tokens - done, rows = left < w->s.stride ? left : w->s.stride;
            cpu[n] = (roco_chunk){.sequence = &items[i].sequence->cpu,
                                  .row = *n_rows,
                                  .n_rows = rows,
                                  .position = (int32_t)(items[i].sequence->length + done),
                                  .decode = items[i].decode};
            cuda[n] = cpu[n];
            cuda[n++].sequence = &items[i].sequence->cuda;
            done += rows;
            *n_rows += rows;
        }
    assert_true(*n_rows <= MOST);
    return n;
}

static float *random_rows(world *w, size_t n, float scale)
{
    float *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) /* near-normal: heavy enough that some keys stand out */
        out[i] = scale * (support_random_float(&w->random) + support_random_float(&w->random) +
                          support_random_float(&w->random));
    return out;
}

static void compare_head(const world *w, const sequence *q, uint32_t index, const char *what)
{
    roco_kv_head h;
    const roco_kv_head *expected = &q->heads[index];
    w->cuda->ops->download(w->cuda, &h, &q->cuda.heads[index], sizeof h);
    if (h.held != expected->held || h.victim != expected->victim)
        fail_msg("%s, head %u: holds %u, next %u; the CPU's holds %u, next %u", what, index, h.held, h.victim,
                 expected->held, expected->victim);
    assert_true(fabsf(h.victim_mass - expected->victim_mass) <= 1e-5f);
    assert_true(fabsf(h.evicted_mass - expected->evicted_mass) <= 1e-4f * (1 + expected->evicted_mass));
    const roco_policy *policy = q->cpu.policy;
    const bool whole = h.budget == w->s.window && h.reserved == 0;
    const bool kept = h.evicts && !whole && (policy->needs_statistics || policy->needs_last || policy->window > 0);
    const roco_kv_layout l = roco_kv_layout_of(&w->layout, h.type);
    for (uint32_t slot = 0; slot < h.held; slot++) {
        const size_t at = (size_t)q->pages[h.first_page + slot / l.slots] * l.page_bytes;
        unsigned char *a = w->copy + at, *b = w->cpu_pool + at;
        const uint32_t i = slot % l.slots;
        if (roco_kv_positions(&l, a)[i] != roco_kv_positions(&l, b)[i])
            fail_msg("%s, head %u: slot %u holds position %d, the CPU's %d", what, index, slot,
                     roco_kv_positions(&l, a)[i], roco_kv_positions(&l, b)[i]);
        for (uint32_t d = 0; d < l.key_dim; d++)
            assert_true(roco_kv_key(&l, a, i, d) == roco_kv_key(&l, b, i, d));
        for (uint32_t d = 0; d < l.value_dim; d++)
            assert_true(roco_kv_value(&l, a, i, d) == roco_kv_value(&l, b, i, d));
        const float s = roco_kv_sums(&l, a)[i], s2 = roco_kv_sums_sq(&l, a)[i];
        if (kept && !(fabsf(s - roco_kv_sums(&l, b)[i]) <= 1e-5f * s + 1e-7f))
            fail_msg("%s, head %u: slot %u has S %g, the CPU's %g", what, index, slot, (double)s,
                     (double)roco_kv_sums(&l, b)[i]);
        if (kept && !policy->needs_last && !(fabsf(s2 - roco_kv_sums_sq(&l, b)[i]) <= 2e-5f * s2 + 1e-7f))
            fail_msg("%s, head %u: slot %u has S2 %g, the CPU's %g", what, index, slot, (double)s2,
                     (double)roco_kv_sums_sq(&l, b)[i]);
    }
}

static void step_layer(world *w, uint32_t layer, const roco_chunk *cpu, const roco_chunk *cuda, uint32_t n_chunks,
                       uint32_t n_rows, const char *what)
{
    const shape *s = &w->s;
    const size_t nq = (size_t)n_rows * s->n_heads * s->key_dim, nk = (size_t)n_rows * s->n_kv_heads * s->key_dim;
    const size_t nv = (size_t)n_rows * s->n_kv_heads * s->value_dim, no = (size_t)n_rows * s->n_heads * s->value_dim;
    float *q = random_rows(w, nq, s->peak), *k = random_rows(w, nk, 1), *v = random_rows(w, nv, 1);
    float *out = malloc(no * sizeof *out);
    float *dq = support_cuda_put(w->cuda, q, nq), *dk = support_cuda_put(w->cuda, k, nk);
    float *dv = support_cuda_put(w->cuda, v, nv), *dout = support_cuda_put(w->cuda, NULL, no);
    roco_attention args = {.layer = layer,
                           .n_heads = s->n_heads,
                           .n_kv_heads = s->n_kv_heads,
                           .window = s->window,
                           .scale = 1 / sqrtf((float)s->key_dim),
                           .softcap = s->softcap,
                           .q = q,
                           .k = k,
                           .v = v,
                           .out = out,
                           .chunks = cpu,
                           .n_chunks = n_chunks,
                           .rank_rope = rope_of(w, w->rotations),
                           .layout = w->layout,
                           .pool = w->cpu_pool};
    w->cpu->ops->attention(w->cpu, &args);
    args.q = dq, args.k = dk, args.v = dv, args.out = dout, args.chunks = cuda, args.pool = w->cuda_pool;
    args.rank_rope = rope_of(w, w->cuda_rotations);
    w->cuda->ops->attention(w->cuda, &args);
    float *got = support_cuda_take(w->cuda, dout, no);
    const double distance = (double)support_distance(got, out, no);
    if (!(distance <= 2e-5))
        fail_msg("%s: rows differ by %g", what, distance);
    w->cuda->ops->memory_close(w->cuda, dq);
    w->cuda->ops->memory_close(w->cuda, dk);
    w->cuda->ops->memory_close(w->cuda, dv);
    free(q);
    free(k);
    free(v);
    free(out);
    free(got);
}

static void step(world *w, const item *items, uint32_t n_items, const char *what)
{
    roco_chunk cpu[MOST], cuda[MOST];
    uint32_t n_rows;
    const uint32_t n_chunks = cut_items(w, items, n_items, cpu, cuda, &n_rows);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        step_layer(w, layer, cpu, cuda, n_chunks, n_rows, what);
    w->cuda->ops->download(w->cuda, w->copy, w->cuda_pool, (size_t)w->n_pages * w->layout.page_bytes);
    for (uint32_t i = 0; i < n_items; i++) {
        items[i].sequence->length += items[i].n_tokens;
        for (uint32_t h = 0; h < LAYERS * w->s.n_kv_heads; h++)
            compare_head(w, items[i].sequence, h, what);
    }
    support_cuda_count(1);
}

/* Three sequences: strides then decode, one joining later, one that decodes from its first token. */
static void run_mixed(const shape *s, const char *policy, uint32_t budget, uint32_t reserved, const roco_pin *pins,
                      uint32_t n_pins, uint32_t n_decoded)
{
    char what[160];
    if (!support_cuda_next())
        return;
    snprintf(what, sizeof what, "%s, budget %u + %u, %u heads of %u, %ux%u, types %d %d, window %u, by rank %u", policy,
             budget, reserved, s->n_heads, s->n_kv_heads, s->key_dim, s->value_dim, (int)s->type, (int)s->other,
             s->window, s->rank_dim);
    world *w = open_world(s, 150);
    sequence *a = add_sequence(w, policy, budget, reserved, 100, pins, n_pins);
    sequence *b = add_sequence(w, policy, budget + 3, reserved, 90, NULL, 0);
    sequence *c = add_sequence(w, policy, budget, 0, 80, NULL, 0);
    step(w, (item[]){{a, 48, false}, {c, 1, true}}, 2, what);
    step(w, (item[]){{c, 1, true}, {a, 13, false}, {b, 16, false}}, 3, what);
    step(w, (item[]){{a, 1, true}, {c, 1, true}, {b, 17, false}}, 3, what);
    for (uint32_t i = 0; i < n_decoded; i++)
        step(w, (item[]){{a, 1, true}, {b, 1, true}, {c, 1, true}}, 3, what);
    close_world(w);
}

static shape plain_shape(uint32_t n_heads, uint32_t n_kv_heads, uint32_t dim)
{
    return (shape){
        .n_heads = n_heads, .n_kv_heads = n_kv_heads, .key_dim = dim, .value_dim = dim, .stride = 16, .peak = 2};
}

#define EACH(name, of) for (uint32_t name = 0; name < sizeof(of) / sizeof(of)[0]; name++)
#define EACH_POLICY(p) for (const roco_policy *const *p = roco_policies(); *p; p++)

static void test_policies(void **state)
{
    static const uint32_t budgets[] = {15, 31, 40};
    EACH_POLICY(p)
    EACH(b, budgets)
    {
        const shape s = plain_shape(6, 2, 16);
        run_mixed(&s, (*p)->name, budgets[b], b == 1 ? 5 : 0, NULL, 0, 4);
    }
}

/* What policies read of keys and values, of every type, with a window and in a page's midst. */
static void test_policies_over_vectors(void **state)
{
    static const uint32_t windows[] = {0, 40};
    static const uint32_t dims[][2] = {{6, 10}, {80, 48}};
    EACH_POLICY(p)
    if ((*p)->needs_keys || (*p)->needs_values || (*p)->window > 0)
        for (uint32_t type = 0; type < ROCO_N_KV_TYPES; type++)
            EACH(w, windows)
            {
                shape s = plain_shape(3, 1, 16);
                s.key_dim = dims[type % 2][0], s.value_dim = dims[type % 2][1];
                s.type = type == ROCO_KV_F32 ? ROCO_KV_F32 : ROCO_KV_F16;
                s.other = (roco_kv_type)type;
                s.window = windows[w];
                run_mixed(&s, (*p)->name, 33, 0, NULL, 0, 3);
            }
}

/* Positions are ranks in the cache. */
static void test_ranks(void **state)
{
    static const uint32_t dims[][2] = {{16, 16}, {16, 10}, {66, 64}};
    EACH_POLICY(p)
    EACH(d, dims)
    {
        shape s = plain_shape(6, 2, dims[d][0]);
        s.rank_dim = dims[d][1];
        s.halves = d != 1;
        s.other = d == 1 ? ROCO_KV_Q8 : ROCO_KV_F16;
        s.window = d == 1 ? 40 : 0;
        run_mixed(&s, (*p)->name, 33 - d, 0, NULL, 0, 3);
    }
}

static void test_heads(void **state)
{
    static const uint32_t heads[][2] = {{1, 1}, {2, 2}, {4, 1}, {5, 1}, {8, 1}, {11, 1}, {6, 3}};
    EACH(h, heads)
    {
        const shape s = plain_shape(heads[h][0], heads[h][1], 16);
        run_mixed(&s, "roco", 32, 0, NULL, 0, 2);
        run_mixed(&s, "full", 0, 0, NULL, 0, 1);
    }
}

static void test_dimensions(void **state)
{
    static const uint32_t dims[][2] = {{2, 6},    {8, 8},    {16, 24}, {64, 64},  {80, 80},
                                       {128, 64}, {64, 128}, {96, 10}, {256, 256}};
    EACH(d, dims)
    {
        shape s = plain_shape(3, 1, 16);
        s.key_dim = dims[d][0], s.value_dim = dims[d][1];
        run_mixed(&s, "roco", 33, 0, NULL, 0, 2);
    }
}

static void test_types(void **state)
{
    static const roco_kv_type types[][2] = {{ROCO_KV_F32, ROCO_KV_F32},
                                            {ROCO_KV_F16, ROCO_KV_Q8},
                                            {ROCO_KV_F16, ROCO_KV_Q4},
                                            {ROCO_KV_Q8, ROCO_KV_Q4},
                                            {ROCO_KV_Q4, ROCO_KV_F16}};
    static const uint32_t dims[] = {16, 80};
    EACH(t, types)
    EACH(d, dims)
    {
        shape s = plain_shape(4, 2, dims[d]);
        s.type = types[t][0], s.other = types[t][1];
        run_mixed(&s, "roco", 31, 0, NULL, 0, 2);
        run_mixed(&s, "full", 0, 0, NULL, 0, 1);
    }
}

static void test_windows(void **state)
{
    static const uint32_t windows[] = {5, 16, 31, 40, 101};
    EACH(w, windows)
    {
        shape s = plain_shape(4, 2, 16);
        s.window = windows[w];
        run_mixed(&s, "roco", 20, 0, NULL, 0, 4);
        run_mixed(&s, "recency", 33, 0, NULL, 0, 2);
        run_mixed(&s, "full", 0, 0, NULL, 0, 2);
    }
}

static void test_softcap_and_pins(void **state)
{
    static const roco_pin pins[] = {{9, 12}, {20, 23}};
    shape s = plain_shape(4, 2, 16);
    EACH_POLICY(p)
    run_mixed(&s, (*p)->name, 33, 0, pins, 2, 2);
    s.softcap = 2;
    s.peak = 6;
    run_mixed(&s, "roco", 33, 0, NULL, 0, 3);
    run_mixed(&s, "full", 0, 0, NULL, 0, 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),   cmocka_unit_test(test_policies_over_vectors),
        cmocka_unit_test(test_ranks),      cmocka_unit_test(test_heads),
        cmocka_unit_test(test_dimensions), cmocka_unit_test(test_types),
        cmocka_unit_test(test_windows),    cmocka_unit_test(test_softcap_and_pins),
    };
    support_cuda_start(argc, argv);
    return support_cuda_end(cmocka_run_group_tests(tests, NULL, NULL));
}
