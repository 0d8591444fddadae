/* GGUF files that are right: every kind of value, every way to ask, and what asking for the wrong thing says. */
#include "support_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct file {
    roco_buffer bytes;
    roco_source *gguf;
} file;

/* Opens what the writer holds and frees the writer. */
static file open_file(gguf_writer *w)
{
    file f = {0};
    roco_error error = {0};
    gguf_writer_finish(w, &f.bytes);
    gguf_writer_free(w);
    if (roco_source_open_memory(f.bytes.data, f.bytes.size, &f.gguf, &error))
        fail_msg("%s", error.message);
    return f;
}

static void close_file(file *f)
{
    roco_source_close(f->gguf);
    roco_buffer_free(&f->bytes);
}

static gguf_writer new_writer(void)
{
    gguf_writer w;
    gguf_writer_init(&w);
    return w;
}

static void integers_are_read_from_every_width(void **state)
{
    static const roco_source_kind kinds[] = {ROCO_SOURCE_UINT8,  ROCO_SOURCE_INT8,   ROCO_SOURCE_UINT16,
                                             ROCO_SOURCE_INT16,  ROCO_SOURCE_UINT32, ROCO_SOURCE_INT32,
                                             ROCO_SOURCE_UINT64, ROCO_SOURCE_INT64};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        gguf_writer w = new_writer();
        gguf_key_int(&w, "n", kinds[i], 100);
        file f = open_file(&w);
        uint64_t value = 0;
        double real = 0;
        assert_int_equal(roco_source_uint(f.gguf, "n", 0, 1000, &value, NULL), ROCO_OK);
        assert_int_equal(value, 100);
        assert_int_equal(roco_source_float(f.gguf, "n", &real, NULL), ROCO_OK);
        assert_true(real == 100);
        close_file(&f);
    }
}

static void integers_out_of_range_name_the_key_and_the_range(void **state)
{
    gguf_writer w = new_writer();
    gguf_key_int(&w, "minus", ROCO_SOURCE_INT32, -1);
    gguf_key_int(&w, "large", ROCO_SOURCE_UINT64, -1); /* 2^64 - 1 */
    gguf_key_u32(&w, "zero", 0);
    file f = open_file(&w);
    roco_error error;
    uint64_t value = 7;
    assert_int_equal(roco_source_uint(f.gguf, "minus", 0, UINT64_MAX, &value, &error), ROCO_FORMAT);
    assert_string_equal(error.message, "key 'minus' is -1 (0 to 18446744073709551615)");
    assert_int_equal(roco_source_uint(f.gguf, "zero", 1, 9, &value, &error), ROCO_FORMAT);
    assert_string_equal(error.message, "key 'zero' is 0 (1 to 9)");
    assert_string_equal(error.field, "zero");
    assert_int_equal(roco_source_uint(f.gguf, "large", 0, UINT32_MAX, &value, &error), ROCO_FORMAT);
    assert_int_equal(value, 7);
    assert_int_equal(roco_source_uint(f.gguf, "large", 0, UINT64_MAX, &value, &error), ROCO_OK);
    assert_true(value == UINT64_MAX);
    close_file(&f);
}

static void other_kinds_and_missing_keys_are_told_apart(void **state)
{
    gguf_writer w = new_writer();
    gguf_key_string(&w, "text", "hello");
    gguf_key_float(&w, "real", 0.5);
    gguf_key_int(&w, "truth", ROCO_SOURCE_BOOL, 1);
    gguf_key_i32s(&w, "list", (const int32_t[]){1, -2}, 2);
    file f = open_file(&w);
    roco_error error;
    uint64_t value;
    double real;
    bool truth = false;
    roco_text text;
    roco_source_kind kind;
    assert_int_equal(roco_source_uint(f.gguf, "text", 0, 9, &value, &error), ROCO_FORMAT);
    assert_string_equal(error.message, "key 'text' is of kind string, not an integer");
    assert_int_equal(roco_source_uint(f.gguf, "truth", 0, 9, &value, &error), ROCO_FORMAT);
    assert_int_equal(roco_source_uint(f.gguf, "list", 0, 9, &value, &error), ROCO_FORMAT);
    assert_string_equal(error.message, "key 'list' is an array");
    assert_int_equal(roco_source_uint(f.gguf, "none", 0, 9, &value, &error), ROCO_NOT_FOUND);
    assert_string_equal(error.message, "key 'none' is missing");
    assert_int_equal(roco_source_array(f.gguf, "text", &kind, &value, &error), ROCO_FORMAT);
    assert_int_equal(roco_source_float(f.gguf, "truth", &real, &error), ROCO_FORMAT);
    assert_int_equal(roco_source_bool(f.gguf, "real", &truth, &error), ROCO_FORMAT);
    assert_int_equal(roco_source_string(f.gguf, "real", &text, &error), ROCO_FORMAT);
    assert_int_equal(roco_source_float(f.gguf, "real", &real, &error), ROCO_OK);
    assert_true(real == 0.5);
    assert_int_equal(roco_source_bool(f.gguf, "truth", &truth, &error), ROCO_OK);
    assert_true(truth);
    assert_int_equal(roco_source_string(f.gguf, "text", &text, &error), ROCO_OK);
    assert_int_equal(text.size, 5);
    assert_memory_equal(text.data, "hello", 5);
    assert_true(roco_source_has(f.gguf, "list"));
    assert_false(roco_source_has(f.gguf, "lis"));
    assert_false(roco_source_has(f.gguf, "list "));
    close_file(&f);
}

