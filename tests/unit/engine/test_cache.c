/* What a cache holds, seeded: every policy, with and without a profile, with pins, with the answer under the cap and on
 * top of it, over models with few and many query heads per KV head. At every step boundary: no head over its budget,
 * pins, sinks and newest tokens there, no position twice, finite logits. */
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

enum { PROMPT = 150, ANSWER = 40, LENGTH = PROMPT + ANSWER, STRIDE = 16, STEP = 64, MOST_PAGES = 256 };

typedef struct fixture {
    char path[64];
    roco_source *gguf;
    roco_engine *engine;
    uint32_t n_heads;
    float *logits; /* [STEP, n_vocab] */
} fixture;

static void open_fixture(fixture *f, uint32_t n_heads, uint32_t n_kv_heads, bool profile)
{
    tiny_model model = tiny_model_default();
    model.n_heads = n_heads;
    model.n_kv_heads = n_kv_heads;
    model.head_dim = 64 / n_heads;
    snprintf(f->path, sizeof f->path, "/tmp/roco-cache-%d.gguf", (int)getpid());
    tiny_model_save(&model, f->path);
    roco_error error = {0};
    assert_int_equal(roco_source_open(f->path, &f->gguf, &error), ROCO_OK);
    const roco_engine_config config = {.source = f->gguf,
                                       .backend = "cpu",
                                       .precision = "f32",
                                       .threads = 1,
                                       .kv_pool_tokens = 1024,
                                       .stride = STRIDE,
                                       .step_tokens = STEP};
    if (roco_engine_open(&config, &f->engine, &error))
        fail_msg("%s", error.message);
    f->n_heads = model.n_layers * n_kv_heads;
    f->logits = malloc((size_t)STEP * model.n_vocab * sizeof *f->logits);
    float scores[64];
    for (uint32_t i = 0; i < f->n_heads; i++)
        scores[i] = (float)(i * 7 % 5);
    if (profile)
        assert_int_equal(roco_engine_use_profile(f->engine, scores, &error), ROCO_OK);
}

static void close_fixture(fixture *f)
{
    roco_engine_close(f->engine);
    roco_source_close(f->gguf);
    free(f->logits);
    unlink(f->path);
}

static bool must_be_there(const roco_cache_spec *spec, uint32_t position, uint32_t length)
{
    bool pinned = position < spec->sink || position + spec->recent >= length;
    for (uint32_t i = 0; i < spec->n_pins; i++)
        pinned |= position >= spec->pins[i].first && position < spec->pins[i].end;
    return pinned;
}

static void check(const fixture *f, const roco_cache *cache, const roco_cache_spec *spec, uint32_t fed)
{
    const uint32_t n_kv_heads = roco_engine_describe(f->engine)->n_kv_heads;
    const uint32_t answer = fed > PROMPT ? fed - PROMPT : 0, uncapped = spec->uncapped ? answer : 0;
    roco_cache_check(f->engine, cache);
    uint64_t total = 0;
    for (uint32_t head = 0; head < f->n_heads; head++) {
        int32_t positions[LENGTH];
        bool held[LENGTH] = {false};
        const uint32_t n = roco_cache_positions(f->engine, cache, head / n_kv_heads, head % n_kv_heads, positions);
        total += n;
        for (uint32_t i = 0; i < n; i++)
            held[positions[i]] = true;
        for (uint32_t p = 0; p < fed; p++)
            if (must_be_there(spec, p, fed) && !held[p])
                fail_msg("%s: head %u lost position %u of %u", spec->policy->name, head, p, fed);
        for (uint32_t p = PROMPT; p < fed && spec->uncapped; p++)
            assert_true(held[p]);
    }
    roco_cache_usage usage;
    roco_cache_measure(cache, &usage);
    assert_int_equal(usage.length, fed);
    assert_int_equal(usage.slots_evicted, (uint64_t)fed * f->n_heads - total);
    if (spec->policy->evicts)
        assert_true(total <= (uint64_t)f->n_heads * (spec->budget + uncapped));
}

