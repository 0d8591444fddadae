/* Blocks of zeroed memory, filled from the front. */
#include "chat/region.h"

#include <stdint.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct roco_region_block {
    roco_region_block *next;
    size_t used, size;
    _Alignas(ALIGNMENT) char data[];
};

static void *fail(roco_region *region, roco_status status)
{
    region->status = status;
    if (region->escape)
        longjmp(*region->escape, 1);
    return NULL;
}

static roco_region_block *open_block(roco_region *region, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
    roco_region_block *block = calloc(1, sizeof *block + size);
    if (!block)
        return NULL;
    block->size = size;
    /* A large one is full at once: the block that still has room stays in front. */
    roco_region_block **at = size == bytes && region->blocks ? &region->blocks->next : &region->blocks;
    block->next = *at;
    *at = block;
    return block;
}

void *roco_region_alloc(roco_region *region, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > region->limit - region->used)
        return fail(region, ROCO_TOO_LARGE);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > region->limit - region->used)
        return fail(region, ROCO_TOO_LARGE);
    roco_region_block *block = region->blocks;
    if (!block || block->size - block->used < bytes)
        block = open_block(region, bytes);
    if (!block)
        return fail(region, ROCO_NO_MEMORY);
    void *memory = block->data + block->used;
    block->used += bytes;
    region->used += bytes;
    return memory;
}

void roco_region_free(roco_region *region)
{
    while (region->blocks) {
        roco_region_block *next = region->blocks->next;
        free(region->blocks);
        region->blocks = next;
    }
    region->used = 0;
}
