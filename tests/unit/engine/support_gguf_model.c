/* The tiny llama models of support_gguf.h. Weights are seeded noise, scaled so that activations stay of order one and
 * attention is neither flat nor a single peak: eviction then has something to choose from. */
#include "support_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const merges[TINY_N_MERGES] = {
    "\u0120 t", "\u0120 a", "h e",      "i n",      "r e", "o n",      "\u0120t he", "e r",
    "\u0120 s", "a t",      "\u0120 w", "\u0120 o", "e n", "\u0120 c", "i t",        "i s",
    "a n",      "o r",      "e s",      "\u0120 b", "e d", "\u0120 f", "in g",       "\u0120 p",
};

/* --- weights --- */

/* SplitMix64 (Steele, Lea, Flood 2014), so that the numbers do not depend on a C library. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Nearly normal with deviation one: the sum of four 16-bit numbers has variance 4 (2^32 - 1) / 12. */
static float noise(uint64_t *state)
{
    uint64_t bits = next(state);
    int32_t sum = -2 * 65535;
    for (int i = 0; i < 4; i++)
        sum += (int32_t)(bits >> (16 * i) & 0xffffu);
    return (float)sum * (1.0f / 37837.0f);
}

static void add_matrix(gguf_writer *w, const char *name, roco_tensor_type type, uint32_t cols, uint32_t rows,
                       float gain, uint64_t *state)
{
    size_t n = (size_t)cols * rows;
    float *values = malloc(n * sizeof *values);
    ROCO_CHECK(values != NULL);
    float scale = gain / sqrtf((float)cols);
    for (size_t i = 0; i < n; i++)
        values[i] = noise(state) * scale;
    roco_buffer blocks = {0};
    gguf_quantize(type, values, n, &blocks);
    gguf_tensor(w, name, (uint32_t)type, 2, (const uint64_t[]){cols, rows}, blocks.data, blocks.size);
    roco_buffer_free(&blocks);
    free(values);
}

static void add_norm(gguf_writer *w, const char *name, uint32_t width, uint64_t *state)
{
    float *values = malloc(width * sizeof *values);
    ROCO_CHECK(values != NULL);
    for (uint32_t i = 0; i < width; i++)
        values[i] = 1.0f + 0.1f * noise(state);
    gguf_tensor(w, name, ROCO_TYPE_F32, 1, (const uint64_t[]){width}, values, width * sizeof *values);
    free(values);
}

static void add_layer(gguf_writer *w, const tiny_model *m, uint32_t layer, uint64_t *state)
{
    uint32_t value_dim = m->value_dim ? m->value_dim : m->head_dim;
    const struct {
        const char *name;
        uint32_t cols, rows;
        float gain;
    } matrices[] = {
        {"attn_q", m->width, m->n_heads * m->head_dim, 1.5f},
        {"attn_k", m->width, m->n_kv_heads * m->head_dim, 1.5f},
        {"attn_v", m->width, m->n_kv_heads * value_dim, 1.0f},
        {"attn_output", m->n_heads * value_dim, m->width, 1.0f},
        {"ffn_gate", m->width, m->ffn, 1.0f},
        {"ffn_up", m->width, m->ffn, 1.0f},
        {"ffn_down", m->ffn, m->width, 1.0f},
    };
    char name[64];
    snprintf(name, sizeof name, "blk.%u.attn_norm.weight", layer);
    add_norm(w, name, m->width, state);
    snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", layer);
    add_norm(w, name, m->width, state);
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, matrices[i].name);
        add_matrix(w, name, m->type, matrices[i].cols, matrices[i].rows, matrices[i].gain, state);
    }
}

/* Factors 1 for the fast half of the pairs, rising to 8, as Llama 3.1 stretches its slow ones. */
static void add_rope_freqs(gguf_writer *w, uint32_t n)
{
    float *values = malloc(n * sizeof *values);
    ROCO_CHECK(values != NULL);
    for (uint32_t i = 0; i < n; i++)
        values[i] = i < n / 2 ? 1.0f : 1.0f + 7.0f * (float)(i - n / 2 + 1) / (float)(n - n / 2);
    gguf_tensor(w, "rope_freqs.weight", ROCO_TYPE_F32, 1, (const uint64_t[]){n}, values, n * sizeof *values);
    free(values);
}

/* --- tokenizer --- */

/* The character GPT-2's byte-level BPE writes a byte as: itself when printable Latin-1, else the next free one from
 * U+0100 on. */
static void byte_text(unsigned byte, char out[3])
{
    unsigned code = 0x100;
    for (unsigned b = 0; b <= byte; b++) {
        bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && itself)
            code = byte;
        else if (b < byte && !itself)
            code++;
    }
    if (code < 0x80) {
        out[0] = (char)code;
        out[1] = '\0';
        return;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    out[2] = '\0';
}

