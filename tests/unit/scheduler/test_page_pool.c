/* The free list: all or none, nothing twice, everything back. */
#include "scheduler/page_pool.h"
#include "tests/unit/scheduler/support_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void takes_all_or_none(void **state)
{
    roco_page_pool pool;
    uint32_t pages[8] = {0};
    assert_int_equal(roco_page_pool_init(&pool, 5), ROCO_OK);
    assert_true(roco_page_pool_take(&pool, 3, pages));
    assert_false(roco_page_pool_take(&pool, 3, pages + 3));
    assert_int_equal(pool.n_free, 2);
    roco_page_pool_check(&pool);
    assert_true(roco_page_pool_take(&pool, 2, pages + 3));
    assert_true(roco_page_pool_take(&pool, 0, pages));
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 5; i++)
        seen |= 1u << pages[i];
    assert_int_equal(seen, 31);
    roco_page_pool_give(&pool, pages, 5);
    roco_page_pool_check(&pool);
    assert_int_equal(pool.n_free, 5);
    roco_page_pool_free(&pool);
}

static void keeps_its_invariant_at_random(void **state)
{
    enum { TOTAL = 130, HOLDERS = 16 };
    roco_page_pool pool;
    uint32_t held[HOLDERS][TOTAL], n_held[HOLDERS] = {0}, out = 0;
    uint64_t random = 5;
    assert_int_equal(roco_page_pool_init(&pool, TOTAL), ROCO_OK);
    for (int round = 0; round < 20000; round++) {
        uint32_t who = harness_random(&random, HOLDERS);
        if (n_held[who]) {
            roco_page_pool_give(&pool, held[who], n_held[who]);
            out -= n_held[who];
            n_held[who] = 0;
        } else {
            uint32_t n = 1 + harness_random(&random, 40);
            bool fits = n <= TOTAL - out;
            assert_int_equal(roco_page_pool_take(&pool, n, held[who]), fits);
            n_held[who] = fits ? n : 0;
            out += n_held[who];
        }
        if (round % 100 == 0)
            roco_page_pool_check(&pool);
        assert_int_equal(pool.n_free + out, TOTAL);
    }
    roco_page_pool_free(&pool);
}

/* A child process does it, since it must abort. */
static void aborts_on_a_page_given_back_twice(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        roco_page_pool pool;
        uint32_t pages[2];
        if (roco_page_pool_init(&pool, 4) == ROCO_OK && roco_page_pool_take(&pool, 2, pages)) {
            roco_page_pool_give(&pool, pages, 2);
            roco_page_pool_give(&pool, pages, 1);
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_all_or_none),
        cmocka_unit_test(keeps_its_invariant_at_random),
        cmocka_unit_test(aborts_on_a_page_given_back_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
