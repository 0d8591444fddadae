/* What goes into a step: decodes first, then prompts, oldest first, in whole strides. */
#include "scheduler/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STRIDE = 16 };

typedef struct setup {
    int32_t prompt[1000];
    roco_job jobs[8];
    roco_sequence running[8];
    uint32_t n;
    roco_batch batch;
} setup;

static void add(setup *t, uint32_t n_prompt, uint32_t position)
{
    roco_job *job = &t->jobs[t->n];
    *job = (roco_job){.prompt = t->prompt, .n_prompt = n_prompt, .max_tokens = 100};
    t->running[t->n++] = (roco_sequence){.job = job, .position = position, .n_generated = position >= n_prompt};
}

static void expect(const setup *t, uint32_t index, uint32_t source, uint32_t n_tokens, bool sampled)
{
    assert_true(index < t->batch.n_items);
    const roco_step_item *item = &t->batch.items[index];
    const roco_sequence *sequence = &t->running[source];
    assert_int_equal(t->batch.source[index], source);
    assert_int_equal(item->n_tokens, n_tokens);
    assert_int_equal(item->sampling != NULL, sampled);
    assert_int_equal(item->decode, !roco_sequence_in_prefill(sequence));
    assert_ptr_equal(item->tokens, item->decode ? &sequence->last_token : t->prompt + sequence->position);
    assert_int_equal(item->sample_index, sequence->n_generated);
}

static int open_setup(void **state)
{
    static setup t; /* large for a stack; each test starts from zero */
    t = (setup){0};
    *state = &t;
    return roco_batch_init(&t.batch, 8);
}

static int close_setup(void **state)
{
    setup *t = *state;
    roco_batch_free(&t->batch);
    return 0;
}

static void a_long_prompt_fills_what_decodes_leave(void **state)
{
    setup *t = *state;
    add(t, 500, 0);
    add(t, 10, 10);
    add(t, 20, 25);
    roco_batch_pack(&t->batch, t->running, t->n, STRIDE, 64);
    assert_int_equal(t->batch.n_items, 3);
    assert_int_equal(t->batch.rows, 2 + 48);
    expect(t, 0, 1, 1, true);
    expect(t, 1, 2, 1, true);
    expect(t, 2, 0, 48, false);
}

static void prompts_go_oldest_first(void **state)
{
    setup *t = *state;
    add(t, 40, 0);
    add(t, 100, 32);
    add(t, 12, 0);
    roco_batch_pack(&t->batch, t->running, t->n, STRIDE, 64);
    assert_int_equal(t->batch.rows, 40 + 16);
    assert_int_equal(t->batch.n_items, 2);
    expect(t, 0, 0, 40, true);  /* whole, and shorter at its end */
    expect(t, 1, 1, 16, false); /* 24 rows are left: one stride */
}

static void a_short_end_fits_behind_a_stride_that_does_not(void **state)
{
    setup *t = *state;
    add(t, 56, 0);
    add(t, 500, 0);
    add(t, 7, 0);
    roco_batch_pack(&t->batch, t->running, t->n, STRIDE, 64);
    assert_int_equal(t->batch.rows, 63);
    expect(t, 0, 0, 56, true);
    expect(t, 1, 2, 7, true);
}

static void the_end_of_a_prompt_draws(void **state)
{
    setup *t = *state;
    add(t, 33, 32);
    add(t, 32, 16);
    roco_batch_pack(&t->batch, t->running, t->n, STRIDE, 64);
    expect(t, 0, 0, 1, true);
    expect(t, 1, 1, 16, true);
    assert_false(t->batch.items[0].decode); /* one row, yet still prompt */
}

/* step_tokens = max_seqs + stride, the smallest allowed: a prompt still goes on beside all other seats decoding. */
static void prompts_progress_at_the_smallest_step(void **state)
{
    setup *t = *state;
    for (int i = 0; i < 7; i++)
        add(t, 5, 9);
    add(t, 900, 0);
    roco_batch_pack(&t->batch, t->running, t->n, STRIDE, 8 + STRIDE);
    assert_int_equal(t->batch.n_items, 8);
    expect(t, 7, 7, 16, false);
}

static void nothing_running_packs_nothing(void **state)
{
    setup *t = *state;
    roco_batch_pack(&t->batch, t->running, 0, STRIDE, 64);
    assert_int_equal(t->batch.n_items, 0);
    assert_int_equal(t->batch.rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_prompt_fills_what_decodes_leave, open_setup, close_setup),
        cmocka_unit_test_setup_teardown(prompts_go_oldest_first, open_setup, close_setup),
        cmocka_unit_test_setup_teardown(a_short_end_fits_behind_a_stride_that_does_not, open_setup, close_setup),
        cmocka_unit_test_setup_teardown(the_end_of_a_prompt_draws, open_setup, close_setup),
        cmocka_unit_test_setup_teardown(prompts_progress_at_the_smallest_step, open_setup, close_setup),
        cmocka_unit_test_setup_teardown(nothing_running_packs_nothing, open_setup, close_setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
