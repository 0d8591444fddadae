/* The whole engine on the emulated backend beside the CPU one, over tiny models: the same greedy tokens, the same kept
 * positions, logits close. */
#include "support_cuda.h"

#include "engine/engine.h"
#include "engine/policies.h"
#include "support_gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STRIDE 16u
#define STEP   64u
#define MOST   160u /* tokens of a sequence */

typedef struct run {
    const char *policy;
    uint32_t budget, prompt, answer;
    bool by_rank;
    /* state, and what the CPU's engine gave */
    roco_cache *cache;
    int32_t tokens[MOST];
    uint32_t fed, known;
} run;

static const run samples[] = {
    {.policy = "full", .prompt = 40, .answer = 30},
    {.policy = "roco", .budget = 32, .prompt = 60, .answer = 8},
    {.policy = "roco", .budget = 33, .prompt = 25, .answer = 14},
    {.policy = "recency", .budget = 33, .prompt = 48, .answer = 7},
    {.policy = "tova", .budget = 36, .prompt = 41, .answer = 6},
    {.policy = "h2o", .budget = 32, .prompt = 50, .answer = 10},
    {.policy = "keydiff", .budget = 34, .prompt = 55, .answer = 4},
    {.policy = "roco", .budget = 32, .prompt = 62, .answer = 12, .by_rank = true},
    {.policy = "r-kv", .budget = 35, .prompt = 39, .answer = 6, .by_rank = true},
};
#define N_SAMPLES (sizeof samples / sizeof samples[0])

typedef struct side {
    roco_engine *engine;
    uint32_t next_page;
    run runs[N_SAMPLES];
} side;

static void open_cache(side *s, run *r)
{
    const roco_cache_spec spec = {.policy = roco_policy_find(r->policy),
                                  .budget = r->budget,
                                  .length = r->prompt + r->answer,
                                  .by_rank = r->by_rank,
                                  .sink = 4,
                                  .recent = 10};
    const uint32_t n = roco_cache_pages(s->engine, &spec);
    uint32_t *pages = malloc(n * sizeof *pages);
    for (uint32_t i = 0; i < n; i++)
        pages[i] = s->next_page + n - 1 - i;
    s->next_page += n;
    assert_true(s->next_page <= roco_engine_describe(s->engine)->n_pages);
    roco_error error = {0};
    if (roco_cache_open(s->engine, &spec, pages, &r->cache, &error))
        fail_msg("%s", error.message);
    free(pages);
}

static void open_side(side *s, roco_source *source, const char *backend, const char *precision, roco_kv_type type)
{
    const roco_engine_config config = {.source = source,
                                       .backend = backend,
                                       .precision = precision,
                                       .fixed_products = true,
                                       .threads = 1,
                                       .kv_type = type,
                                       .kv_pool_tokens = 2048,
                                       .stride = STRIDE,
                                       .step_tokens = STEP};
    roco_error error = {0};
    *s = (side){0};
    if (roco_engine_open(&config, &s->engine, &error))
        fail_msg("%s", error.message);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        run *r = &s->runs[i];
        *r = samples[i];
        for (uint32_t t = 0; t < r->prompt; t++)
            r->tokens[t] = (int32_t)((i * 2654435761u + t * 40503u + t * t * 7u) % 300);
        r->known = r->prompt;
        open_cache(s, r);
    }
}

static void close_side(side *s)
{
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        roco_cache_close(s->engine, s->runs[i].cache);
    roco_engine_close(s->engine);
}

/* One step of what every run can do; false when all have ended. logits [STEP, n_vocab]. */
static bool step(side *s, float *logits, uint32_t *n_rows)
{
    static const roco_sampling greedy = {.top_p = 1};
    const uint32_t n_vocab = roco_engine_describe(s->engine)->n_vocab;
    roco_step_item items[N_SAMPLES];
    run *owners[N_SAMPLES];
    uint32_t n = 0, rows = 0;
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        run *r = &s->runs[i];
        const uint32_t room = (STEP - rows) / STRIDE * STRIDE, left = r->prompt - r->fed;
        const bool decode = r->fed >= r->prompt;
        const uint32_t take = decode ? (r->known - r->prompt < r->answer && rows < STEP) : left < room ? left : room;
        if (take == 0)
            continue;
        items[n] = (roco_step_item){.cache = r->cache,
                                    .tokens = r->tokens + r->fed,
                                    .n_tokens = take,
                                    .decode = decode,
                                    .sampling = r->fed + take >= r->prompt ? &greedy : NULL,
                                    .logits = logits + (size_t)rows * n_vocab};
        rows += take;
        owners[n++] = r;
    }
    *n_rows = rows;
    if (n == 0)
        return false;
    roco_error error = {0};
    if (roco_engine_step(s->engine, items, n, &error) != ROCO_OK)
        fail_msg("%s", error.message);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(items[i].status, ROCO_OK);
        owners[i]->fed += items[i].n_tokens;
        if (items[i].sampling)
            owners[i]->tokens[owners[i]->known++] = items[i].token;
    }
    return true;
}

static int ascending(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static void compare_caches(side *cpu, side *cuda)
{
    const roco_engine_info *info = roco_engine_describe(cpu->engine);
    int32_t a[MOST], b[MOST];
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        roco_cache_check(cuda->engine, cuda->runs[i].cache);
        for (uint32_t head = 0; head < info->n_layers * info->n_kv_heads; head++) {
            const uint32_t layer = head / info->n_kv_heads, kv = head % info->n_kv_heads;
            const uint32_t n = roco_cache_positions(cpu->engine, cpu->runs[i].cache, layer, kv, a);
            assert_int_equal(roco_cache_positions(cuda->engine, cuda->runs[i].cache, layer, kv, b), n);
            qsort(a, n, sizeof *a, ascending);
            qsort(b, n, sizeof *b, ascending);
            assert_memory_equal(a, b, n * sizeof *a);
        }
    }
}

