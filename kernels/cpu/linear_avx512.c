/* Matrix products with AVX-512 and VNNI. Any compute thread; no state.
 *
 * A tile is one panel (two vectors of 16 rows) times 1, 2 or 4 rows of activations. For each block of 32 inputs:
 *
 *     dot[r][v]  = correction for the zero point            int32, 16 lanes
 *     for each group of 4 inputs:
 *         dot[r][v] += panel bytes[v] * broadcast(4 activation bytes of row r)          vpdpbusd
 *     dot[r][v] += the weights of row r's outlier * broadcast(outlier of row r)         vpdpwssd
 *     sum[r][v]  = dot * (weight scale * activation scale) + sum [+ weight min * activation scaled_sum]
 *
 * The sequence of operations for one row is the same in every tile, so its result is too. `element`, `scales` and
 * `rows` are constants in each copy the compiler makes.
 */
#include "kernels/cpu/linear.h"

#if defined(__AVX512F__) && defined(__AVX512VNNI__)
#include <immintrin.h>
#include <math.h>

#define INLINE   static inline __attribute__((always_inline))
#define MAX_ROWS 4

/* One block's scales: [half of the inputs][half of the rows]; the second half of the inputs only when split. */
typedef struct block_scales {
    __m512 scale[2][2], min[2];
} block_scales;

typedef struct super_scales {
    __m512 d[2], m[2];
} super_scales;

INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE __m512 load_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

INLINE void load_super(roco_scales scales, const uint8_t *header, super_scales *out)
{
    for (int v = 0; v < 2; v++) {
        out->d[v] = load_f16(header + 32 * v);
        if (scales == ROCO_SCALES_SUPER_MIN)
            out->m[v] = load_f16(header + 64 + 32 * v);
    }
}

INLINE void load_scales(roco_scales scales, const uint8_t *p, const super_scales *super, block_scales *out)
{
    for (int v = 0; v < 2; v++) {
        if (scales == ROCO_SCALES_ONE || scales == ROCO_SCALES_MIN)
            out->scale[0][v] = load_f16(p + 32 * v);
        else
            out->scale[0][v] = _mm512_mul_ps(super->d[v], load_i8(p + 16 * v));
        if (scales == ROCO_SCALES_MIN)
            out->min[v] = load_f16(p + 64 + 32 * v);
        else if (scales == ROCO_SCALES_SUPER_MIN)
            out->min[v] = _mm512_mul_ps(super->m[v], load_i8(p + 32 + 16 * v));
        else if (scales == ROCO_SCALES_SPLIT)
            out->scale[1][v] = _mm512_mul_ps(super->d[v], load_i8(p + 32 + 16 * v));
    }
}

INLINE __m512i four_inputs(const int8_t *q)
{
    int32_t word;
    __builtin_memcpy(&word, q, sizeof(word));
    return _mm512_set1_epi32(word);
}

/* Adds group g's four inputs, q at the block's input 4g. */
INLINE void add_group(__m512i weights0, __m512i weights1, const roco_q8_block *const x[MAX_ROWS], int input, int rows,
                      __m512i dot[MAX_ROWS][2])
{
    ROCO_UNROLL
    for (int r = 0; r < rows; r++) {
        __m512i a = four_inputs(x[r]->q + input);
        dot[r][0] = _mm512_dpbusd_epi32(dot[r][0], weights0, a);
        dot[r][1] = _mm512_dpbusd_epi32(dot[r][1], weights1, a);
    }
}

INLINE void add_nibbles(const uint8_t *integers, const roco_q8_block *const x[MAX_ROWS], int rows,
                        __m512i dot[MAX_ROWS][2])
{
    const __m512i low = _mm512_set1_epi8(15);
    ROCO_UNROLL
    for (int g = 0; g < 4; g++) {
        __m512i w0 = _mm512_loadu_si512(integers + 128 * g);
        __m512i w1 = _mm512_loadu_si512(integers + 128 * g + 64);
        add_group(_mm512_and_si512(w0, low), _mm512_and_si512(w1, low), x, 4 * g, rows, dot);
        add_group(_mm512_and_si512(_mm512_srli_epi16(w0, 4), low), _mm512_and_si512(_mm512_srli_epi16(w1, 4), low), x,
                  16 + 4 * g, rows, dot);
    }
}

