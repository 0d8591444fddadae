/* GGUF files that are damaged, lying, or no GGUF files at all. Each must be refused with words that name what is wrong,
 * without a byte of the file in them, without reading outside it, and without memory in proportion to its lies. */
#include "support_gguf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PACKED __attribute__((packed))

typedef struct PACKED array_head {
    uint32_t kind;
    uint64_t count;
} array_head;

static void assert_printable(const char *text)
{
    for (; *text; text++)
        assert_in_range((unsigned char)*text, 0x20, 0x7e);
}

/* The bytes lie in a block of exactly their size, so that the address sanitizer sees the first byte read too far. */
static roco_status open_bytes(const void *data, size_t size, roco_source **gguf, void **block, roco_error *error)
{
    *block = malloc(size ? size : 1);
    assert_non_null(*block);
    if (size)
        memcpy(*block, data, size);
    *error = (roco_error){0};
    return roco_source_open_memory(*block, size, gguf, error);
}

static void expect_bytes_refused(const void *data, size_t size, roco_status status, const char *words)
{
    roco_source *gguf;
    roco_error error;
    void *block;
    roco_status got = open_bytes(data, size, &gguf, &block, &error);
    free(block);
    if (got != status || !strstr(error.message, words))
        fail_msg("expected %d '%s', got %d '%s'", status, words, got, error.message);
    assert_printable(error.message);
    assert_printable(error.field);
}

/* Frees the writer. */
static void expect_refused(gguf_writer *w, roco_status status, const char *words)
{
    roco_buffer bytes = {0};
    gguf_writer_finish(w, &bytes);
    gguf_writer_free(w);
    expect_bytes_refused(bytes.data, bytes.size, status, words);
    roco_buffer_free(&bytes);
}

static gguf_writer new_writer(void)
{
    gguf_writer w;
    gguf_writer_init(&w);
    return w;
}

/* A file of one key with a raw value. */
static void expect_value_refused(uint32_t kind, const void *value, size_t size, roco_status status, const char *words)
{
    gguf_writer w = new_writer();
    gguf_key_raw(&w, "the.key", kind, value, size);
    expect_refused(&w, status, words);
}

/* A file of one tensor with 128 bytes of data. */
static void expect_tensor_refused(const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                                  uint64_t offset, roco_status status, const char *words)
{
    gguf_writer w = new_writer();
    gguf_tensor_raw(&w, name, type, n_dims, dims, offset);
    assert_int_equal(roco_buffer_append(&w.data, (const char[128]){0}, 128), ROCO_OK);
    expect_refused(&w, status, words);
}

