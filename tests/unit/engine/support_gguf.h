/* GGUF files for tests: a writer that can also lie, simple quantisers, and tiny seeded llama models.
 *
 * Test code: out of memory, a full disk or a wrong argument aborts. The same arguments give the same bytes on every
 * machine.
 */
#ifndef ROCO_TESTS_SUPPORT_GGUF_H
#define ROCO_TESTS_SUPPORT_GGUF_H

#include "config/buffer.h"
#include "engine/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the writer: keys and tensors in the order of the calls. {0} plus gguf_writer_init; gguf_writer_free at the end.
 * --- */
typedef struct gguf_writer {
    uint32_t version;           /* written as it is */
    uint64_t alignment;         /* pads the data; `general.alignment` is a key like any other */
    uint64_t n_keys, n_tensors; /* counted by the calls; change them to lie */
    roco_buffer keys, tensors, data;
    const char *omit; /* a key or tensor of this name is silently left out */
} gguf_writer;

void gguf_writer_init(gguf_writer *w);
void gguf_writer_free(gguf_writer *w);

void gguf_key_int(gguf_writer *w, const char *key, roco_source_kind kind,
                  int64_t value); /* any integer kind, or bool */
void gguf_key_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_key_float(gguf_writer *w, const char *key, double value); /* as float32 */
void gguf_key_string(gguf_writer *w, const char *key, const char *value);
void gguf_key_strings(gguf_writer *w, const char *key, const char *const *values, uint64_t n);
void gguf_key_i32s(gguf_writer *w, const char *key, const int32_t *values, uint64_t n);
/* `kind` and the value's bytes as they are, for values that do not fit together. */
void gguf_key_raw(gguf_writer *w, const char *key, uint32_t kind, const void *value, size_t size);

/* Appends the data, aligned, and describes it. dims[0] is the contiguous one. */
void gguf_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                 const void *data, size_t bytes);
/* Describes without data; n_dims (up to 16) and everything else as given. */
void gguf_tensor_raw(gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                     uint64_t offset);

void gguf_writer_finish(const gguf_writer *w, roco_buffer *out); /* appends the whole file */
void gguf_writer_save(const gguf_writer *w, const char *path);

/* --- quantisers: plain rounding, no search. n is a multiple of the type's block. Appends the blocks to `out`. --- */
void gguf_quantize(roco_tensor_type type, const float *values, size_t n, roco_buffer *out);

/* --- tiny llama models --- */
typedef struct tiny_model {
    uint32_t n_layers, n_heads, n_kv_heads;
    uint32_t head_dim;  /* key and value; the length keys are written unless it is width / n_heads */
    uint32_t value_dim; /* 0: head_dim */
    uint32_t width, ffn;
    uint32_t n_vocab; /* at least TINY_MIN_VOCAB; ids past the tokenizer's own are unused tokens */
    uint32_t context;
    uint64_t seed;
    roco_tensor_type type; /* of the matrices; its block must divide width, ffn and n_heads * value_dim */
    bool tied;             /* no output.weight */
    bool rope_freqs;       /* a rope_freqs.weight as Llama 3.1 files have */
    bool call_marks;       /* of the unused tokens the first two are the control tokens [TOOL_CALLS] and [ARGS] */
} tiny_model;

/* Ids: 0 <|endoftext|> (end of text), 1 <|im_start|> (begin of text), 2 <|im_end|>, then the 256 bytes in order, then
 * the merges. */
#define TINY_FIRST_BYTE 3u
#define TINY_N_MERGES   24u
#define TINY_MIN_VOCAB  (TINY_FIRST_BYTE + 256u + TINY_N_MERGES)

/* 2 layers, 4 heads, 2 KV heads of 16, width 64, ffn 96, 320 tokens, context 512, F32, tied. */
tiny_model tiny_model_default(void);
/* Adds keys and tensors to a writer, so that a test can add more, or leave one out with `omit`. */
void tiny_model_write(const tiny_model *model, gguf_writer *w);
void tiny_model_save(const tiny_model *model, const char *path);

#endif