/* Groups first..first+n-1 of a block of bytes. */
INLINE void add_bytes(const uint8_t *integers, const roco_q8_block *const x[MAX_ROWS], int first, int n, int rows,
                      __m512i dot[MAX_ROWS][2])
{
    ROCO_UNROLL
    for (int g = first; g < first + n; g++)
        add_group(_mm512_loadu_si512(integers + 128 * g), _mm512_loadu_si512(integers + 128 * g + 64), x, 4 * g, rows,
                  dot);
}

INLINE __m512i outlier_weights(const uint8_t *words, uint32_t shift, __m512i mask)
{
    return _mm512_and_si512(_mm512_srlv_epi32(_mm512_loadu_si512(words), _mm512_set1_epi32((int32_t)shift)), mask);
}

/* Which inputs they are differs from row to row: each reads weights of its own, in the same way wherever they are. A
 * lane's word is the weight and a zero above it, so the outlier's sign above its 16 bits does not count. */
INLINE void add_outlier(roco_element element, const uint8_t *integers, const roco_q8_block *x, int32_t outlier,
                        __m512i dot[2])
{
    const bool nibbles = element == ROCO_ELEMENT_U4;
    const __m512i mask = _mm512_set1_epi32(nibbles ? 15 : 255), a = _mm512_set1_epi32(outlier);
    const uint32_t shift = nibbles ? x->u4_shift : x->u8_shift;
    const uint8_t *words = integers + (nibbles ? x->u4_offset : x->u8_offset);
    for (int v = 0; v < 2; v++)
        dot[v] = _mm512_dpwssd_epi32(dot[v], outlier_weights(words + 64 * v, shift, mask), a);
}

INLINE void start_dots(int32_t correction, uint32_t zero_shift, __m512i dot[2])
{
    dot[0] = dot[1] = _mm512_set1_epi32(correction * (1 << zero_shift));
}

INLINE void scale_dots(const __m512i dot[2], const __m512 scale[2], float x_scale, __m512 sum[2])
{
    const __m512 xs = _mm512_set1_ps(x_scale);
    for (int v = 0; v < 2; v++)
        sum[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[v]), _mm512_mul_ps(scale[v], xs), sum[v]);
}

INLINE void add_mins(const __m512 min[2], float scaled_sum, __m512 sum[2])
{
    const __m512 xs = _mm512_set1_ps(scaled_sum);
    for (int v = 0; v < 2; v++)
        sum[v] = _mm512_fmadd_ps(min[v], xs, sum[v]);
}

/* A block whose two halves have scales of their own. */
INLINE void add_split_block(const uint8_t *integers, const block_scales *s, uint32_t zero_shift,
                            const roco_q8_block *const x[MAX_ROWS], int rows, __m512 sum[MAX_ROWS][2])
{
    ROCO_UNROLL
    for (int half = 0; half < 2; half++) {
        __m512i dot[MAX_ROWS][2];
        ROCO_UNROLL
        for (int r = 0; r < rows; r++)
            start_dots(half == 0 ? x[r]->minus_sum_low : x[r]->minus_sum - x[r]->minus_sum_low, zero_shift, dot[r]);
        add_bytes(integers, x, 4 * half, 4, rows, dot);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            bool in_half = x[r]->u8_offset / 512 == half;
            add_outlier(ROCO_ELEMENT_U8, integers, x[r], in_half ? x[r]->outlier : 0, dot[r]);
            scale_dots(dot[r], s->scale[half], x[r]->scale, sum[r]);
        }
    }
}

INLINE void add_block(roco_element element, roco_scales scales, const uint8_t *integers, const block_scales *s,
                      uint32_t zero_shift, const roco_q8_block *const x[MAX_ROWS], int rows, __m512 sum[MAX_ROWS][2])
{
    __m512i dot[MAX_ROWS][2];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        start_dots(scales == ROCO_SCALES_ONE ? x[r]->minus_sum : 0, zero_shift, dot[r]);
    if (element == ROCO_ELEMENT_U4)
        add_nibbles(integers, x, rows, dot);
    else
        add_bytes(integers, x, 0, 8, rows, dot);
    ROCO_UNROLL
    for (int r = 0; r < rows; r++) {
        add_outlier(element, integers, x[r], x[r]->outlier, dot[r]);
        scale_dots(dot[r], s->scale[0], x[r]->scale, sum[r]);
        if (scales != ROCO_SCALES_ONE)
            add_mins(s->min, x[r]->scaled_sum, sum[r]);
    }
}

