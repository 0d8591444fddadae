/* What a job asks of its tokens: penalties' counts, bans that end, stop tokens, log-probabilities in their rows. */
#include "scheduler/rules.h"
#include "tests/unit/scheduler/support_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static roco_job *job_of(const int32_t *prompt, uint32_t n, roco_logit_rules rules)
{
    roco_job *job = roco_job_open();
    job->prompt = malloc(n * sizeof *job->prompt);
    memcpy(job->prompt, prompt, n * sizeof *prompt);
    job->n_prompt = n;
    job->max_tokens = 4;
    job->rules = rules;
    assert_int_equal(roco_job_track_tokens(job), ROCO_OK);
    roco_rules_begin(job);
    return job;
}

static void nothing_asked_is_no_rule(void **state)
{
    roco_job *job = job_of((int32_t[]){5}, 1, (roco_logit_rules){.repetition = 1});
    assert_null(job->seen);
    assert_null(roco_rules_of(job));
    roco_rules_note(job, 5, 1);
    assert_null(roco_rules_of(job));
    roco_job_free(job);
}

static void tokens_are_counted_where_the_penalty_needs_them(void **state)
{
    const int32_t prompt[] = {9, 4, 9, 9, 2}, drawn[] = {4, 7, 4, 8};
    const struct {
        roco_logit_rules rules;
        roco_seen_token seen[6];
        uint32_t n;
    } cases[] = {
        {{.repetition = 1.2f}, {{2, 0}, {4, 2}, {9, 0}, {7, 1}, {8, 1}}, 5},
        {{.repetition = 1, .presence = 1}, {{4, 2}, {7, 1}, {8, 1}}, 3},
        {{.repetition = 1, .frequency = -1}, {{4, 2}, {7, 1}, {8, 1}}, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        roco_job *job = job_of(prompt, 5, cases[i].rules);
        for (uint32_t t = 0; t < 4; t++)
            roco_rules_note(job, drawn[t], t + 1);
        const roco_logit_rules *rules = roco_rules_of(job);
        assert_int_equal(rules->n_seen, cases[i].n);
        assert_memory_equal(rules->seen, cases[i].seen, cases[i].n * sizeof *rules->seen);
        roco_job_free(job);
    }
}

static void ends_are_banned_up_to_min_tokens(void **state)
{
    const int32_t ends[] = {1, 3};
    roco_job *job = job_of((int32_t[]){5}, 1, (roco_logit_rules){.repetition = 1});
    job->ends = ends;
    job->n_ends = 2;
    job->min_tokens = 2;
    roco_rules_begin(job);
    assert_int_equal(roco_rules_of(job)->n_banned, 2);
    roco_rules_note(job, 5, 1);
    assert_ptr_equal(roco_rules_of(job)->banned, ends);
    roco_rules_note(job, 5, 2);
    assert_null(roco_rules_of(job));
    roco_job_free(job);
}

static void a_stop_token_ends_the_answer(void **state)
{
    harness h;
    harness_job job;
    harness_init(&h);
    harness_start(&h);
    harness_ask ask = {.n_prompt = 20, .max_tokens = 9, .seed = 3};
    roco_job *probe = harness_job_open(&h, &ask, &job);
    uint64_t hash = job.hash;
    for (int i = 0; i < 4; i++)
        hash = fake_feed(hash, fake_draw(hash, h.fake.n_vocab));
    roco_job_free(probe);
    ask.stop_token = fake_draw(hash, h.fake.n_vocab); /* the fifth */
    harness_must_submit(&h, ask, &job);
    harness_finish_all(&h);
    assert_int_equal(job.last.finish, ROCO_FINISH_STOP);
    assert_int_equal(job.n_tokens, 5);
    harness_close(&h);
}

/* Whatever the steps were, row i is token i's. */
static void logprobs_lie_in_the_rows_of_their_tokens(void **state)
{
    const harness_ask asks[] = {{.n_prompt = 100, .max_tokens = 9, .seed = 3, .n_top = 2},
                                {.n_prompt = 1, .max_tokens = 3, .seed = 4, .n_top = 1},
                                {.n_prompt = 90, .max_tokens = 0, .seed = 5, .n_top = 2}};
    harness h;
    harness_job jobs[3];
    harness_init(&h);
    harness_start(&h);
    assert_int_equal(harness_submit(&h, asks, jobs, 3, NULL), ROCO_OK);
    harness_finish_all(&h);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].last.finish, ROCO_FINISH_LENGTH);
        assert_int_equal(jobs[i].n_tokens, asks[i].max_tokens);
        const roco_logprob *row = jobs[i].logprobs;
        for (uint32_t t = 1; t < asks[i].n_prompt + asks[i].max_tokens; t++) {
            row += 1 + asks[i].n_top;
            assert_true(row[0].value == -(float)t && row[asks[i].n_top].token == (int32_t)asks[i].n_top - 1);
        }
        free(jobs[i].logprobs);
    }
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_asked_is_no_rule),
        cmocka_unit_test(tokens_are_counted_where_the_penalty_needs_them),
        cmocka_unit_test(ends_are_banned_up_to_min_tokens),
        cmocka_unit_test(a_stop_token_ends_the_answer),
        cmocka_unit_test(logprobs_lie_in_the_rows_of_their_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
