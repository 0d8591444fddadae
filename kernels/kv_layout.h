/* Where a slot lives: the pool's address arithmetic, shared by C and CUDA.
 *
 * The pool is one array of pages. A page belongs to one (layer, KV head) of one sequence and holds `slots` tokens:
 *
 *     K    [key_dim][slots]      kv type, transposed: one vector load takes the same component of neighbouring slots
 *     V    [slots][value_dim]    kv type
 *     pos  [slots]               int32, the token's true position
 *     S    [slots]               float, sum over queries of p
 *     S2   [slots]               float, sum over queries of p^2
 *
 * Page bytes are a multiple of 64, so every page and every array in it is aligned for vector loads.
 */
#ifndef ROCO_KERNELS_KV_LAYOUT_H
#define ROCO_KERNELS_KV_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

typedef enum roco_kv_type { ROCO_KV_F16, ROCO_KV_F32 } roco_kv_type;

#define ROCO_PAGE_SLOTS 32u /* P at 16- and 32-bit K and V */
#define ROCO_NO_SLOT    0xffffffffu

typedef struct roco_kv_layout {
    roco_kv_type type;
    uint32_t key_dim, value_dim;                                       /* components of one head's K and V */
    uint32_t slots;                                                    /* per page */
    uint32_t value_offset, position_offset, sum_offset, sum_sq_offset; /* bytes from the page's start; K is at 0 */
    uint32_t page_bytes;
} roco_kv_layout;

static inline uint32_t roco_kv_type_bytes(roco_kv_type type)
{
    return type == ROCO_KV_F16 ? 2u : 4u;
}

static inline uint32_t roco_round_up_64(uint32_t n)
{
    return (n + 63u) & ~63u;
}

/* key_dim and value_dim: 1..1024. */
static inline roco_kv_layout roco_kv_layout_make(roco_kv_type type, uint32_t key_dim, uint32_t value_dim)
{
    roco_kv_layout l = {.type = type, .key_dim = key_dim, .value_dim = value_dim, .slots = ROCO_PAGE_SLOTS};
    l.value_offset = roco_round_up_64(key_dim * l.slots * roco_kv_type_bytes(type));
    l.position_offset = l.value_offset + roco_round_up_64(value_dim * l.slots * roco_kv_type_bytes(type));
    l.sum_offset = l.position_offset + roco_round_up_64(l.slots * 4u);
    l.sum_sq_offset = l.sum_offset + roco_round_up_64(l.slots * 4u);
    l.page_bytes = l.sum_sq_offset + roco_round_up_64(l.slots * 4u);
    return l;
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