/* Lanes of vector v of this panel that are rows of the matrix. */
INLINE __mmask16 lanes_of(const roco_weight *weight, uint32_t panel, int v)
{
    uint32_t first = panel * ROCO_PANEL_ROWS + 16 * (uint32_t)v;
    if (first >= weight->n_rows)
        return 0;
    return weight->n_rows - first >= 16 ? 0xffff : (__mmask16)((1u << (weight->n_rows - first)) - 1);
}

INLINE void put(const roco_linear_tile *t, int rows, __m512 sum[MAX_ROWS][2])
{
    const roco_weight *weight = t->part->weight;
    float *out = t->part->out + (size_t)t->row * weight->n_rows + (size_t)t->panel * ROCO_PANEL_ROWS;
    ROCO_UNROLL
    for (int v = 0; v < 2; v++) {
        __mmask16 lanes = lanes_of(weight, t->panel, v);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            float *to = out + (size_t)r * weight->n_rows + 16 * v;
            __m512 value = t->part->add ? _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), sum[r][v]) : sum[r][v];
            _mm512_mask_storeu_ps(to, lanes, value);
        }
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
    const bool super = scales == ROCO_SCALES_SUPER_MIN || scales == ROCO_SCALES_SPLIT;
    const uint32_t n_blocks = weight->n_cols / ROCO_BLOCK, zero_shift = weight->zero_shift;
    const uint32_t scale_bytes = roco_scales_bytes(scales), integer_bytes = element == ROCO_ELEMENT_U4 ? 512 : 1024;
    const uint8_t *at = weight->panels + t->panel * weight->panel_bytes, *ahead = t->ahead;
    const roco_q8_block *x[MAX_ROWS];
    __m512 sum[MAX_ROWS][2];
    super_scales header = {0};
    ROCO_UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = t->part->quantized + (size_t)(t->row + (uint32_t)r) * n_blocks;
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    }
    for (uint32_t b = 0; b < n_blocks; b++) {
        ahead = fetch_ahead(ahead, t->ahead_lines);
        if (super && b % ROCO_SUPER_BLOCKS == 0) {
            load_super(scales, at, &header);
            at += weight->header_bytes;
        }
        block_scales s;
        load_scales(scales, at, &header, &s);
        if (scales == ROCO_SCALES_SPLIT)
            add_split_block(at + scale_bytes, &s, zero_shift, x, rows, sum);
        else
            add_block(element, scales, at + scale_bytes, &s, zero_shift, x, rows, sum);
        at += scale_bytes + integer_bytes;
        ROCO_UNROLL
        for (int r = 0; r < rows; r++)
            x[r]++;
    }
    put(t, rows, sum);
}

