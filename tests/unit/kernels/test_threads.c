/* The compute threads: every task once, batch after batch, awake or asleep. */
#include "kernels/cpu/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

typedef struct tally {
    uint32_t n_tasks, n_threads;
    uint32_t *plain; /* one slot a task, written without atomics: TSan sees a task that runs twice or late */
    atomic_uint strangers;
} tally;

static void count_task(void *context, uint32_t thread, uint32_t task)
{
    tally *t = context;
    if (thread >= t->n_threads || task >= t->n_tasks)
        atomic_fetch_add(&t->strangers, 1);
    else
        t->plain[task]++;
}

static void run_once(roco_threads *threads, uint32_t n_tasks)
{
    tally t = {.n_tasks = n_tasks, .n_threads = roco_threads_count(threads)};
    t.plain = calloc(n_tasks + 1, sizeof(*t.plain));
    assert_non_null(t.plain);
    roco_threads_run(threads, n_tasks, count_task, &t);
    for (uint32_t i = 0; i < n_tasks; i++)
        assert_int_equal(t.plain[i], 1);
    assert_int_equal(t.strangers, 0);
    free(t.plain); /* a worker still in the batch would now write to freed memory */
}

static void every_task_runs_once(void **state)
{
    static const uint32_t sizes[] = {0, 1, 2, 3, 5, 64, 1000};
    for (uint32_t count = 1; count <= 5; count++) {
        roco_threads *threads = NULL;
        assert_int_equal(roco_threads_open(count, &threads, NULL), ROCO_OK);
        assert_int_equal(roco_threads_count(threads), count);
        for (uint32_t i = 0; i < 700; i++)
            run_once(threads, sizes[i % 7]);
        roco_threads_close(threads);
    }
}

/* Long enough pauses for the workers to fall asleep, some just at the edge of it. */
static void sleeping_workers_wake_up(void **state)
{
    roco_threads *threads = NULL;
    assert_int_equal(roco_threads_open(3, &threads, NULL), ROCO_OK);
    for (long i = 0; i < 60; i++) {
        struct timespec pause = {.tv_nsec = 10000 * i};
        nanosleep(&pause, NULL);
        run_once(threads, 50);
    }
    struct timespec pause = {.tv_nsec = 5000000};
    nanosleep(&pause, NULL);
    roco_threads_close(threads);
}

static void counts_out_of_range_are_refused(void **state)
{
    roco_threads *threads = NULL;
    roco_error error;
    assert_int_equal(roco_threads_open(0, &threads, &error), ROCO_INVALID);
    assert_string_equal(error.field, "threads");
    assert_int_equal(roco_threads_open(100000, &threads, &error), ROCO_INVALID);
    assert_null(threads);
    roco_threads_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(sleeping_workers_wake_up),
        cmocka_unit_test(counts_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
