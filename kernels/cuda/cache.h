/* One head's cache as a kernel sees it: where a column's K, V and state are. Device code.
 *
 * Columns are slots of the cache, then, from the next multiple of 32 on, the tokens of a stride that is staged. So a
 * warp's 32 neighbouring columns are of one kind, and two neighbours from an even one on share a page.
 */
#ifndef ROCO_KERNELS_CUDA_CACHE_H
#define ROCO_KERNELS_CUDA_CACHE_H

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/warp.h"

/* A head's part of the chunk's cells: arrays by column. */
typedef struct column_cells {
    double *key, *other;
    unsigned long long *sorted;
    uint32_t *list;
    uint32_t *rank; /* of the tokens in the cache */
} column_cells;

typedef struct head_cache {
    const roco_cuda_chunk *chunk;
    roco_kv_head *head;
    const roco_kv_layout *layout;
    unsigned char *pool, *stage;
    const uint32_t *pages; /* the head's own */
    bool staged;
    unsigned n_old;  /* columns of the cache that hold tokens, a decoded one's own included */
    unsigned base;   /* first column of the stride */
    unsigned n_new;  /* tokens of the stride; 0 when nothing is staged */
    unsigned target; /* decode: the token's slot */
    column_cells cells;
} head_cache;

static __device__ __forceinline__ unsigned round_up_32(unsigned n)
{
    return (n + 31u) & ~31u;
}

static __device__ __forceinline__ column_cells open_cells(const roco_cuda_layer &l, const roco_cuda_chunk *chunk,
                                                          unsigned kv_head)
{
    const size_t columns = chunk->columns;
    unsigned char *memory = l.cells + (chunk->first_cell + kv_head * columns) * ROCO_CUDA_CELL_BYTES;
    column_cells cells;
    cells.key = reinterpret_cast<double *>(memory);
    cells.other = cells.key + columns;
    cells.sorted = reinterpret_cast<unsigned long long *>(cells.other + columns);
    cells.list = reinterpret_cast<uint32_t *>(cells.sorted + columns);
    cells.rank = cells.list + columns;
    return cells;
}

static __device__ __forceinline__ head_cache open_cache(const roco_cuda_layer &l, const roco_cuda_chunk *chunk,
                                                        unsigned kv_head)
{
    head_cache c;
    c.chunk = chunk;
    c.head = chunk->heads + l.layer * l.n_kv_heads + kv_head;
    c.layout = &l.layouts[c.head->type];
    c.pool = l.pool;
    c.pages = chunk->pages + c.head->first_page;
    c.staged = c.head->evicts && !chunk->decode;
    c.n_old = c.head->held;
    c.n_new = 0;
    c.target = c.head->held;
    if (chunk->decode) {
        if (c.head->evicts && c.head->held == c.head->budget)
            c.target = c.head->victim;
        else
            c.n_old++;
    } else if (c.staged) {
        c.n_new = chunk->n_rows;
    } else {
        c.n_old = (unsigned)chunk->position + chunk->n_rows; /* appended: a slot is its token's position */
    }
    c.base = round_up_32(c.n_old);
    const unsigned stage_pages = (chunk->n_rows + ROCO_PAGE_SLOTS - 1) / ROCO_PAGE_SLOTS;
    c.stage = l.stage + (size_t)(chunk->first_stage + kv_head * stage_pages) * l.layouts[0].page_bytes;
    c.cells = open_cells(l, chunk, kv_head);
    return c;
}

/* The page of a column, and its slot there. The column holds a token, or its neighbour does. */
static __device__ __forceinline__ unsigned char *page_of_column(const head_cache &c, unsigned column, unsigned *slot)
{
    const unsigned slots = c.layout->slots, index = column < c.base ? column : column - c.base;
    *slot = index % slots;
    if (column >= c.base)
        return c.stage + (size_t)(index / slots) * c.layout->page_bytes;
    return c.pool + (size_t)c.pages[index / slots] * c.layout->page_bytes;
}

static __device__ __forceinline__ bool holds_token(const head_cache &c, unsigned column)
{
    return column < c.n_old || (column >= c.base && column < c.base + c.n_new);
}

static __device__ __forceinline__ unsigned end_of_columns(const head_cache &c)
{
    return c.n_new > 0 ? c.base + c.n_new : c.n_old;
}

static __device__ __forceinline__ int32_t *position_of(const head_cache &c, unsigned char *page, unsigned slot)
{
    return reinterpret_cast<int32_t *>(page + c.layout->position_offset) + slot;
}

static __device__ __forceinline__ float *sum_of(const head_cache &c, unsigned char *page, unsigned slot)
{
    return reinterpret_cast<float *>(page + c.layout->sum_offset) + slot;
}

