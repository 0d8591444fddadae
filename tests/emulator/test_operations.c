/* Every operation but attention, over its list of shapes: the CUDA backend's kernels give what the CPU backend gives.
 */
#include "support_cuda.h"
#include "support_tensor.h"
#include "tolerance.h"

#include "engine/sampler.h"

#include <math.h>
#include <string.h>

#define MOST_ROWS 96u

static roco_backend *cpu, *cuda;
static bool timed; /* which product multiplies is the device's choice */

static void open_both(uint32_t max_rows)
{
    const roco_backend_config config = {.threads = 1,
                                        .max_rows = max_rows,
                                        .max_width = 2048,
                                        .max_slots = 64,
                                        .stride = 16,
                                        .max_group = 1,
                                        .max_kv_heads = 1,
                                        .layout = roco_kv_layout_make(ROCO_KV_F16, 8, 8)};
    cpu = support_backend_open("portable", 1, max_rows, ROCO_PRECISION_F32);
    cuda = support_cuda_open(&config);
}

static int close_both(void **state)
{
    cpu->ops->close(cpu);
    cuda->ops->close(cuda);
    return 0;
}

static int open_for_all(void **state)
{
    open_both(MOST_ROWS);
    return 0;
}

static float *random_floats(support_random *random, size_t n, float scale)
{
    float *out = malloc(n * sizeof *out);
    support_random_fill(random, out, n);
    for (size_t i = 0; i < n; i++)
        out[i] *= scale;
    return out;
}

/* Takes what the device computed and frees both. */
static void compare(float *expected, float *device, size_t n, double tolerance, const char *what, uint32_t rows,
                    uint32_t width)
{
    float *got = support_cuda_take(cuda, device, n);
    const double distance = (double)support_distance(got, expected, n);
    if (!(distance <= tolerance))
        fail_msg("%s of %u x %u: %g from the CPU's", what, rows, width, distance);
    free(got);
    free(expected);
    support_cuda_count(1);
    support_cuda_next();
}

static const uint32_t widths[] = {1, 2, 15, 16, 17, 32, 64, 255, 576, 1023, 1531};
static const uint32_t counts[] = {1, 3, 7};
#define EACH(name, of) for (uint32_t name = 0; name < sizeof(of) / sizeof(of)[0]; name++)

static void test_rms_norm(void **state)
{
    support_random random = {.state = 1};
    EACH(w, widths)
    EACH(c, counts)
    {
        const uint32_t width = widths[w], n = counts[c];
        float *x = random_floats(&random, (size_t)n * width, 3), *gain = random_floats(&random, width, 1);
        float *expected = malloc((size_t)n * width * sizeof *expected);
        cpu->ops->rms_norm(cpu, x, gain, 1e-5f, n, width, expected);
        float *dx = support_cuda_put(cuda, x, (size_t)n * width), *dgain = support_cuda_put(cuda, gain, width);
        cuda->ops->rms_norm(cuda, dx, dgain, 1e-5f, n, width, dx); /* in place, as the engine does */
        compare(expected, dx, (size_t)n * width, 2 * TOLERANCE_RMS_NORM, "rms_norm", n, width);
        cuda->ops->memory_close(cuda, dgain);
        free(x);
        free(gain);
    }
}

typedef void gate_operation(roco_backend *, float *, const float *, uint32_t, uint32_t);

static void check_gate(gate_operation *on_cpu, gate_operation *on_cuda, const char *name)
{
    support_random random = {.state = 2};
    EACH(w, widths)
    EACH(c, counts)
    {
        const uint32_t width = widths[w], n = counts[c];
        const size_t values = (size_t)n * width;
        float *gate = random_floats(&random, values, 20), *up = random_floats(&random, values, 1);
        float *dgate = support_cuda_put(cuda, gate, values), *dup = support_cuda_put(cuda, up, values);
        on_cpu(cpu, gate, up, n, width);
        on_cuda(cuda, dgate, dup, n, width);
        compare(gate, dgate, values, 2 * TOLERANCE_GEGLU, name, n, width);
        cuda->ops->memory_close(cuda, dup);
        free(up);
    }
}

static void test_gates(void **state)
{
    check_gate(cpu->ops->swiglu, cuda->ops->swiglu, "swiglu");
    check_gate(cpu->ops->geglu, cuda->ops->geglu, "geglu");
}

