/* Attention against a replay in double precision: outputs, kept positions, statistics, next victims; and that neither
 * chunking, company, threads nor instruction set change what they must not. */
#include "tests/unit/kernels/attention_rig.h"

static const char *const all_isas[] = {"portable", "avx2", "avx512"};
#define N_ISAS 3u

static bool has_isa(const char *name)
{
    roco_isa isa;
    return roco_isa_choose(name, &isa, NULL) == ROCO_OK;
}

static rig_shape shape_of(const char *isa, uint32_t n_heads, uint32_t n_kv_heads, roco_kv_type type)
{
    return (rig_shape){.isa = isa,
                       .threads = 2,
                       .type = type,
                       .key_dim = 16,
                       .value_dim = 16,
                       .n_heads = n_heads,
                       .n_kv_heads = n_kv_heads,
                       .stride = 16,
                       .max_slots = 200,
                       .n_pages = 200,
                       .peak = 1.5};
}

/* Three sequences with budgets unequal by head: one in strides and then decoding, one joining later,
 * one decoding from its first token. */
static void run_mixed(rig *r, rig_rule rule, uint32_t budget, uint32_t n_decoded)
{
    uint32_t budgets[3][16];
    rig_cache *c[3];
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t h = 0; h < RIG_LAYERS * r->shape.n_kv_heads; h++)
            budgets[i][h] = budget + (i + h) % 3 * 5;
        c[i] = rig_cache_open(r, &rig_policies[rule], rule, budgets[i], 140, i + 1);
    }
    rig_step(r, (rig_item[]){{c[0], 48, false}, {c[2], 1, true}}, 2, 2e-5);
    rig_step(r, (rig_item[]){{c[2], 1, true}, {c[0], 29, false}, {c[1], 16, false}}, 3, 2e-5);
    for (uint32_t i = 0; i < 3; i++)
        rig_check(r, c[i]);
    rig_step(r, (rig_item[]){{c[0], 1, true}, {c[2], 1, true}, {c[1], 41, false}}, 3, 2e-5);
    for (uint32_t n = 0; n < n_decoded; n++) {
        rig_step(r, (rig_item[]){{c[0], 1, true}, {c[1], 1, true}, {c[2], 1, true}}, 3, 2e-5);
        for (uint32_t i = 0; i < 3 && n % 8 == 0; i++)
            rig_check(r, c[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        rig_check(r, c[i]);
        rig_cache_close(r, c[i]);
    }
    r->next_page = 0;
}

static void test_against_replay(void **state)
{
    static const uint32_t budgets[] = {15, 31, 32, 33, 64, 140}; /* smallest, about a page, two pages, unbounded */
    static const uint32_t heads[][2] = {{2, 2}, {6, 2}, {5, 1}};
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!has_isa(all_isas[i]))
            continue;
        for (uint32_t h = 0; h < 3; h++)
            for (int type = ROCO_KV_F16; type <= (h == 1 ? ROCO_KV_Q4 : ROCO_KV_F16); type++) {
                rig_shape shape = shape_of(all_isas[i], heads[h][0], heads[h][1], (roco_kv_type)type);
                rig *r = rig_open(&shape);
                run_mixed(r, RIG_FULL, 0, 40);
                for (int rule = RIG_ROCO; rule <= RIG_RECENCY; rule++)
                    for (uint32_t b = 0; b < sizeof budgets / sizeof *budgets; b++)
                        run_mixed(r, (rig_rule)rule, budgets[b], 40);
                rig_close(r);
            }
    }
}

static void test_dimensions(void **state)
{
    static const uint32_t dims[][2] = {{8, 8}, {2, 6}, {16, 24}, {64, 64}, {80, 80}, {128, 64}, {64, 128}, {96, 10}};
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!has_isa(all_isas[i]))
            continue;
        for (uint32_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (int type = ROCO_KV_F16; type <= ROCO_KV_Q4; type++) {
                /* 7 query heads a group: tiles of every height occur. */
                rig_shape shape = shape_of(all_isas[i], 7, 1, (roco_kv_type)type);
                shape.key_dim = dims[d][0], shape.value_dim = dims[d][1];
                rig *r = rig_open(&shape);
                run_mixed(r, RIG_ROCO, 33, 3);
                run_mixed(r, RIG_FULL, 0, 3);
                rig_close(r);
            }
    }
}

