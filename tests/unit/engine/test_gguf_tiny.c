/* The tiny models that other tests stand on: valid files, right shapes, weights that every type keeps. */
#include "support_gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct file {
    roco_buffer bytes;
    roco_source *gguf;
} file;

static file open_tiny(const tiny_model *model, const char *omit)
{
    file f = {0};
    roco_error error = {0};
    gguf_writer w;
    gguf_writer_init(&w);
    w.omit = omit;
    tiny_model_write(model, &w);
    gguf_writer_finish(&w, &f.bytes);
    gguf_writer_free(&w);
    if (roco_source_open_memory(f.bytes.data, f.bytes.size, &f.gguf, &error))
        fail_msg("%s", error.message);
    return f;
}

static void close_file(file *f)
{
    roco_source_close(f->gguf);
    roco_buffer_free(&f->bytes);
}

static float *values_of(const file *f, const char *name, size_t *n)
{
    const roco_source_tensor *tensor = roco_source_tensor_find(f->gguf, name);
    assert_non_null(tensor);
    *n = tensor->dims[0] * tensor->dims[1];
    float *values = malloc(*n * sizeof *values);
    assert_non_null(values);
    roco_type_find((uint32_t)tensor->type)->dequantize(tensor->data, values, *n);
    return values;
}

/* Root mean square of the difference, over that of the values. */
static double difference(const file *exact, const file *rounded, const char *name)
{
    size_t n, m;
    float *a = values_of(exact, name, &n), *b = values_of(rounded, name, &m);
    double sum = 0, error = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)a[i];
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    free(a);
    free(b);
    return sqrt(error / sum);
}

/* A type of b bits over a block of 32 normal values, which span about 4 deviations, rounds by 4 / 2^b / sqrt(12) of a
 * deviation; half as much again is allowed. */
static void every_type_keeps_the_weights(void **state)
{
    static const struct {
        roco_tensor_type type;
        double bound;
    } cases[] = {
        {ROCO_TYPE_F16, 0.0005}, {ROCO_TYPE_BF16, 0.005}, {ROCO_TYPE_Q8_0, 0.008}, {ROCO_TYPE_Q6_K, 0.03},
        {ROCO_TYPE_Q5_0, 0.06},  {ROCO_TYPE_Q5_1, 0.06},  {ROCO_TYPE_Q5_K, 0.06},  {ROCO_TYPE_Q4_0, 0.12},
        {ROCO_TYPE_Q4_1, 0.12},  {ROCO_TYPE_Q4_K, 0.12},
    };
    tiny_model model = tiny_model_default();
    model.n_layers = 1;
    model.width = model.ffn = 256;
    model.head_dim = 64;
    file exact = open_tiny(&model, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model.type = cases[i].type;
        file f = open_tiny(&model, NULL);
        double worst =
            fmax(difference(&exact, &f, "token_embd.weight"), difference(&exact, &f, "blk.0.ffn_down.weight"));
        if (!(worst > 0 && worst < cases[i].bound))
            fail_msg("%s: %g, at most %g", roco_type_find(model.type)->name, worst, cases[i].bound);
        close_file(&f);
    }
    close_file(&exact);
}

static void weights_are_noise_of_the_stated_size(void **state)
{
    tiny_model model = tiny_model_default();
    file f = open_tiny(&model, NULL);
    size_t n;
    float *q = values_of(&f, "blk.1.attn_q.weight", &n);
    double sum = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)q[i];
        square += (double)q[i] * (double)q[i];
    }
    assert_true(fabs(sum / (double)n) < 0.01);
    assert_true(fabs(sqrt(square / (double)n) - 1.5 / 8) < 0.01);
    free(q);
    close_file(&f);
}

