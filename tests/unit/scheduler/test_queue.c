/* The waiting line. */
#include "scheduler/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void first_in_is_first_out(void **state)
{
    roco_job jobs[3] = {{.id = 1}, {.id = 2}, {.id = 3}};
    roco_queue queue = {0};
    assert_null(roco_queue_pop(&queue));
    for (int i = 0; i < 3; i++)
        roco_queue_push(&queue, &jobs[i]);
    assert_int_equal(queue.size, 3);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(roco_queue_pop(&queue)->id, id);
    assert_null(queue.head);
    roco_queue_push(&queue, &jobs[1]);
    assert_ptr_equal(queue.head, &jobs[1]);
    assert_int_equal(queue.size, 1);
}

static bool is_odd(void *context, roco_job *job)
{
    (*(int *)context)++;
    return job->id % 2 == 1;
}

static void sweep_keeps_both_orders(void **state)
{
    roco_job jobs[5] = {{.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}, {.id = 5}};
    roco_queue queue = {0};
    int asked = 0;
    for (int i = 0; i < 5; i++)
        roco_queue_push(&queue, &jobs[i]);
    uint64_t id = 1;
    for (roco_job *job = roco_queue_sweep(&queue, is_odd, &asked); job; job = job->next, id += 2)
        assert_int_equal(job->id, id);
    assert_int_equal(id, 7);
    assert_int_equal(asked, 5);
    assert_int_equal(queue.size, 2);
    assert_int_equal(roco_queue_pop(&queue)->id, 2);
    assert_int_equal(roco_queue_pop(&queue)->id, 4);
    assert_null(roco_queue_sweep(&queue, is_odd, &asked));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_in_is_first_out),
        cmocka_unit_test(sweep_keeps_both_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
