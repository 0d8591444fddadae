/* Steps that change a text before it is cut into tokens: what they make of it, and that they cannot make it endless. */
#include "engine/tokenizer_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const roco_text a = {"a", 1}, sixteen = {"0123456789abcdef", 16};

static void a_replacement_is_made_everywhere(void **state)
{
    roco_normalizer normalizer = {0};
    roco_text text = {"bab a", 5};
    roco_buffer made = {0};
    assert_true(roco_normalizer_add(&normalizer, ROCO_STEP_REPLACE, a, sixteen));
    assert_int_equal(roco_normalizer_run(&normalizer, true, &text, &made), ROCO_OK);
    assert_int_equal(text.size, 35);
    assert_memory_equal(text.data, "b0123456789abcdefb 0123456789abcdef", 35);
    roco_buffer_free(&made);
}

static void what_would_be_too_long_is_not_made(void **state)
{
    const size_t size = ((size_t)256 << 20) / 16;
    char *bytes = malloc(size + 1);
    roco_normalizer normalizer = {0};
    roco_text text = {bytes, size + 1};
    roco_buffer made = {0};
    assert_non_null(bytes);
    memset(bytes, 'a', size + 1);
    assert_true(roco_normalizer_add(&normalizer, ROCO_STEP_REPLACE, a, sixteen));
    assert_int_equal(roco_normalizer_run(&normalizer, true, &text, &made), ROCO_TOO_LARGE);
    assert_null(made.data);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replacement_is_made_everywhere),
        cmocka_unit_test(what_would_be_too_long_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