/* Goldens made from these models stay good only as long as the models stay the same. */
static void the_same_seed_gives_the_same_bytes(void **state)
{
    tiny_model model = tiny_model_default();
    file f = open_tiny(&model, NULL);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < f.bytes.size; i++)
        hash = (hash ^ (unsigned char)f.bytes.data[i]) * 0x100000001b3u;
    assert_int_equal(f.bytes.size, 336032);
    if (hash != 0x9068c0c7cc0c2f9eu)
        fail_msg("the default model changed: 0x%llx", (unsigned long long)hash);
    close_file(&f);
    model.seed = 2;
    file other = open_tiny(&model, NULL);
    file again = open_tiny(&model, NULL);
    assert_int_equal(other.bytes.size, again.bytes.size);
    assert_memory_equal(other.bytes.data, again.bytes.data, other.bytes.size);
    close_file(&other);
    close_file(&again);
}

static void keys_and_tensors_follow_the_shape(void **state)
{
    tiny_model model = tiny_model_default();
    file f = open_tiny(&model, NULL);
    assert_null(roco_source_tensor_find(f.gguf, "output.weight"));
    assert_null(roco_source_tensor_find(f.gguf, "rope_freqs.weight"));
    assert_false(roco_source_has(f.gguf, "llama.attention.key_length"));
    close_file(&f);

    model.tied = false;
    model.rope_freqs = true;
    model.head_dim = 24;
    model.value_dim = 8;
    f = open_tiny(&model, NULL);
    assert_int_equal(roco_source_tensor_find(f.gguf, "output.weight")->dims[1], model.n_vocab);
    assert_int_equal(roco_source_tensor_find(f.gguf, "rope_freqs.weight")->dims[0], 12);
    assert_int_equal(roco_source_tensor_find(f.gguf, "blk.0.attn_k.weight")->dims[1], 2 * 24);
    assert_int_equal(roco_source_tensor_find(f.gguf, "blk.0.attn_v.weight")->dims[1], 2 * 8);
    assert_int_equal(roco_source_tensor_find(f.gguf, "blk.0.attn_output.weight")->dims[0], 4 * 8);
    uint64_t value;
    assert_int_equal(roco_source_uint(f.gguf, "llama.attention.key_length", 1, 99, &value, NULL), ROCO_OK);
    assert_int_equal(value, 24);
    close_file(&f);

    f = open_tiny(&model, "output_norm.weight");
    assert_null(roco_source_tensor_find(f.gguf, "output_norm.weight"));
    close_file(&f);
    f = open_tiny(&model, "llama.block_count");
    assert_false(roco_source_has(f.gguf, "llama.block_count"));
    close_file(&f);
}

static void assert_token(const file *f, uint64_t id, const char *text)
{
    roco_text token = roco_source_array_string(f->gguf, "tokenizer.ggml.tokens", id);
    assert_int_equal(token.size, strlen(text));
    assert_memory_equal(token.data, text, token.size);
}

static void the_vocabulary_is_control_tokens_bytes_and_merges(void **state)
{
    tiny_model model = tiny_model_default();
    file f = open_tiny(&model, NULL);
    assert_token(&f, 0, "<|endoftext|>");
    assert_token(&f, 2, "<|im_end|>");
    assert_token(&f, TINY_FIRST_BYTE + 0, "\u0100");
    assert_token(&f, TINY_FIRST_BYTE + '\n', "\u010a");
    assert_token(&f, TINY_FIRST_BYTE + ' ', "\u0120");
    assert_token(&f, TINY_FIRST_BYTE + 'A', "A");
    assert_token(&f, TINY_FIRST_BYTE + 0x7f, "\u0121");
    assert_token(&f, TINY_FIRST_BYTE + 0xad, "\u0143");
    assert_token(&f, TINY_FIRST_BYTE + 0xff, "\u00ff");
    assert_token(&f, TINY_FIRST_BYTE + 256 + 6, "\u0120the");
    assert_token(&f, TINY_MIN_VOCAB, "[unused0]");
    close_file(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_keeps_the_weights),
        cmocka_unit_test(weights_are_noise_of_the_stated_size),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(keys_and_tensors_follow_the_shape),
        cmocka_unit_test(the_vocabulary_is_control_tokens_bytes_and_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
