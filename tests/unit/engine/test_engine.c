/* The engine on tiny seeded models: company, steps and threads change nothing; caches hold what their budgets say. */
#include "engine/engine.h"
#include "engine/policies.h"
#include "support_gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STRIDE 16u
#define STEP   64u

typedef struct fixture {
    char path[64];
    roco_source *gguf;
    roco_engine *engine;
    uint32_t next_page; /* pages are dealt in turn and never given back: tests are short */
} fixture;

static void open_fixture(fixture *f, const tiny_model *model, const char *precision, uint32_t threads)
{
    *f = (fixture){0};
    snprintf(f->path, sizeof f->path, "/tmp/roco-test-%d.gguf", (int)getpid());
    tiny_model_save(model, f->path);
    roco_error error = {0};
    assert_int_equal(roco_source_open(f->path, &f->gguf, &error), ROCO_OK);
    roco_engine_config config = {.source = f->gguf,
                                 .backend = "cpu",
                                 .precision = precision,
                                 .threads = threads,
                                 .kv_type = ROCO_KV_F16,
                                 .kv_pool_tokens = 8192,
                                 .stride = STRIDE,
                                 .step_tokens = STEP};
    if (roco_engine_open(&config, &f->engine, &error))
        fail_msg("%s", error.message);
}

static void close_fixture(fixture *f)
{
    roco_engine_close(f->engine);
    roco_source_close(f->gguf);
    unlink(f->path);
}

static roco_cache *open_cache(fixture *f, const char *policy, uint32_t budget, uint32_t length,
                              const uint32_t *head_budgets)
{
    roco_cache_spec spec = {.policy = roco_policy_find(policy),
                            .budget = budget,
                            .length = length,
                            .sink = 4,
                            .recent = 10,
                            .head_budgets = head_budgets};
    const uint32_t n = roco_cache_pages(f->engine, &spec);
    uint32_t *pages = malloc(n * sizeof *pages);
    for (uint32_t i = 0; i < n; i++)
        pages[i] = f->next_page + n - 1 - i;
    f->next_page += n;
    assert_true(f->next_page <= roco_engine_describe(f->engine)->n_pages);
    roco_cache *cache = NULL;
    roco_error error = {0};
    if (roco_cache_open(f->engine, &spec, pages, &cache, &error))
        fail_msg("%s", error.message);
    free(pages);
    return cache;
}

/* A sequence to run: a seeded prompt, then `answer` greedy tokens. All its logits of answer rows are kept. */
typedef struct run {
    const char *policy;
    uint32_t budget, prompt, answer, seed;
    /* state */
    roco_cache *cache;
    int32_t tokens[512];
    uint32_t fed, known;
    float *logits; /* [answer, n_vocab] */
} run;

static void start(fixture *f, run *r)
{
    const uint32_t n_vocab = roco_engine_describe(f->engine)->n_vocab;
    for (uint32_t i = 0; i < r->prompt; i++)
        r->tokens[i] = (int32_t)((r->seed * 2654435761u + i * 40503u + i * i * 7u) % n_vocab);
    r->known = r->prompt;
    r->fed = 0;
    r->cache = open_cache(f, r->policy, r->budget, r->prompt + r->answer, NULL);
    r->logits = calloc((size_t)r->answer * n_vocab, sizeof *r->logits);
}

/* Rows this run may use now: one, or whole strides. */
static uint32_t next_rows(const run *r, uint32_t room)
{
    if (r->fed >= r->prompt)
        return r->known - r->prompt < r->answer ? 1 : 0;
    uint32_t left = r->prompt - r->fed, n = room / STRIDE * STRIDE;
    return n < left ? n : left;
}

/* Runs all to their end, batching them together with at most `step` rows at once. Every boundary checks the caches. */
static void drive(fixture *f, run **runs, uint32_t n_runs, uint32_t step)
{
    static const roco_sampling greedy = {.top_p = 1};
    const uint32_t n_vocab = roco_engine_describe(f->engine)->n_vocab;
    float *all = malloc((size_t)STEP * n_vocab * sizeof *all);
    for (;;) {
        roco_step_item items[16];
        run *owners[16];
        uint32_t n = 0, rows = 0;
        for (uint32_t i = 0; i < n_runs; i++) {
            run *r = runs[i];
            const uint32_t take = next_rows(r, step - rows);
            if (!take)
                continue;
            const bool last = r->fed + take >= r->prompt;
            items[n] = (roco_step_item){.cache = r->cache,
                                        .tokens = r->tokens + r->fed,
                                        .n_tokens = take,
                                        .decode = r->fed >= r->prompt,
                                        .sampling = last ? &greedy : NULL,
                                        .logits = all + (size_t)rows * n_vocab};
            rows += take;
            owners[n++] = r;
        }
        if (!n)
            break;
        assert_int_equal(roco_engine_step(f->engine, items, n, NULL), ROCO_OK);
        for (uint32_t i = 0; i < n; i++) {
            run *r = owners[i];
            assert_int_equal(items[i].status, ROCO_OK);
            r->fed += items[i].n_tokens;
            roco_cache_check(f->engine, r->cache);
            if (!items[i].sampling)
                continue;
            const uint32_t at = r->known - r->prompt;
            memcpy(r->logits + (size_t)at * n_vocab, items[i].logits + (size_t)(items[i].n_tokens - 1) * n_vocab,
                   n_vocab * sizeof *r->logits);
            r->tokens[r->known++] = items[i].token;
        }
    }
    free(all);
}

