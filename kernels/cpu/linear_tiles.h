/* From tiles to parts, the same in every SIMD variant: which copy of a tile a matrix needs, and how rows are cut into
 * tiles of 4, 2 and 1.
 *
 * Included once by linear_256.h and linear_avx512.c, after their integer_tile and float_tile.
 */
#ifndef ROCO_KERNELS_CPU_LINEAR_TILES_H
#define ROCO_KERNELS_CPU_LINEAR_TILES_H

#include "kernels/cpu/linear.h"

/* One tile of each height. */
typedef void tile_function(const roco_linear_tile *t);
typedef struct tile_functions {
    tile_function *by_4, *by_2, *by_1;
} tile_functions;

#define INTEGER_TILES(name, element, scales)                                                                           \
    static void name##_4(const roco_linear_tile *t)                                                                    \
    {                                                                                                                  \
        integer_tile(element, scales, t, 4);                                                                           \
    }                                                                                                                  \
    static void name##_2(const roco_linear_tile *t)                                                                    \
    {                                                                                                                  \
        integer_tile(element, scales, t, 2);                                                                           \
    }                                                                                                                  \
    static void name##_1(const roco_linear_tile *t)                                                                    \
    {                                                                                                                  \
        integer_tile(element, scales, t, 1);                                                                           \
    }                                                                                                                  \
    static const tile_functions name = {name##_4, name##_2, name##_1};

#define FLOAT_TILES(name, element)                                                                                     \
    static void name##_4(const roco_linear_tile *t)                                                                    \
    {                                                                                                                  \
        float_tile(element, t, 4);                                                                                     \
    }                                                                                                                  \
    static void name##_2(const roco_linear_tile *t)                                                                    \
    {                                                                                                                  \
        float_tile(element, t, 2);                                                                                     \
    }                                                                                                                  \
    static void name##_1(const roco_linear_tile *t)                                                                    \
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

#define MOST_ROWS   4u /* of a tile */
#define AHEAD_BYTES 8192u

/* What a tile fetches while it works, into the second-level cache. When it is the panel's only one: its own stream,
 * some way ahead. Else only the panel's first tile would wait for memory: each fetches its share of the next panel. */
static void plan_ahead(const roco_linear_part *part, roco_linear_tile *tile)
{
    const roco_weight *weight = part->weight;
    if (!roco_element_is_integer(weight->element))
        return;
    uint32_t n_tiles = (part->n + MOST_ROWS - 1) / MOST_ROWS;
    tile->ahead = weight->panels + tile->panel * weight->panel_bytes;
    tile->ahead += n_tiles == 1 ? AHEAD_BYTES : weight->panel_bytes;
    tile->ahead_lines = ((uint32_t)weight->block_bytes / 64 + n_tiles - 1) / n_tiles;
}

/* Shares are whole lines per block: with many tiles the first few fetch it all. */
static void move_ahead(roco_linear_tile *tile)
{
    const roco_weight *weight = tile->part->weight;
    if (tile->ahead_lines == 0)
        return;
    tile->ahead += (size_t)tile->ahead_lines * 64 * (weight->n_cols / ROCO_BLOCK);
    if (tile->ahead >= weight->panels + (tile->panel + 2) * weight->panel_bytes)
        tile->ahead_lines = 0;
}

static void multiply(const roco_linear_part *part, const tile_functions *functions)
{
    for (uint32_t panel = part->first_panel; panel < part->last_panel; panel++) {
        roco_linear_tile t = {.part = part, .panel = panel};
        plan_ahead(part, &t);
        for (; t.row + 4 <= part->n; t.row += 4) {
            functions->by_4(&t);
            move_ahead(&t);
        }
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
