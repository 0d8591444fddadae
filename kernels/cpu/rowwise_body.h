/* The row-wise operations on vectors of 16 floats, which the compiler maps to what the including file may use.
 *
 * Included once by each rowwise_<isa>.c. Sums run over 16 lanes in every variant, so all give the same bits. Tails go
 * through a padded vector, so a value's result does not depend on its place either.
 */
#ifndef ROCO_KERNELS_CPU_ROWWISE_BODY_H
#define ROCO_KERNELS_CPU_ROWWISE_BODY_H

#include "kernels/cpu/rowwise.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES  16u

/* Helpers take these by address: passing one by value would tie the call to registers not every machine has. */
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));

/* The 16 floats at p, which has a float's alignment. */
typedef float floats_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define AT(p)       (*(floats_anywhere *)(p))
#define AT_CONST(p) (*(const floats_anywhere *)(p))

/* Lanes of a, then of b, by number. GCC knows clang's name for it from version 12 on only. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (words){__VA_ARGS__})
#endif

/* e^z to 2 units in the last place for z in [-87, 88], clamped to that range outside; NaN stays NaN. z = n ln 2 + r
 * with |r| <= ln 2 / 2, e^r by its Taylor series to r^7, 2^n by adding n to the exponent. Adding 1.5 * 2^23 rounds to
 * an integer. */
INLINE void exponential(floats *x)
{
    const floats zero = {0}, low = zero - 87.0f, high = zero + 88.0f;
    const floats round = zero + 12582912.0f;
    words below = (words)(*x < low), above = (words)(*x > high);
    floats z = (floats)((below & (words)low) | (above & (words)high) | (~(below | above) & (words)*x));
    floats shifted = z * 1.44269504f + round;
    words n = (words)shifted - (words)round;
    floats whole = shifted - round;
    /* ln 2 in two parts: the first has few enough bits that whole * first is exact. */
    floats r = z - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    floats p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    *x = (floats)((words)p + (n << 23));
}

INLINE void swiglu_sixteen(float *gate, const float *up)
{
    floats e = -AT_CONST(gate);
    exponential(&e);
    AT(gate) = AT_CONST(gate) / (1.0f + e) * AT_CONST(up);
}

/* x * (1 + tanh(u)) / 2 = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
INLINE void geglu_sixteen(float *gate, const float *up)
{
    floats x = AT_CONST(gate);
    floats e = x * (x * x * 0.044715f + 1.0f) * -1.59576912f;
    exponential(&e);
    AT(gate) = x / (1.0f + e) * AT_CONST(up);
}

/* `sixteen` over n values of x, in place, beside y. */
typedef void sixteen_of_two(float *x, const float *y);
INLINE void over_two(sixteen_of_two *sixteen, float *x, const float *y, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sixteen(x + i, y + i);
    if (i == n)
        return;
    float padded[2][LANES] = {{0}};
    memcpy(padded[0], x + i, (n - i) * sizeof(float));
    memcpy(padded[1], y + i, (n - i) * sizeof(float));
    sixteen(padded[0], padded[1]);
    memcpy(x + i, padded[0], (n - i) * sizeof(float));
}

static void swiglu(float *gate, const float *up, size_t n)
{
    over_two(swiglu_sixteen, gate, up, n);
}

static void geglu(float *gate, const float *up, size_t n)
{
    over_two(geglu_sixteen, gate, up, n);
}

/* tanh(z) = 1 - 2 / (1 + e^(2z)) */
INLINE void softcap_sixteen(float *x, float cap)
{
    floats e = AT_CONST(x) * (2.0f / cap);
    exponential(&e);
    AT(x) = (1.0f - 2.0f / (1.0f + e)) * cap;
}

static void softcap(float *x, float cap, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        softcap_sixteen(x + i, cap);
    if (i == n)
        return;
    float padded[LANES] = {0};
    memcpy(padded, x + i, (n - i) * sizeof(float));
    softcap_sixteen(padded, cap);
    memcpy(x + i, padded, (n - i) * sizeof(float));
}

static void add(float *x, const float *y, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += factor * y[i];
}

static void scale(float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

INLINE float sum_of_lanes(const floats *v)
{
    float lanes[LANES];
    memcpy(lanes, v, sizeof(lanes));
    for (uint32_t half = LANES / 2; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

static void rms_norm(const float *x, const float *gain, float eps, uint32_t width, float *out)
{
    floats squares = {0};
    uint32_t i = 0;
    for (; i + LANES <= width; i += LANES)
        squares += AT_CONST(x + i) * AT_CONST(x + i);
    float padded[LANES] = {0};
    memcpy(padded, x + i, (width - i) * sizeof(float));
    squares += AT_CONST(padded) * AT_CONST(padded);

    float scale = 1.0f / sqrtf(sum_of_lanes(&squares) / (float)width + eps);
    for (i = 0; i + LANES <= width; i += LANES)
        AT(out + i) = AT_CONST(x + i) * scale * AT_CONST(gain + i);
    for (; i < width; i++)
        out[i] = x[i] * scale * gain[i];
}

/* (a, b) becomes (a cos - b sin, b cos + a sin), eight pairs at a time. */
INLINE void rotate_eight(float *x, const float *cosines, const float *sines)
{
    floats c = {0}, s = {0};
    memcpy(&c, cosines, LANES / 2 * sizeof(float));
    memcpy(&s, sines, LANES / 2 * sizeof(float));
    floats minus = -s;
    floats cc = SHUFFLE(c, c, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    floats ss = SHUFFLE(minus, s, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    floats v = AT_CONST(x);
    floats swapped = SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    AT(x) = v * cc + swapped * ss;
}

static void rope(float *x, const float *cosines, const float *sines, uint32_t n_heads, uint32_t head_dim,
                 uint32_t rope_dim)
{
    uint32_t n_pairs = rope_dim / 2;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        uint32_t i = 0;
        for (; i + 8 <= n_pairs; i += 8)
            rotate_eight(x + (size_t)2 * i, cosines + i, sines + i);
        for (; i < n_pairs; i++) {
            float a = x[2 * i], b = x[2 * i + 1];
            x[2 * i] = a * cosines[i] - b * sines[i];
            x[2 * i + 1] = b * cosines[i] + a * sines[i];
        }
    }
}

/* The same where a pair's second is half of the rotated components further on. */
static void rope_halves(float *x, const float *cosines, const float *sines, uint32_t n_heads, uint32_t head_dim,
                        uint32_t rope_dim)
{
    uint32_t n_pairs = rope_dim / 2;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        uint32_t i = 0;
        for (; i + LANES <= n_pairs; i += LANES) {
            floats a = AT_CONST(x + i), b = AT_CONST(x + n_pairs + i);
            floats c = AT_CONST(cosines + i), s = AT_CONST(sines + i);
            AT(x + i) = a * c - b * s;
            AT(x + n_pairs + i) = b * c + a * s;
        }
        for (; i < n_pairs; i++) {
            float a = x[i], b = x[n_pairs + i];
            x[i] = a * cosines[i] - b * sines[i];
            x[n_pairs + i] = b * cosines[i] + a * sines[i];
        }
    }
}

#define ROCO_ROWWISE_VARIANT                                                                                           \
    {                                                                                                                  \
        .rms_norm = rms_norm, .swiglu = swiglu, .rope = rope, .rope_halves = rope_halves, .geglu = geglu,              \
        .softcap = softcap, .add = add, .scale = scale,                                                                \
    }

#endif
