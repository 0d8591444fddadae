/* Norm, rotary positions, gated activation and row copies against float64, and the backend's small change. */
#include "support_tensor.h"
#include "tolerance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const isas[] = {"portable", "avx2", "avx512"};
static const uint32_t widths[] = {1, 2, 15, 16, 17, 64, 576, 1531};

#define MOST_ROWS 70u /* 70 x 576 values are several tasks */

/* On every variant and width; bits must be the same on all of them, which `check` leaves in `bits`. */
static void for_all(void (*check)(roco_backend *, support_random *, uint32_t, float *))
{
    float *bits[2] = {malloc(MOST_ROWS * 1536 * sizeof(float)), malloc(MOST_ROWS * 1536 * sizeof(float))};
    for (uint32_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
        for (uint32_t i = 0; i < 3; i++) {
            if (!support_has_isa(isas[i]))
                continue;
            support_random random = {.state = w};
            roco_backend *backend = support_backend_open(isas[i], 1 + i, MOST_ROWS, ROCO_PRECISION_F32);
            memset(bits[i > 0], 0, MOST_ROWS * 1536 * sizeof(float));
            check(backend, &random, widths[w], bits[i > 0]);
            if (i > 0)
                assert_memory_equal(bits[1], bits[0], MOST_ROWS * 1536 * sizeof(float));
            backend->ops->close(backend);
        }
    }
    free(bits[0]);
    free(bits[1]);
}

static void check_rms_norm(roco_backend *backend, support_random *random, uint32_t width, float *out)
{
    float x[1536], gain[1536], expected[1536], *many = malloc((size_t)MOST_ROWS * width * sizeof(float));
    support_random_fill(random, x, width);
    support_random_fill(random, gain, width);
    double squares = 0;
    for (uint32_t i = 0; i < width; i++)
        squares += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < width; i++)
        expected[i] = (float)((double)x[i] / sqrt(squares / width + 1e-5) * (double)gain[i]);
    for (uint32_t row = 0; row < MOST_ROWS; row++)
        memcpy(many + (size_t)row * width, x, width * sizeof(float));
    backend->ops->rms_norm(backend, many, gain, 1e-5f, MOST_ROWS, width, many);
    backend->ops->rms_norm(backend, x, gain, 1e-5f, 1, width, out);
    assert_true(support_distance(out, expected, width) <= TOLERANCE_RMS_NORM);
    for (uint32_t row = 0; row < MOST_ROWS; row++)
        assert_memory_equal(many + (size_t)row * width, out, width * sizeof(float));
    free(many);
}

static void rms_norm_is_right(void **state)
{
    for_all(check_rms_norm);
}

static void check_swiglu(roco_backend *backend, support_random *random, uint32_t width, float *gate)
{
    size_t n = (size_t)MOST_ROWS * width;
    float *up = calloc(n, sizeof(float)), *expected = calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        gate[i] = support_random_float(random) * (i % 3 == 0 ? 100.0f : 4.0f);
        up[i] = support_random_float(random);
        expected[i] = (float)((double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i]);
    }
    backend->ops->swiglu(backend, gate, up, MOST_ROWS, width);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(gate[i] - expected[i]) <= TOLERANCE_SWIGLU * fabsf(expected[i]) + 1e-30f))
            fail_msg("value %zu is %g, not %g", i, (double)gate[i], (double)expected[i]);
    free(up);
    free(expected);
}

static void swiglu_is_right(void **state)
{
    for_all(check_swiglu);
}

static void swiglu_of_odd_values(void **state)
{
    roco_backend *backend = support_backend_open("auto", 1, 8, ROCO_PRECISION_F32);
    float gate[6] = {NAN, INFINITY, 1e30f, -1e4f, 0, -0.0f}, up[6] = {1, 1, 1, 1, 1, 1};
    backend->ops->swiglu(backend, gate, up, 1, 6);
    assert_true(isnan(gate[0]));
    assert_true(isinf(gate[1]));
    assert_true(gate[2] == 1e30f);
    assert_true(gate[3] <= 0 && gate[3] > -1e-30f);
    assert_true(gate[4] == 0 && gate[5] == 0);
    backend->ops->close(backend);
}

static void check_geglu(roco_backend *backend, support_random *random, uint32_t width, float *gate)
{
    size_t n = (size_t)MOST_ROWS * width;
    float *up = calloc(n, sizeof(float)), *expected = calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        gate[i] = support_random_float(random) * (i % 3 == 0 ? 100.0f : 4.0f);
        up[i] = support_random_float(random);
        double x = (double)gate[i], u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        expected[i] = (float)(0.5 * x * (1 + tanh(u)) * (double)up[i]);
    }
    backend->ops->geglu(backend, gate, up, MOST_ROWS, width);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(gate[i] - expected[i]) <= TOLERANCE_GEGLU * (fabsf(expected[i]) + 1)))
            fail_msg("value %zu is %g, not %g", i, (double)gate[i], (double)expected[i]);
    free(up);
    free(expected);
}

static void geglu_is_right(void **state)
{
    for_all(check_geglu);
}

/* x = cap tanh((x + bias + 0.5 y) * 3 / cap) by four operations. */
static void check_elements(roco_backend *backend, support_random *random, uint32_t width, float *x)
{
    const double cap = 5;
    size_t n = (size_t)MOST_ROWS * width;
    float *y = calloc(n, sizeof(float)), *expected = calloc(n, sizeof(float)), bias[1536];
    support_random_fill(random, x, n);
    support_random_fill(random, y, n);
    support_random_fill(random, bias, width);
    for (size_t i = 0; i < n; i++) {
        double sum = (double)x[i] + (double)bias[i % width] + 0.5 * (double)y[i];
        expected[i] = (float)(cap * tanh(sum * 3 / cap));
    }
    backend->ops->add_bias(backend, x, bias, MOST_ROWS, width);
    backend->ops->add(backend, x, y, 0.5f, MOST_ROWS, width);
    backend->ops->scale(backend, x, 3.0f, MOST_ROWS, width);
    backend->ops->softcap(backend, x, (float)cap, MOST_ROWS, width);
    assert_true(support_distance(x, expected, n) <= TOLERANCE_ELEMENTS);
    free(y);
    free(expected);
}