static void what_is_no_gguf_file_is_named(void **state)
{
    static const struct {
        const char *bytes, *words;
    } cases[] = {
        {"", "it is empty"},
        {"<!DOCTYPE html><html>", "an HTML page"},
        {"\r\n  <HTML lang=en>", "an HTML page"},
        {"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"},
        {"PK\x03\x04 archive", "a ZIP archive"},
        {"\x1f\x8b\x08 gzip", "a gzip archive"},
        {"{\"error\": \"Entry not found\"}", "a JSON file"},
        {"tjgg\x01", "a model in the older GGML format"},
        {"GGU", "it has 3 bytes and starts with 'GGU'"},
        {"\x1b[2J", "it has 4 bytes and starts with '?[2J'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_bytes_refused(cases[i].bytes, strlen(cases[i].bytes), ROCO_FORMAT, cases[i].words);
    static const char safetensors[] = "\x10\0\0\0\0\0\0\0{\"a\":1}         ";
    expect_bytes_refused(safetensors, sizeof safetensors - 1, ROCO_FORMAT, "a safetensors file");
    static const char zeros[64] = {0};
    expect_bytes_refused(zeros, sizeof zeros, ROCO_FORMAT, "has 64 bytes and starts with");
}

static void expect_path_refused(const char *path, roco_status status, const char *words)
{
    roco_source *gguf;
    roco_error error = {0};
    assert_int_equal(roco_source_open(path, &gguf, &error), status);
    if (!strstr(error.message, words))
        fail_msg("expected '%s', got '%s'", words, error.message);
    assert_printable(error.message);
}

static void paths_that_hold_no_file_are_named(void **state)
{
    char folder[] = "/tmp/roco-gguf-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    expect_path_refused(folder, ROCO_IO, "is a directory");
    expect_path_refused("/dev/null", ROCO_IO, "is not a regular file");
    snprintf(path, sizeof path, "%s/missing\n.gguf", folder);
    expect_path_refused(path, ROCO_IO, "missing .gguf: No such file or directory");
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_path_refused(path, ROCO_IO, "is not a regular file");
    assert_int_equal(unlink(path), 0);

    snprintf(path, sizeof path, "%s/file", folder);
    FILE *empty = fopen(path, "w");
    assert_non_null(empty);
    fclose(empty);
    expect_path_refused(path, ROCO_FORMAT, "file: not a GGUF file: it is empty");
    assert_int_equal(chmod(path, 0), 0);
    uid_t user = geteuid();
    if (user == 0) /* root may read anything: look as somebody else */
        assert_int_equal(seteuid(65534), 0);
    expect_path_refused(path, ROCO_IO, "Permission denied");
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void versions_and_byte_orders_roco_does_not_read(void **state)
{
    static const struct {
        uint32_t version;
        const char *words;
    } cases[] = {{0, "GGUF version 0"},
                 {1, "GGUF version 1"},
                 {4, "GGUF version 4; roco reads 2 and 3"},
                 {0x02000000, "big-endian"},
                 {0x03000000, "big-endian"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_writer w = new_writer();
        w.version = cases[i].version;
        expect_refused(&w, ROCO_UNSUPPORTED, cases[i].words);
    }
}

static void counts_beyond_the_file_cost_no_memory(void **state)
{
    static const uint64_t counts[] = {1, 1u << 20, 1ull << 40, 1ull << 60, 1ull << 63, UINT64_MAX};
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char words[64];
        gguf_writer w = new_writer();
        w.n_keys = counts[i];
        snprintf(words, sizeof words, "claims %llu keys", (unsigned long long)counts[i]);
        expect_refused(&w, ROCO_FORMAT, words);
        w = new_writer();
        w.n_tensors = counts[i];
        snprintf(words, sizeof words, "claims %llu tensors", (unsigned long long)counts[i]);
        expect_refused(&w, ROCO_FORMAT, words);
        if (counts[i] == 1)
            continue;
        for (uint32_t kind = ROCO_SOURCE_UINT8; kind <= ROCO_SOURCE_FLOAT64; kind++) {
            if (kind == ROCO_SOURCE_ARRAY)
                continue;
            array_head head = {kind, counts[i]};
            expect_value_refused(ROCO_SOURCE_ARRAY, &head, sizeof head, ROCO_FORMAT, "key 'the.key' claims");
        }
    }
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 16 * 1024); /* KiB */
}

static void lengths_beyond_the_file_are_refused(void **state)
{
    static const uint64_t lengths[] = {100, 1u << 30, 1ull << 40, 1ull << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        expect_value_refused(ROCO_SOURCE_STRING, &lengths[i], 8, ROCO_FORMAT,
                             "the file ends inside the value of key 'the.key'");
        struct PACKED {
            array_head head;
            uint64_t length;
        } array = {{ROCO_SOURCE_STRING, 1}, lengths[i]};
        expect_value_refused(ROCO_SOURCE_ARRAY, &array, sizeof array, ROCO_FORMAT,
                             "the file ends inside the strings of key 'the.key'");
        gguf_writer w = new_writer(); /* the length of a key's name, then of a tensor's */
        w.n_keys = 1;
        assert_int_equal(roco_buffer_append(&w.keys, &lengths[i], 8), ROCO_OK);
        assert_int_equal(roco_buffer_append(&w.keys, (const char[16]){0}, 16), ROCO_OK);
        expect_refused(&w, ROCO_FORMAT, "the file ends inside key");
        w = new_writer();
        w.n_tensors = 1;
        assert_int_equal(roco_buffer_append(&w.tensors, &lengths[i], 8), ROCO_OK);
        assert_int_equal(roco_buffer_append(&w.tensors, (const char[40]){0}, 40), ROCO_OK);
        expect_refused(&w, ROCO_FORMAT, "the file ends inside the description of tensor");
    }
}

static void kinds_the_format_does_not_define(void **state)
{
    static const uint32_t kinds[] = {13, 14, 250, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        expect_value_refused(kinds[i], "12345678", 8, ROCO_FORMAT, "which GGUF does not define");
        array_head head = {kinds[i], 0};
        expect_value_refused(ROCO_SOURCE_ARRAY, &head, sizeof head, ROCO_FORMAT, "which GGUF does not define");
    }
    array_head nested = {ROCO_SOURCE_ARRAY, 1};
    expect_value_refused(ROCO_SOURCE_ARRAY, &nested, sizeof nested, ROCO_UNSUPPORTED, "an array of arrays");
    expect_value_refused(ROCO_SOURCE_BOOL, "\2", 1, ROCO_FORMAT, "a bool of value 2");
}

static void names_that_are_no_names(void **state)
{
    gguf_writer w = new_writer();
    gguf_key_u32(&w, "", 1);
    expect_refused(&w, ROCO_FORMAT, "a key's name is 0 bytes long");

    char *long_name = malloc(65537);
    memset(long_name, 'k', 65536);
    long_name[65536] = '\0';
    w = new_writer();
    gguf_key_u32(&w, long_name, 1);
    expect_refused(&w, ROCO_FORMAT, "a key's name is 65536 bytes long (1 to 65535)");
    long_name[65] = '\0';
    expect_tensor_refused(long_name, ROCO_TYPE_F32, 1, (const uint64_t[]){1}, 0, ROCO_FORMAT,
                          "a tensor's name is 65 bytes long (1 to 64)");
    free(long_name);
    expect_tensor_refused("", ROCO_TYPE_F32, 1, (const uint64_t[]){1}, 0, ROCO_FORMAT, "a tensor's name is 0 bytes");

    w = new_writer();
    gguf_key_u32(&w, "a", 1);
    gguf_key_u32(&w, "b", 1);
    gguf_key_string(&w, "a", "again");
    expect_refused(&w, ROCO_FORMAT, "key 'a' is there twice");
    w = new_writer();
    gguf_tensor(&w, "t", ROCO_TYPE_F32, 1, (const uint64_t[]){1}, "1234", 4);
    gguf_tensor(&w, "t", ROCO_TYPE_F32, 1, (const uint64_t[]){1}, "1234", 4);
    expect_refused(&w, ROCO_FORMAT, "tensor 't' is there twice");

    /* A terminal's control codes stay out of the message. */
    expect_tensor_refused("\x1b[2J\xff\n", ROCO_TYPE_F32, 1, (const uint64_t[]){0}, 0, ROCO_FORMAT,
                          "dimension 0 of tensor '?[2J? ' is 0");
}

static void shapes_that_cannot_be(void **state)
{
    const uint64_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    expect_tensor_refused("t", ROCO_TYPE_F32, 0, ones, 0, ROCO_FORMAT, "tensor 't' has 0 dimensions (1 to 4)");
    expect_tensor_refused("t", ROCO_TYPE_F32, 5, ones, 0, ROCO_FORMAT, "tensor 't' has 5 dimensions");
    expect_tensor_refused("t", ROCO_TYPE_F32, 9, ones, 0, ROCO_FORMAT, "tensor 't' has 9 dimensions");
    expect_tensor_refused("t", ROCO_TYPE_F32, UINT32_MAX, ones, 0, ROCO_FORMAT, "dimensions");
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t dims[4] = {32, 1, 1, 1};
        char words[64];
        dims[i] = 0;
        snprintf(words, sizeof words, "dimension %u of tensor 't' is 0", i);
        expect_tensor_refused("t", ROCO_TYPE_Q4_1, 4, dims, 0, ROCO_FORMAT, words);
    }
    expect_tensor_refused("t", ROCO_TYPE_F32, 2, (const uint64_t[]){1ull << 32, 1ull << 32}, 0, ROCO_FORMAT,
                          "multiply to over 2^64");
    expect_tensor_refused("t", ROCO_TYPE_F32, 2, (const uint64_t[]){1ull << 62, 2}, 0, ROCO_FORMAT,
                          "would have over 2^64 bytes");
    expect_tensor_refused("t", ROCO_TYPE_F32, 1, (const uint64_t[]){1ull << 61}, 1ull << 63, ROCO_FORMAT,
                          "would end past 2^64");
    expect_tensor_refused("t", ROCO_TYPE_Q4_0, 2, (const uint64_t[]){31, 1}, 0, ROCO_FORMAT,
                          "rows of tensor 't' have 31 values, not a multiple of the 32 of a Q4_0 block");
    expect_tensor_refused("t", ROCO_TYPE_Q4_K, 2, (const uint64_t[]){32, 8}, 0, ROCO_FORMAT, "the 256 of a Q4_K block");
}

static void types_roco_does_not_read(void **state)
{
    const uint64_t dims[] = {256};
    expect_tensor_refused("t", 250, 1, dims, 0, ROCO_UNSUPPORTED, "tensor 't' has type 250 (unknown); roco reads F32");
    expect_tensor_refused("t", 21, 1, dims, 0, ROCO_UNSUPPORTED, "has type 21 (IQ3_S)");
    expect_tensor_refused("t", 4, 1, dims, 0, ROCO_UNSUPPORTED, "has type 4 (unknown)");
    expect_tensor_refused("t", UINT32_MAX, 1, dims, 0, ROCO_UNSUPPORTED, "has type 4294967295");
}

static void places_that_cannot_be(void **state)
{
    const uint64_t dims[] = {8};
    expect_tensor_refused("t", ROCO_TYPE_F32, 1, dims, 8, ROCO_FORMAT,
                          "tensor 't' is at offset 8, not a multiple of the alignment 32");
    expect_tensor_refused("t", ROCO_TYPE_F32, 1, dims, 128, ROCO_FORMAT,
                          "ends at byte 224, but the file has 192: it is cut short");
    expect_tensor_refused("t", ROCO_TYPE_F32, 1, dims, UINT64_MAX - 31, ROCO_FORMAT, "would end past 2^64");
    expect_tensor_refused("t", ROCO_TYPE_F32, 1, (const uint64_t[]){33}, 0, ROCO_FORMAT, "it is cut short");

    gguf_writer w = new_writer();
    gguf_tensor_raw(&w, "first", ROCO_TYPE_F32, 1, (const uint64_t[]){9}, 0);
    gguf_tensor_raw(&w, "second", ROCO_TYPE_F32, 1, dims, 32);
    assert_int_equal(roco_buffer_append(&w.data, (const char[128]){0}, 128), ROCO_OK);
    expect_refused(&w, ROCO_FORMAT, "tensors 'first' and 'second' overlap");
    w = new_writer();
    gguf_tensor_raw(&w, "a", ROCO_TYPE_F32, 1, dims, 0);
    gguf_tensor_raw(&w, "b", ROCO_TYPE_F32, 1, dims, 0);
    assert_int_equal(roco_buffer_append(&w.data, (const char[128]){0}, 128), ROCO_OK);
    expect_refused(&w, ROCO_FORMAT, "overlap");
}

static void alignments_that_cannot_be(void **state)
{
    static const int64_t wrong[] = {0, 1, 4, 9, 24, 1 << 21, 1ll << 40, -32};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gguf_writer w = new_writer();
        gguf_key_int(&w, "general.alignment", ROCO_SOURCE_INT64, wrong[i]);
        expect_refused(&w, ROCO_FORMAT, "general.alignment");
    }
    gguf_writer w = new_writer();
    gguf_key_string(&w, "general.alignment", "32");
    expect_refused(&w, ROCO_FORMAT, "general.alignment");
}

