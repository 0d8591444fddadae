/* Matrices as the CPU multiplies them, shared by the linear*.c files.
 *
 * A matrix is cut into panels of 32 output rows, one after the other. In a panel the rows are interleaved, so that one
 * vector holds the same inputs of neighbouring rows and no sum runs across a vector.
 *
 * Float panel (F32, F16, BF16), for each input k:
 *
 *     [row 0 .. row 31]                            32 elements
 *
 * Integer panel, for each block of 32 inputs: its scales, then its unsigned integers q in groups of 4 inputs. A weight
 * is scale * (q - zero) or scale * q + min, exactly what the file's block says; nothing is rounded again.
 *
 *     scales                                       see roco_scales
 *     U8: group g = 0..7, inputs 4g .. 4g+3        128 bytes:  [row 0: q q q q] [row 1: q q q q] .. [row 31: q q q q]
 *     U4: group g = 0..3                           128 bytes:  the same; the low nibbles are inputs 4g .. 4g+3,
 *                                                              the high nibbles inputs 16+4g .. 16+4g+3
 *
 * So a 64-byte load is 4 inputs of 16 rows: one operand of the instruction that multiplies bytes and adds four products
 * per lane. Blocks and panels are multiples of 64 bytes. Rows past the last are zero.
 *
 * Activations are quantised per row and block of 32: a = scale * q, q in -127..127, but for the block's outlier, its
 * one value of largest magnitude (the first of equals), whose q is in -32767..32767. Most blocks of a transformer have
 * one value that dwarfs the rest; kept apart, it no longer sets the step of the other 31:
 *
 *     scale = max(second largest |a| / 127, largest |a| / 32767)
 *
 * One block of one row then gives, the sums over all 32,
 *
 *     a.scale * scale * (sum(q_w q_a) - zero * sum(q_a)) + a.scale * sum(q_a) * min
 *
 * where sum(q_w q_a) is a dot product of bytes, in which the outlier counts as 0, plus the outlier's own product. All
 * of it is integer arithmetic that a float then holds exactly: |sum| <= 255 (32767 + 31 * 127) < 2^24.
 *
 * Blocks are added in ascending order in one float per output, whatever the number of rows: this is why a row's result
 * does not depend on its company.
 */
#ifndef ROCO_KERNELS_CPU_LINEAR_H
#define ROCO_KERNELS_CPU_LINEAR_H

#include "kernels/cpu/arena.h"
#include "kernels/cpu/cpu.h"

#define ROCO_PANEL_ROWS   32u
#define ROCO_BLOCK        32u /* inputs under one activation scale */
#define ROCO_SUPER_BLOCKS 8u  /* blocks under one pair of super-scales in the K formats */

typedef enum roco_element {
    ROCO_ELEMENT_F32,
    ROCO_ELEMENT_F16,
    ROCO_ELEMENT_BF16,
    ROCO_ELEMENT_U4,
    ROCO_ELEMENT_U8
} roco_element;

/* What precedes the integers of a block. SUPER kinds also have a header before every 8 blocks. */
typedef enum roco_scales {
    ROCO_SCALES_NONE,
    ROCO_SCALES_ONE,       /* f16 scale[32] */
    ROCO_SCALES_MIN,       /* f16 scale[32], f16 min[32] */
    ROCO_SCALES_SUPER_MIN, /* header f16 d[32], f16 m[32]; block int8 s[32], int8 t[32]: scale = d s, min = m t */
    ROCO_SCALES_SPLIT,     /* header f16 d[32]; block int8 s[32], int8 t[32]: scale = d s for inputs 0..15, then d t */
} roco_scales;

struct roco_weight {
    roco_element element;
    roco_scales scales;
    uint32_t n_rows, n_cols, n_panels;
    uint32_t zero_shift;              /* zero = 1 << zero_shift; ONE and SPLIT only */
    size_t header_bytes, block_bytes; /* integer panels; a block's scales included */
    size_t panel_bytes;
    uint8_t *panels; /* 64-byte aligned, in the chunk */
    struct roco_arena_chunk *chunk;
};

/* One block of one row of activations. The outlier's weight in a row of a panel is the 4-byte word of that row at
 * `offset` in the block's integers, shifted right by `shift` and cut to the element's width. A cache line. */
typedef struct roco_q8_block {
    float scale;
    float scaled_sum;      /* scale * sum(q) */
    int32_t minus_sum;     /* -sum(q), shifted left by zero_shift the correction for the zero point */
    int32_t minus_sum_low; /* the same of the first 16 */
    int32_t outlier;       /* its q */
    uint32_t u4_shift, u8_shift;
    uint16_t u4_offset, u8_offset;
    int8_t q[ROCO_BLOCK]; /* 0 at the outlier */
} roco_q8_block;

