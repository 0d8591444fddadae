/* Histogram buckets and their edges. */
#include "scheduler/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void bounds_ascend(void **state)
{
    roco_counters counters;
    roco_counters_init(&counters);
    const roco_histogram *all[] = {&counters.queue_seconds, &counters.first_token_seconds,
                                   &counters.inter_token_seconds, &counters.step_seconds, &counters.step_rows};
    for (size_t h = 0; h < sizeof all / sizeof all[0]; h++) {
        for (uint32_t i = 1; i < ROCO_HISTOGRAM_BUCKETS - 1u; i++)
            assert_true(all[h]->bounds[i] > all[h]->bounds[i - 1]);
    }
}

static void a_bound_belongs_to_its_bucket(void **state)
{
    roco_counters counters;
    roco_counters_init(&counters);
    roco_histogram *rows = &counters.step_rows;
    const double values[] = {1, 2, 3, 4, 5, 1e6, -1};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        roco_histogram_add(rows, values[i]);
    assert_int_equal(rows->buckets[0], 2); /* 1, and -1 taken for 0 */
    assert_int_equal(rows->buckets[1], 1); /* 2 */
    assert_int_equal(rows->buckets[2], 2); /* 3, 4 */
    assert_int_equal(rows->buckets[3], 1); /* 5 */
    assert_int_equal(rows->buckets[ROCO_HISTOGRAM_BUCKETS - 1u], 1);
    assert_int_equal(rows->sum_nano, (uint64_t)1000015 * 1000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_ascend),
        cmocka_unit_test(a_bound_belongs_to_its_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
