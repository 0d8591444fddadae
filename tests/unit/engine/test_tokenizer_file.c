/* The tokenizer from a GGUF file: what it takes from which key, and files whose keys do not fit together. */
#include "engine/tokenizer.h"
#include "support_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KEY(name) "tokenizer.ggml." name

/* A tiny model's file without one of its keys; the test may put another in its place. */
static void begin_without(gguf_writer *w, const char *key)
{
    tiny_model model = tiny_model_default();
    gguf_writer_init(w);
    w->omit = key;
    tiny_model_write(&model, w);
    w->omit = NULL;
}

/* Frees the writer. The file is closed before the tokenizer is used. */
static roco_status finish(gguf_writer *w, roco_tokenizer **tokenizer, roco_error *error)
{
    roco_buffer bytes = {0};
    roco_source *gguf = NULL;
    gguf_writer_finish(w, &bytes);
    gguf_writer_free(w);
    *error = (roco_error){0};
    assert_int_equal(roco_source_open_memory(bytes.data, bytes.size, &gguf, error), ROCO_OK);
    roco_status status = roco_tokenizer_open(gguf, tokenizer, error);
    roco_source_close(gguf);
    roco_buffer_free(&bytes);
    return status;
}

static roco_tokenizer *expect_open(gguf_writer *w)
{
    roco_tokenizer *tokenizer = NULL;
    roco_error error;
    if (finish(w, &tokenizer, &error)) {
        fail_msg("%s: %s", error.field, error.message);
    }
    return tokenizer;
}

static void expect_refused(gguf_writer *w, roco_status want, const char *field, const char *words)
{
    roco_tokenizer *tokenizer = NULL;
    roco_error error;
    roco_status status = finish(w, &tokenizer, &error);
    if (status != want || strcmp(error.field, field) != 0 || !strstr(error.message, words)) {
        fail_msg("expected %d %s '%s', got %d %s '%s'", want, field, words, status, error.field, error.message);
    }
    assert_null(tokenizer);
}

/* The number of ids of "ab" with a begin token asked for, and the first id. */
static size_t encode_ab(const roco_tokenizer *tokenizer, int32_t *first)
{
    roco_ids ids = {0};
    assert_int_equal(roco_tokenizer_encode(tokenizer, "ab", 2, ROCO_ENCODE_ADD_BOS, 0, &ids, NULL), ROCO_OK);
    *first = ids.data[0];
    size_t n = ids.size;
    roco_ids_free(&ids);
    return n;
}

static void a_file_gives_vocabulary_and_ids(void **state)
{
    (void)state;
    gguf_writer w;
    begin_without(&w, NULL);
    roco_tokenizer *tokenizer = expect_open(&w);
    assert_int_equal(roco_tokenizer_n_vocab(tokenizer), tiny_model_default().n_vocab);
    assert_int_equal(roco_tokenizer_bos(tokenizer), 1);
    assert_int_equal(roco_tokenizer_eos(tokenizer), 2);
    assert_true(roco_tokenizer_is_end(tokenizer, 0)); /* by its text */
    assert_true(roco_tokenizer_is_end(tokenizer, 2));
    assert_false(roco_tokenizer_is_end(tokenizer, 1));
    roco_text byte = roco_tokenizer_piece(tokenizer, (int32_t)TINY_FIRST_BYTE + 0xE9, false);
    assert_int_equal(byte.size, 1);
    assert_memory_equal(byte.data, "\xE9", 1);
    int32_t first;
    encode_ab(tokenizer, &first);
    assert_int_not_equal(first, 1);
    roco_tokenizer_close(tokenizer);
}

static void begin_token_is_the_files_choice(void **state)
{
    (void)state;
    int32_t first;
    gguf_writer w;
    begin_without(&w, KEY("add_bos_token"));
    gguf_key_int(&w, KEY("add_bos_token"), ROCO_SOURCE_BOOL, 1);
    roco_tokenizer *tokenizer = expect_open(&w);
    size_t n = encode_ab(tokenizer, &first);
    assert_int_equal(first, 1);
    roco_tokenizer_close(tokenizer);
    begin_without(&w, KEY("add_bos_token")); /* smollm files that do not say: no */
    tokenizer = expect_open(&w);
    assert_int_equal(encode_ab(tokenizer, &first), n - 1);
    roco_tokenizer_close(tokenizer);
    begin_without(&w, KEY("bos_token_id")); /* nothing to add */
    tokenizer = expect_open(&w);
    assert_int_equal(roco_tokenizer_bos(tokenizer), -1);
    roco_tokenizer_close(tokenizer);
}