static void finish(fixture *f, run *r)
{
    roco_cache_close(f->engine, r->cache);
    free(r->logits);
}

static void assert_same(const fixture *f, const run *a, const run *b)
{
    const size_t bytes = (size_t)a->answer * roco_engine_describe(f->engine)->n_vocab * sizeof *a->logits;
    assert_memory_equal(a->tokens, b->tokens, a->known * sizeof *a->tokens);
    assert_memory_equal(a->logits, b->logits, bytes);
}

static const run samples[] = {
    {.policy = "full", .budget = 0, .prompt = 75, .answer = 20, .seed = 1},
    {.policy = "roco", .budget = 32, .prompt = 90, .answer = 30, .seed = 2},
    {.policy = "roco", .budget = 64, .prompt = 20, .answer = 60, .seed = 3},
    {.policy = "recency", .budget = 33, .prompt = 48, .answer = 20, .seed = 4},
    {.policy = "roco", .budget = 500, .prompt = 1, .answer = 10, .seed = 5},
};
#define N_SAMPLES (sizeof samples / sizeof samples[0])

static void check_company(tiny_model model, const char *precision)
{
    fixture f;
    open_fixture(&f, &model, precision, 2);
    run alone[N_SAMPLES], together[N_SAMPLES], *all[N_SAMPLES];
    for (size_t i = 0; i < N_SAMPLES; i++) {
        alone[i] = together[i] = samples[i];
        run *one = &alone[i];
        start(&f, one);
        drive(&f, &one, 1, STEP);
        all[i] = &together[i];
        start(&f, all[i]);
    }
    drive(&f, all, N_SAMPLES, STEP);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        assert_same(&f, &alone[i], &together[i]);
        finish(&f, &alone[i]);
        finish(&f, &together[i]);
    }
    close_fixture(&f);
}

static void test_company_changes_nothing_f32(void **state)
{
    check_company(tiny_model_default(), "f32");
}

static void test_company_changes_nothing_int8(void **state)
{
    tiny_model model = tiny_model_default();
    model.type = ROCO_TYPE_Q4_1;
    check_company(model, "int8");
}

static void test_company_changes_nothing_mha(void **state)
{
    tiny_model model = tiny_model_default();
    model.n_kv_heads = model.n_heads;
    model.tied = false;
    check_company(model, "f32");
}

static void test_step_size_and_threads_change_nothing(void **state)
{
    tiny_model model = tiny_model_default();
    model.type = ROCO_TYPE_Q8_0;
    const uint32_t steps[] = {STEP, STRIDE, 2 * STRIDE + 5}, threads[] = {1, 3, 2};
    for (size_t s = 0; s < N_SAMPLES; s++) {
        run first = samples[s];
        float *kept = NULL;
        for (size_t i = 0; i < 3; i++) {
            fixture f;
            open_fixture(&f, &model, "int8", threads[i]);
            run r = samples[s], *one = &r;
            start(&f, one);
            drive(&f, &one, 1, steps[i]);
            if (i == 0) {
                first = r;
                kept = malloc((size_t)r.answer * 320 * sizeof *kept);
                memcpy(kept, r.logits, (size_t)r.answer * 320 * sizeof *kept);
                first.logits = kept;
            } else {
                assert_same(&f, &first, &r);
            }
            finish(&f, one);
            close_fixture(&f);
        }
        free(kept);
    }
}

static void test_a_budget_never_reached_is_full(void **state)
{
    fixture f;
    tiny_model model = tiny_model_default();
    open_fixture(&f, &model, "f32", 2);
    const char *policies[] = {"full", "roco", "recency"};
    run r[3];
    for (size_t i = 0; i < 3; i++) {
        r[i] = (run){.policy = policies[i], .budget = 100, .prompt = 70, .answer = 30, .seed = 9};
        run *one = &r[i];
        start(&f, one);
        drive(&f, &one, 1, STEP);
        assert_same(&f, &r[0], &r[i]);
    }
    for (size_t i = 0; i < 3; i++)
        finish(&f, &r[i]);
    close_fixture(&f);
}