static void arrays_are_read_by_index(void **state)
{
    static const char *const words[] = {"one", "", "three"};
    struct __attribute__((packed)) {
        uint32_t kind;
        uint64_t count;
        double values[2];
    } reals = {ROCO_SOURCE_FLOAT64, 2, {0.25, -3}};
    struct __attribute__((packed)) {
        uint32_t kind;
        uint64_t count;
        uint64_t values[1];
    } large = {ROCO_SOURCE_UINT64, 1, {UINT64_MAX}};
    gguf_writer w = new_writer();
    gguf_key_strings(&w, "words", words, 3);
    gguf_key_i32s(&w, "whole", (const int32_t[]){1, -2, INT32_MIN}, 3);
    gguf_key_i32s(&w, "empty", NULL, 0);
    gguf_key_raw(&w, "reals", ROCO_SOURCE_ARRAY, &reals, sizeof reals);
    gguf_key_raw(&w, "large", ROCO_SOURCE_ARRAY, &large, sizeof large);
    file f = open_file(&w);
    roco_source_kind kind;
    uint64_t count;
    assert_int_equal(roco_source_array(f.gguf, "words", &kind, &count, NULL), ROCO_OK);
    assert_int_equal(kind, ROCO_SOURCE_STRING);
    assert_int_equal(count, 3);
    for (uint64_t i = 0; i < count; i++) {
        roco_text text = roco_source_array_string(f.gguf, "words", i);
        assert_int_equal(text.size, strlen(words[i]));
        assert_memory_equal(text.data, words[i], text.size);
    }
    assert_int_equal(roco_source_array(f.gguf, "empty", &kind, &count, NULL), ROCO_OK);
    assert_int_equal(count, 0);
    assert_int_equal(roco_source_array_int(f.gguf, "whole", 1), -2);
    assert_int_equal(roco_source_array_int(f.gguf, "whole", 2), INT32_MIN);
    assert_true(roco_source_array_float(f.gguf, "reals", 0) == 0.25);
    assert_true(roco_source_array_float(f.gguf, "reals", 1) == -3);
    assert_true(roco_source_array_float(f.gguf, "whole", 1) == -2);
    assert_true(roco_source_array_int(f.gguf, "large", 0) == INT64_MAX);
    close_file(&f);
}

static void values_are_printed_for_a_person(void **state)
{
    gguf_writer w = new_writer();
    gguf_key_string(&w, "text", "a\nb\x1b[31m\xff");
    gguf_key_string(&w, "long", "0123456789012345678901234567890123456789012345678901234567890123456789");
    gguf_key_int(&w, "minus", ROCO_SOURCE_INT8, -5);
    gguf_key_int(&w, "large", ROCO_SOURCE_UINT64, -1);
    gguf_key_float(&w, "real", 1e-5);
    gguf_key_int(&w, "truth", ROCO_SOURCE_BOOL, 1);
    gguf_key_i32s(&w, "list", (const int32_t[]){1, 2}, 2);
    static const char *const expected[] = {
        "a b?[31m?",   "012345678901234567890123456789012345678901234567890123456...",
        "-5",          "18446744073709551615",
        "1e-05",       "true",
        "[int32 x 2]",
    };
    file f = open_file(&w);
    assert_int_equal(roco_source_n_keys(f.gguf), 7);
    for (uint64_t i = 0; i < 7; i++) {
        char value[128];
        roco_source_key_at(f.gguf, i, value, sizeof value);
        assert_string_equal(value, expected[i]);
    }
    char tiny[4];
    roco_text name = roco_source_key_at(f.gguf, 1, tiny, sizeof tiny);
    assert_memory_equal(name.data, "long", name.size);
    assert_string_equal(tiny, "012");
    close_file(&f);
}

