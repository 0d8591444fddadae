/* Masks, biases, bans and penalties: what they do to a row, and that the sampler obeys them greedy and drawn. */
#include "engine/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 70u /* two whole words of a mask and a part of one */

/* The token drawn from logits that fall from 70 (token 0) to 1. */
static int32_t draw(const roco_draw *d, roco_status expected)
{
    float logits[N];
    for (uint32_t i = 0; i < N; i++)
        logits[i] = (float)(N - i);
    void *scratch = malloc(roco_sampler_scratch_bytes(N));
    int32_t token = -1;
    assert_int_equal(roco_sample(d, logits, N, scratch, &token), expected);
    free(scratch);
    return token;
}

static void test_a_mask_leaves_its_tokens_alone(void **state)
{
    const roco_sampling greedy = {.top_p = 1}, drawn = {.temperature = 2, .top_p = 1, .seed = 3};
    /* Bits beyond the vocabulary count for nothing. */
    const uint32_t one[] = {0, 0, 1u << 5 | 1u << 6}, all[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    const uint32_t some[] = {1u << 31, 1u << 0, 0};
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(draw(&(roco_draw){&greedy, one, NULL, i}, ROCO_OK), 69);
        assert_int_equal(draw(&(roco_draw){&drawn, one, NULL, i}, ROCO_OK), 69);
        assert_int_equal(draw(&(roco_draw){&drawn, all, NULL, i}, ROCO_OK),
                         draw(&(roco_draw){&drawn, NULL, NULL, i}, ROCO_OK));
        const int32_t token = draw(&(roco_draw){&drawn, some, NULL, i}, ROCO_OK);
        assert_true(token == 31 || token == 32);
    }
    assert_int_equal(draw(&(roco_draw){&greedy, some, NULL, 0}, ROCO_OK), 31);
    assert_int_equal(draw(&(roco_draw){&greedy, (uint32_t[3]){0}, NULL, 0}, ROCO_NUMERIC), -1);
}

static void test_a_mask_hides_no_broken_row(void **state)
{
    const uint32_t allowed[] = {1};
    float logits[] = {1, NAN, 2};
    char scratch[64];
    int32_t token;
    const roco_sampling greedy = {.top_p = 1};
    assert_int_equal(roco_sample(&(roco_draw){&greedy, allowed, NULL, 0}, logits, 3, scratch, &token), ROCO_NUMERIC);
}

static void test_bias_moves_tokens(void **state)
{
    const roco_sampling kinds[] = {{.top_p = 1}, {.temperature = 1, .top_p = 1, .seed = 1}};
    const roco_logit_bias away[] = {{0, -100}, {1, -100}}, there[] = {{69, 100}};
    for (size_t k = 0; k < 2; k++) {
        const roco_logit_rules without = {.bias = away, .n_bias = 2, .repetition = 1};
        const roco_logit_rules with = {.bias = there, .n_bias = 1, .repetition = 1};
        for (uint64_t i = 0; i < 20; i++) {
            assert_true(draw(&(roco_draw){&kinds[k], NULL, &without, i}, ROCO_OK) >= 2);
            assert_int_equal(draw(&(roco_draw){&kinds[k], NULL, &with, i}, ROCO_OK), 69);
        }
    }
}

static void test_bans_yield_to_a_mask_that_allows_nothing_else(void **state)
{
    const roco_sampling greedy = {.top_p = 1};
    const int32_t banned[] = {0, 2};
    const roco_logit_rules rules = {.banned = banned, .n_banned = 2, .repetition = 1};
    const uint32_t only[] = {1u << 0, 0, 1u << 6}, more[] = {1u << 0 | 1u << 3, 0, 0};
    assert_int_equal(draw(&(roco_draw){&greedy, NULL, &rules, 0}, ROCO_OK), 1);
    assert_int_equal(draw(&(roco_draw){&greedy, more, &rules, 0}, ROCO_OK), 3);
    assert_int_equal(draw(&(roco_draw){&greedy, only, &rules, 0}, ROCO_OK), 0);
}

/* Values worked out by hand from the definitions in logit_rules.h. */
static void test_penalties_by_their_definitions(void **state)
{
    const roco_seen_token seen[] = {{0, 0}, {1, 1}, {2, 3}, {4, 2}};
    float logits[] = {4, 4, -4, 4, -INFINITY};
    const roco_logit_rules rules = {.seen = seen, .n_seen = 4, .repetition = 2, .frequency = 0.25f, .presence = 0.5f};
    roco_logits_apply(&rules, NULL, logits, 5);
    const float expected[] = {2, 2 - 0.75f, -8 - 1.25f, 4, -INFINITY};
    assert_memory_equal(logits, expected, sizeof expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mask_leaves_its_tokens_alone),
        cmocka_unit_test(test_a_mask_hides_no_broken_row),
        cmocka_unit_test(test_bias_moves_tokens),
        cmocka_unit_test(test_bans_yield_to_a_mask_that_allows_nothing_else),
        cmocka_unit_test(test_penalties_by_their_definitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
