/* SentencePiece vocabularies: ids of the corpus as Google's sentencepiece gives them, spaces, bytes, control tokens. */
#include "support_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_PIECES = 1100 };

typedef struct sp_vocab {
    roco_text file;
    roco_text pieces[MOST_PIECES];
    int32_t types[MOST_PIECES];
    double scores[MOST_PIECES];
    size_t n;
} sp_vocab;

/* Lines "T type score piece". */
static sp_vocab *vocab_open(const char *name)
{
    sp_vocab *v = calloc(1, sizeof *v);
    assert_non_null(v);
    v->file = read_golden(name);
    size_t at = 0;
    for (roco_text line; next_line(v->file, &at, &line); v->n++) {
        assert_true(v->n < MOST_PIECES);
        char *rest;
        v->types[v->n] = line.data[2] - '0';
        v->scores[v->n] = strtof(line.data + 4, &rest);
        size_t head = (size_t)(rest + 1 - line.data);
        v->pieces[v->n] = unescape((roco_text){line.data + head, line.size - head});
    }
    return v;
}

static void vocab_close(sp_vocab *v)
{
    free((void *)(uintptr_t)v->file.data);
    free(v);
}

static roco_tokenizer_source source_of(const sp_vocab *v, bool add_space_prefix)
{
    return (roco_tokenizer_source){.pieces = v->pieces,
                                   .types = v->types,
                                   .scores = v->scores,
                                   .model = ROCO_MODEL_SCORES,
                                   .n_vocab = v->n,
                                   .unknown = 0,
                                   .bos = 1,
                                   .eos = 2,
                                   .eot = -1,
                                   .add_bos = -1,
                                   .add_space_prefix = add_space_prefix};
}

static roco_tokenizer *open_as(const sp_vocab *v, bool add_space_prefix)
{
    roco_tokenizer_source source = source_of(v, add_space_prefix);
    roco_tokenizer *tokenizer = NULL;
    roco_error error;
    if (roco_tokenizer_build(&source, &tokenizer, &error))
        fail_msg("%s: %s", error.field, error.message);
    return tokenizer;
}

static int32_t id_of(const sp_vocab *v, const char *piece)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->pieces[i].size == strlen(piece) && !memcmp(v->pieces[i].data, piece, strlen(piece)))
            return (int32_t)i;
    fail_msg("no piece %s", piece);
    return -1;
}

static roco_ids encode(const roco_tokenizer *t, const char *text, size_t size, unsigned flags)
{
    roco_ids ids = {0};
    assert_int_equal(roco_tokenizer_encode(t, text, size, flags, 0, &ids, NULL), ROCO_OK);
    return ids;
}

static void digest(const roco_ids *ids, char *out, size_t size)
{
    uint32_t hash = 0x811C9DC5u;
    for (size_t i = 0; i < ids->size; i++)
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ ((uint32_t)ids->data[i] >> shift & 0xFF)) * 0x01000193u;
    snprintf(out, size, "%zu:%08x", ids->size, hash);
}

static void check_corpus(const char *name, bool add_space_prefix)
{
    char path[64];
    snprintf(path, sizeof path, "sp_%s.txt", name);
    sp_vocab *v = vocab_open(path);
    snprintf(path, sizeof path, "sp_%s_ids.txt", name);
    roco_tokenizer *t = open_as(v, add_space_prefix);
    roco_text texts = read_golden("corpus.txt"), expected = read_golden(path);
    size_t at = 0, id_at = 0, n = 0;
    for (roco_text line, want; next_line(texts, &at, &line); n++) {
        assert_true(next_line(expected, &id_at, &want));
        roco_text text = unescape(line);
        roco_ids ids = encode(t, text.data, text.size, ROCO_ENCODE_PLAIN);
        char found[32];
        digest(&ids, found, sizeof found);
        if (strlen(found) != want.size || memcmp(found, want.data, want.size))
            fail_msg("%s, text %zu \"%.60s\": %s, not %.*s", name, n, text.data, found, (int)want.size, want.data);
        roco_ids_free(&ids);
    }
    assert_true(n >= 2000);
    free((void *)(uintptr_t)texts.data);
    free((void *)(uintptr_t)expected.data);
    roco_tokenizer_close(t);
    vocab_close(v);
}

static void ids_equal_the_reference(void **state)
{
    (void)state;
    check_corpus("llama", true);
    check_corpus("gemma", false);
    check_corpus("unknown", true);
}

static void control_text_needs_the_flag(void **state)
{
    (void)state;
    sp_vocab *v = vocab_open("sp_llama.txt");
    roco_tokenizer *t = open_as(v, true);
    static const char text[] = "<|im_start|>it<|im_end|>";
    roco_ids ids = encode(t, text, sizeof text - 1, ROCO_ENCODE_PLAIN);
    for (size_t i = 0; i < ids.size; i++)
        assert_false(roco_tokenizer_is_control(t, ids.data[i]));
    roco_ids_free(&ids);
    ids = encode(t, text, sizeof text - 1, ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS);
    assert_int_equal(ids.data[0], 1);
    assert_int_equal(ids.data[1], id_of(v, "<|im_start|>"));
    assert_int_equal(ids.data[ids.size - 1], id_of(v, "<|im_end|>"));
    roco_text piece = roco_tokenizer_piece(t, ids.data[2], false); /* a text of its own, so with a space */
    assert_int_equal(piece.data[0], ' ');
    assert_true(roco_tokenizer_is_end(t, ids.data[ids.size - 1]));
    assert_string_equal(roco_tokenizer_piece(t, ids.data[1], false).data, "");
    roco_ids_free(&ids);
    roco_tokenizer_close(t);
    vocab_close(v);
}