static void test_gates_of_odd_values(void **state)
{
    float gate[] = {NAN, INFINITY, 1e30f, -1e4f, 0, -0.0f}, up[] = {1, 1, 1, 1, 1, 1};
    float *dgate = support_cuda_put(cuda, gate, 6), *dup = support_cuda_put(cuda, up, 6);
    cuda->ops->swiglu(cuda, dgate, dup, 1, 6);
    float *got = support_cuda_take(cuda, dgate, 6);
    assert_true(isnan(got[0]) && isinf(got[1]) && got[2] == 1e30f);
    assert_true(got[3] <= 0 && got[3] > -1e-30f && got[4] == 0 && got[5] == 0);
    cuda->ops->memory_close(cuda, dup);
    free(got);
    support_cuda_count(1);
}

/* x = cap tanh((x + bias + 0.5 y) * 3 / cap) by four operations. */
static void test_elements(void **state)
{
    support_random random = {.state = 3};
    EACH(w, widths)
    EACH(c, counts)
    {
        const uint32_t width = widths[w], n = counts[c];
        const size_t values = (size_t)n * width;
        float *x = random_floats(&random, values, 1), *y = random_floats(&random, values, 1);
        float *bias = random_floats(&random, width, 1);
        float *dx = support_cuda_put(cuda, x, values), *dy = support_cuda_put(cuda, y, values);
        float *dbias = support_cuda_put(cuda, bias, width);
        for (int i = 0; i < 2; i++) {
            roco_backend *b = i ? cuda : cpu;
            b->ops->add_bias(b, i ? dx : x, i ? dbias : bias, n, width);
            b->ops->add(b, i ? dx : x, i ? dy : y, 0.5f, n, width);
            b->ops->scale(b, i ? dx : x, 3.0f, n, width);
            b->ops->softcap(b, i ? dx : x, 5.0f, n, width);
        }
        compare(x, dx, values, 2 * TOLERANCE_ELEMENTS, "elements", n, width);
        cuda->ops->memory_close(cuda, dy);
        cuda->ops->memory_close(cuda, dbias);
        free(y);
        free(bias);
    }
}

static void test_rope(void **state)
{
    static const uint32_t dims[][2] = {{2, 2}, {6, 4}, {16, 16}, {64, 64}, {80, 20}, {128, 128}, {256, 64}};
    support_random random = {.state = 4};
    EACH(d, dims)
    EACH(c, counts)
    for (int halves = 0; halves < 2; halves++) {
        const uint32_t head = dims[d][0], dim = dims[d][1], n = counts[c], n_heads = 1 + d % 3;
        const size_t values = (size_t)n * n_heads * head, angles = (size_t)n * dim / 2;
        float *x = random_floats(&random, values, 1), *cosines = random_floats(&random, angles, 1);
        float *sines = random_floats(&random, angles, 1), *dx = support_cuda_put(cuda, x, values);
        float *dcosines = support_cuda_put(cuda, cosines, angles), *dsines = support_cuda_put(cuda, sines, angles);
        cpu->ops->rope(cpu, x, cosines, sines, n, n_heads, head, dim, halves);
        cuda->ops->rope(cuda, dx, dcosines, dsines, n, n_heads, head, dim, halves);
        compare(x, dx, values, TOLERANCE_ROPE, "rope", n, head);
        cuda->ops->memory_close(cuda, dcosines);
        cuda->ops->memory_close(cuda, dsines);
        free(cosines);
        free(sines);
    }
}

static void test_gather(void **state)
{
    support_random random = {.state = 5};
    static const uint32_t rows[] = {6, 0, 6, 3, 5};
    EACH(w, widths)
    {
        const uint32_t width = widths[w];
        float *x = random_floats(&random, 7 * width, 1), *expected = malloc(5 * width * sizeof *expected);
        float *dx = support_cuda_put(cuda, x, 7 * width), *dout = support_cuda_put(cuda, NULL, 5 * width);
        cpu->ops->gather(cpu, x, rows, 5, width, expected);
        cuda->ops->gather(cuda, dx, rows, 5, width, dout);
        compare(expected, dout, 5 * width, 0, "gather", 5, width);
        cuda->ops->memory_close(cuda, dx);
        free(x);
    }
}

/* --- matrices --- */

/* Products against float64; the library's path rounds both sides to 11 or 8 bits, which add up like a random walk. */
static double product_tolerance(roco_tensor_type type, bool by_library)
{
    if (!by_library || type == ROCO_TYPE_F32)
        return (double)TOLERANCE_LINEAR;
    return type == ROCO_TYPE_BF16 ? 1e-2 : 2e-3;
}

static float *product(const float *weight, const roco_tensor_view *view, const float *x, uint32_t n, const float *start)
{
    float *out = malloc((size_t)n * view->n_rows * sizeof *out);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < view->n_rows; r++) {
            double sum = start ? (double)start[(size_t)i * view->n_rows + r] : 0;
            for (uint32_t k = 0; k < view->n_cols; k++)
                sum += (double)weight[(size_t)r * view->n_cols + k] * (double)x[(size_t)i * view->n_cols + k];
            out[(size_t)i * view->n_rows + r] = (float)sum;
        }
    return out;
}

