/* Chunks of huge pages, cut from front to back. See arena.h. */
#include "kernels/cpu/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define LARGEST_CHUNK   ((size_t)64 << 20)

typedef struct roco_arena_chunk {
    char *base;
    size_t bytes, used;
    size_t n_blocks; /* not given back yet */
} roco_arena_chunk;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static roco_arena_chunk *open_chunk(size_t bytes)
{
    roco_arena_chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL)
        return NULL;
    chunk->bytes = round_up(bytes, HUGE_PAGE_BYTES);
    chunk->base = aligned_alloc(HUGE_PAGE_BYTES, chunk->bytes);
    if (chunk->base == NULL) {
        free(chunk);
        return NULL;
    }
    /* Advice only: without huge pages everything works, slower. */
    (void)madvise(chunk->base, chunk->bytes, MADV_HUGEPAGE);
    return chunk;
}

void *roco_arena_take(roco_arena *arena, size_t bytes, roco_arena_chunk **chunk)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = round_up(bytes, 64);
    roco_arena_chunk *from = arena->last;
    if (from == NULL || from->bytes - from->used < bytes) {
        size_t doubled = arena->last_bytes < LARGEST_CHUNK / 2 ? 2 * arena->last_bytes : LARGEST_CHUNK;
        from = open_chunk(bytes > doubled ? bytes : doubled);
        if (from == NULL)
            return NULL;
        arena->last = from;
        arena->last_bytes = from->bytes;
    }
    char *block = from->base + from->used;
    from->used += bytes;
    from->n_blocks++;
    *chunk = from;
    return block;
}

void roco_arena_give_back(roco_arena *arena, roco_arena_chunk *chunk)
{
    if (--chunk->n_blocks > 0)
        return;
    if (arena->last == chunk)
        arena->last = NULL;
    free(chunk->base);
    free(chunk);
}
