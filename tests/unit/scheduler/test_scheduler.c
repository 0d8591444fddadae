/* Steps and delivery: what comes out, in which order, packed how. */
#include "tests/unit/scheduler/support_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void one_sequence_takes_as_many_steps_as_it_must(void **state)
{
    harness h;
    harness_job job;
    harness_init(&h);
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 100, .max_tokens = 20}, &job);
    harness_finish_all(&h);
    assert_int_equal(job.last.finish, ROCO_FINISH_LENGTH);
    assert_int_equal(job.n_tokens, 20);
    assert_true(job.last.queue_ns > 0 && job.last.queue_ns <= job.last.first_token_ns);
    assert_true(job.last.first_token_ns <= job.last.total_ns);
    const roco_counters *c = roco_scheduler_counters(h.scheduler);
    assert_int_equal(harness_counter(&c->tokens_prompt), 100);
    assert_int_equal(harness_counter(&c->tokens_generated), 20);
    assert_int_equal(harness_counter(&c->finished_length), 1);
    assert_int_equal(harness_counter(&c->pages_total), 256);
    assert_int_equal(harness_count(&c->queue_seconds), 1);
    assert_int_equal(harness_count(&c->first_token_seconds), 1);
    assert_int_equal(harness_count(&c->inter_token_seconds), 19);
    assert_true(harness_counter(&c->inter_token_seconds.sum_nano) <= job.last.total_ns); /* gaps add up to less */
    assert_int_equal(harness_count(&c->step_rows), 21);
    assert_int_equal(harness_counter(&c->step_rows.sum_nano), (uint64_t)(100 + 19) * 1000000000u);
    roco_scheduler_stop(h.scheduler);
    assert_int_equal(fake_engine_n_steps(h.engine), 2 + 19); /* 64 + 36 rows, the second draws */
    harness_close_stopped(&h);
}

static void a_short_budget_is_reported_and_counted(void **state)
{
    harness h;
    harness_job job;
    harness_init(&h);
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 200, .max_tokens = 11, .budget = 64}, &job);
    harness_finish_all(&h);
    assert_int_equal(job.last.kv.length, 210);
    assert_int_equal(job.last.kv.held, 64);
    assert_int_equal(job.last.kv.evicted, 146);
    const roco_counters *c = roco_scheduler_counters(h.scheduler);
    assert_int_equal(harness_counter(&c->tokens_evicted[harness_evicting.id]), 146);
    assert_int_equal(harness_counter(&c->slots_evicted[harness_evicting.id]), 146 * 4);
    assert_int_equal(harness_counter(&c->tokens_evicted[harness_full.id]), 0);
    harness_close(&h);
}

static void end_tokens_stop_unless_told_otherwise(void **state)
{
    enum { N = 40 };
    harness h;
    harness_job jobs[N];
    uint32_t stopped = 0;
    harness_init(&h);
    harness_start(&h);
    for (uint32_t i = 0; i < N; i++)
        harness_must_submit(&h, (harness_ask){.n_prompt = 9, .max_tokens = 100, .seed = i, .use_eos = i % 2 == 0},
                            &jobs[i]);
    harness_finish_all(&h);
    for (uint32_t i = 0; i < N; i++) {
        stopped += jobs[i].last.finish == ROCO_FINISH_STOP;
        if (i % 2)
            assert_int_equal(jobs[i].n_tokens, 100);
    }
    assert_true(stopped > 0); /* one token in 101 is an end token */
    harness_close(&h);
}

/* Every token is checked against what the prompt alone must give; here many run at once, of all lengths. */
static void company_changes_nothing(void **state)
{
    enum { N = 60 };
    harness h;
    harness_job jobs[N];
    uint64_t random = 3;
    harness_init(&h);
    h.fake.n_pages = 2000;
    h.config.max_seqs = 17;
    h.fake.step_tokens = 33; /* the smallest allowed */
    harness_start(&h);
    for (uint32_t i = 0; i < N; i++) {
        harness_ask ask = {.n_prompt = 1 + harness_random(&random, 150),
                           .max_tokens = 1 + harness_random(&random, 40),
                           .seed = i,
                           .budget = i % 3 ? 32 : 0,
                           .use_eos = true};
        harness_must_submit(&h, ask, &jobs[i]);
    }
    harness_finish_all(&h);
    harness_close(&h);
}

