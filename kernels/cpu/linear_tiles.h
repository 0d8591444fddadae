/* From tiles to parts, the same in every SIMD variant: which copy of a tile a matrix needs, and how rows are cut into
 * tiles of 4, 2 and 1.
 *
 * Included once by linear_avx2.c and linear_avx512.c, after their `tile`, integer_tile and float_tile.
 */
#ifndef ROCO_KERNELS_CPU_LINEAR_TILES_H
#define ROCO_KERNELS_CPU_LINEAR_TILES_H

#include "kernels/cpu/linear.h"

/* One tile of each height. */
typedef void tile_function(const tile *t);
typedef struct tile_functions {
    tile_function *by_4, *by_2, *by_1;
} tile_functions;

#define INTEGER_TILES(name, element, scales)                                                                           \
    static void name##_4(const tile *t)                                                                                \
    {                                                                                                                  \
        integer_tile(element, scales, t, 4);                                                                           \
    }                                                                                                                  \
    static void name##_2(const tile *t)                                                                                \
    {                                                                                                                  \
        integer_tile(element, scales, t, 2);                                                                           \
    }                                                                                                                  \
    static void name##_1(const tile *t)                                                                                \
    {                                                                                                                  \
        integer_tile(element, scales, t, 1);                                                                           \
    }                                                                                                                  \
    static const tile_functions name = {name##_4, name##_2, name##_1};

#define FLOAT_TILES(name, element)                                                                                     \
    static void name##_4(const tile *t)                                                                                \
    {                                                                                                                  \
        float_tile(element, t, 4);                                                                                     \
    }                                                                                                                  \
    static void name##_2(const tile *t)                                                                                \
    {                                                                                                                  \
        float_tile(element, t, 2);                                                                                     \
    }                                                                                                                  \
    static void name##_1(const tile *t)                                                                                \
    {                                                                                                                  \
        float_tile(element, t, 1);                                                                                     \
    }                                                                                                                  \
    static const tile_functions name = {name##_4, name##_2, name##_1};

INTEGER_TILES(u4_one, ROCO_ELEMENT_U4, ROCO_SCALES_ONE)
INTEGER_TILES(u4_min, ROCO_ELEMENT_U4, ROCO_SCALES_MIN)
INTEGER_TILES(u4_super, ROCO_ELEMENT_U4, ROCO_SCALES_SUPER_MIN)
INTEGER_TILES(u8_one, ROCO_ELEMENT_U8, ROCO_SCALES_ONE)
INTEGER_TILES(u8_min, ROCO_ELEMENT_U8, ROCO_SCALES_MIN)
INTEGER_TILES(u8_super, ROCO_ELEMENT_U8, ROCO_SCALES_SUPER_MIN)
INTEGER_TILES(u8_split, ROCO_ELEMENT_U8, ROCO_SCALES_SPLIT)
FLOAT_TILES(f32, ROCO_ELEMENT_F32)
FLOAT_TILES(f16, ROCO_ELEMENT_F16)
FLOAT_TILES(bf16, ROCO_ELEMENT_BF16)

static void multiply(const roco_linear_part *part, const tile_functions *functions)
{
    for (uint32_t panel = part->first_panel; panel < part->last_panel; panel++) {
        tile t = {.part = part, .panel = panel};
        for (; t.row + 4 <= part->n; t.row += 4)
            functions->by_4(&t);
        for (; t.row + 2 <= part->n; t.row += 2)
            functions->by_2(&t);
        for (; t.row < part->n; t.row++)
            functions->by_1(&t);
    }
}

static const tile_functions *integer_tiles_of(const roco_weight *weight)
{
    bool nibbles = weight->element == ROCO_ELEMENT_U4;
    switch (weight->scales) {
    case ROCO_SCALES_ONE: return nibbles ? &u4_one : &u8_one;
    case ROCO_SCALES_MIN: return nibbles ? &u4_min : &u8_min;
    case ROCO_SCALES_SUPER_MIN: return nibbles ? &u4_super : &u8_super;
    default: return &u8_split;
    }
}

static void multiply_integers(const roco_linear_part *part)
{
    multiply(part, integer_tiles_of(part->weight));
}

static void multiply_floats(const roco_linear_part *part)
{
    roco_element element = part->weight->element;
    multiply(part, element == ROCO_ELEMENT_F32 ? &f32 : element == ROCO_ELEMENT_F16 ? &f16 : &bf16);
}

#endif
