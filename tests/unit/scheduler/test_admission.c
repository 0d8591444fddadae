/* Who gets in: reservation to the end, no overtaking, a bounded queue, and refusals with their numbers. */
#include "tests/unit/scheduler/support_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fake's 4 heads take 4 pages for each 32 tokens. */

static void what_never_fits_is_refused_and_others_go_on(void **state)
{
    harness h;
    harness_job small, large;
    roco_error error = {0};
    harness_init(&h);
    h.fake.n_pages = 64;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 100, .max_tokens = 50}, &small);
    harness_ask ask = {.n_prompt = 500, .max_tokens = 13}; /* 17 pages a head */
    assert_int_equal(harness_submit(&h, &ask, &large, 1, &error), ROCO_TOO_LARGE);
    assert_string_equal(error.field, "kv_budget");
    assert_non_null(strstr(error.message, "68"));
    assert_non_null(strstr(error.message, "64"));
    ask.max_tokens = 12; /* the whole pool */
    assert_int_equal(harness_submit(&h, &ask, &large, 1, &error), ROCO_OK);
    harness_finish_all(&h);
    assert_int_equal(small.last.finish, ROCO_FINISH_LENGTH);
    assert_int_equal(large.last.finish, ROCO_FINISH_LENGTH);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->rejected), 1);
    harness_close(&h);
}

static void what_the_backend_cannot_do_is_refused_before_it_waits(void **state)
{
    harness h;
    harness_job tracked;
    roco_error error = {0};
    harness_init(&h);
    h.fake.no_ranks = true;
    harness_start(&h);
    roco_job *job = harness_job_open(&h, &(harness_ask){.n_prompt = 10, .max_tokens = 5, .budget = 64}, &tracked);
    job->by_rank = true;
    assert_int_equal(roco_scheduler_submit(h.scheduler, &job, 1, &error), ROCO_UNSUPPORTED);
    assert_string_equal(error.field, "kv_positions");
    roco_job_free(job);
    harness_close(&h);
}

/* Nothing admitted is ever preempted: the steps made are exactly those that each job needs alone. */
static void jobs_of_most_of_the_pool_run_one_at_a_time(void **state)
{
    enum { N = 10 };
    harness h;
    harness_job jobs[N];
    harness_init(&h);
    h.fake.n_pages = 100;
    harness_start(&h);
    for (uint32_t i = 0; i < N; i++)
        harness_must_submit(&h, (harness_ask){.n_prompt = 400, .max_tokens = 80, .seed = i}, &jobs[i]); /* 60 pages */
    harness_finish_all(&h);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(jobs[i].order, i + 1);
        assert_int_equal(jobs[i].last.finish, ROCO_FINISH_LENGTH);
    }
    roco_scheduler_stop(h.scheduler);
    assert_int_equal(fake_engine_most_open(h.engine), 1);
    assert_int_equal(fake_engine_n_steps(h.engine), N * (7 + 79));
    harness_close_stopped(&h);
}

static void sequences_that_together_outgrow_the_pool_all_finish(void **state)
{
    harness h;
    harness_job jobs[4];
    harness_init(&h);
    h.fake.n_pages = 100;
    harness_start(&h);
    for (uint32_t i = 0; i < 4; i++) /* one page a head at first, 9 at the end */
        harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 278, .seed = i}, &jobs[i]);
    harness_finish_all(&h);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(jobs[i].n_tokens, 278);
    assert_int_equal(fake_engine_most_open(h.engine), 2);
    harness_close(&h);
}

static void a_budget_lets_all_run_at_once(void **state)
{
    enum { N = 16 };
    harness h;
    harness_job jobs[2][N];
    for (uint32_t capped = 0; capped < 2; capped++) {
        harness_init(&h);
        h.fake.n_pages = 256;
        h.config.max_seqs = N;
        harness_start(&h);
        harness_ask asks[N];
        for (uint32_t i = 0; i < N; i++)
            asks[i] = (harness_ask){.n_prompt = 480, .max_tokens = 32, .seed = i, .budget = capped ? 128 : 0};
        assert_int_equal(harness_submit(&h, asks, jobs[capped], N, NULL), ROCO_OK);
        harness_finish_all(&h);
        roco_scheduler_stop(h.scheduler);
        assert_int_equal(fake_engine_most_open(h.engine), capped ? N : 4);
        harness_close_stopped(&h);
    }
}