static void check_product(const roco_tensor_view *view, roco_weight *weight, const float *floats, uint32_t n, bool add,
                          support_random *random)
{
    const size_t inputs = (size_t)n * view->n_cols, outputs = (size_t)n * view->n_rows;
    const bool by_library = timed || n > (roco_type_is_quantized(view->type) ? 64 : 8);
    float *x = random_floats(random, inputs, 1), *start = random_floats(random, outputs, 1);
    float *expected = product(floats, view, x, n, add ? start : NULL);
    float *dx = support_cuda_put(cuda, x, inputs), *dout = support_cuda_put(cuda, add ? start : NULL, outputs);
    const roco_weight *weights[] = {weight};
    cuda->ops->matmul(cuda, weights, &dout, 1, dx, n, add);
    compare(expected, dout, outputs, product_tolerance(view->type, by_library), roco_type_find(view->type)->name, n,
            view->n_cols);
    cuda->ops->memory_close(cuda, dx);
    free(x);
    free(start);
}

static void check_embedding(const roco_tensor_view *view, roco_weight *weight, const float *floats)
{
    int32_t ids[5];
    float *expected = malloc((size_t)5 * view->n_cols * sizeof *expected);
    float *out = support_cuda_put(cuda, NULL, (size_t)5 * view->n_cols);
    for (uint32_t i = 0; i < 5; i++) {
        ids[i] = (int32_t)(i * 7 % view->n_rows);
        memcpy(expected + (size_t)i * view->n_cols, floats + (size_t)ids[i] * view->n_cols,
               view->n_cols * sizeof *expected);
    }
    cuda->ops->embed(cuda, weight, ids, 5, out);
    compare(expected, out, (size_t)5 * view->n_cols, 0, "embed", 5, view->n_cols);
}

static void test_matrices(void **state)
{
    static const uint32_t shapes[][2] = {{1, 1}, {17, 2}, {33, 8}}; /* rows of the matrix, blocks or values a row */
    static const uint32_t batches[] = {1, 2, 3, 4, 5, 8, 9, 17, 65};
    support_random random = {.state = 6};
    for (uint32_t t = 0; t < support_n_types; t++)
        EACH(s, shapes)
        {
            const uint32_t block = roco_type_find(support_types[t])->block_values;
            const uint32_t n_cols = shapes[s][1] * (block == 1 ? 37 : block == 256 && s == 2 ? 128 : block);
            roco_tensor_view view =
                support_tensor_open(&random, support_types[t], shapes[s][0], n_cols < block ? block : n_cols);
            float *floats = support_tensor_floats(&view);
            roco_weight *weight;
            assert_int_equal(cuda->ops->weight_open(cuda, &view, &weight, NULL), ROCO_OK);
            check_embedding(&view, weight, floats);
            EACH(b, batches)
            if (s < 2 || b % 4 == 0)
                check_product(&view, weight, floats, batches[b], b % 2, &random);
            cuda->ops->weight_close(cuda, weight);
            free(floats);
            free((void *)view.data);
        }
    assert_int_equal(cuda->ops->weight_bytes(cuda), 0);
}

/* Both products give the same where the choice is the device's, and a form is timed once. */
static void test_timed_products(void **state)
{
    support_random random = {.state = 8};
    roco_backend *const untimed = cuda;
    const roco_backend_config config = {.threads = 1,
                                        .max_rows = 24,
                                        .max_width = 256,
                                        .max_slots = 64,
                                        .stride = 16,
                                        .max_group = 1,
                                        .max_kv_heads = 1,
                                        .times_products = true,
                                        .layout = roco_kv_layout_make(ROCO_KV_F16, 8, 8)};
    static const roco_tensor_type types[] = {ROCO_TYPE_Q8_0, ROCO_TYPE_BF16, ROCO_TYPE_Q8_0, ROCO_TYPE_F32};
    cuda = support_cuda_open(&config);
    timed = true;
    EACH(t, types)
    {
        roco_tensor_view view = support_tensor_open(&random, types[t], 17, 64);
        float *floats = support_tensor_floats(&view);
        roco_weight *weight;
        assert_int_equal(cuda->ops->weight_open(cuda, &view, &weight, NULL), ROCO_OK);
        EACH(c, counts) check_product(&view, weight, floats, counts[c], false, &random);
        cuda->ops->weight_close(cuda, weight);
        free(floats);
        free((void *)view.data);
    }
    assert_int_equal(cuda->ops->weight_bytes(cuda), 0);
    cuda->ops->close(cuda);
    cuda = untimed;
    timed = false;
}