INLINE __m512 load_element(roco_element element, const uint8_t *p)
{
    if (element == ROCO_ELEMENT_F32)
        return _mm512_loadu_ps(p);
    if (element == ROCO_ELEMENT_F16)
        return load_f16(p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

INLINE void float_tile(roco_element element, const roco_linear_tile *t, int rows)
{
    const roco_weight *weight = t->part->weight;
    const uint32_t n_cols = weight->n_cols, vector_bytes = element == ROCO_ELEMENT_F32 ? 64 : 32;
    const uint8_t *at = weight->panels + t->panel * weight->panel_bytes;
    const float *x = t->part->x + (size_t)t->row * n_cols;
    __m512 sum[MAX_ROWS][2];
    ROCO_UNROLL
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < n_cols; k++, at += 2 * vector_bytes) {
        __m512 w0 = load_element(element, at), w1 = load_element(element, at + vector_bytes);
        ROCO_UNROLL
        for (int r = 0; r < rows; r++) {
            __m512 a = _mm512_set1_ps(x[(size_t)r * n_cols + k]);
            sum[r][0] = _mm512_fmadd_ps(w0, a, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(w1, a, sum[r][1]);
        }
    }
    put(t, rows, sum);
}

#include "kernels/cpu/linear_tiles.h"

/* The block * inverse rounded, 0 at the outlier; sums of 16 in sum[]. */
INLINE void round_block(__m512 low, __m512 high, __mmask32 others, float inverse, int8_t *q, int32_t sum[2])
{
    const __m512 by = _mm512_set1_ps(inverse);
    __m512i q_low = _mm512_cvtps_epi32(_mm512_maskz_mul_ps((__mmask16)others, low, by));
    __m512i q_high = _mm512_cvtps_epi32(_mm512_maskz_mul_ps((__mmask16)(others >> 16), high, by));
    __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(q_high), _mm512_cvtepi32_epi8(q_low));
    _mm256_storeu_si256((__m256i *)q, bytes);
    __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
    sum[0] = _mm256_cvtsi256_si32(fours);
    sum[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(fours, 1));
}

/* The two largest of some magnitudes, lane by lane. Those of floats order like integers, and NaN after infinity after
 * all numbers. */
typedef struct two_largest {
    __m128i first, second;
} two_largest;

INLINE two_largest merge(two_largest a, two_largest b)
{
    __m128i lower = _mm_min_epu32(a.first, b.first);
    return (two_largest){_mm_max_epu32(a.first, b.first), _mm_max_epu32(lower, _mm_max_epu32(a.second, b.second))};
}

/* In every lane. */
INLINE two_largest two_largest_of(__m512i low, __m512i high)
{
    __m512i first = _mm512_max_epu32(low, high), second = _mm512_min_epu32(low, high);
    __m256i f0 = _mm512_castsi512_si256(first), f1 = _mm512_extracti64x4_epi64(first, 1);
    __m256i s0 = _mm512_castsi512_si256(second), s1 = _mm512_extracti64x4_epi64(second, 1);
    __m256i f = _mm256_max_epu32(f0, f1);
    __m256i s = _mm256_max_epu32(_mm256_min_epu32(f0, f1), _mm256_max_epu32(s0, s1));
    two_largest a = {_mm256_castsi256_si128(f), _mm256_castsi256_si128(s)};
    a = merge(a, (two_largest){_mm256_extracti128_si256(f, 1), _mm256_extracti128_si256(s, 1)});
    a = merge(a, (two_largest){_mm_shuffle_epi32(a.first, 0x4e), _mm_shuffle_epi32(a.second, 0x4e)});
    return merge(a, (two_largest){_mm_shuffle_epi32(a.first, 0xb1), _mm_shuffle_epi32(a.second, 0xb1)});
}

/* The same roundings as the portable text. */
static void quantize(const float *x, uint32_t n_cols, roco_q8_block *out)
{
    const __m512i no_sign = _mm512_set1_epi32(INT32_MAX);
    for (uint32_t b = 0; b < n_cols / ROCO_BLOCK; b++, x += ROCO_BLOCK, out++) {
        __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
        __m512i low_size = _mm512_and_si512(_mm512_castps_si512(low), no_sign);
        __m512i high_size = _mm512_and_si512(_mm512_castps_si512(high), no_sign);
        const two_largest two = two_largest_of(low_size, high_size);
        float largest = _mm_cvtss_f32(_mm_castsi128_ps(two.first));
        float second = _mm_cvtss_f32(_mm_castsi128_ps(two.second));
        if (!(largest >= ROCO_Q8_SMALLEST && largest < INFINITY)) {
            bool odd = !(largest < INFINITY);
            *out = (roco_q8_block){.scale = odd ? NAN : 0.0f, .scaled_sum = odd ? NAN : 0.0f};
            continue;
        }
        const __m512i all = _mm512_broadcastd_epi32(two.first);
        __mmask16 low_equal = _mm512_cmpeq_epi32_mask(low_size, all);
        __mmask16 high_equal = _mm512_cmpeq_epi32_mask(high_size, all);
        uint32_t input = (uint32_t)__builtin_ctz(_mm512_kunpackw(high_equal, low_equal));
        float inverse = roco_q8_inverse(largest, second);
        int32_t sum[2];
        round_block(low, high, ~(1u << input), inverse, out->q, sum);
        int32_t outlier = _mm_cvtss_si32(_mm_set_ss(x[input] * inverse));
        roco_q8_finish(largest, second, input, outlier, sum[0], sum[1], out);
    }
}

const roco_linear_variant roco_linear_avx512 = {
    .quantize = quantize, .multiply_integers = multiply_integers, .multiply_floats = multiply_floats};
#endif