static void test_unequal_budgets_by_head(void **state)
{
    fixture f;
    tiny_model model = tiny_model_default(); /* 2 layers x 2 KV heads */
    open_fixture(&f, &model, "f32", 2);
    const uint32_t budgets[] = {16, 33, 64, 500};
    roco_cache *cache = open_cache(&f, "roco", 0, 130, budgets);
    int32_t tokens[130], positions[130];
    for (uint32_t i = 0; i < 130; i++)
        tokens[i] = (int32_t)(i * 37 % 320);
    for (uint32_t fed = 0; fed < 130;) {
        const bool decode = fed >= 96;
        roco_step_item item = {
            .cache = cache, .tokens = tokens + fed, .n_tokens = decode ? 1 : STRIDE * 2, .decode = decode};
        assert_int_equal(roco_engine_step(f.engine, &item, 1, NULL), ROCO_OK);
        fed += item.n_tokens;
        roco_cache_check(f.engine, cache);
        for (uint32_t head = 0; head < 4; head++)
            assert_int_equal(roco_cache_positions(f.engine, cache, head / 2, head % 2, positions),
                             fed < budgets[head] ? fed : budgets[head]);
    }
    roco_cache_usage usage;
    roco_cache_measure(cache, &usage);
    assert_int_equal(usage.length, 130);
    assert_int_equal(usage.held, (16 + 33 + 64 + 130 + 2) / 4);
    assert_int_equal(usage.evicted, 130 - usage.held);
    assert_int_equal(usage.slots_evicted, 114 + 97 + 66);
    roco_cache_close(f.engine, cache);
    close_fixture(&f);
}

static void test_pages_follow_from_budgets(void **state)
{
    fixture f;
    tiny_model model = tiny_model_default();
    open_fixture(&f, &model, "f32", 1);
    roco_cache_spec spec = {.policy = roco_policy_find("roco"), .budget = 64, .length = 400, .sink = 4, .recent = 10};
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 2);
    spec.budget = 65;
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 3);
    spec.length = 20;
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 1);
    spec.length = 400;
    spec.policy = roco_policy_find("full");
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 13);
    const uint32_t budgets[] = {32, 33, 400, 1000};
    spec.policy = roco_policy_find("roco");
    spec.head_budgets = budgets;
    assert_int_equal(roco_cache_pages(f.engine, &spec), 1 + 2 + 13 + 13);
    close_fixture(&f);
}

static void test_protected_tokens_must_leave_room(void **state)
{
    fixture f;
    tiny_model model = tiny_model_default();
    open_fixture(&f, &model, "f32", 1);
    roco_cache_spec spec = {.policy = roco_policy_find("roco"), .budget = 32, .length = 100, .sink = 20, .recent = 12};
    uint32_t pages[64] = {0};
    roco_cache *cache = NULL;
    roco_error error;
    assert_int_equal(roco_cache_open(f.engine, &spec, pages, &cache, &error), ROCO_INVALID);
    assert_string_equal(error.field, "kv_budget");
    assert_non_null(strstr(error.message, "32"));
    spec.length = 32; /* never evicts: nothing to protect from */
    assert_int_equal(roco_cache_open(f.engine, &spec, pages, &cache, &error), ROCO_OK);
    roco_cache_close(f.engine, cache);
    close_fixture(&f);
}

