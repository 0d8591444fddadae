/* Matrix products with vectors of 256 bits: AVX2 and FMA, and where the compiler may use it AVX-VNNI. Any compute
 * thread; no state. Included once by linear_avx2.c and linear_avxvnni.c.
 *
 * A tile is one panel times 1, 2 or 4 rows of activations. Of a block of 32 inputs the panel's 32 rows are taken eight
 * at a time (a quarter: one vector of each group), so that few registers are live:
 *
 *     AVX-VNNI  vpdpbusd adds four products of bytes to 32 bits; without it
 *     nibbles   vpmaddubsw adds two products to 16 bits: at most 2 * 15 * 127, and eight groups of them at most 30480,
 *               so a whole block is added in 16 bits before it is widened once
 *     bytes     two products of 255 * 127 do not fit 16 bits: both operands are widened, even and odd inputs apart, and
 *               vpmaddwd adds to 32 bits
 *     outlier   its weights are cut out of their words and multiplied by all of it in 16 bits: vpmaddwd as well
 *
 * The sequence of operations for one row is the same in every tile, so its result is too; sums of a block are exact, so
 * with and without AVX-VNNI are equal. `element`, `scales` and
 * `rows` are constants in each copy the compiler makes.
 */
#ifndef ROCO_KERNELS_CPU_LINEAR_256_H
#define ROCO_KERNELS_CPU_LINEAR_256_H

#include "kernels/cpu/linear.h"

#include <immintrin.h>
#include <math.h>

#define INLINE   static inline __attribute__((always_inline))
#define MAX_ROWS 4
#define QUARTERS 4 /* of a panel's rows, eight lanes each */

/* Sixteen registers just hold a tile. Left alone, the compiler keeps one quarter's broadcasts for the next and adds in
 * trees: it runs out of registers, and the stores cost more than what was saved. */
#define IN_ORDER(vector) __asm__("" : "+x"(vector))
#define FORGET_LOADS()   __asm__ volatile("" ::: "memory")

INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

INLINE __m256 load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* Quarter v's scale for one half of the inputs; halves differ only when split. */
INLINE __m256 load_scale(roco_scales scales, const uint8_t *header, const uint8_t *p, int v, int half)
{
    if (scales == ROCO_SCALES_ONE || scales == ROCO_SCALES_MIN)
        return load_f16(p + 16 * v);
    int second = scales == ROCO_SCALES_SPLIT ? 32 * half : 0;
    return _mm256_mul_ps(load_f16(header + 16 * v), load_i8(p + second + 8 * v));
}

INLINE __m256 load_min(roco_scales scales, const uint8_t *header, const uint8_t *p, int v)
{
    if (scales == ROCO_SCALES_MIN)
        return load_f16(p + 64 + 16 * v);
    return _mm256_mul_ps(load_f16(header + 64 + 16 * v), load_i8(p + 32 + 8 * v));
}

INLINE __m256i four_inputs(const int8_t *q)
{
    int32_t word;
    __builtin_memcpy(&word, q, sizeof(word));
    return _mm256_set1_epi32(word);
}

INLINE __m256i load_group(const uint8_t *integers, int group, int v)
{
    return _mm256_loadu_si256((const __m256i *)(integers + 128 * group + 32 * v));
}

#ifdef __AVXVNNI__
INLINE void add_group(__m256i w, const roco_q8_block *const x[MAX_ROWS], int input, int rows, __m256i dot[MAX_ROWS])
{
    ROCO_UNROLL
    for (int r = 0; r < rows; r++) {
        dot[r] = _mm256_dpbusd_avx_epi32(dot[r], w, four_inputs(x[r]->q + input));
        IN_ORDER(dot[r]);
    }
}

/* dot[r] += the 32 products of each of the quarter's rows. Sums in two, as the instruction takes four cycles. */
INLINE void dot_nibbles(const uint8_t *integers, int v, const roco_q8_block *const x[MAX_ROWS], int rows,
                        __m256i dot[MAX_ROWS])
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i high_dot[MAX_ROWS];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        high_dot[r] = _mm256_setzero_si256();
    ROCO_UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i w = load_group(integers, g, v);
        add_group(_mm256_and_si256(w, low), x, 4 * g, rows, dot);
        add_group(_mm256_and_si256(_mm256_srli_epi16(w, 4), low), x, 16 + 4 * g, rows, high_dot);
    }
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        dot[r] = _mm256_add_epi32(dot[r], high_dot[r]);
}

