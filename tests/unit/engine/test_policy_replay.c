/* Long runs of attention with the real policies against the replay: prompt strides, then hundreds of decoded tokens,
 * the kept positions of every head equal to the definition's in every slot. */
#include "engine/policies.h"
#include "tests/unit/kernels/attention_rig.h"

static void run_long(rig *r, rig_rule rule, const char *policy, const uint32_t *budgets, uint64_t seed)
{
    enum { PROMPT = 500, DECODED = 300 };
    rig_cache *c = rig_cache_open(r, roco_policy_find(policy), rule, budgets, PROMPT + DECODED, seed);
    rig_step(r, (rig_item[]){{c, 192, false}}, 1, 2e-5);
    rig_check(r, c);
    rig_step(r, (rig_item[]){{c, PROMPT - 192, false}}, 1, 2e-5);
    for (uint32_t n = 0; n < DECODED; n++) {
        if (n % 10 == 0)
            rig_check(r, c);
        rig_step(r, (rig_item[]){{c, 1, true}}, 1, 2e-5);
    }
    rig_check(r, c);
    rig_cache_close(r, c);
    r->next_page = 0;
}

static void run_shape(uint32_t n_heads, roco_kv_type type)
{
    static const uint32_t budgets[][4] = {
        {64, 64, 64, 64}, {128, 128, 128, 128}, {40, 300, 97, 700}, {15, 2000, 96, 65}};
    rig_shape shape = {.isa = "auto",
                       .threads = 2,
                       .type = type,
                       .key_dim = 16,
                       .value_dim = 16,
                       .n_heads = n_heads,
                       .n_kv_heads = 2,
                       .stride = 64,
                       .max_slots = 800,
                       .n_pages = 150,
                       .peak = 2};
    rig *r = rig_open(&shape);
    for (uint32_t b = 0; b < sizeof budgets / sizeof *budgets; b++)
        run_long(r, RIG_ROCO, "roco", budgets[b], 11 + b);
    run_long(r, RIG_RECENCY, "recency", budgets[2], 5);
    run_long(r, RIG_LAST, "tova", budgets[2], 6);
    run_long(r, RIG_LAST, "tova", budgets[3], 7);
    rig_close(r);
}

static void test_mha(void **state)
{
    run_shape(2, ROCO_KV_F32);
}

static void test_gqa(void **state)
{
    run_shape(6, ROCO_KV_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mha),
        cmocka_unit_test(test_gqa),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
