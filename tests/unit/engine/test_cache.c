/* What a cache holds, seeded and at random: every policy, with and without a profile, every type of K and V, pins,
 * strides, the cap for prompt and answer or for one of them, positions in the text or in the cache, over models with
 * few and many query heads per KV head. At every step boundary: no more held than the budget, pins, sinks and newest
 * tokens there, no position twice, finite logits; and what is held at the end is the same alone and in company, bit for
 * bit. */
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

enum { PROMPT = 150, ANSWER = 40, LENGTH = PROMPT + ANSWER, STRIDE = 16, STEP = 64, MOST_PAGES = 256, MOST_HEADS = 16 };

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
    if (!spec->policy->evicts)
        return;
    /* A head by itself may hold more; in memory, all together do not. */
    assert_true(usage.held <= spec->budget + uncapped);
    const bool alike = !roco_engine_describe(f->engine)->has_profile || spec->uniform;
    const bool compensates = spec->compensate && spec->budget + spec->uncapped < spec->length;
    assert_true(!alike || total <= (uint64_t)f->n_heads * (spec->budget + uncapped - compensates));
}

/* A sequence on its way, from page `first_page` on. */
typedef struct sequence {
    const roco_cache_spec *spec;
    roco_cache *cache;
    int32_t tokens[LENGTH];
    uint32_t fed;
} sequence;

static void open_sequence(fixture *f, const roco_cache_spec *spec, uint32_t seed, uint32_t first_page, sequence *s)
{
    const uint32_t n_pages = roco_cache_pages(f->engine, spec);
    uint32_t pages[MOST_PAGES];
    roco_cache_spec equal = *spec;
    equal.uniform = true;
    assert_true(n_pages <= MOST_PAGES && n_pages <= roco_cache_pages(f->engine, &equal));
    for (uint32_t i = 0; i < n_pages; i++)
        pages[i] = first_page + n_pages - 1 - i;
    *s = (sequence){.spec = spec};
    roco_error error = {0};
    if (roco_cache_open(f->engine, spec, pages, &s->cache, &error))
        fail_msg("%s", error.message);
    for (uint32_t i = 0; i < LENGTH; i++)
        s->tokens[i] = (int32_t)((i * 61 + seed * 97 + i * i % 13) % 250 + 3);
}

/* What a sequence feeds next, of a prompt whole strides up to `most` rows. */
static roco_step_item next_item(const fixture *f, const sequence *s, uint32_t most)
{
    const uint32_t stride = s->spec->stride ? s->spec->stride : STRIDE, left = PROMPT - s->fed;
    const uint32_t rows = s->fed >= PROMPT ? 1 : left < most ? left : most / stride * stride;
    return (roco_step_item){.cache = s->cache,
                            .tokens = s->tokens + s->fed,
                            .n_tokens = rows,
                            .decode = s->fed >= PROMPT,
                            .logits = f->logits};
}

/* Feeds LENGTH tokens; `last` gets the last row of logits unless NULL. */
static void run(fixture *f, const roco_cache_spec *spec, uint32_t seed, float *last)
{
    const uint32_t n_vocab = roco_engine_describe(f->engine)->n_vocab;
    sequence s;
    roco_error error = {0};
    open_sequence(f, spec, seed, 0, &s);
    while (s.fed < LENGTH) {
        roco_step_item item = next_item(f, &s, STEP);
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        for (uint32_t i = 0; i < item.n_tokens * n_vocab; i++)
            assert_true(isfinite(f->logits[i]));
        s.fed += item.n_tokens;
        check(f, s.cache, spec, s.fed);
        if (last && s.fed == LENGTH)
            memcpy(last, f->logits + (item.n_tokens - 1) * n_vocab, n_vocab * sizeof *last);
    }
    roco_cache_close(f->engine, s.cache);
}