/* Windows of less than a stride, about a page, about the budgets and more than the sequence. */
static void test_windows(void **state)
{
    static const uint32_t windows[] = {1, 5, 16, 31, 32, 40, 64, 141}, budgets[] = {15, 33, 64, 140};
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!has_isa(all_isas[i]))
            continue;
        for (uint32_t w = 0; w < sizeof windows / sizeof *windows; w++) {
            rig_shape shape = shape_of(all_isas[i], 6, 2, w % 2 ? ROCO_KV_F16 : ROCO_KV_F32);
            shape.window = windows[w];
            rig *r = rig_open(&shape);
            run_mixed(r, RIG_FULL, 0, 40);
            for (int rule = RIG_ROCO; rule <= RIG_RECENCY; rule++)
                for (uint32_t b = 0; b < sizeof budgets / sizeof *budgets; b++)
                    run_mixed(r, (rig_rule)rule, budgets[b], 40);
            rig_close(r);
        }
    }
}

/* Heads of all types in one pool. */
static void test_mixed_types(void **state)
{
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!has_isa(all_isas[i]))
            continue;
        for (uint32_t window = 0; window <= 40; window += 40) {
            rig_shape shape = shape_of(all_isas[i], 9, 3, ROCO_KV_F16);
            shape.mixed = true;
            shape.key_dim = shape.value_dim = 64;
            shape.window = window;
            rig *r = rig_open(&shape);
            run_mixed(r, RIG_FULL, 0, 20);
            run_mixed(r, RIG_ROCO, 33, 40);
            run_mixed(r, RIG_RECENCY, 60, 40);
            rig_close(r);
        }
    }
}

static void test_softcap(void **state)
{
    rig_shape shape = shape_of("auto", 6, 2, ROCO_KV_F32);
    shape.softcap = 2;
    shape.peak = 4;
    rig *r = rig_open(&shape);
    run_mixed(r, RIG_FULL, 0, 20);
    run_mixed(r, RIG_ROCO, 33, 20);
    rig_close(r);
}

/* More query heads in a group than a block has rows. */
static void test_large_group(void **state)
{
    rig_shape shape = shape_of("auto", 32, 1, ROCO_KV_F16);
    rig *r = rig_open(&shape);
    run_mixed(r, RIG_ROCO, 32, 10);
    rig_close(r);
}

/* Outputs of one sequence, fed in pieces of `piece` tokens (0: decoded one by one) beside n_others, by `threads`.
 * out [layers, n_tokens, n_heads * value_dim]. */
static void run_alone(const rig_shape *shape, rig_rule rule, uint32_t budget, uint32_t piece, uint32_t n_others,
                      uint32_t n_tokens, float *out)
{
    rig *r = rig_open(shape);
    uint32_t budgets[16], width = shape->n_heads * shape->value_dim;
    rig_cache *c[5];
    for (uint32_t h = 0; h < RIG_LAYERS * shape->n_kv_heads; h++)
        budgets[h] = budget;
    for (uint32_t i = 0; i <= n_others; i++)
        c[i] = rig_cache_open(r, &rig_policies[rule], rule, budgets, n_tokens, 7 + i);
    for (uint32_t done = 0; done < n_tokens;) {
        rig_item items[5];
        uint32_t n = piece == 0 ? 1 : n_tokens - done < piece ? n_tokens - done : piece, row = 0;
        for (uint32_t i = 0; i <= n_others; i++) /* ours comes last or first by turns */
            items[done % 2 ? i : n_others - i] = (rig_item){c[i], n, piece == 0};
        row = done % 2 ? 0 : n * n_others;
        rig_step(r, items, n_others + 1, 0);
        for (uint32_t layer = 0; layer < RIG_LAYERS; layer++)
            memcpy(out + ((size_t)layer * n_tokens + done) * width, r->out[layer] + (size_t)row * width,
                   sizeof *out * n * width);
        done += n;
    }
    for (uint32_t i = 0; i <= n_others; i++)
        rig_cache_close(r, c[i]);
    rig_close(r);
}