static void space_in_front_is_the_files_choice(void **state)
{
    (void)state;
    int32_t first, spaced;
    gguf_writer w;
    begin_without(&w, NULL);
    roco_tokenizer *tokenizer = expect_open(&w);
    encode_ab(tokenizer, &first);
    roco_tokenizer_close(tokenizer);
    begin_without(&w, NULL);
    gguf_key_int(&w, KEY("add_space_prefix"), ROCO_SOURCE_BOOL, 1);
    tokenizer = expect_open(&w);
    encode_ab(tokenizer, &spaced);
    assert_int_not_equal(first, spaced);
    assert_int_equal(roco_tokenizer_piece(tokenizer, spaced, false).data[0], ' ');
    roco_tokenizer_close(tokenizer);
}

static void missing_keys_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        roco_status status;
    } rows[] = {
        {KEY("model"), ROCO_UNSUPPORTED}, {KEY("pre"), ROCO_UNSUPPORTED},   {KEY("tokens"), ROCO_FORMAT},
        {KEY("merges"), ROCO_FORMAT},     {KEY("token_type"), ROCO_FORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gguf_writer w;
        begin_without(&w, rows[i].key);
        expect_refused(&w, rows[i].status, rows[i].key, "");
    }
}

static void other_tokenizers_are_refused_with_what_is_known(void **state)
{
    (void)state;
    gguf_writer w;
    begin_without(&w, KEY("model"));
    gguf_key_string(&w, KEY("model"), "bert");
    expect_refused(&w, ROCO_UNSUPPORTED, KEY("model"), "known: gpt2");
    begin_without(&w, KEY("model"));
    gguf_key_string(&w, KEY("model"), "llama");
    expect_refused(&w, ROCO_FORMAT, KEY("scores"), "has no tokenizer.ggml.scores");
    begin_without(&w, KEY("pre"));
    gguf_key_string(&w, KEY("pre"), "mpt");
    expect_refused(&w, ROCO_UNSUPPORTED, KEY("pre"), "\"mpt\" is not supported; known: gpt-2, gpt2, smollm, llama-bpe");
}

static void arrays_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const int32_t types[] = {1, 1, 1};
    static const char *const words[] = {"a b"};
    gguf_writer w;
    begin_without(&w, KEY("token_type"));
    gguf_key_i32s(&w, KEY("token_type"), types, 3);
    expect_refused(&w, ROCO_FORMAT, KEY("token_type"), "3 values; 320 integers are needed");
    begin_without(&w, KEY("token_type"));
    gguf_key_strings(&w, KEY("token_type"), words, 1);
    expect_refused(&w, ROCO_FORMAT, KEY("token_type"), "");
    begin_without(&w, KEY("tokens"));
    gguf_key_i32s(&w, KEY("tokens"), types, 3);
    expect_refused(&w, ROCO_FORMAT, KEY("tokens"), "strings");
    begin_without(&w, KEY("merges"));
    gguf_key_u32(&w, KEY("merges"), 3);
    expect_refused(&w, ROCO_FORMAT, KEY("merges"), "");
}

static void ids_outside_the_vocabulary_are_refused(void **state)
{
    (void)state;
    static const char *const keys[] = {KEY("bos_token_id"), KEY("eos_token_id"), KEY("eot_token_id")};
    static const int64_t values[] = {320, 0xFFFFFFFF};
    for (size_t i = 0; i < 6; i++) {
        gguf_writer w;
        begin_without(&w, keys[i / 2]);
        gguf_key_u32(&w, keys[i / 2], (uint32_t)values[i % 2]);
        expect_refused(&w, ROCO_FORMAT, keys[i / 2], "");
    }
    gguf_writer w;
    begin_without(&w, NULL);
    gguf_key_u32(&w, KEY("eot_token_id"), 319);
    roco_tokenizer *tokenizer = expect_open(&w);
    assert_true(roco_tokenizer_is_end(tokenizer, 319));
    roco_tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_vocabulary_and_ids),
        cmocka_unit_test(begin_token_is_the_files_choice),
        cmocka_unit_test(space_in_front_is_the_files_choice),
        cmocka_unit_test(missing_keys_are_named),
        cmocka_unit_test(other_tokenizers_are_refused_with_what_is_known),
        cmocka_unit_test(arrays_that_do_not_fit_are_refused),
        cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
