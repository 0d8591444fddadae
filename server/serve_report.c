/* The memory arithmetic a server starts with: what is held, and how many requests that is. Loop thread. */
#include "config/log.h"
#include "server/app_state.h"
#include "server/serve.h"

#include <inttypes.h>

static double mib(uint64_t bytes)
{
    return (double)bytes / (1024 * 1024);
}

void roco_serve_report(const roco_app *app, double load_seconds)
{
    const roco_engine_info *info = roco_engine_describe(app->engine);
    const roco_options *o = app->options;
    /* The longest request there may be: what fits then, fits always. */
    const roco_cache_spec longest = {.policy = app->model.policy,
                                     .budget = (uint32_t)o->kv_budget,
                                     .length = info->n_context,
                                     .sink = (uint32_t)o->kv_sink,
                                     .recent = (uint32_t)o->kv_recent,
                                     .uniform = true}; /* by head it is never more */
    uint32_t n_each = roco_cache_pages(app->engine, &longest);
    roco_log(ROCO_LOG_INFO, "model %s: %s, %" PRIu32 " layers, %" PRIu32 " KV heads, context %" PRIu32 ", %s",
             app->model.id, info->architecture, info->n_layers, info->n_kv_heads, info->n_context, info->backend);
    roco_log(ROCO_LOG_INFO,
             "memory: weights %.1f MiB, KV pool %.1f MiB (%" PRIu32
             " pages), scratch %.1f MiB; positions by rank take up to %.1f MiB",
             mib(info->weight_bytes), mib(info->pool_bytes), info->n_pages, mib(info->scratch_bytes),
             mib(info->rank_bytes));
    if (info->free_bytes > 0)
        roco_log(ROCO_LOG_INFO, "KV pool: %s of %.1f MiB that were free beside weights and scratch", o->kv_pool_share,
                 mib(info->free_bytes));
    roco_log(ROCO_LOG_INFO,
             "capacity: %" PRIu32 " requests at once with policy %s and budget %" PRId64 " (%" PRIu32
             " pages each, whatever their length)",
             info->n_pages / n_each, o->kv_policy, o->kv_budget, n_each);
    roco_log(ROCO_LOG_INFO, "ready after %.2f s", load_seconds);
}