static void add_vocabulary(gguf_writer *w, uint32_t n_vocab, bool call_marks)
{
    enum { NORMAL = 1, CONTROL = 3, UNUSED = 5, TEXT = 24 };
    static const char *const control[TINY_FIRST_BYTE] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    static const char *const marks[] = {"[TOOL_CALLS]", "[ARGS]"};
    const uint32_t n_marks = call_marks ? sizeof marks / sizeof *marks : 0;
    char(*texts)[TEXT] = calloc(n_vocab, sizeof *texts);
    const char **tokens = calloc(n_vocab, sizeof *tokens);
    int32_t *types = calloc(n_vocab, sizeof *types);
    ROCO_CHECK(texts && tokens && types);
    for (uint32_t id = 0; id < n_vocab; id++) {
        char *text = texts[id];
        types[id] = id < TINY_FIRST_BYTE ? CONTROL : id < TINY_MIN_VOCAB ? NORMAL : UNUSED;
        if (id < TINY_FIRST_BYTE) {
            snprintf(text, TEXT, "%s", control[id]);
        } else if (id < TINY_FIRST_BYTE + 256) {
            byte_text(id - TINY_FIRST_BYTE, text);
        } else if (id < TINY_MIN_VOCAB) { /* both sides of the merge without the space between */
            const char *merge = merges[id - TINY_FIRST_BYTE - 256], *space = strchr(merge, ' ');
            snprintf(text, TEXT, "%.*s%s", (int)(space - merge), merge, space + 1);
        } else if (id < TINY_MIN_VOCAB + n_marks) {
            snprintf(text, TEXT, "%s", marks[id - TINY_MIN_VOCAB]);
            types[id] = CONTROL;
        } else {
            snprintf(text, TEXT, "[unused%u]", id - TINY_MIN_VOCAB);
        }
        tokens[id] = text;
    }
    gguf_key_strings(w, "tokenizer.ggml.tokens", tokens, n_vocab);
    gguf_key_i32s(w, "tokenizer.ggml.token_type", types, n_vocab);
    free(texts);
    free(tokens);
    free(types);
}

static void add_tokenizer(gguf_writer *w, uint32_t n_vocab, bool call_marks)
{
    gguf_key_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_key_string(w, "tokenizer.ggml.pre", "smollm");
    add_vocabulary(w, n_vocab, call_marks);
    gguf_key_strings(w, "tokenizer.ggml.merges", merges, TINY_N_MERGES);
    gguf_key_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_key_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_key_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    gguf_key_int(w, "tokenizer.ggml.add_bos_token", ROCO_SOURCE_BOOL, 0);
}

/* --- the model --- */

tiny_model tiny_model_default(void)
{
    return (tiny_model){
        .n_layers = 2,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 16,
        .width = 64,
        .ffn = 96,
        .n_vocab = 320,
        .context = 512,
        .seed = 1,
        .type = ROCO_TYPE_F32,
        .tied = true,
    };
}

static void add_shape(gguf_writer *w, const tiny_model *m)
{
    uint32_t value_dim = m->value_dim ? m->value_dim : m->head_dim;
    gguf_key_string(w, "general.architecture", "llama");
    gguf_key_string(w, "general.name", "tiny");
    gguf_key_u32(w, "llama.block_count", m->n_layers);
    gguf_key_u32(w, "llama.context_length", m->context);
    gguf_key_u32(w, "llama.embedding_length", m->width);
    gguf_key_u32(w, "llama.feed_forward_length", m->ffn);
    gguf_key_u32(w, "llama.attention.head_count", m->n_heads);
    gguf_key_u32(w, "llama.attention.head_count_kv", m->n_kv_heads);
    gguf_key_float(w, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    gguf_key_float(w, "llama.rope.freq_base", 10000);
    gguf_key_u32(w, "llama.rope.dimension_count", m->head_dim);
    gguf_key_u32(w, "llama.vocab_size", m->n_vocab);
    if (m->head_dim * m->n_heads != m->width || value_dim != m->head_dim) {
        gguf_key_u32(w, "llama.attention.key_length", m->head_dim);
        gguf_key_u32(w, "llama.attention.value_length", value_dim);
    }
}

void tiny_model_write(const tiny_model *model, gguf_writer *w)
{
    ROCO_CHECK(model->n_vocab >= TINY_MIN_VOCAB);
    uint64_t state = model->seed;
    add_shape(w, model);
    add_tokenizer(w, model->n_vocab, model->call_marks);
    /* Small beside what the layers add: with a tied output, a large embedding would just repeat its own token. */
    add_matrix(w, "token_embd.weight", model->type, model->width, model->n_vocab, 1.0f, &state);
    for (uint32_t layer = 0; layer < model->n_layers; layer++)
        add_layer(w, model, layer, &state);
    add_norm(w, "output_norm.weight", model->width, &state);
    if (!model->tied)
        add_matrix(w, "output.weight", model->type, model->width, model->n_vocab, 1.0f, &state);
    if (model->rope_freqs)
        add_rope_freqs(w, model->head_dim / 2);
}

void tiny_model_save(const tiny_model *model, const char *path)
{
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_model_write(model, &w);
    gguf_writer_save(&w, path);
    gguf_writer_free(&w);
}
