#include "scheduler/page_pool.h"

#include <stdlib.h>
#include <string.h>

static bool is_held(const roco_page_pool *pool, uint32_t page)
{
    return (pool->held_bits[page / 64u] >> (page % 64u)) & 1u;
}

roco_status roco_page_pool_init(roco_page_pool *pool, uint32_t total)
{
    *pool = (roco_page_pool){.total = total, .n_free = total};
    pool->free = calloc((size_t)total + 1u, sizeof *pool->free);
    pool->held_bits = calloc((size_t)total / 64u + 1u, sizeof *pool->held_bits);
    if (!pool->free || !pool->held_bits) {
        roco_page_pool_free(pool);
        return ROCO_NO_MEMORY;
    }
    /* The top of the stack is its end: page 0 goes out first. */
    for (uint32_t i = 0; i < total; i++)
        pool->free[i] = total - 1u - i;
    return ROCO_OK;
}

void roco_page_pool_free(roco_page_pool *pool)
{
    free(pool->free);
    free(pool->held_bits);
    *pool = (roco_page_pool){0};
}

bool roco_page_pool_take(roco_page_pool *pool, uint32_t n, uint32_t *out)
{
    if (n > pool->n_free)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t page = pool->free[--pool->n_free];
        ROCO_CHECK(!is_held(pool, page));
        pool->held_bits[page / 64u] |= 1ull << (page % 64u);
        out[i] = page;
    }
    return true;
}

void roco_page_pool_give(roco_page_pool *pool, const uint32_t *pages, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t page = pages[i];
        ROCO_CHECK(page < pool->total && is_held(pool, page));
        pool->held_bits[page / 64u] &= ~(1ull << (page % 64u));
        pool->free[pool->n_free++] = page;
    }
}

void roco_page_pool_check(const roco_page_pool *pool)
{
    uint64_t *seen = calloc((size_t)pool->total / 64u + 1u, sizeof *seen);
    ROCO_CHECK(seen != NULL);
    for (uint32_t i = 0; i < pool->n_free; i++) {
        uint32_t page = pool->free[i];
        ROCO_CHECK(page < pool->total && !is_held(pool, page));
        ROCO_CHECK(!((seen[page / 64u] >> (page % 64u)) & 1u));
        seen[page / 64u] |= 1ull << (page % 64u);
    }
    free(seen);
    uint32_t held = 0;
    for (uint32_t page = 0; page < pool->total; page++)
        held += is_held(pool, page);
    ROCO_CHECK(held + pool->n_free == pool->total);
}
