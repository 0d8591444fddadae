/* Victims against goldens of the numpy reference (tests/golden/make_policy.py), whatever the order of the slots;
 * crafted scores; and the promise that no float breaks a policy. */
#include "engine/policies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_N 1300
#define DIM   8 /* of keys and values */

typedef struct cache {
    uint32_t n;
    int32_t position[MAX_N], now;
    float sum[MAX_N], sum_sq[MAX_N];
    double scratch[2 * MAX_N];
    uint32_t order[MAX_N], victims[MAX_N];
    float keys[MAX_N][DIM], values[MAX_N][DIM];
    double vector[DIM];
} cache;

/* What a backend does for the policies that look at keys or values. */
typedef struct vectors {
    roco_policy_vectors base;
    float (*from)[DIM];
    uint32_t n;
    float *block; /* [DIM][ROCO_POLICY_BLOCK] */
} vectors;

static const float *read_block(const roco_policy_vectors *base, uint32_t first)
{
    const vectors *v = (const vectors *)base;
    assert_true(first < v->n && first % ROCO_POLICY_BLOCK == 0);
    for (uint32_t c = 0; c < DIM; c++)
        for (uint32_t i = 0; i < ROCO_POLICY_BLOCK; i++)
            v->block[c * ROCO_POLICY_BLOCK + i] = first + i < v->n ? v->from[first + i][c] : 0;
    return v->block;
}

static uint64_t draw(uint64_t *state) /* splitmix64, as the golden's script */
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static double unit(uint64_t *state)
{
    return (double)(draw(state) >> 40) / 16777216.0;
}

static void statistics(const char *kind, uint64_t *state, double n, double *m, double *v)
{
    if (strcmp(kind, "random") == 0) {
        *m = unit(state) / n;
        *v = *m * *m + unit(state) / n / n;
    } else if (strcmp(kind, "coarse") == 0) {
        *m = (double)(1 + draw(state) % 4) / 1024.0;
        *v = *m * *m + (double)(draw(state) % 3) / 65536.0;
    } else if (strcmp(kind, "equal") == 0) {
        *m = 0.25;
        *v = 0.0625;
    } else {
        *m = (1 + unit(state)) / n;
        *v = *m * *m;
    }
}

static void fill(cache *c, const char *kind, uint64_t seed, uint32_t n, int32_t last)
{
    uint64_t state = seed;
    c->n = n;
    c->position[0] = 0;
    for (uint32_t j = 1; j < n; j++)
        c->position[j] = c->position[j - 1] + 1 + (int32_t)(draw(&state) % 3);
    c->now = c->position[n - 1] + last;
    for (uint32_t j = 0; j < n; j++) {
        double m, v, seen = (double)c->now - c->position[j] + 1.0;
        statistics(kind, &state, n, &m, &v);
        c->sum[j] = (float)(m * seen);
        c->sum_sq[j] = (float)(v * seen);
    }
    uint64_t vectors_state = seed + 1000000;
    for (uint32_t j = 0; j < 2 * n; j++)
        for (uint32_t d = 0; d < DIM; d++)
            *(j < n ? &c->keys[j][d] : &c->values[j - n][d]) =
                (float)(unit(&vectors_state) - 0.5 + (j < n && d == 0 ? 0.5 : 0));
}

static void swap_vectors(float *a, float *b)
{
    float t[DIM];
    memcpy(t, a, sizeof t);
    memcpy(a, b, sizeof t);
    memcpy(b, t, sizeof t);
}

static void shuffle(cache *c, uint64_t seed)
{
    for (uint32_t j = c->n - 1; j > 0; j--) {
        uint32_t i = (uint32_t)(draw(&seed) % (j + 1));
        int32_t p = c->position[i];
        float s = c->sum[i], q = c->sum_sq[i];
        c->position[i] = c->position[j], c->sum[i] = c->sum[j], c->sum_sq[i] = c->sum_sq[j];
        c->position[j] = p, c->sum[j] = s, c->sum_sq[j] = q;
        swap_vectors(c->keys[i], c->keys[j]);
        swap_vectors(c->values[i], c->values[j]);
    }
}

