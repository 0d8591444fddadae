/* A matrix on the device, and what multiplies it.
 *
 * F32, F16 and BF16 stay as the file has them. Block types stay quantised, all in one form: a row is cut into units of
 * 32 values, and what a unit has lies in planes, one value kind each, so that a thread reads a unit in aligned words.
 * Nothing is rounded again: a value is exactly scale * (q - zero) + base.
 *
 *     quants   nibbles: 16 bytes, byte j holds q[j] low and q[16 + j] high; or 32 bytes of signed q
 *     high     the bits above a nibble: one u32 a unit, bit j of q[j]; or two u32, two bits each, q[0..15] and
 * q[16..31] scales   see roco_scale_form supers   of 8 units each
 */
#ifndef ROCO_KERNELS_CUDA_LINEAR_H
#define ROCO_KERNELS_CUDA_LINEAR_H

#include "kernels/tensor_type.h"

#define ROCO_UNIT        32u
#define ROCO_SUPER_UNITS 8u

typedef enum roco_quant_form {
    ROCO_QUANT_NIBBLES,
    ROCO_QUANT_FIVE_BITS,
    ROCO_QUANT_SIX_BITS,
    ROCO_QUANT_TABLE, /* nibbles that stand for roco_iq4_values */
    ROCO_QUANT_BYTES,
} roco_quant_form;

#define ROCO_N_QUANT_FORMS 5u

typedef enum roco_scale_form {
    ROCO_SCALE_ONE,       /* f16 scale */
    ROCO_SCALE_BASE,      /* f16 scale, f16 base */
    ROCO_SCALE_SUPER_MIN, /* u8 s, u8 t; super f16 d, f16 m: scale = d s, base = -m t */
    ROCO_SCALE_SPLIT,     /* i8 s, i8 t; super f16 d: scale = d s for q[0..15], d t for q[16..31] */
} roco_scale_form;

/* Passed to kernels by value. Planes are in device memory, rows one after the other. */
typedef struct roco_planes {
    roco_quant_form quant;
    roco_scale_form scale;
    int32_t zero;
    uint32_t n_rows, n_units; /* units a row */
    const void *quants, *high, *scales, *supers;
} roco_planes;

#endif
