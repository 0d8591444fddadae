/* Memory for many blocks that are opened together and closed together: the weights. Engine's thread.
 *
 * Blocks are cut from large chunks that ask the system for huge pages: a decoded token reads every weight once, and
 * with 4 KiB pages the walk through them is bound by address translation as much as by memory.
 */
#ifndef ROCO_KERNELS_CPU_ARENA_H
#define ROCO_KERNELS_CPU_ARENA_H

#include <stddef.h>

/* Init with {0}; needs no closing once every block is. */
typedef struct roco_arena {
    struct roco_arena_chunk *last; /* the one being cut from; NULL when it has been released */
    size_t last_bytes;             /* of the newest chunk: the next is twice as large, up to a limit */
} roco_arena;

/* 64-byte aligned, contents undefined; NULL when there is no memory left. */
void *roco_arena_take(roco_arena *arena, size_t bytes, struct roco_arena_chunk **chunk);
/* `chunk` as roco_arena_take gave it with the block. The last block of a chunk to go takes it along. */
void roco_arena_give_back(roco_arena *arena, struct roco_arena_chunk *chunk);

#endif