static void check(const tiny_model *model, const char *precision, roco_kv_type type, double tolerance)
{
    char path[64];
    side cpu, cuda;
    roco_source *source;
    snprintf(path, sizeof path, "/tmp/roco-emulator-%d.gguf", (int)getpid());
    tiny_model_save(model, path);
    assert_int_equal(roco_source_open(path, &source, NULL), ROCO_OK);
    open_side(&cpu, source, "cpu", precision, type);
    open_side(&cuda, source, "cuda", precision, type);
    const uint32_t n_vocab = roco_engine_describe(cpu.engine)->n_vocab;
    float *a = malloc((size_t)STEP * n_vocab * sizeof *a), *b = malloc((size_t)STEP * n_vocab * sizeof *b);
    uint32_t n_a, n_b;
    while (step(&cpu, a, &n_a)) {
        assert_true(step(&cuda, b, &n_b) && n_a == n_b);
        double most = 0;
        for (size_t i = 0; i < (size_t)n_a * n_vocab; i++)
            most = fmax(most, fabs((double)a[i] - (double)b[i]));
        if (!(most <= tolerance))
            fail_msg("logits differ by %g", most);
        for (uint32_t i = 0; i < N_SAMPLES; i++)
            assert_memory_equal(cpu.runs[i].tokens, cuda.runs[i].tokens, sizeof cpu.runs[i].tokens);
        support_cuda_count(1);
        support_cuda_next();
    }
    compare_caches(&cpu, &cuda);
    free(a);
    free(b);
    close_side(&cpu);
    close_side(&cuda);
    roco_source_close(source);
    unlink(path);
}

static void test_f32(void **state)
{
    const tiny_model model = tiny_model_default();
    check(&model, "f32", ROCO_KV_F32, 1e-4);
}

/* Decode steps ran as graphs: none of what their launches were given by value was of one step alone, and rows that fill
 * a bucket change nothing. */
static void test_graphs(void **state)
{
    const tiny_model model = tiny_model_default();
    const uint32_t before = support_cuda_graph_runs();
    check(&model, "f32", ROCO_KV_F16, 1e-3);
    if (before != UINT32_MAX)
        assert_in_range(support_cuda_graph_runs() - before, 12, 40);
}

static void test_broken_graphs(void **state)
{
    const tiny_model model = tiny_model_default();
    const uint32_t before = support_cuda_graph_runs();
    support_cuda_break_graphs(true);
    check(&model, "f32", ROCO_KV_F32, 1e-4);
    support_cuda_break_graphs(false);
    assert_int_equal(support_cuda_graph_runs(), before);
}

/* The library's path rounds activations and weights to f16. */
static void test_quantized(void **state)
{
    tiny_model model = tiny_model_default();
    model.type = ROCO_TYPE_Q8_0;
    check(&model, "f32", ROCO_KV_F16, 3e-3);
}

static void test_refusals(void **state)
{
    const tiny_model model = tiny_model_default();
    char path[64];
    side s;
    roco_source *source;
    snprintf(path, sizeof path, "/tmp/roco-emulator-%d.gguf", (int)getpid());
    tiny_model_save(&model, path);
    assert_int_equal(roco_source_open(path, &source, NULL), ROCO_OK);
    roco_engine_config config = {.source = source,
                                 .backend = "cuda",
                                 .device = 63,
                                 .precision = "f32",
                                 .threads = 1,
                                 .kv_pool_tokens = 2048,
                                 .stride = STRIDE,
                                 .step_tokens = STEP};
    roco_error error;
    assert_int_equal(roco_engine_open(&config, &s.engine, &error), ROCO_UNSUPPORTED);
    assert_string_equal(error.field, "device");
    config.device = 0;
    assert_int_equal(roco_engine_open(&config, &s.engine, &error), ROCO_OK);
    const roco_cache_spec spec = {
        .policy = roco_policy_find("roco"), .budget = 64, .length = 100, .sink = 4, .recent = 10, .compensate = true};
    const uint32_t pages[64] = {0};
    roco_cache *cache;
    assert_int_equal(roco_cache_open(s.engine, &spec, pages, &cache, &error), ROCO_UNSUPPORTED);
    assert_string_equal(error.field, "kv_compensation");
    roco_engine_close(s.engine);
    config.kv_pool_tokens = 0;
    config.kv_pool_share = "0.5";
    if (support_cuda_set_free_bytes(1 << 20)) {
        assert_int_equal(roco_engine_open(&config, &s.engine, &error), ROCO_OK);
        const roco_engine_info *info = roco_engine_describe(s.engine);
        assert_int_equal(info->free_bytes, 1 << 20);
        assert_int_equal(info->n_pages, (1 << 19) / info->layout.page_bytes);
        roco_engine_close(s.engine);
        support_cuda_set_free_bytes(1000);
        assert_int_equal(roco_engine_open(&config, &s.engine, &error), ROCO_INVALID);
        assert_string_equal(error.field, "kv-pool-share");
        assert_non_null(strstr(error.message, "the pool holds 0 pages of 2432 bytes of 1000 bytes that are free;"));
    }
    roco_source_close(source);
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),       cmocka_unit_test(test_graphs),   cmocka_unit_test(test_broken_graphs),
        cmocka_unit_test(test_quantized), cmocka_unit_test(test_refusals),
    };
    support_cuda_start(argc, argv);
    return support_cuda_end(cmocka_run_group_tests(tests, NULL, NULL));
}