/* Feeds LENGTH tokens; `last` gets the last row of logits unless NULL. */
static void run(fixture *f, const roco_cache_spec *spec, uint32_t seed, float *last)
{
    const uint32_t n_vocab = roco_engine_describe(f->engine)->n_vocab, n_pages = roco_cache_pages(f->engine, spec);
    uint32_t pages[MOST_PAGES];
    assert_true(n_pages <= MOST_PAGES);
    for (uint32_t i = 0; i < n_pages; i++)
        pages[i] = n_pages - 1 - i;
    roco_cache *cache = NULL;
    roco_error error = {0};
    if (roco_cache_open(f->engine, spec, pages, &cache, &error))
        fail_msg("%s", error.message);
    int32_t tokens[LENGTH];
    for (uint32_t i = 0; i < LENGTH; i++)
        tokens[i] = (int32_t)((i * 61 + seed * 97 + i * i % 13) % 250 + 3);
    for (uint32_t fed = 0; fed < LENGTH;) {
        const bool decode = fed >= PROMPT;
        const uint32_t n = decode ? 1 : PROMPT - fed < STEP ? PROMPT - fed : STEP;
        roco_step_item item = {
            .cache = cache, .tokens = tokens + fed, .n_tokens = n, .decode = decode, .logits = f->logits};
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        for (uint32_t i = 0; i < n * n_vocab; i++)
            assert_true(isfinite(f->logits[i]));
        fed += n;
        check(f, cache, spec, fed);
        if (last && fed == LENGTH)
            memcpy(last, f->logits + (n - 1) * n_vocab, n_vocab * sizeof *last);
    }
    roco_cache_close(f->engine, cache);
}

static void run_grid(uint32_t n_heads, uint32_t n_kv_heads, bool profile)
{
    static const roco_pin some[] = {{20, 33}, {70, 75}}, prompt[] = {{0, PROMPT}};
    fixture f;
    open_fixture(&f, n_heads, n_kv_heads, profile);
    for (const roco_policy *const *policy = roco_policies(); *policy; policy++) {
        roco_cache_spec spec = {.policy = *policy, .budget = 64, .length = LENGTH, .sink = 4, .recent = 10};
        run(&f, &spec, 1, NULL);
        spec.pins = some, spec.n_pins = 2;
        run(&f, &spec, 2, NULL);
        spec.uncapped = ANSWER;
        run(&f, &spec, 3, NULL);
        spec.uncapped = 0, spec.pins = prompt, spec.n_pins = 1, spec.budget = PROMPT + 20;
        run(&f, &spec, 4, NULL);
        spec.sink = 0, spec.recent = 1, spec.n_pins = 0, spec.budget = 33;
        run(&f, &spec, 5, NULL);
    }
    close_fixture(&f);
}

static void test_mha(void **state)
{
    run_grid(4, 4, false);
}

static void test_gqa_with_a_profile(void **state)
{
    run_grid(4, 2, true);
}

static void test_mqa(void **state)
{
    run_grid(8, 1, false);
}

/* A prompt within its budget, the answer on top: bit for bit the full cache. */
static void test_a_cap_never_reached_is_full(void **state)
{
    fixture f;
    open_fixture(&f, 4, 2, true);
    roco_cache_spec spec = {.policy = roco_policy_find("full"), .length = LENGTH, .sink = 4, .recent = 10};
    const uint32_t n_vocab = roco_engine_describe(f.engine)->n_vocab;
    float *full = malloc(n_vocab * sizeof *full), *capped = malloc(n_vocab * sizeof *capped);
    run(&f, &spec, 9, full);
    spec.policy = roco_policy_find("roco"), spec.budget = PROMPT, spec.uncapped = ANSWER;
    run(&f, &spec, 9, capped);
    assert_memory_equal(full, capped, n_vocab * sizeof *full);
    spec.uncapped = 0;
    run(&f, &spec, 9, capped);
    assert_memory_not_equal(full, capped, n_vocab * sizeof *full);
    free(full);
    free(capped);
    close_fixture(&f);
}

static void test_pages_of_an_answer_on_top(void **state)
{
    fixture f;
    open_fixture(&f, 4, 2, false);
    roco_cache_spec spec = {.policy = roco_policy_find("roco"), .budget = 64, .length = 190, .sink = 4, .recent = 10};
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 2);
    spec.uncapped = 40; /* 64 + 40 slots */
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 4);
    spec.uncapped = 130; /* a prompt of 60 is all kept */
    assert_int_equal(roco_cache_pages(f.engine, &spec), 4 * 6);
    close_fixture(&f);
}

static void test_pins_must_leave_room(void **state)
{
    fixture f;
    open_fixture(&f, 4, 2, false);
    const roco_pin pin = {10, 60};
    roco_cache_spec spec = {.policy = roco_policy_find("roco"),
                            .budget = 64,
                            .length = 190,
                            .sink = 4,
                            .recent = 10,
                            .pins = &pin,
                            .n_pins = 1};
    uint32_t pages[MOST_PAGES] = {0};
    roco_cache *cache = NULL;
    roco_error error;
    assert_int_equal(roco_cache_open(f.engine, &spec, pages, &cache, &error), ROCO_INVALID);
    assert_string_equal(error.field, "kv_budget");
    assert_non_null(strstr(error.message, "50 pinned"));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mha),
        cmocka_unit_test(test_gqa_with_a_profile),
        cmocka_unit_test(test_mqa),
        cmocka_unit_test(test_a_cap_never_reached_is_full),
        cmocka_unit_test(test_pages_of_an_answer_on_top),
        cmocka_unit_test(test_pins_must_leave_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
