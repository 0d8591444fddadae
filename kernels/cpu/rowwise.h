/* What rowwise.c asks of a variant: the same rows, computed with different instructions.
 *
 * Every variant gives the same bits: they are one text (rowwise_body.h) compiled for several instruction sets.
 */
#ifndef ROCO_KERNELS_CPU_ROWWISE_H
#define ROCO_KERNELS_CPU_ROWWISE_H

#include <stddef.h>
#include <stdint.h>

typedef struct roco_rowwise_variant {
    /* One row of `width` values; x and out may be the same. */
    void (*rms_norm)(const float *x, const float *gain, float eps, uint32_t width, float *out);
    /* gate[i] = silu(gate[i]) * up[i] for n values. */
    void (*swiglu)(float *gate, const float *up, size_t n);
    /* One row of heads; cosines, sines [rope_dim / 2]. */
    void (*rope)(float *x, const float *cosines, const float *sines, uint32_t n_heads, uint32_t head_dim,
                 uint32_t rope_dim);
    void (*rope_halves)(float *x, const float *cosines, const float *sines, uint32_t n_heads, uint32_t head_dim,
                        uint32_t rope_dim);
    /* n values. */
    void (*geglu)(float *gate, const float *up, size_t n);
    void (*softcap)(float *x, float cap, size_t n);
    void (*add)(float *x, const float *y, float factor, size_t n);
    void (*scale)(float *x, float factor, size_t n);
} roco_rowwise_variant;

extern const roco_rowwise_variant roco_rowwise_portable;
extern const roco_rowwise_variant roco_rowwise_avx2;
extern const roco_rowwise_variant roco_rowwise_avx512;

#endif
