/* Which pages of the KV pool are free: page indices only, never their memory.
 *
 * A stack, so that the pages given back last, still warm in the caches, are taken first. Every page carries a "held"
 * bit: a page handed out twice or given back twice aborts at once, where the fault is. Not thread-safe: the scheduler
 * calls it with its lock held.
 */
#ifndef ROCO_SCHEDULER_PAGE_POOL_H
#define ROCO_SCHEDULER_PAGE_POOL_H

#include "config/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct roco_page_pool {
    uint32_t *free;      /* [total], of which the first n_free are the stack */
    uint64_t *held_bits; /* one bit a page */
    uint32_t total, n_free;
} roco_page_pool;

/* Pages 0..total-1, all free. ROCO_NO_MEMORY leaves nothing to be freed. */
roco_status roco_page_pool_init(roco_page_pool *pool, uint32_t total);
void roco_page_pool_free(roco_page_pool *pool);

/* Takes n pages into out[n], or none: false when fewer than n are free. */
bool roco_page_pool_take(roco_page_pool *pool, uint32_t n, uint32_t *out);
void roco_page_pool_give(roco_page_pool *pool, const uint32_t *pages, uint32_t n);

/* Aborts unless free + held = total and no page is in the stack twice. Takes time proportional to the pool. */
void roco_page_pool_check(const roco_page_pool *pool);

#endif
