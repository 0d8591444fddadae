/* How jobs end: cancels, deadlines, drain, stop, and faults that must stay with the one they hit. */
#include "tests/unit/scheduler/support_harness.h"

#include "config/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect_error(const harness_job *job, roco_status status)
{
    assert_true(job->finished);
    assert_int_equal(job->last.finish, ROCO_FINISH_ERROR);
    assert_int_equal(job->last.status, status);
}

static void cancel_is_honoured_within_one_step(void **state)
{
    harness h;
    harness_job running, in_prefill, queued, other;
    harness_init(&h);
    h.fake.gated = true;
    h.config.max_seqs = 3;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 500, .seed = 1}, &running);
    harness_must_submit(&h, (harness_ask){.n_prompt = 900, .max_tokens = 10, .seed = 2}, &in_prefill);
    harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 12, .seed = 3}, &other);
    harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 12, .seed = 4}, &queued);
    for (int i = 0; i < 5; i++) {
        fake_engine_wait_held(h.engine);
        fake_engine_allow(h.engine, 1);
    }
    fake_engine_wait_held(h.engine);
    harness_take(&h);
    uint32_t tokens_before = running.n_tokens;
    running.complete = true;
    roco_scheduler_complete(h.scheduler, running.id); /* a stop string came */
    roco_scheduler_cancel(h.scheduler, in_prefill.id);
    roco_scheduler_cancel(h.scheduler, queued.id);
    roco_scheduler_cancel(h.scheduler, queued.id);
    fake_engine_allow(h.engine, 1);
    fake_engine_wait_held(h.engine); /* the step after it is packed */
    harness_take(&h);
    assert_true(running.finished && in_prefill.finished && queued.finished);
    assert_false(other.finished);
    assert_int_equal(running.n_tokens, tokens_before + 1u); /* the step was under way */
    assert_int_equal(running.last.finish, ROCO_FINISH_STOP);
    assert_int_equal(running.last.status, ROCO_OK);
    assert_int_equal(in_prefill.n_tokens, 0);
    assert_false(queued.started);
    assert_int_equal(queued.last.finish, ROCO_FINISH_CANCELLED);
    assert_int_equal(queued.last.first_token_ns, 0);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    assert_int_equal(other.last.finish, ROCO_FINISH_LENGTH);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->finished_cancelled), 2);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->finished_stop), 1);
    harness_close(&h);
}

static void deadlines_end_waiting_and_running_jobs(void **state)
{
    harness h;
    harness_job late, slow, waiting, fine;
    uint64_t now = roco_now_ns();
    harness_init(&h);
    h.fake.sleep_us = 1000;
    h.config.max_seqs = 1;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 5, .max_tokens = 5, .queue_deadline_ns = 1}, &late);
    harness_must_submit(
        &h, (harness_ask){.n_prompt = 5, .max_tokens = 4000, .deadline_ns = now + 300000000u, .budget = 32}, &slow);
    harness_must_submit(&h, (harness_ask){.n_prompt = 5, .max_tokens = 5, .queue_deadline_ns = now + 10000000u},
                        &waiting);
    harness_must_submit(&h,
                        (harness_ask){.n_prompt = 5,
                                      .max_tokens = 5,
                                      .queue_deadline_ns = now + 3600000000000u,
                                      .deadline_ns = now + 3600000000000u},
                        &fine);
    harness_finish_all(&h);
    expect_error(&late, ROCO_TIMEOUT);
    expect_error(&slow, ROCO_TIMEOUT);
    expect_error(&waiting, ROCO_TIMEOUT);
    assert_false(late.started);
    assert_false(waiting.started);
    assert_int_equal(fine.last.finish, ROCO_FINISH_LENGTH);
    harness_close(&h);
}

