/* q8 and q4: codes of every variant against the definition, and how pages are laid out. */
#include "kernels/cpu/attention.h"
#include "tests/unit/kernels/attention_rig.h"

/* One for each instruction set of this machine. */
static uint32_t open_rigs(rig **rigs)
{
    static const char *const isas[] = {"portable", "avx2", "avx512"};
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3; i++) {
        roco_isa isa;
        const rig_shape shape = {.isa = isas[i],
                                 .threads = 1,
                                 .key_dim = 8,
                                 .value_dim = 8,
                                 .n_heads = 1,
                                 .n_kv_heads = 1,
                                 .stride = 8,
                                 .max_slots = 8,
                                 .n_pages = 1};
        if (roco_isa_choose(isas[i], &isa, NULL) == ROCO_OK)
            rigs[n++] = rig_open(&shape);
    }
    return n;
}

/* Every variant's codes are the definition's, bit for bit; what they mean is close; a NaN is not hidden. */
static void test_codes(void **state)
{
    static const uint32_t lengths[] = {1, 31, 32, 33, 64, 80, 256};
    static const float factors[] = {1, 1e-7f, 1e7f, 0};
    uint64_t draw = 5;
    rig *rigs[3];
    const uint32_t n_rigs = open_rigs(rigs);
    for (uint32_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
        for (uint32_t f = 0; f < sizeof factors / sizeof *factors; f++)
            for (int type = ROCO_KV_Q8; type <= ROCO_KV_Q4; type++) {
                float in[256];
                uint8_t codes[256], right[256];
                uint16_t numbers[16] = {0}, right_numbers[16] = {0};
                for (uint32_t i = 0; i < lengths[n]; i++)
                    in[i] = factors[f] * (float)(rig_normal(&draw) + 0.5);
                roco_kv_encode((roco_kv_type)type, in, lengths[n], right, right_numbers, right_numbers + 8);
                for (uint32_t i = 0; i < n_rigs; i++) {
                    rigs[i]->cpu.attention->kernels->encode((roco_kv_type)type, in, lengths[n], codes, numbers,
                                                            numbers + 8);
                    assert_memory_equal(codes, right, lengths[n]);
                    for (uint32_t b = 0; b < 16; b++)
                        assert_true(roco_f16_to_f32(numbers[b]) == roco_f16_to_f32(right_numbers[b]));
                }
                double out[256], steps = type == ROCO_KV_Q8 ? 127 : 15;
                rig_round((roco_kv_type)type, in, lengths[n], out);
                for (uint32_t i = 0; i < lengths[n] && f == 0; i++)
                    assert_true(fabs(out[i] - (double)in[i]) < 8 / steps * 0.51);
                in[lengths[n] / 2] = NAN;
                for (uint32_t i = 0; i < n_rigs; i++) {
                    rigs[i]->cpu.attention->kernels->encode((roco_kv_type)type, in, lengths[n], codes, numbers,
                                                            numbers + 8);
                    assert_true(isnan(roco_f16_to_f32(numbers[lengths[n] / 2 / ROCO_KV_BLOCK])));
                }
            }
    for (uint32_t i = 0; i < n_rigs; i++)
        rig_close(rigs[i]);
}

/* Arrays in order, none over the next one or the page's end; q8 and q4 pages as full as promised. */
static void test_layouts(void **state)
{
    static const uint32_t dims[] = {1, 2, 8, 16, 33, 64, 80, 96, 128, 256, 1024};
    for (uint32_t k = 0; k < sizeof dims / sizeof *dims; k++)
        for (uint32_t v = 0; v < sizeof dims / sizeof *dims; v++) {
            const roco_kv_layout pool = roco_kv_layout_make(ROCO_KV_F16, dims[k], dims[v]);
            for (int type = ROCO_KV_F16; type <= ROCO_KV_Q4; type++) {
                if (type == ROCO_KV_F32)
                    continue;
                const roco_kv_layout l = roco_kv_layout_of(&pool, (roco_kv_type)type);
                assert_true(l.slots >= 8 && l.slots % 8 == 0 && l.page_bytes == pool.page_bytes);
                assert_true(l.value_offset >= l.key_scale_offset && l.value_scale_offset > l.value_offset);
                assert_true(l.value_scale_offset >= l.value_offset + l.slots * roco_kv_value_bytes(&l));
                assert_true(l.sum_sq_offset + 4 * l.slots <= l.page_bytes);
                assert_int_equal((l.value_offset | l.position_offset | l.sum_offset | l.page_bytes) % 64, 0);
            }
        }
    const roco_kv_layout small = roco_kv_layout_make(ROCO_KV_Q8, 64, 64),
                         large = roco_kv_layout_make(ROCO_KV_Q4, 128, 128);
    assert_int_equal(small.slots, 56);
    assert_int_equal(roco_kv_layout_of(&small, ROCO_KV_Q4).slots, 88);
    assert_int_equal(roco_kv_layout_of(&large, ROCO_KV_F16).slots, 32);
    assert_int_equal(large.slots, 96);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes), cmocka_unit_test(test_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