/* Every kind, every array, three tensors: what the two tests below cut and damage. */
static void write_specimen(roco_buffer *out)
{
    gguf_writer w = new_writer();
    for (uint32_t kind = ROCO_SOURCE_UINT8; kind <= ROCO_SOURCE_INT64; kind++) {
        char name[8];
        snprintf(name, sizeof name, "i%u", kind);
        if (kind != ROCO_SOURCE_FLOAT32 && kind != ROCO_SOURCE_STRING && kind != ROCO_SOURCE_ARRAY)
            gguf_key_int(&w, name, (roco_source_kind)kind, 1);
    }
    gguf_key_float(&w, "f", 1.5);
    gguf_key_raw(&w, "d", ROCO_SOURCE_FLOAT64, &(const double){2.5}, 8);
    gguf_key_string(&w, "general.architecture", "llama");
    gguf_key_strings(&w, "words", (const char *const[]){"ab", "", "c"}, 3);
    gguf_key_i32s(&w, "list", (const int32_t[]){1, 2, 3}, 3);
    gguf_key_u32(&w, "general.alignment", 32);
    const uint8_t blocks[144] = {0};
    gguf_tensor(&w, "norm", ROCO_TYPE_F32, 1, (const uint64_t[]){3}, blocks, 12);
    gguf_tensor(&w, "small", ROCO_TYPE_Q4_1, 2, (const uint64_t[]){32, 2}, blocks, 40);
    gguf_tensor(&w, "super", ROCO_TYPE_Q4_K, 1, (const uint64_t[]){256}, blocks, 144);
    gguf_writer_finish(&w, out);
    gguf_writer_free(&w);
}