/* dot[r] += the products of groups first..first+n-1. */
INLINE void dot_bytes(const uint8_t *integers, int v, int first, int n, const roco_q8_block *const x[MAX_ROWS],
                      int rows, __m256i dot[MAX_ROWS])
{
    ROCO_UNROLL
    for (int g = first; g < first + n; g++)
        add_group(load_group(integers, g, v), x, 4 * g, rows, dot);
}
#else
/* dot[r] += the 32 products of each of the quarter's rows. */
INLINE void dot_nibbles(const uint8_t *integers, int v, const roco_q8_block *const x[MAX_ROWS], int rows,
                        __m256i dot[MAX_ROWS])
{
    const __m256i low = _mm256_set1_epi8(15);
    __m256i pairs[MAX_ROWS];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        pairs[r] = _mm256_setzero_si256();
    ROCO_UNROLL
    for (int g = 0; g < 4; g++) {
        __m256i w = load_group(integers, g, v);
        __m256i w_low = _mm256_and_si256(w, low), w_high = _mm256_and_si256(_mm256_srli_epi16(w, 4), low);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(w_low, four_inputs(x[r]->q + 4 * g)));
            pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(w_high, four_inputs(x[r]->q + 16 + 4 * g)));
            IN_ORDER(pairs[r]);
        }
    }
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
}

/* dot[r] += the products of groups first..first+n-1. */
INLINE void dot_bytes(const uint8_t *integers, int v, int first, int n, const roco_q8_block *const x[MAX_ROWS],
                      int rows, __m256i dot[MAX_ROWS])
{
    const __m256i low = _mm256_set1_epi16(255);
    ROCO_UNROLL
    for (int g = first; g < first + n; g++) {
        __m256i w = load_group(integers, g, v);
        __m256i w_even = _mm256_and_si256(w, low), w_odd = _mm256_srli_epi16(w, 8);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            __m256i a = four_inputs(x[r]->q + 4 * g);
            __m256i a_even = _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8), a_odd = _mm256_srai_epi16(a, 8);
            dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(w_even, a_even));
            dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(w_odd, a_odd));
            IN_ORDER(dot[r]);
        }
    }
}
#endif

/* Which inputs they are differs from row to row: each reads weights of its own, in the same way wherever they are. A
 * lane's word is the weight and a zero above it, so the outlier's sign above its 16 bits does not count. */
INLINE __m256i dot_outlier(roco_element element, const uint8_t *integers, int v, const roco_q8_block *x,
                           int32_t outlier, __m256i dot)
{
    const bool nibbles = element == ROCO_ELEMENT_U4;
    const uint8_t *words = integers + (nibbles ? x->u4_offset : x->u8_offset);
    const __m256i shift = _mm256_set1_epi32((int32_t)(nibbles ? x->u4_shift : x->u8_shift));
    __m256i w =
        _mm256_and_si256(_mm256_srlv_epi32(load_group(words, 0, v), shift), _mm256_set1_epi32(nibbles ? 15 : 255));
    return _mm256_add_epi32(dot, _mm256_madd_epi16(w, _mm256_set1_epi32(outlier)));
}

INLINE __m256 scale_dot(__m256i dot, __m256 scale, float x_scale, __m256 sum)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, _mm256_set1_ps(x_scale)), sum);
}

INLINE void add_split_quarter(const uint8_t *header, const uint8_t *block, int v, uint32_t zero_shift,
                              const roco_q8_block *const x[MAX_ROWS], int rows, __m256 sum[MAX_ROWS][QUARTERS])
{
    const uint8_t *integers = block + roco_scales_bytes(ROCO_SCALES_SPLIT);
    ROCO_UNROLL
    for (int half = 0; half < 2; half++) {
        __m256 scale = load_scale(ROCO_SCALES_SPLIT, header, block, v, half);
        __m256i dot[MAX_ROWS];
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t minus = half == 0 ? x[r]->minus_sum_low : x[r]->minus_sum - x[r]->minus_sum_low;
            dot[r] = _mm256_set1_epi32(minus * (1 << zero_shift));
        }
        dot_bytes(integers, v, 4 * half, 4, x, rows, dot);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            bool in_half = x[r]->u8_offset / 512 == half;
            dot[r] = dot_outlier(ROCO_ELEMENT_U8, integers, v, x[r], in_half ? x[r]->outlier : 0, dot[r]);
            sum[r][v] = scale_dot(dot[r], scale, x[r]->scale, sum[r][v]);
        }
    }
}

