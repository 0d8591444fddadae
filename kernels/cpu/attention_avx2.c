/* Attention's inner loops for AVX2, FMA and F16C. Any compute thread; no state. */
#include "kernels/cpu/attention.h"

#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#define INLINE     static inline __attribute__((always_inline))
#define WIDTH      8u
#define SCORE_ROWS 6u /* 12 sums, 2 keys and a query in 16 registers */
#define WEIGH_VECS 2u

typedef __m256 vec;

INLINE vec zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vec broadcast(float x)
{
    return _mm256_set1_ps(x);
}

INLINE vec load(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE vec load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

INLINE vec broadcast_f16(uint16_t x)
{
    return _mm256_cvtph_ps(_mm_set1_epi16((short)x));
}

/* WIDTH int8 as numbers. */
INLINE vec load_codes(const unsigned char *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

/* The 4 bits from `shift` on of WIDTH bytes as numbers. */
INLINE vec load_nibbles(const unsigned char *p, uint32_t shift)
{
    __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    __m256i codes = _mm256_and_si256(_mm256_srl_epi32(bytes, _mm_cvtsi32_si128((int)shift)), _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(codes);
}

/* To the nearest integers, a byte each; they are -128..127. */
INLINE void store_codes(uint8_t *p, vec v)
{
    __m256i whole = _mm256_cvtps_epi32(v);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
}

INLINE void store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

INLINE void store_f16(uint16_t *p, vec v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vec add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

INLINE vec subtract(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vec multiply(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vec fused(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* Both give b when either is NaN. */
INLINE vec greater(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

INLINE vec lesser(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

INLINE vec nearest(vec a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vec times_power_of_two(vec a, vec n)
{
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
}

/* 0 where x < limit, else a. */
INLINE vec zero_below(vec x, float limit, vec a)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_LT_OQ), a);
}

#include "kernels/cpu/attention_body.h"

const roco_attention_kernels roco_attention_avx2 = ROCO_ATTENTION_KERNELS;
#endif
