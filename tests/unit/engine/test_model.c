/* Loading llama models: what a file must say, what it may leave out, and what is refused by name. */
#include "engine/engine.h"
#include "engine/policies.h"
#include "support_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *path(void)
{
    static char text[64];
    snprintf(text, sizeof text, "/tmp/roco-model-%d.gguf", (int)getpid());
    return text;
}

/* Opens what the writer holds; fills `error`. With `last`, runs 64 tokens and gives the last logits. */
static roco_status open_with(gguf_writer *w, const char *precision, roco_error *error, float *last)
{
    gguf_writer_save(w, path());
    gguf_writer_free(w);
    roco_source *gguf = NULL;
    roco_engine *engine = NULL;
    roco_status status = roco_source_open(path(), &gguf, error);
    roco_engine_config config = {.source = gguf,
                                 .backend = "cpu",
                                 .precision = precision,
                                 .threads = 1,
                                 .kv_pool_tokens = 64,
                                 .stride = 32,
                                 .step_tokens = 64};
    if (!status)
        status = roco_engine_open(&config, &engine, error);
    if (!status && last) {
        const uint32_t n_vocab = roco_engine_describe(engine)->n_vocab;
        uint32_t pages[64];
        int32_t tokens[64];
        for (uint32_t i = 0; i < 64; i++) {
            pages[i] = i;
            tokens[i] = (int32_t)(i * 5 % n_vocab);
        }
        roco_cache_spec spec = {.policy = roco_policy_find("full"), .length = 64};
        roco_cache *cache = NULL;
        assert_int_equal(roco_cache_open(engine, &spec, pages, &cache, error), ROCO_OK);
        float *logits = malloc(64 * (size_t)n_vocab * sizeof *logits);
        roco_step_item item = {.cache = cache, .tokens = tokens, .n_tokens = 64, .logits = logits};
        assert_int_equal(roco_engine_step(engine, &item, 1, error), ROCO_OK);
        memcpy(last, logits + 63 * (size_t)n_vocab, n_vocab * sizeof *last);
        free(logits);
        roco_cache_close(engine, cache);
    }
    roco_engine_close(engine);
    roco_source_close(gguf);
    unlink(path());
    return status;
}

static roco_status open_written(gguf_writer *w, roco_error *error, float *last)
{
    return open_with(w, "auto", error, last);
}

static void refused(gguf_writer *w, roco_status expected, const char *named)
{
    roco_error error = {0};
    roco_status status = open_written(w, &error, NULL);
    if (status != expected || !strstr(error.message, named))
        fail_msg("status %d, message \"%s\" (wanted %d and \"%s\")", status, error.message, expected, named);
}

static void without(const char *name, roco_status expected)
{
    tiny_model model = tiny_model_default();
    gguf_writer w;
    gguf_writer_init(&w);
    w.omit = name;
    tiny_model_write(&model, &w);
    refused(&w, expected, name);
}

static void test_missing_keys_are_named(void **state)
{
    without("llama.block_count", ROCO_FORMAT);
    without("llama.context_length", ROCO_FORMAT);
    without("llama.embedding_length", ROCO_FORMAT);
    without("llama.feed_forward_length", ROCO_FORMAT);
    without("llama.attention.head_count", ROCO_FORMAT);
    without("llama.attention.layer_norm_rms_epsilon", ROCO_FORMAT);
    without("general.architecture", ROCO_FORMAT);
}

static void test_missing_tensors_are_named(void **state)
{
    without("token_embd.weight", ROCO_FORMAT);
    without("output_norm.weight", ROCO_FORMAT);
    without("blk.1.ffn_down.weight", ROCO_FORMAT);
    without("blk.0.attn_norm.weight", ROCO_FORMAT);
}

static void replaced(const char *key, roco_source_kind kind, int64_t value, roco_status expected, const char *named)
{
    tiny_model model = tiny_model_default();
    gguf_writer w;
    gguf_writer_init(&w);
    w.omit = key;
    tiny_model_write(&model, &w);
    w.omit = NULL;
    gguf_key_int(&w, key, kind, value);
    if (expected) {
        refused(&w, expected, named);
        return;
    }
    roco_error error = {0};
    if (open_written(&w, &error, NULL))
        fail_msg("%s", error.message);
}

static void test_integers_of_any_width(void **state)
{
    replaced("llama.block_count", ROCO_SOURCE_UINT64, 2, ROCO_OK, "");
    replaced("llama.block_count", ROCO_SOURCE_INT8, 2, ROCO_OK, "");
    replaced("llama.attention.head_count_kv", ROCO_SOURCE_INT32, 2, ROCO_OK, "");
    replaced("llama.block_count", ROCO_SOURCE_INT32, -2, ROCO_FORMAT, "llama.block_count");
    replaced("llama.context_length", ROCO_SOURCE_UINT32, 0, ROCO_FORMAT, "llama.context_length");
    replaced("llama.attention.head_count_kv", ROCO_SOURCE_UINT32, 3, ROCO_FORMAT, "evenly");
    replaced("llama.attention.head_count", ROCO_SOURCE_UINT32, 0, ROCO_FORMAT, "head_count");
    replaced("llama.block_count", ROCO_SOURCE_UINT32, 3, ROCO_FORMAT, "blk.2.");
    replaced("llama.embedding_length", ROCO_SOURCE_UINT32, 128, ROCO_FORMAT, "token_embd.weight");
    replaced("llama.rope.dimension_count", ROCO_SOURCE_UINT32, 7, ROCO_FORMAT, "odd number");
}

static void test_head_count_kv_defaults_to_heads(void **state)
{
    tiny_model model = tiny_model_default();
    model.n_kv_heads = model.n_heads;
    gguf_writer w;
    gguf_writer_init(&w);
    w.omit = "llama.attention.head_count_kv";
    tiny_model_write(&model, &w);
    roco_error error = {0};
    assert_int_equal(open_written(&w, &error, NULL), ROCO_OK);
}