INLINE void add_quarter(roco_element element, roco_scales scales, const uint8_t *header, const uint8_t *block, int v,
                        uint32_t zero_shift, const roco_q8_block *const x[MAX_ROWS], int rows,
                        __m256 sum[MAX_ROWS][QUARTERS])
{
    const uint8_t *integers = block + roco_scales_bytes(scales);
    __m256i dot[MAX_ROWS];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        dot[r] =
            scales == ROCO_SCALES_ONE ? _mm256_set1_epi32(x[r]->minus_sum * (1 << zero_shift)) : _mm256_setzero_si256();
    if (element == ROCO_ELEMENT_U4)
        dot_nibbles(integers, v, x, rows, dot);
    else
        dot_bytes(integers, v, 0, 8, x, rows, dot);
    __m256 scale = load_scale(scales, header, block, v, 0);
    ROCO_UNROLL
    for (int r = 0; r < rows; r++) {
        dot[r] = dot_outlier(element, integers, v, x[r], x[r]->outlier, dot[r]);
        sum[r][v] = scale_dot(dot[r], scale, x[r]->scale, sum[r][v]);
    }
    if (scales == ROCO_SCALES_ONE)
        return;
    __m256 min = load_min(scales, header, block, v);
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        sum[r][v] = _mm256_fmadd_ps(min, _mm256_set1_ps(x[r]->scaled_sum), sum[r][v]);
}

INLINE void put(const roco_linear_tile *t, int rows, __m256 sum[MAX_ROWS][QUARTERS])
{
    const roco_weight *weight = t->part->weight;
    uint32_t first = t->panel * ROCO_PANEL_ROWS;
    uint32_t n = weight->n_rows - first < ROCO_PANEL_ROWS ? weight->n_rows - first : ROCO_PANEL_ROWS;
    for (int r = 0; r < rows; r++) {
        float *out = t->part->out + (size_t)(t->row + (uint32_t)r) * weight->n_rows + first;
        float values[ROCO_PANEL_ROWS];
        for (int v = 0; v < QUARTERS; v++)
            _mm256_storeu_ps(values + 8 * v, sum[r][v]);
        for (uint32_t i = 0; i < n; i++)
            out[i] = t->part->add ? out[i] + values[i] : values[i];
    }
}

INLINE const uint8_t *fetch_ahead(const uint8_t *ahead, uint32_t lines)
{
    for (uint32_t i = 0; i < lines; i++, ahead += 64)
        _mm_prefetch((const char *)ahead, _MM_HINT_T1);
    return ahead;
}

INLINE void integer_tile(roco_element element, roco_scales scales, const roco_linear_tile *t, int rows)
{
    const roco_weight *weight = t->part->weight;
    const uint32_t n_blocks = weight->n_cols / ROCO_BLOCK, zero_shift = weight->zero_shift;
    const bool super = scales == ROCO_SCALES_SUPER_MIN || scales == ROCO_SCALES_SPLIT;
    const uint8_t *at = weight->panels + t->panel * weight->panel_bytes, *header = at, *ahead = t->ahead;
    const roco_q8_block *x[MAX_ROWS];
    __m256 sum[MAX_ROWS][QUARTERS];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = t->part->quantized + (size_t)(t->row + (uint32_t)r) * n_blocks;
        for (int v = 0; v < QUARTERS; v++)
            sum[r][v] = _mm256_setzero_ps();
    }
    for (uint32_t b = 0; b < n_blocks; b++, at += weight->block_bytes) {
        ahead = fetch_ahead(ahead, t->ahead_lines);
        if (super && b % ROCO_SUPER_BLOCKS == 0) {
            header = at;
            at += weight->header_bytes;
        }
        for (int v = 0; v < QUARTERS; v++) {
            FORGET_LOADS();
            if (scales == ROCO_SCALES_SPLIT)
                add_split_quarter(header, at, v, zero_shift, x, rows, sum);
            else
                add_quarter(element, scales, header, at, v, zero_shift, x, rows, sum);
        }
        ROCO_UNROLL
        for (int r = 0; r < rows; r++)
            x[r]++;
    }
    put(t, rows, sum);
}

