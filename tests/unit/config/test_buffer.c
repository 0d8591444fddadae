#include "config/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_appends_keep_a_terminating_nul(void **state)
{
    roco_buffer buffer = {0};
    assert_int_equal(roco_buffer_append_text(&buffer, "abc"), ROCO_OK);
    assert_int_equal(roco_buffer_append(&buffer, "d\0e", 3), ROCO_OK);
    assert_int_equal(roco_buffer_append_format(&buffer, "-%d-%s", 42, "x"), ROCO_OK);
    assert_int_equal(buffer.size, 11);
    assert_memory_equal(buffer.data, "abcd\0e-42-x", 12);
    roco_buffer_free(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.size, 0);
}

static void test_an_empty_append_still_gives_a_string(void **state)
{
    roco_buffer buffer = {0};
    assert_int_equal(roco_buffer_append(&buffer, NULL, 0), ROCO_OK);
    assert_string_equal(buffer.data, "");
    roco_buffer_free(&buffer);
}

static void test_growth_keeps_the_bytes(void **state)
{
    roco_buffer buffer = {0};
    for (int i = 0; i < 10000; i++)
        assert_int_equal(roco_buffer_append_format(&buffer, "%05d", i), ROCO_OK);
    assert_int_equal(buffer.size, 50000);
    assert_memory_equal(buffer.data, "0000000001", 10);
    assert_memory_equal(buffer.data + 49995, "09999", 5);
    roco_buffer_free(&buffer);
}

static void test_a_format_longer_than_the_block_is_whole(void **state)
{
    roco_buffer buffer = {0};
    assert_int_equal(roco_buffer_append_format(&buffer, "%0*d", 5000, 7), ROCO_OK);
    assert_int_equal(buffer.size, 5000);
    assert_int_equal(buffer.data[4999], '7');
    assert_int_equal(buffer.data[5000], '\0');
    roco_buffer_free(&buffer);
}

static void test_consume_drops_from_the_front(void **state)
{
    roco_buffer buffer = {0};
    roco_buffer_consume(&buffer, 3);
    assert_int_equal(roco_buffer_append_text(&buffer, "hello world"), ROCO_OK);
    roco_buffer_consume(&buffer, 0);
    roco_buffer_consume(&buffer, 6);
    assert_string_equal(buffer.data, "world");
    assert_int_equal(buffer.size, 5);
    roco_buffer_consume(&buffer, 99);
    assert_int_equal(buffer.size, 0);
    assert_string_equal(buffer.data, "");
    roco_buffer_free(&buffer);
}

static void test_an_impossible_size_leaves_the_buffer_as_it_was(void **state)
{
    roco_buffer buffer = {0};
    assert_int_equal(roco_buffer_append_text(&buffer, "kept"), ROCO_OK);
    assert_int_equal(roco_buffer_reserve(&buffer, SIZE_MAX), ROCO_NO_MEMORY);
    assert_int_equal(roco_buffer_reserve(&buffer, SIZE_MAX / 2), ROCO_NO_MEMORY);
    assert_string_equal(buffer.data, "kept");
    assert_int_equal(buffer.size, 4);
    roco_buffer_free(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends_keep_a_terminating_nul),
        cmocka_unit_test(test_an_empty_append_still_gives_a_string),
        cmocka_unit_test(test_growth_keeps_the_bytes),
        cmocka_unit_test(test_a_format_longer_than_the_block_is_whole),
        cmocka_unit_test(test_consume_drops_from_the_front),
        cmocka_unit_test(test_an_impossible_size_leaves_the_buffer_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