static void test_unsupported_things_are_named(void **state)
{
    tiny_model model = tiny_model_default();
    gguf_writer w;
    gguf_writer_init(&w);
    w.omit = "general.architecture";
    tiny_model_write(&model, &w);
    w.omit = NULL;
    gguf_key_string(&w, "general.architecture", "qwen3moe");
    refused(&w, ROCO_UNSUPPORTED, "supported: llama");

    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    gguf_key_u32(&w, "llama.expert_count", 8);
    refused(&w, ROCO_UNSUPPORTED, "experts");

    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    gguf_key_u32(&w, "llama.expert_count", 0);
    gguf_key_string(&w, "llama.rope.scaling.type", "magic");
    refused(&w, ROCO_UNSUPPORTED, "rope scaling");

    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    gguf_key_string(&w, "llama.rope.scaling.type", "yarn");
    gguf_key_float(&w, "llama.rope.scaling.factor", 0.5f);
    refused(&w, ROCO_FORMAT, "rope.scaling.factor is 0.5, outside");

    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    const uint64_t dims[] = {64};
    const float bias[64] = {0};
    gguf_tensor(&w, "blk.0.attn_q.bias", ROCO_TYPE_F32, 1, dims, bias, sizeof bias);
    refused(&w, ROCO_UNSUPPORTED, "bias");
}

static void test_head_size_keys(void **state)
{
    tiny_model model = tiny_model_default();
    model.head_dim = 24; /* 4 heads of 24 in a width of 64 */
    model.value_dim = 8;
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    roco_error error = {0};
    float last[320];
    if (open_written(&w, &error, last))
        fail_msg("%s", error.message);
    gguf_writer_init(&w);
    w.omit = "llama.attention.key_length";
    tiny_model_write(&model, &w);
    refused(&w, ROCO_FORMAT, "rope.dimension_count");
}

static void logits_of(const tiny_model *model, const char *precision, float *last)
{
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_model_write(model, &w);
    roco_error error = {0};
    if (open_with(&w, precision, &error, last))
        fail_msg("%s", error.message);
}

static void test_rope_freqs_are_used(void **state)
{
    tiny_model model = tiny_model_default();
    float plain[320], scaled[320];
    logits_of(&model, "auto", plain);
    model.rope_freqs = true;
    logits_of(&model, "auto", scaled);
    assert_memory_not_equal(plain, scaled, sizeof plain);
}

/* What the log wrote on standard error while the file was opened, in `text`. */
static roco_status open_and_read_log(gguf_writer *w, float *last, char *text, size_t room)
{
    int ends[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    roco_error error = {0};
    roco_status status = open_written(w, &error, last);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    ssize_t size = read(ends[0], text, room - 1);
    text[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    return status;
}

static void test_tensors_nobody_knows_give_one_warning(void **state)
{
    tiny_model model = tiny_model_default();
    const uint64_t dims[] = {8};
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float plain[320], more[320];
    char log[4096];
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    assert_int_equal(open_and_read_log(&w, plain, log, sizeof log), ROCO_OK);
    assert_null(strstr(log, "not used"));
    gguf_writer_init(&w);
    tiny_model_write(&model, &w);
    gguf_tensor(&w, "blk.0.attn_rot_embd.weight", ROCO_TYPE_F32, 1, dims, values, sizeof values);
    gguf_tensor(&w, "blk.7.whatever.weight", ROCO_TYPE_F32, 1, dims, values, sizeof values);
    assert_int_equal(open_and_read_log(&w, more, log, sizeof log), ROCO_OK);
    const char *warning = strstr(log, "2 tensors that are not used");
    assert_non_null(warning);
    assert_null(strstr(strchr(warning, '\n'), "not used"));
    assert_memory_equal(plain, more, sizeof plain);
}

/* Quantised activations move the logits a little; a wrong scale or a wrong order of blocks moves them elsewhere. */
static void test_every_type_gives_the_same_logits_in_both_precisions(void **state)
{
    const roco_tensor_type types[] = {ROCO_TYPE_F16,  ROCO_TYPE_BF16, ROCO_TYPE_Q8_0, ROCO_TYPE_Q4_0, ROCO_TYPE_Q4_1,
                                      ROCO_TYPE_Q5_0, ROCO_TYPE_Q5_1, ROCO_TYPE_Q4_K, ROCO_TYPE_Q5_K, ROCO_TYPE_Q6_K};
    tiny_model model = tiny_model_default();
    model.width = 256;
    model.ffn = 256;
    model.head_dim = 64;
    float reference[320], found[320];
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        model.type = types[i];
        logits_of(&model, "f32", reference);
        logits_of(&model, "int8", found);
        double dot = 0, a = 0, b = 0;
        for (size_t j = 0; j < 320; j++) {
            dot += (double)reference[j] * found[j];
            a += (double)reference[j] * reference[j];
            b += (double)found[j] * found[j];
        }
        if (!(dot * dot > 0.995 * a * b))
            fail_msg("type %u: logits point elsewhere (%g)", types[i], dot * dot / (a * b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_keys_are_named),
        cmocka_unit_test(test_missing_tensors_are_named),
        cmocka_unit_test(test_integers_of_any_width),
        cmocka_unit_test(test_head_count_kv_defaults_to_heads),
        cmocka_unit_test(test_unsupported_things_are_named),
        cmocka_unit_test(test_head_size_keys),
        cmocka_unit_test(test_rope_freqs_are_used),
        cmocka_unit_test(test_tensors_nobody_knows_give_one_warning),
        cmocka_unit_test(test_every_type_gives_the_same_logits_in_both_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
