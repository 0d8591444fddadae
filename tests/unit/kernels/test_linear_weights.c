/* Weights: what repacking must keep exactly, what int8 activations cost, and what is refused. */
#include "support_tensor.h"
#include "tolerance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const isas[] = {"portable", "avx2", "avxvnni", "avx512"};
#define N_ISAS (sizeof(isas) / sizeof(isas[0]))

/* Every row of every type comes back as the format defines it, at either precision. */
static void embedding_is_exact(void **state)
{
    enum { ROWS = 45, COLS = 512 };
    support_random random = {.state = 1};
    for (uint32_t precision = 0; precision < 2; precision++) {
        roco_backend *backend = support_backend_open("auto", 2, 8, (roco_precision)precision);
        for (uint32_t t = 0; t < support_n_types; t++) {
            roco_tensor_view view = support_tensor_open(&random, support_types[t], ROWS, COLS);
            float *expected = support_tensor_floats(&view), *out = malloc(ROWS * COLS * sizeof(*out));
            roco_weight *weight = NULL;
            assert_int_equal(backend->ops->weight_open(backend, &view, &weight, NULL), ROCO_OK);
            int32_t ids[ROWS];
            for (int32_t i = 0; i < ROWS; i++)
                ids[i] = ROWS - 1 - i;
            backend->ops->embed(backend, weight, ids, ROWS, out);
            for (uint32_t i = 0; i < ROWS; i++)
                for (uint32_t k = 0; k < COLS; k++)
                    if (out[i * COLS + k] != expected[(uint32_t)ids[i] * COLS + k])
                        fail_msg("%s row %d column %u", view.name, ids[i], k);
            backend->ops->weight_close(backend, weight);
            free(out);
            free(expected);
            free((void *)view.data);
        }
        backend->ops->close(backend);
    }
}

/* The definition of int8 activations, written a second time: in blocks of 32 the first of the largest magnitudes is
 * apart, the second largest is 127 steps (or the largest 32767, when that makes the longer step), nearest even. */
static void quantize_block(const float *x, double *out)
{
    uint32_t apart = 0;
    float second = 0;
    for (uint32_t i = 1; i < 32; i++)
        apart = fabsf(x[i]) > fabsf(x[apart]) ? i : apart;
    for (uint32_t i = 0; i < 32; i++)
        second = i == apart ? second : fmaxf(second, fabsf(x[i]));
    float inverse = fminf(127.0f / second, 32767.0f / fabsf(x[apart]));
    float scale = fmaxf(second * (1 / 127.0f), fabsf(x[apart]) * (1 / 32767.0f));
    for (uint32_t i = 0; i < 32; i++)
        out[i] = (double)scale * (double)rintf(x[i] * inverse);
}

static void int8_is_what_it_says(void **state)
{
    enum { ROWS = 40, COLS = 768, N = 3 };
    support_random random = {.state = 2};
    for (uint32_t t = 0; t < support_n_types; t++) {
        roco_tensor_view view = support_tensor_open(&random, support_types[t], ROWS, COLS);
        float *w = support_tensor_floats(&view), x[N * COLS], out[N * ROWS], expected[N * ROWS], *outs[] = {out};
        support_random_fill(&random, x, N * COLS);
        for (uint32_t i = 0; i < N; i++) {
            double row[COLS];
            x[i * COLS + 40 * i] *= 30 * (float)(i + 1);
            for (uint32_t k = 0; k < COLS; k += 32)
                quantize_block(x + i * COLS + k, row + k);
            for (uint32_t j = 0; j < ROWS; j++) {
                double sum = 0;
                for (uint32_t k = 0; k < COLS; k++)
                    sum += (double)w[j * COLS + k] *
                           (roco_type_is_quantized(view.type) ? row[k] : (double)x[i * COLS + k]);
                expected[i * ROWS + j] = (float)sum;
            }
        }
        for (uint32_t isa = 0; isa < N_ISAS; isa++) {
            if (!support_has_isa(isas[isa]))
                continue;
            roco_backend *backend = support_backend_open(isas[isa], 1, N, ROCO_PRECISION_INT8);
            roco_weight *weight = NULL;
            assert_int_equal(backend->ops->weight_open(backend, &view, &weight, NULL), ROCO_OK);
            const roco_weight *weights[] = {weight};
            backend->ops->matmul(backend, weights, outs, 1, x, N, false);
            float distance = support_distance(out, expected, N * ROWS);
            if (!(distance <= TOLERANCE_LINEAR))
                fail_msg("%s %s: %g", isas[isa], view.name, (double)distance);
            backend->ops->weight_close(backend, weight);
            backend->ops->close(backend);
        }
        free(w);
        free((void *)view.data);
    }
}

