/* Log-probabilities of rows: values against double precision, order of the best, hostile rows. */
#include "engine/logprobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static float *random_row(uint32_t n, float spread, uint32_t seed)
{
    float *row = malloc(n * sizeof *row);
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        row[i] = ((float)(seed >> 8) * 0x1p-24f - 0.5f) * spread;
    }
    return row;
}

static void test_values_against_double_precision(void **state)
{
    const uint32_t sizes[] = {1, 15, 16, 17, 1023, 1025, 49152, 151936};
    const float spreads[] = {0, 1, 20, 200};
    for (size_t k = 0; k < 8; k++)
        for (size_t j = 0; j < 4; j++) {
            float *row = random_row(sizes[k], spreads[j], (uint32_t)(k * 7 + j));
            double highest = -INFINITY, sum = 0;
            for (uint32_t i = 0; i < sizes[k]; i++)
                highest = row[i] > highest ? row[i] : highest;
            for (uint32_t i = 0; i < sizes[k]; i++)
                sum += exp(row[i] - highest);
            const double expected = highest + log(sum);
            roco_logprob top[1];
            const double normalizer = roco_logprobs_top(row, sizes[k], 1, top);
            assert_true(fabs(normalizer - expected) < 2e-6);
            assert_true(fabs(top[0].value - (highest - expected)) < 4e-6 && top[0].value <= 0);
            assert_true(row[top[0].token] == highest);
            free(row);
        }
}

static void test_the_best_in_order(void **state)
{
    float row[100];
    for (int i = 0; i < 100; i++)
        row[i] = (float)(i * 37 % 50); /* each value twice */
    roco_logprob top[ROCO_MAX_TOP_LOGPROBS];
    for (uint32_t n = 1; n <= ROCO_MAX_TOP_LOGPROBS; n++) {
        roco_logprobs_top(row, 100, n, top);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(row[top[i].token] == 49.0f - (float)(i / 2));
            assert_int_equal(top[i].token >= 50, i % 2); /* the lower id first */
        }
    }
}

static void test_few_finite_logits(void **state)
{
    float row[40];
    for (int i = 0; i < 40; i++)
        row[i] = -INFINITY;
    row[20] = 3;
    row[39] = 3;
    roco_logprob top[4];
    assert_true(fabs(roco_logprobs_top(row, 40, 4, top) - (3 + log(2))) < 1e-6);
    assert_true(top[0].token == 20 && top[1].token == 39 && top[2].token == -1 && isinf(top[2].value));
    assert_true(fabsf(top[1].value + 0.6931472f) < 1e-6f);
}

static void test_rows_that_cannot_be_trusted(void **state)
{
    for (uint32_t i = 0; i < 3; i++) {
        float row[40] = {0};
        row[(const uint32_t[]){0, 15, 39}[i]] = NAN;
        assert_true(isnan(roco_logprobs_top(row, 40, 0, NULL)));
        row[(const uint32_t[]){0, 15, 39}[i]] = INFINITY;
        assert_true(isnan(roco_logprobs_top(row, 40, 0, NULL)));
    }
    float none[] = {-INFINITY, -INFINITY};
    assert_true(isnan(roco_logprobs_top(none, 2, 0, NULL)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_against_double_precision),
        cmocka_unit_test(test_the_best_in_order),
        cmocka_unit_test(test_few_finite_logits),
        cmocka_unit_test(test_rows_that_cannot_be_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
