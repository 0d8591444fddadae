/* Many jobs at once, cancelled at random: nothing is lost, and every page comes back. */
#include "tests/unit/scheduler/support_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The consumer sleeps on wakes alone, which may be merged: a lost one would end the test at its time limit. */
static void a_burst_of_tokens_arrives_whole(void **state)
{
    enum { N = 32, TOKENS = 313 };
    harness h;
    harness_job jobs[N];
    harness_ask asks[N];
    harness_init(&h);
    h.fake.n_pages = 4096;
    h.config.max_seqs = N;
    harness_start(&h);
    for (uint32_t i = 0; i < N; i++)
        asks[i] = (harness_ask){.n_prompt = 1 + i % 3, .max_tokens = TOKENS, .seed = i};
    assert_int_equal(harness_submit(&h, asks, jobs, N, NULL), ROCO_OK);
    harness_finish_all(&h);
    assert_int_equal(h.n_events, N * (TOKENS + 2));
    assert_true(h.n_wakes <= 2 * (uint64_t)fake_engine_n_steps(h.engine) + 2);
    harness_close(&h);
}

static harness_ask random_ask(uint64_t *random, uint32_t seed)
{
    return (harness_ask){
        .n_prompt = 1 + harness_random(random, 300),
        .max_tokens = 1 + harness_random(random, 120),
        .seed = seed,
        .budget = harness_random(random, 3) ? 32 + 16 * harness_random(random, 6) : 0,
        .use_eos = harness_random(random, 2),
    };
}

static void cancel_one(harness *h, uint64_t *random, const harness_job *jobs, uint32_t n)
{
    if (n > 0)
        roco_scheduler_cancel(h->scheduler, jobs[n - 1 - harness_random(random, n < 12 ? n : 12)].id);
}

/* Some 60 % of the jobs are cancelled: while they wait, in prefill, in decode, or after their end. */
static void run_at_random(uint64_t seed)
{
    enum { N = 300 };
    harness h;
    harness_job *jobs = calloc(N, sizeof *jobs);
    uint64_t random = seed;
    uint32_t accepted = 0;
    assert_non_null(jobs);
    harness_init(&h);
    h.config.max_seqs = 1 + harness_random(&random, 40);
    h.config.queue = 20;
    h.fake.n_pages = 56 + harness_random(&random, 300); /* the largest job takes 56 */
    h.fake.sleep_us = harness_random(&random, 2) * 20;
    harness_start(&h);
    while (accepted < N) {
        harness_ask ask = random_ask(&random, accepted);
        roco_status status = harness_submit(&h, &ask, &jobs[accepted], 1, NULL);
        assert_true(status == ROCO_OK || status == ROCO_BUSY);
        accepted += status == ROCO_OK;
        if (harness_random(&random, 10) < 8)
            cancel_one(&h, &random, jobs, accepted);
        if (status == ROCO_BUSY)
            harness_wait(&h);
        else if (harness_random(&random, 3) == 0)
            harness_take(&h);
    }
    harness_finish_all(&h);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->pages_held), 0);
    harness_close(&h);
    free(jobs);
}

static void random_runs_give_every_page_back(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++)
        run_at_random(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_of_tokens_arrives_whole),
        cmocka_unit_test(random_runs_give_every_page_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
