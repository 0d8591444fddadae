/* Sampling: greedy, filters and their order, reproducible draws, hostile logits. */
#include "engine/sampler.h"
#include "engine/sampler_row.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 6u

/* Natural logarithms of these weights are the logits: at temperature 1 the probabilities are weight / 16. */
static const float weights[N] = {1, 8, 4, 1, 2, 0};

static int32_t sample(roco_sampling s, uint64_t index, roco_status expected)
{
    float logits[N];
    char *scratch = malloc(roco_sampler_scratch_bytes(N));
    for (uint32_t i = 0; i < N; i++)
        logits[i] = logf(weights[i]);
    int32_t token = -1;
    assert_int_equal(roco_sample(&(roco_draw){.sampling = &s, .index = index}, logits, N, scratch, &token), expected);
    free(scratch);
    return token;
}

static void count(roco_sampling s, uint32_t counts[N], uint32_t draws)
{
    memset(counts, 0, N * sizeof *counts);
    for (uint64_t i = 0; i < draws; i++)
        counts[sample(s, i, ROCO_OK)]++;
}

static void test_greedy_takes_the_highest(void **state)
{
    assert_int_equal(sample((roco_sampling){.temperature = 0, .top_p = 1}, 3, ROCO_OK), 1);
    assert_int_equal(sample((roco_sampling){.temperature = 2, .top_p = 1, .top_k = 1}, 3, ROCO_OK), 1);
    assert_int_equal(sample((roco_sampling){.temperature = 2, .top_p = 0}, 3, ROCO_OK), 1);
    assert_int_equal(sample((roco_sampling){.temperature = 1e-30f, .top_p = 1}, 3, ROCO_OK), 1);
}

static void test_greedy_tie_goes_to_the_lowest_id(void **state)
{
    float logits[4] = {1, 5, 5, 5};
    char scratch[64];
    int32_t token;
    roco_sampling s = {.top_p = 1};
    assert_int_equal(roco_sample(&(roco_draw){.sampling = &s}, logits, 4, scratch, &token), ROCO_OK);
    assert_int_equal(token, 1);
}

static void test_frequencies_follow_the_distribution(void **state)
{
    uint32_t counts[N];
    count((roco_sampling){.temperature = 1, .top_p = 1, .seed = 7}, counts, 16000);
    for (uint32_t i = 0; i < N; i++)
        assert_true(fabs(counts[i] - weights[i] * 1000.0) <= 5 * sqrt(weights[i] * 1000.0) + 0.5);
}

static void test_top_k_keeps_k(void **state)
{
    uint32_t counts[N];
    count((roco_sampling){.temperature = 1, .top_p = 1, .top_k = 2, .seed = 1}, counts, 3000);
    assert_int_equal(counts[1] + counts[2], 3000);
    assert_true(counts[1] > 1800 && counts[1] < 2200); /* 2/3 of 3000 */
    count((roco_sampling){.temperature = 1, .top_p = 1, .top_k = 4, .seed = 1}, counts, 3000);
    assert_true(counts[0] > 0 && counts[3] == 0); /* ids 0 and 3 tie for the fourth place: the lower id stays */
}

static void test_top_p_keeps_the_nucleus(void **state)
{
    uint32_t counts[N];
    count((roco_sampling){.temperature = 1, .top_p = 0.70f, .seed = 1}, counts, 3000); /* 8/16 + 4/16 covers 0.70 */
    assert_int_equal(counts[1] + counts[2], 3000);
    count((roco_sampling){.temperature = 1, .top_p = 0.80f, .seed = 1}, counts, 3000);
    assert_int_equal(counts[1] + counts[2] + counts[4], 3000);
}

static void test_min_p_is_relative_to_the_highest(void **state)
{
    uint32_t counts[N];
    count((roco_sampling){.temperature = 1, .top_p = 1, .min_p = 0.2f, .seed = 1}, counts, 3000); /* 8, 4, 2 stay */
    assert_int_equal(counts[1] + counts[2] + counts[4], 3000);
    assert_true(counts[4] > 0);
}

static void test_temperature_comes_before_the_filters(void **state)
{
    uint32_t counts[N];
    /* At temperature 2 the weights become their square roots: 2.83, 2, 1.41, 1, 1 of 8.24: 0.70 needs three tokens. */
    count((roco_sampling){.temperature = 2, .top_p = 0.70f, .seed = 1}, counts, 3000);
    assert_int_equal(counts[1] + counts[2] + counts[4], 3000);
    assert_true(counts[4] > 0);
}

static void test_a_seed_repeats_and_seeds_differ(void **state)
{
    roco_sampling a = {.temperature = 1, .top_p = 1, .seed = 0}, b = a;
    b.seed = 1;
    uint32_t differ = 0;
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(sample(a, i, ROCO_OK), sample(a, i, ROCO_OK));
        differ += sample(a, i, ROCO_OK) != sample(b, i, ROCO_OK);
    }
    assert_true(differ > 50);
    assert_int_equal(roco_seed_for_choice(9, 0), 9);
    assert_true(roco_seed_for_choice(9, 1) != roco_seed_for_choice(9, 2));
}