static void drain_lets_running_jobs_finish(void **state)
{
    harness h;
    harness_job running, queued, refused;
    const harness_ask ask = {.n_prompt = 10, .max_tokens = 50};
    roco_error error = {0};
    harness_init(&h);
    h.fake.gated = true;
    h.config.max_seqs = 1;
    harness_start(&h);
    harness_must_submit(&h, ask, &running);
    fake_engine_wait_held(h.engine);
    harness_must_submit(&h, ask, &queued);
    roco_scheduler_drain(h.scheduler);
    assert_int_equal(harness_submit(&h, &ask, &refused, 1, &error), ROCO_SHUTDOWN);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    assert_int_equal(running.last.finish, ROCO_FINISH_LENGTH);
    expect_error(&queued, ROCO_SHUTDOWN);
    assert_false(queued.started);
    harness_close(&h);
}

static void stop_under_load_ends_every_job_once(void **state)
{
    enum { ROUNDS = 200, N = 12 };
    uint64_t random = 17;
    for (int round = 0; round < ROUNDS; round++) {
        harness h;
        harness_job jobs[N];
        harness_init(&h);
        h.config.max_seqs = 4;
        h.fake.sleep_us = round % 4 == 0 ? 50 : 0;
        harness_start(&h);
        for (uint32_t i = 0; i < N; i++) {
            harness_ask ask = {.n_prompt = 1 + harness_random(&random, 80),
                               .max_tokens = 1 + harness_random(&random, 400),
                               .seed = i,
                               .budget = 32};
            harness_must_submit(&h, ask, &jobs[i]);
        }
        for (uint32_t i = harness_random(&random, 6); i > 0 && h.n_finished < N; i--)
            harness_wait(&h);
        if (round % 3 == 0)
            roco_scheduler_drain(h.scheduler);
        roco_scheduler_stop(h.scheduler);
        roco_scheduler_stop(h.scheduler); /* a second one changes nothing */
        harness_ask after = {.n_prompt = 1, .max_tokens = 1};
        harness_job refused;
        assert_int_equal(harness_submit(&h, &after, &refused, 1, NULL), ROCO_SHUTDOWN);
        harness_close_stopped(&h);
        for (uint32_t i = 0; i < N; i++)
            assert_true(jobs[i].last.finish == ROCO_FINISH_LENGTH || jobs[i].last.status == ROCO_SHUTDOWN);
    }
}

static void a_value_that_is_no_number_fails_one_job(void **state)
{
    harness h;
    harness_job jobs[6];
    harness_init(&h);
    h.fake.nan_token = 7;
    h.fake.nan_index = 3;
    harness_start(&h);
    for (uint32_t i = 0; i < 6; i++)
        harness_must_submit(
            &h, (harness_ask){.n_prompt = 20, .max_tokens = 40, .seed = i, .first_token = i == 2 ? 7 : 0}, &jobs[i]);
    harness_finish_all(&h);
    for (uint32_t i = 0; i < 6; i++) {
        if (i == 2) {
            expect_error(&jobs[i], ROCO_NUMERIC);
            assert_int_equal(jobs[i].n_tokens, 3);
        } else {
            assert_int_equal(jobs[i].last.finish, ROCO_FINISH_LENGTH);
        }
    }
    harness_close(&h);
}

static void a_device_failure_ends_all_and_refuses_more(void **state)
{
    harness h;
    harness_job jobs[5], refused;
    const harness_ask ask = {.n_prompt = 20, .max_tokens = 100};
    const harness_ask asks[5] = {ask, ask, ask, ask, ask};
    roco_error error = {0};
    harness_init(&h);
    h.fake.fail_step = 10;
    h.config.max_seqs = 3;
    harness_start(&h);
    assert_int_equal(harness_submit(&h, asks, jobs, 5, &error), ROCO_OK);
    harness_finish_all(&h);
    for (uint32_t i = 0; i < 5; i++) {
        expect_error(&jobs[i], ROCO_DEVICE);
        assert_int_equal(jobs[i].started, i < 3);
    }
    assert_int_equal(harness_submit(&h, &ask, &refused, 1, &error), ROCO_DEVICE);
    assert_int_equal(harness_counter(&roco_scheduler_counters(h.scheduler)->device_failed), 1);
    harness_close(&h);
}

