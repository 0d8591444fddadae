/* Where a slot lives: the pool's address arithmetic, shared by C and CUDA.
 *
 * The pool is one array of pages of equal bytes. A page belongs to one (layer, KV head) of one sequence and holds
 * `slots` tokens; how many follows from the head's KV type, which need not be the pool's: 32 at f16 and f32, at q8 and
 * q4 as many as fit, in eights (64 components: 56 and 88). In this order, each array at a multiple of 64 bytes:
 *
 *     K    [key_dim][slots]      transposed: one vector load takes the same component of neighbouring slots
 *     V    [slots][value_dim]
 *     pos  [slots]               int32, the token's true position
 *     S    [slots]               float, sum over queries of p
 *     S2   [slots]               float, sum over queries of p^2
 *
 * At q8 and q4, K and V are codes, and right behind the codes of each stand what they mean: every ROCO_KV_BLOCK
 * neighbouring components of one token share a scale, so that a slot can be overwritten alone. A component is
 *
 *     q8   code * scale          code int8, -127..127
 *     q4   code * scale + least  code 0..15
 *
 *     K codes  q8 [key_dim][slots], q4 [key_dim / 2, rounded up][slots]: components 2i in the low, 2i + 1 in the high
 * bits K scales [key_blocks][slots] f16, at q4 then as many leasts V codes  q8 [slots][value_dim], q4
 * [slots][value_blocks][16]: component i of a block in the low, i + 16 in the high bits of byte i V scales
 * [slots][value_blocks] f16, at q4 then as many leasts
 *
 * Vector code may read up to a vector past an array's end; that is inside the page, or the page's own unused end.
 */
#ifndef ROCO_KERNELS_KV_LAYOUT_H
#define ROCO_KERNELS_KV_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

typedef enum roco_kv_type { ROCO_KV_F16, ROCO_KV_F32, ROCO_KV_Q8, ROCO_KV_Q4 } roco_kv_type;

#define ROCO_N_KV_TYPES 4u
#define ROCO_PAGE_SLOTS 32u /* P at 16- and 32-bit K and V */
#define ROCO_KV_BLOCK   32u /* components that share a scale */
#define ROCO_NO_SLOT    0xffffffffu

/* Of the slot that stands for evicted tokens: before all others. */
#define ROCO_COMPENSATION_POSITION (-1)

typedef struct roco_kv_layout {
    roco_kv_type type;
    uint32_t key_dim, value_dim;                                       /* components of one head's K and V */
    uint32_t slots;                                                    /* per page */
    uint32_t value_offset, position_offset, sum_offset, sum_sq_offset; /* bytes from the page's start; K is at 0 */
    uint32_t page_bytes;
    uint32_t key_scale_offset, value_scale_offset; /* q8 and q4 */
} roco_kv_layout;

/* Of an unquantised type. */
static inline uint32_t roco_kv_type_bytes(roco_kv_type type)
{
    return type == ROCO_KV_F16 ? 2u : 4u;
}

static inline int roco_kv_type_is_quantized(roco_kv_type type)
{
    return type == ROCO_KV_Q8 || type == ROCO_KV_Q4;
}

static inline uint32_t roco_round_up_64(uint32_t n)
{
    return (n + 63u) & ~63u;
}

/* Blocks that `dim` components make. */
static inline uint32_t roco_kv_blocks(uint32_t dim)
{
    return (dim + ROCO_KV_BLOCK - 1u) / ROCO_KV_BLOCK;
}

/* Bytes of one token's V, without scales. */
static inline uint32_t roco_kv_value_bytes(const roco_kv_layout *layout)
{
    return layout->type == ROCO_KV_Q8   ? layout->value_dim
           : layout->type == ROCO_KV_Q4 ? roco_kv_blocks(layout->value_dim) * (ROCO_KV_BLOCK / 2u)
                                        : layout->value_dim * roco_kv_type_bytes(layout->type);
}