static void running_answers_go_on_beside_a_long_prompt(void **state)
{
    harness h;
    harness_job a, b;
    harness_init(&h);
    h.fake.gated = h.fake.record = true;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 10, .max_tokens = 100, .seed = 1}, &a);
    fake_engine_wait_held(h.engine);
    harness_must_submit(&h, (harness_ask){.n_prompt = 1000, .max_tokens = 5, .seed = 2}, &b);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    roco_scheduler_stop(h.scheduler);
    uint32_t position = 0, n_prefills = 0;
    for (uint64_t i = 1; i < 100; i++) { /* all the steps A lives for */
        const fake_step *step = fake_engine_step_at(h.engine, i);
        assert_int_equal(step->items[0].cache, 0);
        assert_true(step->items[0].decode);
        if (step->n_items == 1 || step->items[1].decode)
            continue;
        assert_int_equal(step->items[1].position, position);
        position += step->items[1].n_tokens;
        n_prefills++;
    }
    assert_int_equal(position, 1000);
    assert_int_equal(n_prefills, 21); /* 48 rows, three strides, beside A's one of 64 */
    harness_close_stopped(&h);
}

static void jobs_are_served_in_order_of_arrival(void **state)
{
    harness h;
    harness_job jobs[6];
    harness_init(&h);
    h.config.max_seqs = 1;
    harness_start(&h);
    for (uint32_t i = 0; i < 6; i++)
        harness_must_submit(&h, (harness_ask){.n_prompt = 60 - 9 * i, .max_tokens = 7, .seed = i}, &jobs[i]);
    harness_finish_all(&h);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(jobs[i].order, i + 1);
    assert_int_equal(fake_engine_most_open(h.engine), 1);
    harness_close(&h);
}

/* One leaves; the prompts behind it keep their order. */
static void the_oldest_prompt_stays_first_when_others_leave(void **state)
{
    harness h;
    harness_job jobs[4];
    const uint32_t n_prompts[4] = {5, 400, 200, 120};
    harness_ask asks[4];
    harness_init(&h);
    h.fake.record = true;
    harness_start(&h);
    for (uint32_t i = 0; i < 4; i++)
        asks[i] = (harness_ask){.n_prompt = n_prompts[i], .max_tokens = 1, .seed = i};
    assert_int_equal(harness_submit(&h, asks, jobs, 4, NULL), ROCO_OK);
    harness_finish_all(&h);
    roco_scheduler_stop(h.scheduler);
    uint32_t oldest = 0;
    for (uint64_t i = 0; i < fake_engine_n_steps(h.engine); i++) {
        assert_true(fake_engine_step_at(h.engine, i)->items[0].cache >= oldest);
        oldest = fake_engine_step_at(h.engine, i)->items[0].cache;
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(jobs[i].order, i + 1);
    harness_close_stopped(&h);
}

static void expect_refusal(uint32_t max_seqs, uint32_t step_tokens, const char *field, const char *number)
{
    fake_config fake = fake_config_default();
    roco_engine *engine = fake_engine_open(&fake);
    roco_scheduler_config config = {.engine = engine, .max_seqs = max_seqs, .step_tokens = step_tokens};
    roco_scheduler *scheduler = NULL;
    roco_error error = {0};
    assert_int_equal(roco_scheduler_open(&config, &scheduler, &error), ROCO_INVALID);
    assert_string_equal(error.field, field);
    assert_non_null(strstr(error.message, number));
    roco_engine_close(engine);
}

static void a_step_too_small_is_refused_at_the_start(void **state)
{
    expect_refusal(8, 23, "step-tokens", "24");
    expect_refusal(49, 0, "step-tokens", "65");
    expect_refusal(8, 65, "step-tokens", "64");
    expect_refusal(0, 0, "max-seqs", "at least 1");
}

static void an_idle_scheduler_opens_and_closes(void **state)
{
    harness h;
    harness_init(&h);
    harness_start(&h);
    roco_scheduler_cancel(h.scheduler, 12345);
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sequence_takes_as_many_steps_as_it_must),
        cmocka_unit_test(a_short_budget_is_reported_and_counted),
        cmocka_unit_test(end_tokens_stop_unless_told_otherwise),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(running_answers_go_on_beside_a_long_prompt),
        cmocka_unit_test(jobs_are_served_in_order_of_arrival),
        cmocka_unit_test(the_oldest_prompt_stays_first_when_others_leave),
        cmocka_unit_test(a_step_too_small_is_refused_at_the_start),
        cmocka_unit_test(an_idle_scheduler_opens_and_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
