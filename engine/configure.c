/* From the options to an engine's configuration: what a server and the evaluation commands share. Any thread. */
#include "engine/engine.h"
#include "kernels/kv_code.h"

#include <sched.h>

/* Cores this process may run on: a container's or taskset's share, not the machine's count. */
static uint32_t usable_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 1;
}

/* The option table allows names of KV types alone. */
static roco_kv_type kv_type_of(const roco_options *o)
{
    roco_kv_type type = ROCO_KV_F16;
    ROCO_CHECK(roco_kv_type_find(o->kv_type, &type));
    return type;
}

roco_engine_config roco_engine_configure(const roco_options *o, const roco_source *source)
{
    return (roco_engine_config){
        .source = source,
        .backend = o->backend,
        .device = (uint32_t)o->device,
        .precision = o->precision,
        .threads = o->threads ? (uint32_t)o->threads : usable_cores(),
        .context = (uint32_t)o->context,
        .rope = {o->rope_scaling, o->rope_factor, (uint32_t)o->rope_original},
        .kv_type = kv_type_of(o),
        .kv_pool_bytes = (uint64_t)o->kv_pool_bytes,
        .kv_pool_share = o->kv_pool_share,
        .kv_pool_tokens = (uint64_t)o->kv_pool_tokens,
        .stride = (uint32_t)o->evict_stride,
        .step_tokens = (uint32_t)o->step_tokens,
    };
}