static void tensors_are_found_with_their_data(void **state)
{
    static const float norm[3] = {1, 2, 3};
    uint8_t blocks[2 * 34];
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = (uint8_t)i;
    gguf_writer w = new_writer();
    w.alignment = 64;
    gguf_key_u32(&w, "general.alignment", 64);
    gguf_tensor(&w, "norm", ROCO_TYPE_F32, 1, (const uint64_t[]){3}, norm, sizeof norm);
    gguf_tensor(&w, "matrix", ROCO_TYPE_Q8_0, 2, (const uint64_t[]){32, 2}, blocks, sizeof blocks);
    file f = open_file(&w);
    assert_int_equal(roco_source_n_tensors(f.gguf), 2);
    const roco_source_tensor *t = roco_source_tensor_find(f.gguf, "matrix");
    assert_ptr_equal(t, roco_source_tensor_at(f.gguf, 1));
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 32);
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->dims[3], 1);
    assert_int_equal(t->bytes, sizeof blocks);
    assert_memory_equal(t->data, blocks, sizeof blocks);
    t = roco_source_tensor_find(f.gguf, "norm");
    assert_memory_equal(t->data, norm, sizeof norm);
    assert_null(roco_source_tensor_find(f.gguf, "nor"));
    assert_null(roco_source_tensor_find(f.gguf, ""));
    close_file(&f);
}

static void many_names_are_all_found(void **state)
{
    enum { MANY = 3000 };
    gguf_writer w = new_writer();
    char name[32];
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "key.%u", i * 7919 % MANY);
        gguf_key_u32(&w, name, i * 7919 % MANY);
    }
    file f = open_file(&w);
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t value;
        snprintf(name, sizeof name, "key.%u", i);
        assert_int_equal(roco_source_uint(f.gguf, name, 0, MANY, &value, NULL), ROCO_OK);
        assert_int_equal(value, i);
    }
    close_file(&f);
}

static void both_versions_and_an_empty_file_of_each_open(void **state)
{
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_writer w = new_writer();
        w.version = version;
        file f = open_file(&w);
        assert_string_equal(roco_source_format(f.gguf), version == 2 ? "GGUF v2" : "GGUF v3");
        assert_int_equal(roco_source_n_keys(f.gguf), 0);
        assert_int_equal(roco_source_n_tensors(f.gguf), 0);
        assert_null(roco_source_tensor_find(f.gguf, "x"));
        assert_false(roco_source_has(f.gguf, "x"));
        close_file(&f);
    }
}

static void a_file_is_mapped_from_its_path(void **state)
{
    char path[] = "/tmp/roco-gguf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gguf_writer w = new_writer();
    gguf_key_u32(&w, "answer", 42);
    gguf_tensor(&w, "t", ROCO_TYPE_F16, 1, (const uint64_t[]){2}, "\0\x3c\0\x40", 4);
    gguf_writer_save(&w, path);
    gguf_writer_free(&w);
    roco_source *gguf;
    roco_error error;
    assert_int_equal(roco_source_open(path, &gguf, &error), ROCO_OK);
    assert_int_equal(unlink(path), 0);
    assert_string_equal(roco_source_path(gguf), path);
    assert_true(roco_source_bytes(gguf) > 24);
    float values[2];
    roco_type_find(ROCO_TYPE_F16)->dequantize(roco_source_tensor_find(gguf, "t")->data, values, 2);
    assert_true(values[0] == 1 && values[1] == 2);
    roco_source_close(gguf);
    roco_source_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_from_every_width),
        cmocka_unit_test(integers_out_of_range_name_the_key_and_the_range),
        cmocka_unit_test(other_kinds_and_missing_keys_are_told_apart),
        cmocka_unit_test(arrays_are_read_by_index),
        cmocka_unit_test(values_are_printed_for_a_person),
        cmocka_unit_test(tensors_are_found_with_their_data),
        cmocka_unit_test(many_names_are_all_found),
        cmocka_unit_test(both_versions_and_an_empty_file_of_each_open),
        cmocka_unit_test(a_file_is_mapped_from_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