static void a_small_job_does_not_overtake_a_large_one(void **state)
{
    harness h;
    harness_job a, large, small;
    harness_init(&h);
    h.fake.n_pages = 64;
    h.fake.gated = true;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 300, .max_tokens = 20}, &a); /* 40 pages */
    fake_engine_wait_held(h.engine);
    harness_must_submit(&h, (harness_ask){.n_prompt = 300, .max_tokens = 20, .seed = 1}, &large);
    harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 3, .seed = 2}, &small); /* would fit */
    fake_engine_allow(h.engine, 3);
    fake_engine_wait_held(h.engine);
    harness_take(&h);
    assert_true(a.started);
    assert_false(large.started);
    assert_false(small.started);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->queued), 2);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    assert_int_equal(a.order, 1);
    assert_int_equal(small.order, 2); /* beside the large one, once that is in */
    harness_close(&h);
}

static void the_queue_is_bounded(void **state)
{
    harness h;
    harness_job jobs[5], extra[4];
    roco_error error = {0};
    const harness_ask ask = {.n_prompt = 20, .max_tokens = 30};
    const harness_ask asks[4] = {ask, ask, ask, ask};
    harness_init(&h);
    h.fake.gated = true;
    h.config.max_seqs = 2;
    h.config.queue = 3;
    harness_start(&h);
    assert_int_equal(harness_submit(&h, asks, jobs, 2, &error), ROCO_OK);
    fake_engine_wait_held(h.engine);
    assert_int_equal(harness_submit(&h, asks, jobs + 2, 1, &error), ROCO_OK);
    assert_int_equal(harness_submit(&h, asks, extra, 3, &error), ROCO_BUSY); /* all or none */
    assert_non_null(strstr(error.message, "3"));
    assert_int_equal(harness_submit(&h, asks, jobs + 3, 2, &error), ROCO_OK);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(harness_submit(&h, asks, extra, 1, &error), ROCO_BUSY);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->queued), 3);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->rejected), 2003);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    harness_close(&h);
}

static void seats_that_are_free_need_no_queue(void **state)
{
    harness h;
    harness_job jobs[8], extra;
    const harness_ask ask = {.n_prompt = 5, .max_tokens = 400};
    harness_init(&h);
    h.config.queue = 0;
    h.fake.gated = true;
    h.fake.n_pages = 1000;
    harness_start(&h);
    /* Whether or not the engine thread has looked in between. */
    for (int i = 0; i < 8; i++)
        harness_must_submit(&h, ask, &jobs[i]);
    assert_int_equal(harness_submit(&h, &ask, &extra, 1, NULL), ROCO_BUSY);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    harness_close(&h);
}