/* Matrices of floats, and of Q2_K, as integers: each weight within half a step of what the file says, a step being a
 * 127th of the block's largest, rounded to f16; products are those of the rounded weights; odd widths stay floats. */
static void floats_become_integers(void **state)
{
    enum { ROWS = 40, COLS = 256, ODD = 40, N = 3 };
    static const roco_tensor_type types[] = {ROCO_TYPE_F32, ROCO_TYPE_F16, ROCO_TYPE_BF16, ROCO_TYPE_Q2_K};
    support_random random = {.state = 6};
    int32_t ids[ROWS];
    for (int32_t i = 0; i < ROWS; i++)
        ids[i] = i;
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t cols = ODD; cols <= COLS; cols += COLS - ODD) {
            if (cols % roco_type_find(types[t])->block_values)
                continue;
            roco_tensor_view view = support_tensor_open(&random, types[t], ROWS, cols);
            float *w = support_tensor_floats(&view), got[ROWS * COLS], x[N * COLS], out[2][N * ROWS];
            float *outs[2][1] = {{out[0]}, {out[1]}};
            support_random_fill(&random, x, N * cols);
            for (uint32_t precision = ROCO_PRECISION_INT8; precision <= ROCO_PRECISION_INT8_ALL; precision++) {
                roco_backend *backend = support_backend_open("auto", 2, ROWS, (roco_precision)precision);
                roco_weight *weight = NULL;
                assert_int_equal(backend->ops->weight_open(backend, &view, &weight, NULL), ROCO_OK);
                const bool all = precision == ROCO_PRECISION_INT8_ALL;
                const roco_weight *weights[] = {weight};
                backend->ops->matmul(backend, weights, outs[all], 1, x, N, false);
                backend->ops->embed(backend, weight, ids, ROWS, got);
                backend->ops->weight_close(backend, weight);
                backend->ops->close(backend);
            }
            for (uint32_t i = 0; i < ROWS * cols; i++) {
                float largest = 0;
                for (uint32_t k = i / 32 * 32; k < i / 32 * 32 + 32 && cols == COLS; k++)
                    largest = fmaxf(largest, fabsf(w[k]));
                assert_true(fabsf(got[i] - w[i]) <= largest / 127 * 0.51f + largest / 2048);
            }
            assert_true(support_distance(out[1], out[0], N * ROWS) <= (cols == COLS ? 0.02f : 0));
            free(w);
            free((void *)view.data);
        }
}

static float normal(support_random *random)
{
    float sum = 0; /* the sum of 12 uniform values has variance 4 */
    for (int i = 0; i < 12; i++)
        sum += support_random_float(random);
    return sum / 2;
}

static void int8_loses_little(void **state)
{
    enum { ROWS = 64, COLS = 1536, N = 4 };
    support_random random = {.state = 3};
    roco_tensor_view view = support_tensor_open(&random, ROCO_TYPE_Q8_0, ROWS, COLS);
    float x[N * COLS], out[2][N * ROWS];
    for (uint32_t i = 0; i < N * COLS; i++)
        x[i] = normal(&random);
    for (uint32_t precision = 0; precision < 2; precision++) {
        roco_backend *backend = support_backend_open("auto", 1, N, (roco_precision)precision);
        roco_weight *weight = NULL;
        assert_int_equal(backend->ops->weight_open(backend, &view, &weight, NULL), ROCO_OK);
        const roco_weight *weights[] = {weight};
        float *outs[] = {out[precision]};
        backend->ops->matmul(backend, weights, outs, 1, x, N, false);
        backend->ops->weight_close(backend, weight);
        backend->ops->close(backend);
    }
    double difference = 0, whole = 0;
    for (uint32_t i = 0; i < N * ROWS; i++) {
        difference += pow((double)out[1][i] - (double)out[0][i], 2);
        whole += pow((double)out[0][i], 2);
    }
    assert_true(sqrt(difference / whole) < (double)TOLERANCE_INT8_QUALITY);
    free((void *)view.data);
}

