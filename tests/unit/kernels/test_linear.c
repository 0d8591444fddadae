/* Matrix products: every variant against portable C, and what must be the same bit for bit. */
#include "support_tensor.h"
#include "tolerance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_ROWS 33u

static const char *const isas[] = {"portable", "avx2", "avxvnni", "avx512"};
#define N_ISAS (sizeof(isas) / sizeof(isas[0]))
static const uint32_t batches[] = {1, 2, 3, 7, 16, MOST_ROWS};

static const struct {
    uint32_t n_rows, n_cols;
} shapes[] = {{1, 32},   {15, 32},  {16, 64},  {17, 64},  {33, 96},   {48, 64},   {576, 64}, {1, 256}, {17, 256},
              {48, 256}, {48, 576}, {15, 576}, {1, 1536}, {16, 1536}, {48, 1536}, {17, 1},   {48, 33}, {33, 250}};

/* Types without blocks take any width; the K formats need 256. */
static bool shape_fits(roco_tensor_type type, uint32_t n_cols)
{
    return n_cols % roco_type_find((uint32_t)type)->block_values == 0;
}

static roco_weight *open_weight(roco_backend *backend, const roco_tensor_view *view)
{
    roco_weight *weight = NULL;
    assert_int_equal(backend->ops->weight_open(backend, view, &weight, NULL), ROCO_OK);
    return weight;
}

static float *multiply_by(roco_backend *backend, const roco_weight *weight, uint32_t n_rows, const float *x, uint32_t n)
{
    float *out = calloc((size_t)n * n_rows, sizeof(*out));
    assert_non_null(out);
    backend->ops->matmul(backend, &weight, &out, 1, x, n, false);
    return out;
}

static float *multiply(roco_backend *backend, const roco_tensor_view *view, const float *x, uint32_t n)
{
    roco_weight *weight = open_weight(backend, view);
    float *out = multiply_by(backend, weight, view->n_rows, x, n);
    backend->ops->weight_close(backend, weight);
    return out;
}

typedef void check_function(const roco_tensor_view *view, const float *x, roco_precision precision);

static void for_all_shapes(check_function *check)
{
    support_random random = {.state = 6};
    for (uint32_t precision = 0; precision < 2; precision++) {
        for (uint32_t t = 0; t < support_n_types; t++) {
            for (uint32_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
                if (!shape_fits(support_types[t], shapes[s].n_cols))
                    continue;
                roco_tensor_view view =
                    support_tensor_open(&random, support_types[t], shapes[s].n_rows, shapes[s].n_cols);
                float *x = malloc((size_t)MOST_ROWS * view.n_cols * sizeof(*x));
                support_random_fill(&random, x, (size_t)MOST_ROWS * view.n_cols);
                check(&view, x, (roco_precision)precision);
                free(x);
                free((void *)view.data);
            }
        }
    }
}

static void check_against_portable(const roco_tensor_view *view, const float *x, roco_precision precision)
{
    roco_backend *portable = support_backend_open("portable", 1, MOST_ROWS, precision);
    float *expected = multiply(portable, view, x, MOST_ROWS);
    for (uint32_t i = 1; i < N_ISAS; i++) {
        if (!support_has_isa(isas[i]))
            continue;
        roco_backend *backend = support_backend_open(isas[i], 2, MOST_ROWS, precision);
        float *out = multiply(backend, view, x, MOST_ROWS);
        float distance = support_distance(out, expected, (size_t)MOST_ROWS * view->n_rows);
        if (!(distance <= TOLERANCE_LINEAR))
            fail_msg("%s %s %u x %u: %g", isas[i], view->name, view->n_rows, view->n_cols, (double)distance);
        free(out);
        backend->ops->close(backend);
    }
    free(expected);
    portable->ops->close(portable);
}

static void variants_agree_with_portable(void **state)
{
    for_all_shapes(check_against_portable);
}

