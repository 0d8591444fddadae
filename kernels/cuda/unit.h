/* Reading one unit of 32 quantised values (linear.h). Device code. */
#ifndef ROCO_KERNELS_CUDA_UNIT_H
#define ROCO_KERNELS_CUDA_UNIT_H

#include "kernels/cuda/device.h"
#include "kernels/cuda/linear.h"

typedef struct unit_scales {
    float low, high, base; /* scale of q[0..15], of q[16..31] */
} unit_scales;

/* `unit` counts from the matrix' start, `super` too. */
static __device__ __forceinline__ unit_scales unit_read_scales(const roco_planes &p, size_t unit, size_t super)
{
    if (p.scale == ROCO_SCALE_ONE) {
        const float d = half_to_float(static_cast<const uint16_t *>(p.scales)[unit]);
        return {d, d, 0.0f};
    }
    if (p.scale == ROCO_SCALE_BASE) {
        const uint32_t word = static_cast<const uint32_t *>(p.scales)[unit];
        const float d = half_to_float((uint16_t)word);
        return {d, d, half_to_float((uint16_t)(word >> 16))};
    }
    const uint16_t pair = static_cast<const uint16_t *>(p.scales)[unit];
    if (p.scale == ROCO_SCALE_SPLIT) {
        const float d = half_to_float(static_cast<const uint16_t *>(p.supers)[super]);
        return {d * (float)(int8_t)pair, d * (float)(int8_t)(pair >> 8), 0.0f};
    }
    const uint32_t word = static_cast<const uint32_t *>(p.supers)[super];
    const float d = half_to_float((uint16_t)word), m = half_to_float((uint16_t)(word >> 16));
    const float scale = d * (float)(pair & 255);
    return {scale, scale, -(m * (float)(pair >> 8))};
}

template <int QUANT> struct unit_quants {
    uint4 words[QUANT == ROCO_QUANT_BYTES ? 2 : 1];
    uint2 high;
};

template <int QUANT>
static __device__ __forceinline__ unit_quants<QUANT> unit_read_quants(const roco_planes &p, size_t unit)
{
    unit_quants<QUANT> q;
    if (QUANT == ROCO_QUANT_BYTES) {
        q.words[0] = static_cast<const uint4 *>(p.quants)[2 * unit];
        q.words[QUANT == ROCO_QUANT_BYTES] = static_cast<const uint4 *>(p.quants)[2 * unit + 1];
    } else {
        q.words[0] = static_cast<const uint4 *>(p.quants)[unit];
    }
    q.high.x = q.high.y = 0;
    if (QUANT == ROCO_QUANT_FIVE_BITS)
        q.high.x = static_cast<const uint32_t *>(p.high)[unit];
    if (QUANT == ROCO_QUANT_SIX_BITS)
        q.high = static_cast<const uint2 *>(p.high)[unit];
    return q;
}

static __device__ __forceinline__ unsigned word_of(const uint4 &words, int j)
{
    return j == 0 ? words.x : j == 1 ? words.y : j == 2 ? words.z : words.w;
}

/* roco_iq4_values, eight a word, lowest byte first. */
static __device__ __forceinline__ int table_value(unsigned nibble)
{
    const unsigned long long values = nibble < 8 ? 0xF6EADDCFBFAD9881ull : 0x7159453526190D01ull;
    return (int8_t)(values >> (nibble % 8 * 8));
}

/* Values 4j .. 4j+3 into out[0..3], 16+4j .. 16+4j+3 into out[4..7]; j = 0..3. */
template <int QUANT>
static __device__ __forceinline__ void unit_values(const unit_quants<QUANT> &q, const unit_scales &s, int zero, int j,
                                                   float out[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int byte = i % 4, value = 4 * j + byte;
        const bool upper = i >= 4;
        int number;
        if (QUANT == ROCO_QUANT_BYTES) {
            number = (int8_t)(word_of(q.words[upper && QUANT == ROCO_QUANT_BYTES], j) >> (8 * byte));
        } else {
            number = (int)(word_of(q.words[0], j) >> (8 * byte + (upper ? 4 : 0)) & 15u);
            if (QUANT == ROCO_QUANT_FIVE_BITS)
                number |= (int)(q.high.x >> (value + (upper ? 16 : 0)) & 1u) << 4;
            if (QUANT == ROCO_QUANT_SIX_BITS)
                number |= (int)((upper ? q.high.y : q.high.x) >> (2 * value) & 3u) << 4;
            if (QUANT == ROCO_QUANT_TABLE)
                number = table_value((unsigned)number);
            else
                number -= zero;
        }
        out[i] = (upper ? s.high : s.low) * (float)number + s.base;
    }
}

/* Calls function<QUANT>(arguments) for the matrix' form. */
#define FOR_QUANT_FORM(form, function, ...)                                                                            \
    do {                                                                                                               \
        switch (form) {                                                                                                \
        case ROCO_QUANT_NIBBLES: function<ROCO_QUANT_NIBBLES>(__VA_ARGS__); break;                                     \
        case ROCO_QUANT_FIVE_BITS: function<ROCO_QUANT_FIVE_BITS>(__VA_ARGS__); break;                                 \
        case ROCO_QUANT_SIX_BITS: function<ROCO_QUANT_SIX_BITS>(__VA_ARGS__); break;                                   \
        case ROCO_QUANT_TABLE: function<ROCO_QUANT_TABLE>(__VA_ARGS__); break;                                         \
        case ROCO_QUANT_BYTES: function<ROCO_QUANT_BYTES>(__VA_ARGS__); break;                                         \
        }                                                                                                              \
    } while (0)

#endif