static void the_fault_switch_fails_jobs_after_their_tokens(void **state)
{
    harness h;
    harness_job longer, shorter;
    harness_init(&h);
    h.config.fault_after = 5;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 20, .max_tokens = 40}, &longer);
    harness_must_submit(&h, (harness_ask){.n_prompt = 20, .max_tokens = 5}, &shorter);
    harness_finish_all(&h);
    expect_error(&longer, ROCO_DEVICE);
    assert_int_equal(longer.n_tokens, 5);
    assert_int_equal(shorter.last.finish, ROCO_FINISH_LENGTH);
    harness_close(&h);
}

static void a_cache_that_cannot_be_opened_fails_one_job(void **state)
{
    harness h;
    harness_job first, refused, last;
    harness_init(&h);
    h.fake.refuse_open = 33;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 20, .max_tokens = 10}, &first);
    harness_must_submit(&h, (harness_ask){.n_prompt = 20, .max_tokens = 13}, &refused);
    harness_must_submit(&h, (harness_ask){.n_prompt = 20, .max_tokens = 10}, &last);
    harness_finish_all(&h);
    expect_error(&refused, ROCO_NO_MEMORY);
    assert_int_equal(first.last.finish, ROCO_FINISH_LENGTH);
    assert_int_equal(last.last.finish, ROCO_FINISH_LENGTH);
    harness_close(&h);
}

/* An answer under a regex, by a model of nothing but "x": not one token ends a text. */
static harness_job answer_in_x(const char *regex)
{
    enum { N = 101 };
    roco_token tokens[N];
    roco_grammar *grammar = roco_grammar_open(&ROCO_GRAMMAR_LIMITS);
    roco_vocabulary *vocabulary;
    roco_constraint *constraint;
    roco_expr root;
    roco_error error;
    harness h;
    harness_job tracked;
    for (int i = 0; i < N; i++)
        tokens[i] = (roco_token){ROCO_TOKEN_TEXT, "x", 1};
    assert_int_equal(roco_vocabulary_open(tokens, N, &vocabulary, &error), ROCO_OK);
    assert_int_equal(roco_grammar_regex(grammar, "regex", regex, strlen(regex), &root, &error), ROCO_OK);
    assert_int_equal(roco_constraint_compile(grammar, "regex", root, vocabulary, &constraint, &error), ROCO_OK);
    roco_grammar_close(grammar);
    harness_init(&h);
    h.config.vocabulary = vocabulary;
    harness_start(&h);
    roco_job *job = harness_job_open(&h, &(harness_ask){.n_prompt = 10, .max_tokens = 9}, &tracked);
    job->constraint = constraint;
    tracked.complete = strchr(regex, 'y') == NULL;
    assert_int_equal(roco_scheduler_submit(h.scheduler, &job, 1, &error), ROCO_OK);
    tracked.id = job->id;
    h.n_submitted++;
    harness_finish_all(&h);
    harness_close(&h);
    roco_vocabulary_close(vocabulary);
    return tracked;
}

static void a_text_that_is_complete_stops_though_no_token_ends_it(void **state)
{
    harness_job job = answer_in_x("xx");
    assert_int_equal(job.last.finish, ROCO_FINISH_STOP);
    assert_int_equal(job.n_tokens, 2);
    job = answer_in_x("");
    assert_int_equal(job.last.finish, ROCO_FINISH_STOP);
    assert_int_equal(job.n_tokens, 0);
    job = answer_in_x("xy");
    expect_error(&job, ROCO_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_is_honoured_within_one_step),
        cmocka_unit_test(deadlines_end_waiting_and_running_jobs),
        cmocka_unit_test(drain_lets_running_jobs_finish),
        cmocka_unit_test(stop_under_load_ends_every_job_once),
        cmocka_unit_test(a_value_that_is_no_number_fails_one_job),
        cmocka_unit_test(a_device_failure_ends_all_and_refuses_more),
        cmocka_unit_test(the_fault_switch_fails_jobs_after_their_tokens),
        cmocka_unit_test(a_cache_that_cannot_be_opened_fails_one_job),
        cmocka_unit_test(a_text_that_is_complete_stops_though_no_token_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