/* Asks an open file for everything it has. */
static void read_everything(const roco_source *gguf)
{
    char value[96], name[128];
    unsigned sum = 0;
    for (uint64_t i = 0; i < roco_source_n_keys(gguf); i++) {
        roco_text key = roco_source_key_at(gguf, i, value, sizeof value);
        roco_source_kind kind;
        uint64_t count;
        assert_printable(value);
        snprintf(name, sizeof name, "%.*s", (int)key.size, key.data);
        if (roco_source_array(gguf, name, &kind, &count, NULL))
            continue;
        for (uint64_t k = 0; k < count; k++) {
            if (kind == ROCO_SOURCE_STRING)
                sum += (unsigned)roco_source_array_string(gguf, name, k).size;
            else if (kind == ROCO_SOURCE_FLOAT32 || kind == ROCO_SOURCE_FLOAT64)
                sum += roco_source_array_float(gguf, name, k) > 0;
            else
                sum += (unsigned)roco_source_array_int(gguf, name, k);
        }
    }
    for (uint64_t i = 0; i < roco_source_n_tensors(gguf); i++) {
        const roco_source_tensor *tensor = roco_source_tensor_at(gguf, i);
        for (uint64_t k = 0; k < tensor->bytes; k++)
            sum += ((const uint8_t *)tensor->data)[k];
    }
    value[0] = (char)sum; /* so that no read is optimised away */
    assert_int_equal((char)sum, value[0]);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    roco_buffer bytes = {0};
    write_specimen(&bytes);
    for (size_t size = 0; size < bytes.size; size++) {
        roco_source *gguf;
        roco_error error;
        void *block;
        roco_status status = open_bytes(bytes.data, size, &gguf, &block, &error);
        free(block);
        if (status != ROCO_FORMAT)
            fail_msg("cut to %zu of %zu bytes: status %d", size, bytes.size, status);
        assert_printable(error.message);
        assert_true(strlen(error.message) > 10);
    }
    roco_buffer_free(&bytes);
}