/* Runs the policy and checks what every answer must satisfy. */
static void run(const roco_policy *policy, cache *c, uint32_t budget, uint32_t surplus, uint32_t sink, uint32_t recent)
{
    float block[DIM * ROCO_POLICY_BLOCK];
    const bool sums = policy->needs_statistics || policy->window;
    const vectors keys = {{DIM, read_block}, c->keys, c->n, block},
                  values = {{DIM, read_block}, c->values, c->n, block};
    roco_policy_view view = {.n = c->n,
                             .position = c->position,
                             .sum = sums ? c->sum : NULL,
                             .sum_sq = sums ? c->sum_sq : NULL,
                             .keys = policy->needs_keys ? &keys.base : NULL,
                             .values = policy->needs_values ? &values.base : NULL,
                             .vector = policy->needs_keys || policy->needs_values ? c->vector : NULL,
                             .last = policy->needs_last ? c->sum : NULL,
                             .stream = (uint64_t)5 << 32 | 2,
                             .now = c->now,
                             .budget = budget,
                             .sink = sink,
                             .recent = recent,
                             .scratch = c->scratch,
                             .order = c->order};
    memset(c->victims, 0xff, sizeof c->victims);
    policy->select(&view, surplus, c->victims);
    for (uint32_t i = 0; i < surplus; i++) {
        assert_true(c->victims[i] < c->n);
        assert_true(i == 0 || c->victims[i - 1] < c->victims[i]);
        assert_false(roco_policy_protects(&view, c->victims[i]));
    }
    assert_int_equal(c->victims[surplus], 0xffffffffu);
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void victims_are(const cache *c, uint32_t surplus, const int32_t *expected)
{
    int32_t got[MAX_N];
    for (uint32_t i = 0; i < surplus; i++)
        got[i] = c->position[c->victims[i]];
    qsort(got, surplus, sizeof *got, by_value);
    assert_memory_equal(got, expected, surplus * sizeof *got);
}

static void test_golden(void **state)
{
    FILE *file = fopen(ROCO_SOURCE_DIR "/tests/golden/policy.txt", "r");
    assert_non_null(file);
    cache *c = malloc(sizeof *c);
    char name[16], kind[16];
    unsigned seed, n, budget, surplus, sink, recent, cases = 0;
    int now;
    while (fscanf(file, "%15s %15s %u %u %u %u %d %u %u :", name, kind, &seed, &n, &budget, &surplus, &now, &sink,
                  &recent) == 9) {
        int32_t expected[MAX_N];
        for (unsigned i = 0; i < surplus; i++)
            assert_int_equal(fscanf(file, "%d", &expected[i]), 1);
        fill(c, kind, seed, n, (int32_t)seed % 2);
        assert_int_equal(c->now, now);
        for (uint64_t order = 0; order < 4; order++) { /* position order first */
            run(roco_policy_find(name), c, budget, surplus, sink, recent);
            victims_are(c, surplus, expected);
            shuffle(c, seed + order);
        }
        cases++;
    }
    assert_int_equal(cases, 832);
    free(c);
    fclose(file);
}

/* n tokens of one mean and no spread, none missing. */
static void fill_steady(cache *c, uint32_t n)
{
    c->n = n;
    c->now = (int32_t)n - 1;
    for (uint32_t j = 0; j < n; j++) {
        double seen = (double)n - j, m = 0.5;
        c->position[j] = (int32_t)j;
        c->sum[j] = (float)(m * seen);
        c->sum_sq[j] = (float)(m * m * seen);
    }
}

/* The lowest mean with the highest spread stays; the second-lowest mean with a low spread goes. Of B = 200, ten
 * unprotected tokens are outside the scope: 200 - sink - recent - (200 - 20 - sink). */
static void test_spread_protects(void **state)
{
    cache *c = malloc(sizeof *c);
    fill_steady(c, 200);
    for (uint32_t j = 12; j < 22; j++)
        c->sum[j] = 0.01f * (float)(200 - j), c->sum_sq[j] = 0.5f * (float)(200 - j);
    c->sum[117] = 0.02f * 83, c->sum_sq[117] = 0.0005f * 83;
    run(roco_policy_find("roco"), c, 200, 1, 4, 10);
    assert_int_equal(c->victims[0], 117);
    c->sum_sq[21] = 0; /* one of the ten loses its spread and with it the protection */
    run(roco_policy_find("roco"), c, 200, 1, 4, 10);
    assert_int_equal(c->victims[0], 21);
    free(c);
}

static void set(cache *c, uint32_t j, float mean, float mean_sq)
{
    c->sum[j] = mean * (float)(c->n - j);
    c->sum_sq[j] = mean_sq * (float)(c->n - j);
}

/* The scope's edge: of B = 200 without sinks, 180 tokens of lowest spread are candidates, the 181st is not. */
static void test_scope_edge(void **state)
{
    cache *c = malloc(sizeof *c);
    fill_steady(c, 200);
    set(c, 117, 0.02f, 0.0005f);
    set(c, 199, 0.5f, 5.0f); /* the one protected token */
    set(c, 12, 0.01f, 0.4f); /* 181st by spread, of lowest mean */
    for (uint32_t j = 13; j < 31; j++)
        set(c, j, 0.03f, 0.5f);
    run(roco_policy_find("roco"), c, 200, 1, 0, 1);
    assert_int_equal(c->victims[0], 117);
    set(c, 31, 0.03f, 0.5f); /* one fewer before it: 180th */
    run(roco_policy_find("roco"), c, 200, 1, 0, 1);
    assert_int_equal(c->victims[0], 12);
    free(c);
}

/* More tokens of low mean and high spread than the single-victim passes look at. */
static void test_many_outside_scope(void **state)
{
    cache *c = malloc(sizeof *c);
    fill(c, "random", 3, 400, 0);
    for (uint32_t j = 100; j < 130; j++) {
        c->sum[j] = 0;
        c->sum_sq[j] = 1000.0f * (float)j;
    }
    for (uint32_t j = 0; j < c->n; j++)
        if (j < 100 || j >= 130)
            c->sum[j] += 1;
    c->sum[222] = 1e-3f, c->sum_sq[222] = 0;
    run(roco_policy_find("roco"), c, 400, 1, 4, 10);
    assert_int_equal(c->victims[0], 222);
    free(c);
}

static void test_ties_lowest_position(void **state)
{
    cache *c = malloc(sizeof *c);
    for (uint64_t round = 0; round < 20; round++) {
        fill_steady(c, 40);
        shuffle(c, round);
        run(roco_policy_find("roco"), c, 40, 1, 4, 10);
        victims_are(c, 1, (int32_t[]){4});
        run(roco_policy_find("roco"), c, 35, 5, 4, 10);
        victims_are(c, 5, (int32_t[]){4, 5, 6, 7, 8});
    }
    free(c);
}

/* NaN, infinities, negative sums, denormals: a valid answer, and the token that is not a number goes first. */
static void test_any_float(void **state)
{
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, -1.0f, 1e-40f, 3e38f, 0.0f, -0.0f};
    const uint32_t n_odd = sizeof odd / sizeof *odd;
    cache *c = malloc(sizeof *c);
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t state_ = seed;
        fill(c, "random", seed, 96, 0);
        for (uint32_t j = 0; j < c->n; j++) {
            if (draw(&state_) % 2)
                c->sum[j] = odd[draw(&state_) % n_odd];
            if (draw(&state_) % 2)
                c->sum_sq[j] = odd[draw(&state_) % n_odd];
            if (seed % 2) {
                c->keys[j][draw(&state_) % DIM] = odd[draw(&state_) % n_odd];
                c->values[j][draw(&state_) % DIM] = odd[draw(&state_) % n_odd];
            }
        }
        for (const roco_policy *const *policy = roco_policies() + 1; *policy; policy++) {
            run(*policy, c, 96, 1, 4, 10);
            run(*policy, c, 32, 64, 4, 10);
        }
    }
    for (const roco_policy *const *policy = roco_policies() + 1; *policy; policy++) {
        if (!(*policy)->needs_statistics && !(*policy)->needs_last)
            continue;
        fill(c, "random", 1, 96, 0);
        c->sum[50] = NAN;
        run(*policy, c, 96, 1, 4, 10);
        assert_int_equal(c->victims[0], 50);
    }
    free(c);
}

static void test_registry(void **state)
{
    const roco_policy *const *all = roco_policies();
    for (int id = 0; all[id] != NULL; id++) {
        assert_int_equal(all[id]->id, id);
        assert_ptr_equal(roco_policy_find(all[id]->name), all[id]);
        assert_int_equal(all[id]->evicts, all[id]->select != NULL);
    }
    assert_string_equal(all[ROCO_POLICY_FULL]->name, "full");
    assert_null(roco_policy_find("fullx"));
    assert_null(roco_policy_find(""));
    assert_string_equal(
        roco_policy_names(),
        "full, roco, recency, mean, h2o, tova, random, keydiff, roco+caote, h2o+caote, tova+caote, vatp, "
        "snapkv, r-kv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_spread_protects),
        cmocka_unit_test(test_scope_edge),
        cmocka_unit_test(test_many_outside_scope),
        cmocka_unit_test(test_ties_lowest_position),
        cmocka_unit_test(test_any_float),
        cmocka_unit_test(test_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