static void test_bits(void **state)
{
    enum { TOKENS = 147 };
    static const uint32_t threads[] = {1, 2, 5}, company[] = {3, 0, 3};
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!has_isa(all_isas[i]))
            continue;
        rig_shape shape = shape_of(all_isas[i], 6, 2, ROCO_KV_F16);
        shape.n_pages = 500;
        shape.key_dim = shape.value_dim = 24;
        size_t bytes = sizeof(float) * RIG_LAYERS * TOKENS * shape.n_heads * shape.value_dim;
        float *first = malloc(bytes), *other = malloc(bytes);
        /* FULL, ROCO, and both again with heads of all types; plain C is slow at those. */
        for (uint32_t pass = 0; pass < (i > 0 ? 4u : 2u); pass++) {
            const int rule = pass % 2 ? RIG_ROCO : RIG_FULL;
            shape.mixed = pass >= 2;
            shape.threads = 1;
            run_alone(&shape, (rig_rule)rule, 48, 16, 0, TOKENS, first);
            for (uint32_t t = 0; t < 3; t++) {
                uint32_t n = company[t];
                shape.threads = threads[t];
                /* An evicting head's strides are part of the request; how many one step carries is not. */
                run_alone(&shape, (rig_rule)rule, 48, 16, n, TOKENS, other);
                assert_memory_equal(first, other, bytes);
                run_alone(&shape, (rig_rule)rule, 48, 64, n, TOKENS, other);
                assert_memory_equal(first, other, bytes);
                if (rule != RIG_FULL)
                    continue;
                run_alone(&shape, RIG_FULL, 0, 0, n, TOKENS, other);
                assert_memory_equal(first, other, bytes);
                run_alone(&shape, RIG_FULL, 0, 7, n, TOKENS, other);
                assert_memory_equal(first, other, bytes);
                run_alone(&shape, RIG_ROCO, TOKENS, 16, n, TOKENS, other); /* a budget never reached */
                assert_memory_equal(first, other, bytes);
            }
        }
        free(first);
        free(other);
    }
}

/* A value beyond f16's range stays finite, so earlier tokens of its stride, which weigh it 0, are not harmed. */
static void test_f16_range(void **state)
{
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!has_isa(all_isas[i]))
            continue;
        rig_shape shape = shape_of(all_isas[i], 1, 1, ROCO_KV_F16);
        rig *r = rig_open(&shape);
        rig_cache *c = rig_cache_open(r, &rig_policies[RIG_FULL], RIG_FULL, NULL, 8, 3);
        for (uint32_t j = 0; j < 8; j++)
            rig_fill_row(r, c, 0, j, j);
        r->v[7 * 16 + 3] = 1e6f;
        r->v[7 * 16 + 4] = -INFINITY;
        r->v[7 * 16 + 5] = NAN;
        const roco_chunk chunk = {.sequence = &c->sequence, .n_rows = 8};
        const roco_attention args = {.n_heads = 1,
                                     .n_kv_heads = 1,
                                     .scale = 0.25f,
                                     .q = r->q,
                                     .k = r->k,
                                     .v = r->v,
                                     .out = r->out[0],
                                     .chunks = &chunk,
                                     .n_chunks = 1,
                                     .layout = r->layout,
                                     .pool = r->pool};
        roco_cpu_attention(&r->cpu.base, &args);
        assert_true(fabsf(r->out[0][6 * 16 + 3]) < 10 && fabsf(r->out[0][6 * 16 + 4]) < 10);
        assert_true(isfinite(r->out[0][7 * 16 + 3]) && isfinite(r->out[0][7 * 16 + 4]));
        assert_true(isnan(r->out[0][7 * 16 + 5])); /* a fault must not be hidden */
        rig_cache_close(r, c);
        rig_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_replay), cmocka_unit_test(test_dimensions),  cmocka_unit_test(test_large_group),
        cmocka_unit_test(test_windows),        cmocka_unit_test(test_softcap),     cmocka_unit_test(test_bits),
        cmocka_unit_test(test_f16_range),      cmocka_unit_test(test_mixed_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