static __device__ __forceinline__ float *sum_sq_of(const head_cache &c, unsigned char *page, unsigned slot)
{
    return reinterpret_cast<float *>(page + c.layout->sum_sq_offset) + slot;
}

/* Does the head keep anything for the policy? One that holds its whole window gives up what has left it, and no policy
 * is asked. */
static __device__ __forceinline__ bool keeps_statistics(const roco_cuda_layer &l, const head_cache &c)
{
    const bool whole = c.head->budget == l.window && c.head->reserved == 0;
    return c.head->evicts && !whole && c.chunk->kept != ROCO_KEPT_NOTHING;
}

/* How many older tokens the head holds than a column's, which holds one. A plain head's slots are in order. */
static __device__ __forceinline__ unsigned rank_of_column(const head_cache &c, unsigned column)
{
    if (column >= c.base)
        return c.n_old + (column - c.base);
    return c.head->evicts ? c.cells.rank[column] : column;
}

/* The same for a row of the chunk, which sees all that came before it. */
static __device__ __forceinline__ unsigned rank_of_row(const head_cache &c, unsigned row)
{
    return c.chunk->decode ? c.n_old - 1 : c.staged ? c.n_old + row : (unsigned)c.chunk->position + row;
}

static __device__ __forceinline__ int32_t last_position(const roco_cuda_chunk *chunk)
{
    return chunk->position + (int32_t)chunk->n_rows - 1;
}

/* --- K and V as floats --- */

/* Component d of the keys of `slot`, which is even, and the next one. */
template <int TYPE>
static __device__ __forceinline__ float2 key_pair(const roco_kv_layout *l, const unsigned char *page, unsigned slot,
                                                  unsigned d)
{
    const unsigned at = d * l->slots + slot;
    if (TYPE == ROCO_KV_F32)
        return *reinterpret_cast<const float2 *>(page + (size_t)at * 4);
    if (TYPE == ROCO_KV_F16) {
        const uint32_t word = *reinterpret_cast<const uint32_t *>(page + (size_t)at * 2);
        return make_float2(half_to_float((uint16_t)word), half_to_float((uint16_t)(word >> 16)));
    }
    const uint16_t *numbers = reinterpret_cast<const uint16_t *>(page + l->key_scale_offset);
    const unsigned block = d / ROCO_KV_BLOCK * l->slots + slot;
    const float first = half_to_float(numbers[block]), second = half_to_float(numbers[block + 1]);
    if (TYPE == ROCO_KV_Q8)
        return make_float2((float)(int8_t)page[at] * first, (float)(int8_t)page[at + 1] * second);
    const unsigned leasts = (l->key_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK * l->slots;
    const unsigned byte = d / 2 * l->slots + slot, shift = d % 2 * 4;
    return make_float2((float)(page[byte] >> shift & 15) * first + half_to_float(numbers[leasts + block]),
                       (float)(page[byte + 1] >> shift & 15) * second + half_to_float(numbers[leasts + block + 1]));
}

/* Components d, which is even, and d + 1 of a slot's value. */
template <int TYPE>
static __device__ __forceinline__ float2 value_pair(const roco_kv_layout *l, const unsigned char *page, unsigned slot,
                                                    unsigned d)
{
    const unsigned char *values = page + l->value_offset;
    const unsigned at = slot * l->value_dim + d;
    if (TYPE == ROCO_KV_F32)
        return *reinterpret_cast<const float2 *>(values + (size_t)at * 4);
    if (TYPE == ROCO_KV_F16) {
        const uint32_t word = *reinterpret_cast<const uint32_t *>(values + (size_t)at * 2);
        return make_float2(half_to_float((uint16_t)word), half_to_float((uint16_t)(word >> 16)));
    }
    const uint16_t *numbers = reinterpret_cast<const uint16_t *>(page + l->value_scale_offset);
    const unsigned n_blocks = (l->value_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK, block = d / ROCO_KV_BLOCK;
    const float scale = half_to_float(numbers[slot * n_blocks + block]);
    if (TYPE == ROCO_KV_Q8)
        return make_float2((float)(int8_t)values[at] * scale, (float)(int8_t)values[at + 1] * scale);
    const float least = half_to_float(numbers[(l->slots + slot) * n_blocks + block]);
    const unsigned in_block = d % ROCO_KV_BLOCK, shift = in_block / 16 * 4;
    const unsigned byte = (slot * n_blocks + block) * 16 + in_block % 16;
    return make_float2((float)(values[byte] >> shift & 15) * scale + least,
                       (float)(values[byte + 1] >> shift & 15) * scale + least);
}

#endif
