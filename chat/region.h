/* Memory that is given back all at once: values, syntax trees and strings of one template or one rendering.
 *
 * One thread at a time. A region that has an `escape` leaves by longjmp when memory or its limit runs out, so code
 * inside a rendering checks no allocation; without one it returns NULL.
 */
#ifndef ROCO_CHAT_REGION_H
#define ROCO_CHAT_REGION_H

#include "config/status.h"

#include <setjmp.h>
#include <stddef.h>

typedef struct roco_region_block roco_region_block;

/* Init with {.limit = bytes}. */
typedef struct roco_region {
    roco_region_block *blocks; /* the newest first */
    size_t used, limit;        /* bytes handed out, and the most that may be */
    jmp_buf *escape;
    roco_status status; /* why an allocation failed: ROCO_TOO_LARGE, ROCO_NO_MEMORY */
} roco_region;

/* Zeroed, aligned for any type, valid until roco_region_free. */
void *roco_region_alloc(roco_region *region, size_t count, size_t size);
void roco_region_free(roco_region *region);

#endif