static void test_refusals(void **state)
{
    support_random random = {.state = 7};
    roco_tensor_view view = support_tensor_open(&random, ROCO_TYPE_Q4_K, 2, 256);
    roco_weight *weight;
    roco_error error;
    view.n_cols = 128;
    assert_int_equal(cuda->ops->weight_open(cuda, &view, &weight, &error), ROCO_UNSUPPORTED);
    view.n_cols = 4096;
    assert_int_equal(cuda->ops->weight_open(cuda, &view, &weight, &error), ROCO_UNSUPPORTED);
    view.type = (roco_tensor_type)77;
    assert_int_equal(cuda->ops->weight_open(cuda, &view, &weight, &error), ROCO_UNSUPPORTED);
    assert_null(weight);
    free((void *)view.data);
}

/* --- sampling --- */

/* The engine's own sampler over the same logits. */
static void check_draws(const roco_sampling *sampling, uint32_t n_vocab, uint64_t seed)
{
    enum { ROWS = 6 };
    support_random random = {.state = seed};
    float *logits = random_floats(&random, (size_t)ROWS * n_vocab, 12);
    void *scratch = malloc(roco_sampler_scratch_bytes(n_vocab));
    roco_sample_row rows[ROWS];
    int32_t tokens[ROWS];
    for (uint32_t i = 0; i < n_vocab; i += 3) /* ties */
        logits[i] = roundf(logits[i]);
    float *device = support_cuda_put(cuda, logits, (size_t)ROWS * n_vocab);
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (roco_sample_row){.row = ROWS - 1 - i,
                                    .top_k = sampling->top_k,
                                    .temperature = sampling->temperature,
                                    .top_p = sampling->top_p,
                                    .min_p = sampling->min_p,
                                    .seed = seed,
                                    .index = i};
    cuda->ops->sample(cuda, device, n_vocab, rows, ROWS, tokens);
    for (uint32_t i = 0; i < ROWS; i++) {
        roco_sampling own = *sampling;
        own.seed = seed;
        const roco_draw draw = {.sampling = &own, .index = i};
        int32_t token;
        assert_int_equal(roco_sample(&draw, logits + (size_t)(ROWS - 1 - i) * n_vocab, n_vocab, scratch, &token),
                         ROCO_OK);
        if (tokens[i] != token)
            fail_msg("row %u of %u tokens, seed %d: %d, the engine draws %d", i, n_vocab, (int)seed, tokens[i], token);
    }
    cuda->ops->memory_close(cuda, device);
    free(logits);
    free(scratch);
    support_cuda_count(1);
}

static void test_sampling(void **state)
{
    static const roco_sampling samplings[] = {
        {.temperature = 0, .top_p = 1},
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.7f, .top_p = 1, .top_k = 5},
        {.temperature = 2, .top_p = 0.6f},
        {.temperature = 1.5f, .top_p = 0, .top_k = 40},
        {.temperature = 1, .top_p = 1, .min_p = 0.05f},
        {.temperature = 2, .top_p = 0.9f, .top_k = 50, .min_p = 0.02f},
        {.temperature = 1, .top_p = 1, .top_k = 1},
    };
    static const uint32_t vocabularies[] = {3, 257, 1000, 3001};
    EACH(s, samplings)
    EACH(v, vocabularies)
    check_draws(&samplings[s], vocabularies[v], 100 * s + v);
}

static void test_sampling_of_broken_rows(void **state)
{
    float logits[4][3] = {{1, NAN, 2}, {-INFINITY, -INFINITY, -INFINITY}, {1, INFINITY, 0}, {-INFINITY, 5, 5}};
    const roco_sample_row rows[] = {{.row = 0, .top_p = 1, .temperature = 1},
                                    {.row = 1, .top_p = 1, .temperature = 1},
                                    {.row = 2, .top_p = 1},
                                    {.row = 3, .top_p = 1}};
    int32_t tokens[4];
    float *device = support_cuda_put(cuda, logits[0], 12);
    cuda->ops->sample(cuda, device, 3, rows, 4, tokens);
    cuda->ops->memory_close(cuda, device);
    assert_true(tokens[0] == -1 && tokens[1] == -1 && tokens[2] == -1 && tokens[3] == 1);
    support_cuda_count(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_gates_of_odd_values),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_timed_products),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_sampling_of_broken_rows),
    };
    support_cuda_start(argc, argv);
    return support_cuda_end(cmocka_run_group_tests(tests, open_for_all, close_both));
}