/* Panels first..last-1 of a matrix times n rows: out[i * n_rows + row] = or +=. */
typedef struct roco_linear_part {
    const roco_weight *weight;
    uint32_t first_panel, last_panel;
    uint32_t n;
    const float *x;                 /* [n, n_cols]; float panels */
    const roco_q8_block *quantized; /* [n, n_cols / 32]; integer panels */
    float *out;
    bool add;
} roco_linear_part;

/* What a SIMD variant works on at a time: one panel times the few rows whose sums fit in registers. */
typedef struct roco_linear_tile {
    const roco_linear_part *part;
    uint32_t panel, row;  /* the first row of activations */
    const uint8_t *ahead; /* this tile's share of the next panel, to fetch while working */
    uint32_t ahead_lines; /* cache lines of it per block of inputs */
} roco_linear_tile;

typedef struct roco_linear_variant {
    /* One row of n_cols (a multiple of 32) values. A block with a NaN or an infinity gets scale NaN, which makes the
     * row's outputs NaN and touches no other row. */
    void (*quantize)(const float *x, uint32_t n_cols, roco_q8_block *out);
    void (*multiply_integers)(const roco_linear_part *part);
    void (*multiply_floats)(const roco_linear_part *part);
} roco_linear_variant;

extern const roco_linear_variant roco_linear_portable;
extern const roco_linear_variant roco_linear_avx2;
extern const roco_linear_variant roco_linear_avxvnni;
extern const roco_linear_variant roco_linear_avx512;

/* Largest magnitude under which a block counts as zero: 32767 / it would overflow. */
#define ROCO_Q8_SMALLEST 1e-34f
#define ROCO_Q8_OUTLIER  32767.0f

/* Before a loop whose count is a constant once inlined: its arrays of vectors then are registers. */
#if defined(__clang__)
#define ROCO_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ROCO_UNROLL _Pragma("GCC unroll 8")
#endif

static inline bool roco_element_is_integer(roco_element element)
{
    return element == ROCO_ELEMENT_U4 || element == ROCO_ELEMENT_U8;
}

static inline uint32_t roco_scales_bytes(roco_scales scales)
{
    return scales == ROCO_SCALES_NONE ? 0 : scales == ROCO_SCALES_MIN ? 128 : 64;
}

/* What one activation is multiplied by before it is rounded, of a block of finite values with `largest` at least
 * ROCO_Q8_SMALLEST. With a second of 0 or nearly the left quotient is infinite. */
static inline float roco_q8_inverse(float largest, float second)
{
    float inverse = 127.0f / second, least = ROCO_Q8_OUTLIER / largest;
    return inverse < least ? inverse : least;
}

/* Fills in everything but q[]. `input` is the outlier's, `sum_low` and `sum_high` are those of q[0..15] and q[16..31].
 */
static inline void roco_q8_finish(float largest, float second, uint32_t input, int32_t outlier, int32_t sum_low,
                                  int32_t sum_high, roco_q8_block *out)
{
    float scale = second * (1 / 127.0f), least = largest * (1 / ROCO_Q8_OUTLIER);
    int32_t sum = sum_low + sum_high + outlier;
    out->scale = scale > least ? scale : least;
    out->scaled_sum = out->scale * (float)sum;
    out->minus_sum = -sum;
    out->minus_sum_low = -(input < 16 ? sum_low + outlier : sum_low);
    out->outlier = outlier;
    out->u8_shift = input % 4 * 8;
    out->u8_offset = (uint16_t)(input / 4 * 128);
    out->u4_shift = out->u8_shift + input / 16 * 4;
    out->u4_offset = (uint16_t)(out->u8_offset % 512);
}

/* Block b of an integer panel: its scales, then its integers. */
static inline const uint8_t *roco_panel_block(const roco_weight *weight, const uint8_t *panel, uint32_t b)
{
    return panel + (b / ROCO_SUPER_BLOCKS + 1) * weight->header_bytes + b * weight->block_bytes;
}

/* The header that block b is under. */
static inline const uint8_t *roco_panel_header(const roco_weight *weight, const uint8_t *panel, uint32_t b)
{
    return panel + b / ROCO_SUPER_BLOCKS * (weight->header_bytes + ROCO_SUPER_BLOCKS * weight->block_bytes);
}

/* --- linear_pack.c --- */
/* Fills everything of *out but `panels`; false when the type has no panel form. n_rows, n_cols >= 1, n_cols a multiple
 * of the type's block. */
bool roco_panel_layout(const roco_tensor_view *view, roco_precision precision, roco_weight *out);
/* Writes one panel. Any thread. */
void roco_panel_pack(const roco_tensor_view *view, const roco_weight *weight, uint32_t panel);
/* One row, dequantised exactly. */
void roco_panel_unpack_row(const roco_weight *weight, uint32_t row, float *out);

#endif