/* The arrays' places for a number of slots; page_bytes is what they take. */
static inline roco_kv_layout roco_kv_layout_with(roco_kv_type type, uint32_t key_dim, uint32_t value_dim,
                                                 uint32_t slots)
{
    roco_kv_layout l = {.type = type, .key_dim = key_dim, .value_dim = value_dim, .slots = slots};
    const uint32_t numbers = type == ROCO_KV_Q8   ? 2u
                             : type == ROCO_KV_Q4 ? 4u
                                                  : 0u; /* bytes of a block's scale, least */
    const uint32_t lines = type == ROCO_KV_Q4 ? (key_dim + 1u) / 2u : key_dim;
    l.key_scale_offset =
        roco_round_up_64(lines * slots * (roco_kv_type_is_quantized(type) ? 1u : roco_kv_type_bytes(type)));
    l.value_offset = l.key_scale_offset + roco_round_up_64(roco_kv_blocks(key_dim) * slots * numbers);
    l.value_scale_offset = l.value_offset + roco_round_up_64(slots * roco_kv_value_bytes(&l));
    l.position_offset = l.value_scale_offset + roco_round_up_64(roco_kv_blocks(value_dim) * slots * numbers);
    l.sum_offset = l.position_offset + roco_round_up_64(slots * 4u);
    l.sum_sq_offset = l.sum_offset + roco_round_up_64(slots * 4u);
    l.page_bytes = l.sum_sq_offset + roco_round_up_64(slots * 4u);
    return l;
}

/* How a head of that type lays out a page of `page_bytes`, which holds ROCO_PAGE_SLOTS slots at f16. */
static inline roco_kv_layout roco_kv_layout_in(roco_kv_type type, uint32_t key_dim, uint32_t value_dim,
                                               uint32_t page_bytes)
{
    uint32_t slots = ROCO_PAGE_SLOTS;
    if (roco_kv_type_is_quantized(type)) {
        const roco_kv_layout many = roco_kv_layout_with(type, key_dim, value_dim, 256u);
        slots = (uint32_t)((uint64_t)page_bytes * 256u / many.page_bytes + 8u) / 8u * 8u;
        while (slots > 8u && roco_kv_layout_with(type, key_dim, value_dim, slots).page_bytes > page_bytes)
            slots -= 8u;
    }
    roco_kv_layout l = roco_kv_layout_with(type, key_dim, value_dim, slots);
    l.page_bytes = page_bytes;
    return l;
}

/* The pool's own layout: pages of ROCO_PAGE_SLOTS slots at f16 (f32 alone has larger ones). key_dim and value_dim:
 * 1..1024. */
static inline roco_kv_layout roco_kv_layout_make(roco_kv_type type, uint32_t key_dim, uint32_t value_dim)
{
    const roco_kv_type whole = type == ROCO_KV_F32 ? ROCO_KV_F32 : ROCO_KV_F16;
    const uint32_t page_bytes = roco_kv_layout_with(whole, key_dim, value_dim, ROCO_PAGE_SLOTS).page_bytes;
    return roco_kv_layout_in(type, key_dim, value_dim, page_bytes);
}

/* How a head of another type lays out the pool's pages. f32 only in a pool of f32. */
static inline roco_kv_layout roco_kv_layout_of(const roco_kv_layout *pool, roco_kv_type type)
{
    return type == pool->type ? *pool : roco_kv_layout_in(type, pool->key_dim, pool->value_dim, pool->page_bytes);
}

/* Floats that a head keeps of the tokens it evicted: sums of K and of V, of their weights, and a count. */
static inline uint32_t roco_kv_evicted_floats(const roco_kv_layout *layout)
{
    return layout->key_dim + layout->value_dim + 2u;
}

/* The page of that index, and its arrays. K is at the page's start. */
static inline unsigned char *roco_kv_page(const roco_kv_layout *layout, void *pool, uint32_t page)
{
    return (unsigned char *)pool + (size_t)page * layout->page_bytes;
}

static inline void *roco_kv_values(const roco_kv_layout *layout, unsigned char *page)
{
    return page + layout->value_offset;
}

static inline uint16_t *roco_kv_key_scales(const roco_kv_layout *layout, unsigned char *page)
{
    return (uint16_t *)(void *)(page + layout->key_scale_offset);
}

static inline uint16_t *roco_kv_value_scales(const roco_kv_layout *layout, unsigned char *page)
{
    return (uint16_t *)(void *)(page + layout->value_scale_offset);
}

static inline int32_t *roco_kv_positions(const roco_kv_layout *layout, unsigned char *page)
{
    return (int32_t *)(void *)(page + layout->position_offset);
}

static inline float *roco_kv_sums(const roco_kv_layout *layout, unsigned char *page)
{
    return (float *)(void *)(page + layout->sum_offset);
}

static inline float *roco_kv_sums_sq(const roco_kv_layout *layout, unsigned char *page)
{
    return (float *)(void *)(page + layout->sum_sq_offset);
}

/* Pages that hold n slots. */
static inline uint32_t roco_kv_pages_for(const roco_kv_layout *layout, uint32_t n_slots)
{
    return (n_slots + layout->slots - 1u) / layout->slots;
}

#endif
