/* Weight types: dequantisation against the gguf package (tests/golden/make_dequant.py), bit for bit, and the half
 * conversions against arithmetic, over every half there is. */
#include "kernels/tensor_type.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct golden {
    uint8_t *data;
    size_t size, at;
} golden;

static golden golden_open(const char *path)
{
    golden g = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    g.size = (size_t)ftell(file);
    rewind(file);
    g.data = malloc(g.size);
    assert_non_null(g.data);
    assert_int_equal(fread(g.data, 1, g.size, file), g.size);
    fclose(file);
    return g;
}

static const void *golden_take(golden *g, size_t n)
{
    assert_true(n <= g->size - g->at);
    g->at += n;
    return g->data + g->at - n;
}

static uint32_t golden_u32(golden *g)
{
    uint32_t value;
    memcpy(&value, golden_take(g, sizeof value), sizeof value);
    return value;
}

static void every_type_equals_the_golden_bit_for_bit(void **state)
{
    golden g = golden_open(ROCO_SOURCE_DIR "/tests/golden/dequant.bin");
    assert_memory_equal(golden_take(&g, 4), "RDQ1", 4);
    uint32_t n_records = golden_u32(&g);
    assert_int_equal(n_records, 15);
    while (n_records--) {
        const roco_type_traits *traits = roco_type_find(golden_u32(&g));
        assert_non_null(traits);
        uint32_t n_values = golden_u32(&g), n_bytes = golden_u32(&g);
        assert_int_equal(n_values % traits->block_values, 0);
        assert_int_equal(n_values / traits->block_values * traits->block_bytes, n_bytes);
        const void *blocks = golden_take(&g, n_bytes);
        const void *expected = golden_take(&g, n_values * sizeof(float));
        uint8_t *odd = malloc(n_bytes + 1); /* any alignment is allowed */
        float *out = malloc(n_values * sizeof(float));
        memcpy(odd + 1, blocks, n_bytes);
        traits->dequantize(odd + 1, out, n_values);
        if (memcmp(out, expected, n_values * sizeof(float)) != 0)
            fail_msg("%s differs from its definition", traits->name);
        free(odd);
        free(out);
    }
    assert_int_equal(g.at, g.size);
    free(g.data);
}

static float by_arithmetic(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(half & 0x8000 ? -value : value);
}

static void every_half_is_exact_and_comes_back(void **state)
{
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = roco_f16_to_f32((uint16_t)half);
        if ((half & 0x7fff) > 0x7c00) {
            assert_true(isnan(value));
            assert_true(isnan(roco_f16_to_f32(roco_f16_from_f32(value))));
            continue;
        }
        if ((half & 0x7fff) == 0x7c00)
            assert_true(isinf(value));
        else
            assert_true(value == by_arithmetic((uint16_t)half));
        assert_int_equal(!!signbit(value), half >> 15);
        assert_int_equal(roco_f16_from_f32(value), half);
    }
}

static void rounding_to_half_is_to_nearest_even(void **state)
{
    for (uint32_t half = 0; half < 0x7c00; half++) {
        float low = by_arithmetic((uint16_t)half);
        float high = by_arithmetic((uint16_t)(half + 1)); /* after the largest: 65536, where infinity begins */
        float middle = low + (high - low) / 2;
        uint16_t even = (uint16_t)(half & 1 ? half + 1 : half);
        assert_int_equal(roco_f16_from_f32(middle), even);
        assert_int_equal(roco_f16_from_f32(nextafterf(middle, 0)), half);
        assert_int_equal(roco_f16_from_f32(nextafterf(middle, INFINITY)), half + 1);
        assert_int_equal(roco_f16_from_f32(-middle), even | 0x8000);
    }
    assert_int_equal(roco_f16_from_f32(3e38f), 0x7c00);
    assert_int_equal(roco_f16_from_f32(1e-45f), 0);
}

static void bfloat_is_the_top_half_of_a_float(void **state)
{
    assert_true(roco_bf16_to_f32(0x3f80) == 1.0f);
    assert_true(roco_bf16_to_f32(0xc040) == -3.0f);
    assert_true(isinf(roco_bf16_to_f32(0x7f80)));
    assert_true(isnan(roco_bf16_to_f32(0x7fc0)));
}

static void unknown_types_are_not_found(void **state)
{
    const uint32_t unknown[] = {4, 5, 9, 15, 16, 24, 31, 250, UINT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_null(roco_type_find(unknown[i]));
        assert_false(roco_type_is_quantized((roco_tensor_type)unknown[i]));
    }
    assert_string_equal(roco_type_find(ROCO_TYPE_Q4_1)->name, "Q4_1");
    assert_true(roco_type_is_quantized(ROCO_TYPE_Q6_K));
    assert_false(roco_type_is_quantized(ROCO_TYPE_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_equals_the_golden_bit_for_bit),
        cmocka_unit_test(every_half_is_exact_and_comes_back),
        cmocka_unit_test(rounding_to_half_is_to_nearest_even),
        cmocka_unit_test(bfloat_is_the_top_half_of_a_float),
        cmocka_unit_test(unknown_types_are_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