static void element_wise_operations_are_right(void **state)
{
    for_all(check_elements);
}

/* Three heads of `width` rounded up to an even count, of which all but the last pairs turn. */
static void check_rope_as(roco_backend *backend, support_random *random, uint32_t width, bool halves, float *x)
{
    enum { N = 5, HEADS = 3 };
    uint32_t head = (width < 128 ? width + width % 2 : 128), dim = head > 8 ? head - 4 : head;
    float cosines[N * 64], sines[N * 64], *expected = malloc((size_t)N * HEADS * head * sizeof(float));
    support_random_fill(random, x, (size_t)N * HEADS * head);
    memcpy(expected, x, (size_t)N * HEADS * head * sizeof(float));
    for (uint32_t i = 0; i < N * dim / 2; i++) {
        double angle = (double)support_random_float(random) * 3.14;
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }
    for (uint32_t row = 0; row < N; row++)
        for (uint32_t h = 0; h < HEADS; h++)
            for (uint32_t p = 0; p < dim / 2; p++) {
                float *first = expected + (row * HEADS + h) * head + (halves ? p : 2 * p);
                float *second = first + (halves ? dim / 2 : 1);
                double a = (double)*first, b = (double)*second;
                double c = (double)cosines[row * dim / 2 + p], s = (double)sines[row * dim / 2 + p];
                *first = (float)(a * c - b * s);
                *second = (float)(a * s + b * c);
            }
    backend->ops->rope(backend, x, cosines, sines, N, HEADS, head, dim, halves);
    assert_true(support_distance(x, expected, (size_t)N * HEADS * head) <= TOLERANCE_ROPE);
    free(expected);
}

static void check_rope(roco_backend *backend, support_random *random, uint32_t width, float *x)
{
    check_rope_as(backend, random, width, false, x);
}

static void check_rope_halves(roco_backend *backend, support_random *random, uint32_t width, float *x)
{
    check_rope_as(backend, random, width, true, x);
}

static void rope_is_right(void **state)
{
    for_all(check_rope);
    for_all(check_rope_halves);
}

static void check_gather(roco_backend *backend, support_random *random, uint32_t width, float *out)
{
    float *x = malloc((size_t)MOST_ROWS * width * sizeof(float));
    support_random_fill(random, x, (size_t)MOST_ROWS * width);
    uint32_t rows[MOST_ROWS];
    for (uint32_t i = 0; i < MOST_ROWS; i++)
        rows[i] = support_random_bits(random) % MOST_ROWS;
    backend->ops->gather(backend, x, rows, MOST_ROWS, width, out);
    for (uint32_t i = 0; i < MOST_ROWS; i++)
        assert_memory_equal(out + (size_t)i * width, x + (size_t)rows[i] * width, width * sizeof(float));
    free(x);
}

static void gather_copies_rows(void **state)
{
    for_all(check_gather);
}

static void memory_is_zeroed_and_aligned(void **state)
{
    roco_backend *backend = support_backend_open("auto", 1, 1, ROCO_PRECISION_F32);
    for (size_t bytes = 1; bytes < 5000000; bytes = bytes * 3 + 1) {
        uint8_t *memory = backend->ops->memory_open(backend, bytes), back[4] = {0};
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        assert_int_equal(memory[0] | memory[bytes - 1], 0);
        backend->ops->upload(backend, memory, "x", 1);
        backend->ops->download(backend, back, memory, 1);
        assert_int_equal(back[0], 'x');
        memory[bytes - 1] = 1;
        backend->ops->memory_close(backend, memory);
    }
    backend->ops->memory_close(backend, NULL);
    assert_null(backend->ops->memory_open(backend, SIZE_MAX - 1));
    assert_int_equal(backend->ops->finish(backend, NULL), ROCO_OK);
    assert_non_null(strstr(backend->ops->describe(backend), "cpu, 1 thread, "));
    backend->ops->close(backend);
}

static void unknown_names_are_refused_with_the_list(void **state)
{
    roco_backend_config config = {.threads = 1, .max_rows = 1, .max_width = 32};
    roco_backend *backend = NULL;
    roco_error error;
    assert_int_equal(roco_backend_open("abacus", &config, &backend, &error), ROCO_UNSUPPORTED);
    assert_string_equal(error.field, "backend");
    assert_non_null(strstr(error.message, "cpu"));
    config.isa = "mmx";
    assert_int_equal(roco_backend_open("cpu", &config, &backend, &error), ROCO_UNSUPPORTED);
    assert_non_null(strstr(error.message, "portable"));
    config.isa = NULL;
    config.threads = 0;
    assert_int_equal(roco_backend_open("auto", &config, &backend, &error), ROCO_INVALID);
    config.threads = 1;
    config.max_rows = 0;
    assert_int_equal(roco_backend_open("auto", &config, &backend, &error), ROCO_INVALID);
    assert_null(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_is_right),
        cmocka_unit_test(swiglu_is_right),
        cmocka_unit_test(swiglu_of_odd_values),
        cmocka_unit_test(geglu_is_right),
        cmocka_unit_test(element_wise_operations_are_right),
        cmocka_unit_test(rope_is_right),
        cmocka_unit_test(gather_copies_rows),
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(unknown_names_are_refused_with_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