static void check_company(const roco_tensor_view *view, const float *x, roco_precision precision)
{
    if ((size_t)view->n_rows * view->n_cols > 48 * 576)
        return;
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!support_has_isa(isas[i]))
            continue;
        roco_backend *backend = support_backend_open(isas[i], 1, MOST_ROWS, precision);
        roco_weight *weight = open_weight(backend, view);
        float *all = multiply_by(backend, weight, view->n_rows, x, MOST_ROWS);
        for (uint32_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++) {
            uint32_t first = MOST_ROWS - batches[b];
            float *some = multiply_by(backend, weight, view->n_rows, x + (size_t)first * view->n_cols, batches[b]);
            assert_memory_equal(some, all + (size_t)first * view->n_rows,
                                (size_t)batches[b] * view->n_rows * sizeof(float));
            free(some);
        }
        free(all);
        backend->ops->weight_close(backend, weight);
        backend->ops->close(backend);
    }
}

static void a_row_does_not_depend_on_its_company(void **state)
{
    for_all_shapes(check_company);
}

static void threads_do_not_change_a_bit(void **state)
{
    static const uint32_t counts[] = {1, 2, 5};
    support_random random = {.state = 8};
    roco_tensor_view view = support_tensor_open(&random, ROCO_TYPE_Q4_1, 1000, 256);
    const uint32_t n = 300; /* several runs of rows */
    float *x = malloc((size_t)n * 256 * sizeof(*x));
    support_random_fill(&random, x, (size_t)n * 256);
    for (uint32_t i = 0; i < N_ISAS; i++) {
        if (!support_has_isa(isas[i]))
            continue;
        float *expected = NULL;
        for (uint32_t c = 0; c < 3; c++) {
            roco_backend *backend = support_backend_open(isas[i], counts[c], n, ROCO_PRECISION_INT8);
            float *out = multiply(backend, &view, x, n);
            if (expected != NULL)
                assert_memory_equal(out, expected, (size_t)n * 1000 * sizeof(float));
            free(expected);
            expected = out;
            backend->ops->close(backend);
        }
        free(expected);
    }
    free(x);
    free((void *)view.data);
}

/* More rows than max_rows, four matrices of different types in one call, added to what is there. */
static void many_matrices_share_one_call(void **state)
{
    enum { N = 20, COLS = 256 };
    static const roco_tensor_type types[] = {ROCO_TYPE_Q6_K, ROCO_TYPE_F32, ROCO_TYPE_Q4_0, ROCO_TYPE_Q8_0};
    static const uint32_t rows[] = {50, 7, 32, 100};
    support_random random = {.state = 9};
    roco_backend *backend = support_backend_open("auto", 2, 8, ROCO_PRECISION_INT8);
    float x[N * COLS];
    support_random_fill(&random, x, N * COLS);
    const roco_weight *weights[4];
    float *outs[4], *alone[4];
    for (uint32_t w = 0; w < 4; w++) {
        roco_tensor_view view = support_tensor_open(&random, types[w], rows[w], COLS);
        weights[w] = open_weight(backend, &view);
        alone[w] = multiply(backend, &view, x, N);
        outs[w] = malloc((size_t)N * rows[w] * sizeof(float));
        for (uint32_t i = 0; i < N * rows[w]; i++)
            outs[w][i] = (float)i;
        free((void *)view.data);
    }
    backend->ops->matmul(backend, weights, outs, 4, x, N, true);
    for (uint32_t w = 0; w < 4; w++) {
        for (uint32_t i = 0; i < N * rows[w]; i++)
            assert_true(outs[w][i] == (float)i + alone[w][i]);
        free(outs[w]);
        free(alone[w]);
        backend->ops->weight_close(backend, (roco_weight *)weights[w]);
    }
    assert_int_equal(backend->ops->weight_bytes(backend), 0);
    backend->ops->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_agree_with_portable),
        cmocka_unit_test(a_row_does_not_depend_on_its_company),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(many_matrices_share_one_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