static void a_file_with_any_byte_changed_does_no_harm(void **state)
{
    roco_buffer bytes = {0};
    unsigned opened = 0, refused = 0;
    write_specimen(&bytes);
    for (size_t at = 0; at < bytes.size; at++) {
        for (unsigned change = 0; change < 10; change++) {
            unsigned char was = (unsigned char)bytes.data[at];
            bytes.data[at] = (char)(change < 8 ? was ^ 1u << change : change == 8 ? was ^ 0xffu : 0);
            roco_source *gguf;
            roco_error error;
            void *block;
            if (open_bytes(bytes.data, bytes.size, &gguf, &block, &error) == ROCO_OK) {
                read_everything(gguf);
                roco_source_close(gguf);
                opened++;
            } else {
                assert_printable(error.message);
                refused++;
            }
            free(block);
            bytes.data[at] = (char)was;
        }
    }
    assert_true(opened > 0 && refused > 0);
    roco_buffer_free(&bytes);
}

/* What a broken download leaves of a model. */
static void a_cut_model_names_the_tensor_and_both_sizes(void **state)
{
    tiny_model model = tiny_model_default();
    gguf_writer w = new_writer();
    roco_buffer bytes = {0};
    char words[96];
    tiny_model_write(&model, &w);
    gguf_writer_finish(&w, &bytes);
    gguf_writer_free(&w);
    snprintf(words, sizeof words, "but the file has %zu: it is cut short", bytes.size * 6 / 10);
    expect_bytes_refused(bytes.data, bytes.size * 6 / 10, ROCO_FORMAT, words);
    snprintf(words, sizeof words, "tensor 'output_norm.weight' ends at byte %zu, but the file has %zu", bytes.size,
             bytes.size - 1);
    expect_bytes_refused(bytes.data, bytes.size - 1, ROCO_FORMAT, words);
    roco_buffer_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_gguf_file_is_named),
        cmocka_unit_test(paths_that_hold_no_file_are_named),
        cmocka_unit_test(versions_and_byte_orders_roco_does_not_read),
        cmocka_unit_test(counts_beyond_the_file_cost_no_memory),
        cmocka_unit_test(lengths_beyond_the_file_are_refused),
        cmocka_unit_test(kinds_the_format_does_not_define),
        cmocka_unit_test(names_that_are_no_names),
        cmocka_unit_test(shapes_that_cannot_be),
        cmocka_unit_test(types_roco_does_not_read),
        cmocka_unit_test(places_that_cannot_be),
        cmocka_unit_test(alignments_that_cannot_be),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_file_with_any_byte_changed_does_no_harm),
        cmocka_unit_test(a_cut_model_names_the_tensor_and_both_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
