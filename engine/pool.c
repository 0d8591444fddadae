/* How many pages the KV pool has, by what the options say. Engine thread, while an engine opens. */
#include "engine/state.h"

#include <stdio.h>
#include <stdlib.h>

#define LEAST_SHARE 0.01
#define MOST_SHARE  0.98

roco_status roco_pool_read_share(const char *text, double *out, roco_error *error)
{
    char *end = NULL;
    *out = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(*out == 0 || (*out >= LEAST_SHARE && *out <= MOST_SHARE))))
        return roco_fail(error, ROCO_INVALID, "kv-pool-share", "kv-pool-share is '%.40s' (0, or %g to %g)", text,
                         LEAST_SHARE, MOST_SHARE);
    return ROCO_OK;
}

static const char *option_of(const roco_engine_config *config, double share)
{
    return config->kv_pool_tokens ? "kv-pool-tokens" : share > 0 ? "kv-pool-share" : "kv-pool-bytes";
}

static roco_status refuse_few(const roco_engine *e, const char *option, uint64_t n_pages, roco_error *error)
{
    const roco_engine_info *info = &e->info;
    char free_bytes[64] = "";
    if (info->free_bytes)
        snprintf(free_bytes, sizeof free_bytes, " of %llu bytes that are free", (unsigned long long)info->free_bytes);
    return roco_fail(
        error, ROCO_INVALID, option,
        "the pool holds %llu pages of %u bytes%s; one page for each of %u layers x %u KV heads is the least",
        (unsigned long long)n_pages, info->layout.page_bytes, free_bytes, info->n_layers, info->n_kv_heads);
}

roco_status roco_pool_size(roco_engine *e, const roco_engine_config *config, bool by_share, roco_error *error)
{
    roco_engine_info *info = &e->info;
    const uint64_t n_heads = (uint64_t)info->n_layers * info->n_kv_heads, most = UINT32_MAX / 2;
    double share;
    roco_status status = roco_pool_read_share(config->kv_pool_share, &share, error);
    if (status || by_share != (share > 0 && !config->kv_pool_tokens))
        return status;
    uint64_t n_pages = config->kv_pool_bytes / info->layout.page_bytes;
    if (config->kv_pool_tokens)
        n_pages = (config->kv_pool_tokens + info->layout.slots - 1) / info->layout.slots * n_heads;
    if (by_share) {
        info->free_bytes = e->backend->ops->memory_left(e->backend);
        n_pages = (uint64_t)((double)info->free_bytes * share) / info->layout.page_bytes;
        n_pages = n_pages < most ? n_pages : most;
    }
    if (n_pages < n_heads)
        return refuse_few(e, option_of(config, share), n_pages, error);
    if (n_pages > most)
        return roco_fail(error, ROCO_TOO_LARGE, option_of(config, share),
                         "the pool would have %llu pages; at most %llu", (unsigned long long)n_pages,
                         (unsigned long long)most);
    info->n_pages = (uint32_t)n_pages;
    info->pool_bytes = n_pages * info->layout.page_bytes;
    return ROCO_OK;
}

roco_status roco_pool_open(roco_engine *e, const roco_engine_config *config, roco_error *error)
{
    roco_status status = roco_pool_size(e, config, true, error);
    if (status)
        return status;
    e->pool = e->backend->ops->memory_open(e->backend, e->info.pool_bytes);
    if (!e->pool)
        return roco_fail(error, ROCO_NO_MEMORY, option_of(config, e->info.free_bytes > 0),
                         "a KV pool of %llu bytes does not fit in memory beside the weights (%zu bytes)",
                         (unsigned long long)e->info.pool_bytes, e->backend->ops->weight_bytes(e->backend));
    return ROCO_OK;
}