static void test_pool_and_steps_are_checked_at_open(void **state)
{
    fixture f;
    tiny_model model = tiny_model_default();
    open_fixture(&f, &model, "f32", 1);
    roco_engine_config good = {.source = f.gguf,
                               .backend = "cpu",
                               .precision = "f32",
                               .threads = 1,
                               .kv_pool_tokens = 64,
                               .stride = STRIDE,
                               .step_tokens = STEP};
    static const char *const no_shares[] = {"", "half", "0.5x", "-1", "1", "0.001", "nan", "inf"};
    roco_engine *engine = NULL;
    roco_error error;
    roco_engine_config bad = good;
    bad.kv_pool_tokens = 0;
    bad.kv_pool_bytes = 100;
    assert_int_equal(roco_engine_open(&bad, &engine, &error), ROCO_INVALID);
    assert_string_equal(error.field, "kv-pool-bytes");
    for (size_t i = 0; i < sizeof no_shares / sizeof *no_shares; i++) {
        bad = good;
        bad.kv_pool_share = no_shares[i];
        assert_int_equal(roco_engine_open(&bad, &engine, &error), ROCO_INVALID);
        assert_string_equal(error.field, "kv-pool-share");
    }
    bad = good;
    bad.step_tokens = STRIDE - 1;
    assert_int_equal(roco_engine_open(&bad, &engine, &error), ROCO_INVALID);
    assert_string_equal(error.field, "step-tokens");
    bad = good;
    bad.context = 513;
    assert_int_equal(roco_engine_open(&bad, &engine, &error), ROCO_INVALID);
    assert_string_equal(error.field, "context");
    bad = good;
    bad.precision = "int4";
    assert_int_equal(roco_engine_open(&bad, &engine, &error), ROCO_INVALID);
    bad = good;
    bad.backend = "abacus";
    assert_int_not_equal(roco_engine_open(&bad, &engine, &error), ROCO_OK);
    bad = good;
    bad.kv_pool_tokens = 1ull << 40;
    assert_int_not_equal(roco_engine_open(&bad, &engine, &error), ROCO_OK);
    roco_engine_config share = good;
    share.kv_pool_tokens = 0;
    share.kv_pool_share = "0.01";
    assert_int_equal(roco_engine_open(&share, &engine, &error), ROCO_OK);
    const roco_engine_info *info = roco_engine_describe(engine);
    assert_true(info->free_bytes > 0 && info->n_pages >= 4);
    assert_in_range(info->pool_bytes, 1, info->free_bytes / 100);
    roco_engine_close(engine);
    close_fixture(&f);
}

/* Feeds tokens[n] whole; with `logits` they are kept, else log-probabilities of the prompt and the drawn token. */
static roco_step_item feed(fixture *f, const int32_t *tokens, uint32_t n, bool draws, float *logits, roco_logprob *rows)
{
    static const roco_sampling greedy = {.top_p = 1};
    static const roco_logit_bias bias[] = {{7, 100}};
    static const roco_logit_rules rules = {.bias = bias, .n_bias = 1, .repetition = 1};
    roco_cache *cache = open_cache(f, "full", 0, n, NULL);
    roco_step_item item = {.cache = cache,
                           .tokens = tokens,
                           .n_tokens = n,
                           .sampling = draws ? &greedy : NULL,
                           .rules = &rules,
                           .logits = logits,
                           .logprobs = rows,
                           .targets = tokens + 1,
                           .n_targets = rows ? n - 1 : 0,
                           .n_top = 2};
    assert_int_equal(roco_engine_step(f->engine, &item, 1, NULL), ROCO_OK);
    assert_int_equal(item.status, ROCO_OK);
    roco_cache_close(f->engine, cache);
    return item;
}

static void test_logprobs_are_those_of_the_logits(void **state)
{
    enum { N = 50, ROW = 3 }; /* more rows than pass the output head at once */
    fixture f;
    tiny_model model = tiny_model_default();
    open_fixture(&f, &model, "f32", 2);
    const uint32_t n_vocab = roco_engine_describe(f.engine)->n_vocab;
    int32_t tokens[N];
    for (uint32_t i = 0; i < N; i++)
        tokens[i] = (int32_t)(i * 37 % n_vocab);
    float *logits = malloc((size_t)N * n_vocab * sizeof *logits);
    feed(&f, tokens, N, false, logits, NULL);
    for (int draws = 0; draws < 2; draws++) {
        roco_logprob rows[N * ROW], top[2];
        memset(rows, 0, sizeof rows);
        const roco_step_item item = feed(&f, tokens, N, draws, NULL, rows);
        for (uint32_t i = 0; i < (draws ? N : N - 1u); i++) {
            const float *row = logits + (size_t)i * n_vocab;
            const double normalizer = roco_logprobs_top(row, n_vocab, 2, top);
            const int32_t token = i + 1 < N ? tokens[i + 1] : item.token;
            assert_int_equal(rows[i * ROW].token, token);
            assert_true(rows[i * ROW].value == (float)(row[token] - normalizer));
            assert_memory_equal(&rows[i * ROW + 1], top, sizeof top);
        }
        assert_int_equal(draws ? item.token : 7, 7); /* rules decide what is drawn, not what is probable */
        assert_int_equal(rows[(N - 1) * ROW].token, draws ? 7 : 0);
    }
    free(logits);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_company_changes_nothing_f32),
        cmocka_unit_test(test_company_changes_nothing_int8),
        cmocka_unit_test(test_company_changes_nothing_mha),
        cmocka_unit_test(test_step_size_and_threads_change_nothing),
        cmocka_unit_test(test_a_budget_never_reached_is_full),
        cmocka_unit_test(test_unequal_budgets_by_head),
        cmocka_unit_test(test_pages_follow_from_budgets),
        cmocka_unit_test(test_protected_tokens_must_leave_room),
        cmocka_unit_test(test_pool_and_steps_are_checked_at_open),
        cmocka_unit_test(test_logprobs_are_those_of_the_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
