/* Quantised activations: the outlier of each block, and that every variant writes the same bytes. */
#include "kernels/cpu/linear.h"
#include "support_tensor.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *isa;
    const roco_linear_variant *variant;
} variants[] = {
    {"portable", &roco_linear_portable},
#if defined(__x86_64__)
    {"avx2", &roco_linear_avx2},
    {"avxvnni", &roco_linear_avxvnni},
    {"avx512", &roco_linear_avx512},
#endif
};

/* All variants; what portable writes is returned. */
static roco_q8_block quantize(const float x[ROCO_BLOCK])
{
    roco_q8_block first = {0};
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        roco_q8_block block;
        memset(&block, 0xa5, sizeof(block));
        if (!support_has_isa(variants[i].isa))
            continue;
        variants[i].variant->quantize(x, ROCO_BLOCK, &block);
        if (i == 0)
            first = block;
        assert_memory_equal(&block, &first, sizeof(block));
    }
    return first;
}

static uint32_t place_of_outlier(const roco_q8_block *block)
{
    uint32_t input = block->u8_offset / 128u * 4 + block->u8_shift / 8;
    assert_int_equal(block->u4_offset, input % 16 / 4 * 128);
    assert_int_equal(block->u4_shift, input % 4 * 8 + (input >= 16 ? 4 : 0));
    return input;
}

/* Everything a block promises of finite values; returns the input that is apart. */
static uint32_t check(const float x[ROCO_BLOCK])
{
    roco_q8_block block = quantize(x);
    uint32_t apart = place_of_outlier(&block), first = 0;
    float second = 0;
    for (uint32_t i = 1; i < ROCO_BLOCK; i++)
        first = fabsf(x[i]) > fabsf(x[first]) ? i : first;
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        second = i == apart ? second : fmaxf(second, fabsf(x[i]));
    assert_int_equal(apart, first);
    assert_int_equal(block.q[apart], 0);
    double step = fmax((double)second / 127, fabs((double)x[apart]) / 32767);
    assert_true(fabs((double)block.scale - step) <= 1e-6 * step);
    int32_t sum[2] = {0, 0};
    for (uint32_t i = 0; i < ROCO_BLOCK; i++) {
        int32_t q = i == apart ? block.outlier : block.q[i];
        /* Half a step, and what rounding scale and inverse adds: 32767 times a few 2^-24. */
        assert_true(fabs((double)q * (double)block.scale - (double)x[i]) <= 0.51 * step);
        assert_true(abs(q) <= (i == apart ? 32767 : 127));
        sum[i / 16] += q;
    }
    assert_int_equal(block.minus_sum_low, -sum[0]);
    assert_int_equal(block.minus_sum, -(sum[0] + sum[1]));
    assert_true(block.scaled_sum == block.scale * (float)(sum[0] + sum[1]));
    return apart;
}

static void random_block(support_random *random, float x[ROCO_BLOCK])
{
    support_random_fill(random, x, ROCO_BLOCK);
}

static void the_largest_is_apart_wherever_it_is(void **state)
{
    support_random random = {.state = 11};
    static const float factors[] = {1.5f, -2, 30, -128, 257.9f, -258.1f, 1e4f, -1e9f, 1e30f};
    for (uint32_t input = 0; input < ROCO_BLOCK; input++) {
        for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
            float x[ROCO_BLOCK];
            random_block(&random, x);
            x[input] = factors[f];
            assert_int_equal(check(x), input);
        }
    }
}

static void any_values_are_within_half_a_step(void **state)
{
    support_random random = {.state = 12};
    for (uint32_t i = 0; i < 20000; i++) {
        float x[ROCO_BLOCK];
        random_block(&random, x);
        for (uint32_t k = 0; k < ROCO_BLOCK; k++)
            x[k] = i % 2 == 0 ? x[k] : powf(x[k], 9);
        check(x);
    }
}

static void of_equal_values_the_first_is_apart(void **state)
{
    support_random random = {.state = 13};
    float x[ROCO_BLOCK];
    for (uint32_t a = 0; a < ROCO_BLOCK; a++) {
        for (uint32_t b = a + 1; b < ROCO_BLOCK; b++) {
            random_block(&random, x);
            x[a] = 7;
            x[b] = -7;
            assert_int_equal(check(x), a);
        }
    }
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        x[i] = 3;
    assert_int_equal(check(x), 0);
}

static void one_value_alone_is_kept_exactly(void **state)
{
    static const float values[] = {1, -0.3f, 1e-30f, -1.1e-34f, 3e38f, FLT_MAX};
    for (uint32_t input = 0; input < ROCO_BLOCK; input++) {
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            float x[ROCO_BLOCK] = {0};
            x[input] = values[v];
            assert_int_equal(check(x), input);
            roco_q8_block block = quantize(x);
            assert_int_equal(block.outlier, values[v] < 0 ? -32767 : 32767);
            for (uint32_t i = 0; i < ROCO_BLOCK; i++)
                assert_int_equal(block.q[i], 0);
        }
    }
}

static void the_ends_of_the_range_are_finite(void **state)
{
    support_random random = {.state = 14};
    float x[ROCO_BLOCK];
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        x[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
    check(x);
    random_block(&random, x);
    for (uint32_t i = 0; i < ROCO_BLOCK; i++)
        x[i] *= 1e-44f;
    x[9] = 1e-33f; /* beside denormals */
    check(x);
}

static void tiny_blocks_are_zero(void **state)
{
    static const float values[] = {0, -0.0f, 1e-45f, -1e-42f, 9.9e-35f};
    static const roco_q8_block zero;
    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        float x[ROCO_BLOCK];
        for (uint32_t i = 0; i < ROCO_BLOCK; i++)
            x[i] = values[v];
        roco_q8_block block = quantize(x);
        assert_memory_equal(&block, &zero, sizeof(zero));
    }
}

static void a_value_that_is_none_makes_the_scale_none(void **state)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    support_random random = {.state = 15};
    for (uint32_t input = 0; input < ROCO_BLOCK; input++) {
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            float x[ROCO_BLOCK];
            random_block(&random, x);
            x[input] = values[v];
            roco_q8_block block = quantize(x);
            assert_true(isnan(block.scale) && isnan(block.scaled_sum));
            assert_int_equal(block.outlier, 0);
            assert_int_equal(block.u4_offset + block.u8_offset, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_is_apart_wherever_it_is),
        cmocka_unit_test(any_values_are_within_half_a_step),
        cmocka_unit_test(of_equal_values_the_first_is_apart),
        cmocka_unit_test(one_value_alone_is_kept_exactly),
        cmocka_unit_test(the_ends_of_the_range_are_finite),
        cmocka_unit_test(tiny_blocks_are_zero),
        cmocka_unit_test(a_value_that_is_none_makes_the_scale_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
