/* Element types of weights as GGUF stores them. Numbers are the format's own (ggml tensor types). */
#ifndef ROCO_KERNELS_TENSOR_TYPE_H
#define ROCO_KERNELS_TENSOR_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum roco_tensor_type {
    ROCO_TYPE_F32 = 0,
    ROCO_TYPE_F16 = 1,
    ROCO_TYPE_Q4_0 = 2,
    ROCO_TYPE_Q4_1 = 3,
    ROCO_TYPE_Q5_0 = 6,
    ROCO_TYPE_Q5_1 = 7,
    ROCO_TYPE_Q8_0 = 8,
    ROCO_TYPE_Q2_K = 10,
    ROCO_TYPE_Q3_K = 11,
    ROCO_TYPE_Q4_K = 12,
    ROCO_TYPE_Q5_K = 13,
    ROCO_TYPE_Q6_K = 14,
    ROCO_TYPE_IQ4_NL = 20,
    ROCO_TYPE_IQ4_XS = 23,
    ROCO_TYPE_BF16 = 30,
} roco_tensor_type;

typedef struct roco_type_traits {
    roco_tensor_type type;
    const char *name;      /* "Q4_1" */
    uint32_t block_values; /* values per block: 1, 32 or 256 */
    uint32_t block_bytes;  /* bytes per block */
    /* Decodes n values (a multiple of block_values) of `in` (any alignment) to float32, exactly as the format defines.
     */
    void (*dequantize)(const void *in, float *out, size_t n);
} roco_type_traits;

/* What the nibbles of IQ4_NL and IQ4_XS stand for. */
extern const int8_t roco_iq4_values[16];

/* NULL for a type roco does not read. */
const roco_type_traits *roco_type_find(uint32_t type);
/* True for block-quantised types (those for which `--precision auto` means int8). */
bool roco_type_is_quantized(roco_tensor_type type);

float roco_f16_to_f32(uint16_t bits);
uint16_t roco_f16_from_f32(float value); /* round to nearest even, overflow to infinity */
float roco_bf16_to_f32(uint16_t bits);

#endif