static void test_a_row_that_cannot_be_trusted_is_an_error(void **state)
{
    const float bad[][3] = {{1, NAN, 2}, {NAN, 1, 2}, {INFINITY, 1, 2}, {-INFINITY, -INFINITY, -INFINITY}};
    const float temperatures[] = {0, 1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (size_t t = 0; t < 2; t++) {
            float logits[3];
            char scratch[64];
            int32_t token;
            roco_sampling s = {.temperature = temperatures[t], .top_p = 1};
            memcpy(logits, bad[i], sizeof logits);
            assert_int_equal(roco_sample(&(roco_draw){.sampling = &s}, logits, 3, scratch, &token), ROCO_NUMERIC);
        }
}

static void test_minus_infinity_is_never_drawn(void **state)
{
    uint32_t counts[N]; /* weight 0 has logit -infinity */
    count((roco_sampling){.temperature = 2, .top_p = 1, .seed = 5}, counts, 5000);
    assert_int_equal(counts[5], 0);
    count((roco_sampling){.temperature = 2, .top_p = 1, .top_k = 6, .seed = 5}, counts, 500);
    assert_int_equal(counts[5], 0);
}

static int by_weight(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Rows longer than parts and vectors: places of the highest, weights, and every draw's place, by definition. */
static void test_long_rows(void **state)
{
    enum { MOST = 1200 };
    static const uint32_t lengths[] = {1, 15, 16, 17, 255, 256, 257, 1000, MOST};
    uint64_t draw = 3;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        const uint32_t n = lengths[k];
        float logits[MOST], p[MOST];
        double sums[MOST / ROCO_ROW_PART + 1], total = 0, before = 0;
        for (uint32_t i = 0; i < n; i++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            logits[i] = draw >> 61 ? (float)(draw >> 40) / 1e6f : -INFINITY;
        }
        uint32_t top = 0, found;
        logits[n / 3] = logits[n / 2] = 17; /* above 2^24 / 10^6 */
        for (uint32_t i = 0; i < n; i++)
            top = logits[i] > logits[top] ? i : top;
        assert_true(roco_row_highest(logits, n, &found));
        assert_int_equal(found, top);
        memcpy(p, logits, sizeof p);
        const double sum = roco_row_weigh(p, n, logits[top], 2.5f, sums);
        for (uint32_t i = 0; i < n; i++) {
            const double z = ((double)logits[i] - (double)logits[top]) * 2.5, right = exp(z);
            /* two units in the last place, and z itself is rounded twice */
            assert_true(isinf(z) ? p[i] == 0 : fabs(p[i] - right) <= (3e-7 - 1.3e-7 * z) * right + 1e-37);
            total += p[i];
        }
        assert_true(fabs(sum - total) < 1e-6 * total);
        for (uint32_t i = 0; i < n; before += p[i++])
            if (p[i] > 1e-4f)
                assert_int_equal(roco_row_pick(p, n, sums, before + p[i] / 2.0), i);
        assert_true(p[roco_row_pick(p, n, sums, sum * (1 - 1e-16))] > 0);
        logits[n - 1] = NAN;
        assert_false(roco_row_highest(logits, n, &found));
    }
}

/* How many of n logits, highest first, make up a share of what all of them weigh. */
static uint32_t nucleus_of(const float *sorted, uint32_t n, double share)
{
    double all = 0, nucleus = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        all += exp((double)sorted[i]);
    while (nucleus < share * all)
        nucleus += exp((double)sorted[count++]);
    return count;
}

/* The k highest of many, and the nucleus of those, as sorting finds them. */
static void test_filters_on_long_rows(void **state)
{
    enum { MANY = 3000, K = 40 };
    float logits[MANY], sorted[MANY], copy[MANY];
    char *scratch = malloc(roco_sampler_scratch_bytes(MANY));
    uint64_t draw = 11;
    for (uint32_t i = 0; i < MANY; i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        sorted[i] = logits[i] = (float)(draw >> 40) / 3e6f;
    }
    qsort(sorted, MANY, sizeof *sorted, by_weight);
    const uint32_t n_of_top = nucleus_of(sorted, K, 0.5), n_of_all = nucleus_of(sorted, MANY, 0.5);
    const uint32_t n_of_most = nucleus_of(sorted, MANY, 0.999); /* down to under a 64th of the likeliest */
    const struct {
        roco_sampling s;
        uint32_t last; /* place in the sorted row of the least likely token that may come */
    } rows[] = {{{.temperature = 1, .top_p = 1, .top_k = K}, K - 1},
                {{.temperature = 1, .top_p = 0.5f, .top_k = K}, n_of_top - 1},
                {{.temperature = 1, .top_p = 0.5f}, n_of_all - 1},
                {{.temperature = 1, .top_p = 0.999f}, n_of_most},
                {{.temperature = 1, .top_p = 1}, MANY - 1}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        float least = INFINITY;
        for (uint64_t i = 0; i < 20000; i++) {
            int32_t token;
            memcpy(copy, logits, sizeof copy);
            const roco_draw one = {.sampling = &rows[r].s, .index = i};
            assert_int_equal(roco_sample(&one, copy, MANY, scratch, &token), ROCO_OK);
            least = fminf(least, logits[token]);
        }
        assert_true(least >= sorted[rows[r].last]);
        assert_true(rows[r].last >= K || least == sorted[rows[r].last]);
    }
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_takes_the_highest),
        cmocka_unit_test(test_greedy_tie_goes_to_the_lowest_id),
        cmocka_unit_test(test_frequencies_follow_the_distribution),
        cmocka_unit_test(test_top_k_keeps_k),
        cmocka_unit_test(test_top_p_keeps_the_nucleus),
        cmocka_unit_test(test_min_p_is_relative_to_the_highest),
        cmocka_unit_test(test_temperature_comes_before_the_filters),
        cmocka_unit_test(test_a_seed_repeats_and_seeds_differ),
        cmocka_unit_test(test_a_row_that_cannot_be_trusted_is_an_error),
        cmocka_unit_test(test_minus_infinity_is_never_drawn),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_filters_on_long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
