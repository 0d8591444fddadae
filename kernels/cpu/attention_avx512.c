/* Attention's inner loops for AVX-512. Any compute thread; no state. */
#include "kernels/cpu/attention.h"

#ifdef __AVX512F__
#include <immintrin.h>
#include <string.h>

#define INLINE     static inline __attribute__((always_inline))
#define WIDTH      16u
#define SCORE_ROWS 12u /* 24 sums and 2 keys in 32 registers */
#define WEIGH_VECS 4u

typedef __m512 vec;

INLINE vec zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vec broadcast(float x)
{
    return _mm512_set1_ps(x);
}

INLINE vec load(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE vec load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE vec broadcast_f16(uint16_t x)
{
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)x));
}

/* WIDTH int8 as numbers. */
INLINE vec load_codes(const unsigned char *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* The 4 bits from `shift` on of WIDTH bytes as numbers. */
INLINE vec load_nibbles(const unsigned char *p, uint32_t shift)
{
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    __m512i codes = _mm512_and_si512(_mm512_srl_epi32(bytes, _mm_cvtsi32_si128((int)shift)), _mm512_set1_epi32(15));
    return _mm512_cvtepi32_ps(codes);
}

/* To the nearest integers, a byte each. */
INLINE void store_codes(uint8_t *p, vec v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

INLINE void store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

INLINE void store_f16(uint16_t *p, vec v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vec add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

INLINE vec subtract(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vec multiply(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vec fused(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* Both give b when either is NaN. */
INLINE vec greater(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

INLINE vec lesser(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

INLINE vec nearest(vec a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vec times_power_of_two(vec a, vec n)
{
    return _mm512_scalef_ps(a, n);
}

/* 0 where x < limit, else a. */
INLINE vec zero_below(vec x, float limit, vec a)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), a);
}

#include "kernels/cpu/attention_body.h"

const roco_attention_kernels roco_attention_avx512 = ROCO_ATTENTION_KERNELS;
#endif