/* A copy on other pages, mixed up, goes on as the original does. */
static void run_copy(fixture *f, const roco_cache_spec *spec)
{
    const uint32_t n_vocab = roco_engine_describe(f->engine)->n_vocab;
    float *first = malloc(n_vocab * sizeof *first);
    sequence s, copy;
    roco_error error = {0};
    open_sequence(f, spec, 5, 0, &s);
    while (s.fed < PROMPT + 2) {
        roco_step_item item = next_item(f, &s, STEP);
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        s.fed += item.n_tokens;
    }
    open_sequence(f, spec, 5, roco_cache_pages(f->engine, spec), &copy);
    assert_int_equal(roco_cache_copy(f->engine, s.cache, copy.cache), ROCO_OK);
    copy.fed = s.fed;
    for (; s.fed < LENGTH; s.fed++, copy.fed++) {
        roco_step_item item = next_item(f, &s, STEP);
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        memcpy(first, f->logits, n_vocab * sizeof *first);
        item = next_item(f, &copy, STEP);
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        assert_memory_equal(first, f->logits, n_vocab * sizeof *first);
    }
    check(f, copy.cache, spec, copy.fed);
    roco_cache_close(f->engine, s.cache);
    roco_cache_close(f->engine, copy.cache);
    free(first);
}