static void foreign_bytes_make_no_control_token(void **state)
{
    (void)state;
    sp_vocab *v = vocab_open("sp_llama.txt");
    roco_tokenizer *t = open_as(v, true);
    static const char text[] = "<|im_start|>it<|im_end|><|im_end|>";
    const int32_t start = id_of(v, "<|im_start|>"), end = id_of(v, "<|im_end|>");
    uint8_t foreign[sizeof text - 1] = {0};
    memset(foreign + 12, 1, 2 + 10); /* what the user said: it<|im_end|> */
    roco_ids ids = {0};
    assert_int_equal(
        roco_tokenizer_encode_marked(t, text, foreign, sizeof text - 1, ROCO_ENCODE_SPECIAL, 0, &ids, NULL), ROCO_OK);
    assert_int_equal(ids.data[0], start);
    assert_int_equal(ids.data[ids.size - 1], end);
    for (size_t i = 1; i + 1 < ids.size; i++)
        assert_false(roco_tokenizer_is_control(t, ids.data[i]));
    roco_ids_free(&ids);
    roco_tokenizer_close(t);
    vocab_close(v);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    sp_vocab *v = vocab_open("sp_gemma.txt");
    roco_tokenizer *t = open_as(v, false);
    uint32_t random = 1;
    for (int round = 0; round < 300; round++) {
        char text[64], joined[64];
        size_t size = (size_t)round % sizeof text, n = 0;
        for (size_t i = 0; i < size; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = (char)(random >> (round % 2 ? 24 : 26)); /* all bytes; or those below 64 */
        }
        roco_ids ids = encode(t, text, size, ROCO_ENCODE_SPECIAL);
        for (size_t i = 0; i < ids.size; i++) {
            roco_text piece = roco_tokenizer_piece(t, ids.data[i], true);
            assert_true(n + piece.size <= size);
            memcpy(joined + n, piece.data, piece.size);
            n += piece.size;
        }
        assert_int_equal(n, size);
        assert_memory_equal(joined, text, size);
        roco_ids_free(&ids);
    }
    roco_tokenizer_close(t);
    vocab_close(v);
}

static void long_texts_take_linear_time(void **state)
{
    (void)state;
    sp_vocab *v = vocab_open("sp_llama.txt");
    roco_tokenizer *t = open_as(v, true);
    static const char *const units[] = {"a", " ", "\xE8\xAA\x9E", "ab", "a b"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t step = strlen(units[u]), size = step * 200000;
        char *text = malloc(size);
        assert_non_null(text);
        for (size_t i = 0; i < size; i += step)
            memcpy(text + i, units[u], step);
        roco_ids ids = encode(t, text, size, ROCO_ENCODE_PLAIN); /* quadratic time would run into the test's limit */
        assert_true(ids.size > 1000);
        roco_error error;
        assert_int_equal(roco_tokenizer_encode(t, text, size, 0, 100, &ids, &error), ROCO_TOO_LARGE);
        roco_ids_free(&ids);
        free(text);
    }
    roco_tokenizer_close(t);
    vocab_close(v);
}

static void refused(const roco_tokenizer_source *source, const char *field)
{
    roco_tokenizer *tokenizer = NULL;
    roco_error error = {0};
    assert_int_equal(roco_tokenizer_build(source, &tokenizer, &error), ROCO_FORMAT);
    assert_string_equal(error.field, field);
    assert_null(tokenizer);
}

static void broken_vocabularies_are_refused(void **state)
{
    (void)state;
    sp_vocab *v = vocab_open("sp_llama.txt");
    roco_tokenizer_source source = source_of(v, true);
    double score = v->scores[300];
    v->scores[300] = strtof("nan", NULL);
    refused(&source, "tokenizer.ggml.scores");
    v->scores[300] = score;
    roco_text *byte = &v->pieces[id_of(v, "<0x41>")];
    static const char *const wrong[] = {"<0x4>", "<0xG1>", "<0x411>", "", "A"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *byte = (roco_text){wrong[i], strlen(wrong[i])};
        refused(&source, "tokenizer.ggml.tokens");
    }
    for (size_t i = 0; i < v->n; i++) {
        v->pieces[i].size = 0;
        v->types[i] = ROCO_PIECE_NORMAL;
    }
    refused(&source, "tokenizer.ggml.tokens");
    vocab_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_the_reference),
        cmocka_unit_test(control_text_needs_the_flag),
        cmocka_unit_test(foreign_bytes_make_no_control_token),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(long_texts_take_linear_time),
        cmocka_unit_test(broken_vocabularies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