static void a_share_bounds_what_runs_and_waits_and_holds_up_nobody_else(void **state)
{
    harness h;
    harness_job mine[4], refused[4], other;
    roco_error error = {0};
    roco_share share = {.name = "alice", .max_running = 2, .max_queued = 1};
    const harness_ask ask = {.n_prompt = 5, .max_tokens = 100, .share = &share};
    harness_init(&h);
    h.fake.gated = true;
    h.fake.n_pages = 1000;
    harness_start(&h);
    for (int i = 0; i < 3; i++)
        harness_must_submit(&h, ask, &mine[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(harness_submit(&h, &ask, refused, 1, &error), ROCO_BUSY);
        assert_string_equal(error.field, "share");
        assert_non_null(strstr(error.message, "alice"));
    }
    const harness_ask many[4] = {ask, ask, ask, ask};
    assert_int_equal(harness_submit(&h, many, refused, 4, &error), ROCO_TOO_LARGE);
    harness_must_submit(&h, (harness_ask){.n_prompt = 5, .max_tokens = 3}, &other); /* behind one that must wait */
    fake_engine_allow(h.engine, 2);
    fake_engine_wait_held(h.engine);
    harness_take(&h);
    assert_true(mine[0].started && mine[1].started && other.started);
    assert_false(mine[2].started);
    assert_int_equal(share.running, 2);
    assert_int_equal(share.queued, 1);
    share.max_running = 3; /* counts from the next step on */
    fake_engine_allow(h.engine, 1);
    fake_engine_wait_held(h.engine);
    harness_take(&h);
    assert_true(mine[2].started);
    harness_must_submit(&h, ask, &mine[3]);
    roco_scheduler_cancel(h.scheduler, mine[3].id); /* leaves without having run */
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    assert_int_equal(share.running, 0);
    assert_int_equal(share.queued, 0);
    assert_int_equal(harness_submit(&h, many, mine, 4, &error), ROCO_OK);
    harness_finish_all(&h);
    harness_close(&h);
}

typedef struct bad_job {
    const char *field, *word;
    roco_status status;
    void (*spoil)(roco_job *job);
} bad_job;

static void no_prompt(roco_job *job)
{
    job->n_prompt = 0;
}
static void too_long(roco_job *job)
{
    job->max_tokens = 4087;
}
static void longest_number(roco_job *job)
{
    job->max_tokens = UINT32_MAX;
}
static void negative_token(roco_job *job)
{
    job->prompt[3] = -1;
}
static void token_after_the_last(roco_job *job)
{
    job->prompt[9] = 101;
}
static void budget_of_protected_only(roco_job *job)
{
    job->policy = &harness_evicting;
    job->budget = 14;
}
static void wrapping_sink(roco_job *job)
{
    job->policy = &harness_evicting;
    job->budget = 64;
    job->sink = UINT32_MAX;
}
static void no_policy(roco_job *job)
{
    job->policy = NULL;
}

static void bad_jobs_are_refused_with_the_field(void **state)
{
    const bad_job bad[] = {
        {"prompt", "empty", ROCO_INVALID, no_prompt},
        {"prompt", "4096", ROCO_TOO_LARGE, too_long},
        {"prompt", "4096", ROCO_TOO_LARGE, longest_number},
        {"prompt", "token 3 ", ROCO_INVALID, negative_token},
        {"prompt", "0 to 100", ROCO_INVALID, token_after_the_last},
        {"kv_budget", "14", ROCO_INVALID, budget_of_protected_only},
        {"kv_budget", "4294967295", ROCO_INVALID, wrapping_sink},
        {"kv_policy", "policy", ROCO_INVALID, no_policy},
    };
    harness h;
    harness_job good, tracked[2];
    harness_init(&h);
    harness_start(&h);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const harness_ask ask = {.n_prompt = 10, .max_tokens = 5};
        roco_job *jobs[2] = {harness_job_open(&h, &ask, &tracked[0]), harness_job_open(&h, &ask, &tracked[1])};
        roco_error error = {0};
        bad[i].spoil(jobs[1]); /* the good one beside it is refused with it */
        assert_int_equal(roco_scheduler_submit(h.scheduler, jobs, 2, &error), bad[i].status);
        assert_string_equal(error.field, bad[i].field);
        if (!strstr(error.message, bad[i].word))
            fail_msg("\"%s\" lacks \"%s\"", error.message, bad[i].word);
        roco_job_free(jobs[0]);
        roco_job_free(jobs[1]);
    }
    harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 5}, &good);
    harness_finish_all(&h);
    harness_close(&h);
}

static void more_choices_than_can_ever_wait_are_refused(void **state)
{
    enum { N = 73 };
    harness h;
    harness_ask asks[N];
    harness_job jobs[N];
    roco_error error = {0};
    harness_init(&h); /* 8 run, 64 wait */
    harness_start(&h);
    for (int i = 0; i < N; i++)
        asks[i] = (harness_ask){.n_prompt = 3, .max_tokens = 2};
    assert_int_equal(harness_submit(&h, asks, jobs, N, &error), ROCO_TOO_LARGE);
    assert_string_equal(error.field, "n");
    assert_int_equal(harness_submit(&h, asks, jobs, N - 1, &error), ROCO_OK);
    harness_finish_all(&h);
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_never_fits_is_refused_and_others_go_on),
        cmocka_unit_test(what_the_backend_cannot_do_is_refused_before_it_waits),
        cmocka_unit_test(jobs_of_most_of_the_pool_run_one_at_a_time),
        cmocka_unit_test(sequences_that_together_outgrow_the_pool_all_finish),
        cmocka_unit_test(a_budget_lets_all_run_at_once),
        cmocka_unit_test(a_small_job_does_not_overtake_a_large_one),
        cmocka_unit_test(the_queue_is_bounded),
        cmocka_unit_test(seats_that_are_free_need_no_queue),
        cmocka_unit_test(a_share_bounds_what_runs_and_waits_and_holds_up_nobody_else),
        cmocka_unit_test(bad_jobs_are_refused_with_the_field),
        cmocka_unit_test(more_choices_than_can_ever_wait_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