/* A row with a NaN, an infinity, or the largest and smallest floats: NaN out for the first two, nothing for others. */
static void odd_values_stay_in_their_row(void **state)
{
    enum { ROWS = 33, COLS = 256, N = 6 };
    support_random random = {.state = 4};
    for (uint32_t run = 0; run < 2 * N_ISAS; run++) {
        const char *isa = isas[run % N_ISAS];
        roco_precision precision = (roco_precision)(run / N_ISAS);
        if (!support_has_isa(isa))
            continue;
        roco_tensor_view view = support_tensor_open(&random, ROCO_TYPE_Q4_1, ROWS, COLS);
        roco_backend *backend = support_backend_open(isa, 1, N, precision);
        roco_weight *weight = NULL;
        assert_int_equal(backend->ops->weight_open(backend, &view, &weight, NULL), ROCO_OK);
        const roco_weight *weights[] = {weight};
        float x[N * COLS], clean[N * ROWS], out[N * ROWS], *outs[] = {clean};
        support_random_fill(&random, x, N * COLS);
        memset(x + 5 * COLS, 0, COLS * sizeof(float));
        backend->ops->matmul(backend, weights, outs, 1, x, N, false);
        x[40] = NAN;
        x[2 * COLS + 200] = -INFINITY;
        x[3 * COLS] = 1e38f;
        for (uint32_t i = 0; i < COLS; i++)
            x[4 * COLS + i] = 1e-42f;
        outs[0] = out;
        backend->ops->matmul(backend, weights, outs, 1, x, N, false);
        for (uint32_t j = 0; j < ROWS; j++) {
            assert_true(isnan(out[j]));
            assert_true(!isfinite(out[2 * ROWS + j]));
            assert_true(isfinite(out[3 * ROWS + j]));
            assert_true(fabsf(out[4 * ROWS + j]) < 1e-38f);
            assert_true(out[5 * ROWS + j] == 0);
        }
        assert_memory_equal(out + ROWS, clean + ROWS, ROWS * sizeof(float));
        backend->ops->weight_close(backend, weight);
        backend->ops->close(backend);
        free((void *)view.data);
    }
}

static void bad_matrices_are_refused_by_name(void **state)
{
    static const uint8_t data[4096];
    static const roco_tensor_view views[] = {
        {.name = "unknown type", .type = (roco_tensor_type)99, .n_rows = 1, .n_cols = 32, .data = data},
        {.name = "half a block", .type = ROCO_TYPE_Q4_0, .n_rows = 1, .n_cols = 48, .data = data},
        {.name = "no rows", .type = ROCO_TYPE_F32, .n_rows = 0, .n_cols = 32, .data = data},
        {.name = "no columns", .type = ROCO_TYPE_F32, .n_rows = 1, .n_cols = 0, .data = data},
        {.name = "too wide", .type = ROCO_TYPE_F32, .n_rows = 1, .n_cols = 1568, .data = data},
    };
    roco_backend *backend = support_backend_open("auto", 1, 1, ROCO_PRECISION_INT8);
    for (uint32_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        roco_weight *weight = NULL;
        roco_error error;
        assert_int_equal(backend->ops->weight_open(backend, &views[i], &weight, &error), ROCO_UNSUPPORTED);
        assert_string_equal(error.field, views[i].name);
        assert_null(weight);
    }
    backend->ops->weight_close(backend, NULL);
    assert_int_equal(backend->ops->weight_bytes(backend), 0);
    backend->ops->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_is_exact),           cmocka_unit_test(int8_is_what_it_says),
        cmocka_unit_test(floats_become_integers),       cmocka_unit_test(int8_loses_little),
        cmocka_unit_test(odd_values_stay_in_their_row), cmocka_unit_test(bad_matrices_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