static void test_copies(void **state)
{
    fixture f;
    open_fixture(&f, 4, 2, false);
    run_copy(&f, &(roco_cache_spec){
                     .policy = roco_policy_find("roco"), .budget = 40, .length = LENGTH, .sink = 4, .recent = 10});
    run_copy(&f, &(roco_cache_spec){.policy = roco_policy_find("full"), .length = LENGTH});
    close_fixture(&f);
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
        spec.compensate = (*policy)->needs_statistics;
        run(&f, &spec, 6, NULL);
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

/* --- at random --- */

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* A spec and what it borrows. */
typedef struct drawn {
    roco_cache_spec spec;
    roco_pin pins[4];
    roco_kv_type types[MOST_HEADS];
} drawn;

static void draw_scope(uint64_t *state, drawn *d)
{
    const uint32_t scope = draw(state, 4);
    if (scope == 0) /* the cap is the prompt's */
        d->spec.uncapped = ANSWER;
    if (scope != 1) {
        for (uint32_t i = 0, at = 0; i < draw(state, 4); i++) {
            at += draw(state, 40);
            d->pins[i] = (roco_pin){at, at + 1 + draw(state, 6)};
            at = d->pins[i].end + 1;
            d->spec.n_pins++;
        }
        return;
    }
    d->pins[0] = (roco_pin){0, PROMPT}; /* the answer's: the prompt is pinned and counts on top */
    d->spec.n_pins = 1;
    d->spec.budget += PROMPT;
}

static void draw_spec(const fixture *f, uint64_t *state, const roco_policy *policy, drawn *d)
{
    *d = (drawn){.spec = {.policy = policy,
                          .budget = 48 + draw(state, 100),
                          .length = LENGTH,
                          .sink = draw(state, 6),
                          .recent = 1 + draw(state, 14),
                          .stride = draw(state, STRIDE + 1),
                          .uniform = draw(state, 2) == 0}};
    draw_scope(state, d);
    d->spec.pins = d->pins;
    d->spec.by_rank = policy->evicts && draw(state, 3) == 0;
    d->spec.compensate = policy->needs_statistics && !d->spec.by_rank && draw(state, 2) == 0;
    if (draw(state, 3) > 0)
        return;
    for (uint32_t head = 0; head < f->n_heads; head++) /* as many tokens, whatever their type */
        d->types[head] = (roco_kv_type[]){ROCO_KV_F16, ROCO_KV_Q8, ROCO_KV_Q4}[draw(state, 3)];
    d->spec.head_types = d->types;
}

/* The end of a sequence: its logits and every head's slots. */
typedef struct ending {
    float logits[512];
    int32_t positions[MOST_HEADS][LENGTH];
    uint32_t n[MOST_HEADS];
} ending;

static void take_ending(const fixture *f, const sequence *s, ending *out)
{
    const roco_engine_info *info = roco_engine_describe(f->engine);
    memcpy(out->logits, f->logits, info->n_vocab * sizeof *out->logits);
    for (uint32_t head = 0; head < f->n_heads; head++)
        out->n[head] = roco_cache_positions(f->engine, s->cache, head / info->n_kv_heads, head % info->n_kv_heads,
                                            out->positions[head]);
}

/* One stride or token a step, beside another sequence that is some steps ahead. */
static void run_in_company(fixture *f, const roco_cache_spec *spec, const roco_cache_spec *other, uint32_t seed,
                           ending *out)
{
    sequence s, company;
    roco_error error = {0};
    open_sequence(f, spec, seed, 0, &s);
    open_sequence(f, other, seed + 1, roco_cache_pages(f->engine, spec), &company);
    for (uint32_t step = 0; s.fed < LENGTH; step++) {
        roco_step_item items[2];
        uint32_t n = 0;
        if (company.fed < LENGTH) {
            items[n] = next_item(f, &company, STEP / 2);
            items[n].logits = NULL;
            company.fed += items[n++].n_tokens;
        }
        if (step > seed % 3) {
            items[n] = next_item(f, &s, STRIDE);
            s.fed += items[n++].n_tokens;
        }
        if (n)
            assert_int_equal(roco_engine_step(f->engine, items, n, &error), ROCO_OK);
    }
    take_ending(f, &s, out);
    roco_cache_close(f->engine, s.cache);
    roco_cache_close(f->engine, company.cache);
}

static void run_alone(fixture *f, const roco_cache_spec *spec, uint32_t seed, ending *out)
{
    sequence s;
    roco_error error = {0};
    open_sequence(f, spec, seed, 0, &s);
    while (s.fed < LENGTH) {
        roco_step_item item = next_item(f, &s, STEP);
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        s.fed += item.n_tokens;
        check(f, s.cache, spec, s.fed);
    }
    take_ending(f, &s, out);
    roco_cache_close(f->engine, s.cache);
}

static void run_random(uint32_t n_heads, uint32_t n_kv_heads, uint64_t seed)
{
    enum { ROUNDS = 6 };
    fixture f;
    uint32_t n_policies = 0;
    ending *ends = calloc(2, sizeof *ends);
    while (roco_policies()[n_policies])
        n_policies++;
    open_fixture(&f, n_heads, n_kv_heads, true);
    assert_true(f.n_heads <= MOST_HEADS && roco_engine_describe(f.engine)->n_vocab <= 512);
    for (const roco_policy *const *policy = roco_policies(); *policy; policy++)
        for (uint32_t round = 0; round < ROUNDS; round++) {
            drawn d, other;
            draw_spec(&f, &seed, *policy, &d);
            draw_spec(&f, &seed, roco_policies()[draw(&seed, n_policies)], &other);
            run_alone(&f, &d.spec, round, &ends[0]);
            run_in_company(&f, &d.spec, &other.spec, round, &ends[1]);
            assert_memory_equal(ends[0].logits, ends[1].logits, sizeof ends->logits);
            for (uint32_t head = 0; head < f.n_heads; head++) {
                assert_int_equal(ends[0].n[head], ends[1].n[head]);
                assert_memory_equal(ends[0].positions[head], ends[1].positions[head],
                                    ends[0].n[head] * sizeof(int32_t));
            }
        }
    close_fixture(&f);
    free(ends);
}

static void test_random_mha(void **state)
{
    run_random(4, 4, 1);
}

static void test_random_gqa(void **state)
{
    run_random(4, 2, 2);
}

static void test_random_mqa(void **state)
{
    run_random(8, 1, 3);
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
    spec.uncapped = 0, spec.budget = LENGTH;
    for (const roco_policy *const *policy = roco_policies() + 1; *policy; policy++) {
        spec.policy = *policy;
        spec.compensate = (*policy)->needs_statistics;
        run(&f, &spec, 9, capped);
        assert_memory_equal(full, capped, n_vocab * sizeof *full);
    }
    spec.compensate = false;
    spec.policy = roco_policy_find("roco"), spec.budget = PROMPT;
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
        cmocka_unit_test(test_random_mha),
        cmocka_unit_test(test_random_gqa),
        cmocka_unit_test(test_random_mqa),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_a_cap_never_reached_is_full),
        cmocka_unit_test(test_pages_of_an_answer_on_top),
        cmocka_unit_test(test_pins_must_leave_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