INLINE __m256 load_element(roco_element element, const uint8_t *p)
{
    if (element == ROCO_ELEMENT_F32)
        return _mm256_loadu_ps((const float *)p);
    if (element == ROCO_ELEMENT_F16)
        return load_f16(p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

/* Two quarters at a time: with four rows of activations eight sums stay in registers. */
INLINE void float_half(roco_element element, const roco_linear_tile *t, int rows, int v, __m256 sum[MAX_ROWS][QUARTERS])
{
    const roco_weight *weight = t->part->weight;
    const uint32_t n_cols = weight->n_cols, vector_bytes = element == ROCO_ELEMENT_F32 ? 32 : 16;
    const uint8_t *at = weight->panels + t->panel * weight->panel_bytes + (uint32_t)v * vector_bytes;
    const float *x = t->part->x + (size_t)t->row * n_cols;
    for (uint32_t k = 0; k < n_cols; k++, at += QUARTERS * vector_bytes) {
        __m256 w0 = load_element(element, at), w1 = load_element(element, at + vector_bytes);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            __m256 a = _mm256_set1_ps(x[(size_t)r * n_cols + k]);
            sum[r][v] = _mm256_fmadd_ps(w0, a, sum[r][v]);
            sum[r][v + 1] = _mm256_fmadd_ps(w1, a, sum[r][v + 1]);
        }
    }
}

INLINE void float_tile(roco_element element, const roco_linear_tile *t, int rows)
{
    __m256 sum[MAX_ROWS][QUARTERS];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < QUARTERS; v++)
            sum[r][v] = _mm256_setzero_ps();
    float_half(element, t, rows, 0, sum);
    float_half(element, t, rows, 2, sum);
    put(t, rows, sum);
}

#include "kernels/cpu/linear_tiles.h"

INLINE float largest_lane(__m256 values)
{
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}

/* The place of the first of `largest` among 32 magnitudes. */
INLINE uint32_t place_of(const __m256 size[4], float largest)
{
    uint32_t equals = 0;
    for (int v = 0; v < 4; v++) {
        __m256 equal = _mm256_cmp_ps(size[v], _mm256_set1_ps(largest), _CMP_EQ_OQ);
        equals |= (uint32_t)_mm256_movemask_ps(equal) << 8 * v;
    }
    return (uint32_t)__builtin_ctz(equals);
}

/* Zero in every lane of vector v but the one of `input`. */
INLINE __m256 only(uint32_t input, int v)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes, _mm256_set1_epi32((int32_t)input - 8 * v)));
}

/* The same roundings as the portable text. */
INLINE void quantize_block(const float *x, __m256 size[4], float largest, roco_q8_block *out)
{
    uint32_t input = place_of(size, largest);
    __m256 most = _mm256_setzero_ps();
    for (int v = 0; v < 4; v++)
        most = _mm256_max_ps(most, _mm256_andnot_ps(only(input, v), size[v]));
    float second = largest_lane(most), inverse = roco_q8_inverse(largest, second);
    __m256i q[4];
    int32_t sum[2];
    for (int v = 0; v < 4; v++) {
        __m256 others = _mm256_andnot_ps(only(input, v), _mm256_loadu_ps(x + 8 * v));
        q[v] = _mm256_cvtps_epi32(_mm256_mul_ps(others, _mm256_set1_ps(inverse)));
    }
    for (int half = 0; half < 2; half++) {
        /* Packing works within 128 bits: the permutation puts the quarters back in order. */
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2 * half], q[2 * half + 1]), 0xd8);
        __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
        _mm_storeu_si128((__m128i *)(out->q + 16 * half), _mm_packs_epi16(low, high));
        __m128i twos = _mm_madd_epi16(_mm_add_epi16(low, high), _mm_set1_epi16(1));
        twos = _mm_add_epi32(twos, _mm_shuffle_epi32(twos, 0x4e));
        sum[half] = _mm_cvtsi128_si32(_mm_add_epi32(twos, _mm_shuffle_epi32(twos, 0xb1)));
    }
    int32_t outlier = _mm_cvtss_si32(_mm_set_ss(x[input] * inverse));
    roco_q8_finish(largest, second, input, outlier, sum[0], sum[1], out);
}

static void quantize(const float *x, uint32_t n_cols, roco_q8_block *out)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), infinity = _mm256_set1_ps(INFINITY);
    for (uint32_t b = 0; b < n_cols / ROCO_BLOCK; b++, x += ROCO_BLOCK, out++) {
        __m256 finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1)), most = _mm256_setzero_ps(), size[4];
        for (int v = 0; v < 4; v++) {
            size[v] = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + 8 * v));
            finite = _mm256_and_ps(finite, _mm256_cmp_ps(size[v], infinity, _CMP_LT_OQ));
            most = _mm256_max_ps(most, size[v]);
        }
        bool odd = _mm256_movemask_ps(finite) != 255;
        float largest = largest_lane(most);
        if (odd || largest < ROCO_Q8_SMALLEST)
            *out = (roco_q8_block){.scale = odd ? NAN : 0.0f, .scaled_sum = odd ? NAN : 0.0f};
        else
            quantize_block(x, size, largest, out);
    }
}

#endif
