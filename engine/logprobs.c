/* Two passes over the row, in blocks of a fixed size that compilers turn into vector code without fast-math: the best
 * tokens, then the sum. */
#include "engine/logprobs.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 16, BLOCKS_PER_SUM = 64 };

/* out = exp(logits - highest), relative error below 1e-6; a distance over 87 counts as 87, where it no longer matters.
 * Cody and Waite's reduction by ln 2 in two parts, Taylor's series to the sixth power. Comparing bits as integers,
 * which have the order of the positive floats, leaves no branch. */
static void exp_lanes(const float *logits, float highest, float *out)
{
    const int32_t far = 0x42ae0000; /* 87.0f */
    int32_t bits[LANES];
    float x[LANES], scale[LANES];
    for (int i = 0; i < LANES; i++)
        x[i] = highest - logits[i];
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < LANES; i++)
        bits[i] = bits[i] > far ? far : bits[i];
    memcpy(x, bits, sizeof bits);
    for (int i = 0; i < LANES; i++) {
        const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves no place for a fraction */
        const float n = (x[i] * -1.44269504f + round) - round;
        const float r = (-x[i] - n * 0.693359375f) + n * 2.12194440e-4f;
        out[i] = 1 + r * (1 + r * (1 / 2.0f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r * (1 / 720.0f))))));
        bits[i] = ((int32_t)n + 127) << 23;
    }
    memcpy(scale, bits, sizeof scale);
    for (int i = 0; i < LANES; i++)
        out[i] *= scale[i];
}

static double sum_exp(const float *logits, uint32_t n_blocks, float highest)
{
    double total = 0;
    for (uint32_t block = 0; block < n_blocks;) {
        float sum[LANES] = {0}, e[LANES];
        const uint32_t end = n_blocks - block < BLOCKS_PER_SUM ? n_blocks : block + BLOCKS_PER_SUM;
        for (; block < end; block++) {
            exp_lanes(logits + (size_t)block * LANES, highest, e);
            for (int i = 0; i < LANES; i++)
                sum[i] += e[i];
        }
        for (int i = 0; i < LANES; i++)
            total += sum[i];
    }
    return total;
}

/* Keeps top[n] in order. Among equals the first to come, which has the lower id, stays in front. */
static void insert(roco_logprob *top, uint32_t n, int32_t token, float logit)
{
    uint32_t at = n - 1;
    for (; at > 0 && top[at - 1].value < logit; at--)
        top[at] = top[at - 1];
    top[at] = (roco_logprob){token, logit};
}

/* Looks at one block; false when it holds a NaN. Few blocks hold one of the best, so they are asked as a whole. */
static bool look(const float *logits, uint32_t first, roco_logprob *top, uint32_t n)
{
    const float low = top[n - 1].value;
    int above = 0, broken = 0;
    for (int i = 0; i < LANES; i++) {
        above |= logits[i] > low;
        broken |= logits[i] != logits[i];
    }
    for (uint32_t i = 0; above && i < LANES; i++)
        if (logits[i] > top[n - 1].value)
            insert(top, n, (int32_t)(first + i), logits[i]);
    return !broken;
}

double roco_logprobs_top(const float *logits, uint32_t n_vocab, uint32_t n_top, roco_logprob *out)
{
    roco_logprob top[ROCO_MAX_TOP_LOGPROBS];
    const uint32_t n = n_top ? n_top : 1, n_blocks = n_vocab / LANES, rest = n_vocab % LANES;
    for (uint32_t i = 0; i < n; i++)
        top[i] = (roco_logprob){-1, -INFINITY};
    float tail[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        tail[i] = i < rest ? logits[n_vocab - rest + i] : -INFINITY;
    bool sound = true;
    for (uint32_t block = 0; block < n_blocks; block++)
        sound &= look(logits + (size_t)block * LANES, block * LANES, top, n);
    sound &= look(tail, n_vocab - rest, top, n);
    const float highest = top[0].value;
    if (!sound || !isfinite(highest))
        return NAN;
    const double sum = sum_exp(logits, n_blocks, highest) + (rest ? sum_exp(tail, 1, highest) : 0);
    const double normalizer = highest + log(sum);
    for (uint32_t i = 0; i < n_top; i++)
        out[i] = (roco_logprob){top[i].token, (float)(top[i].value - normalizer)};
    return normalizer;
}
