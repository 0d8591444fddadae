#include "server/usage.h"

#include <inttypes.h>
#include <math.h>

void roco_usage_add(roco_usage *usage, const roco_choice *choice)
{
    usage->completion_tokens += choice->n_generated;
    usage->evicted += choice->kv.evicted;
    if (choice->kv.held > usage->held)
        usage->held = choice->kv.held;
    if (!(choice->evicted_mass <= usage->evicted_mass)) /* NaN stays */
        usage->evicted_mass = choice->evicted_mass;
}

void roco_usage_write(roco_json_out *out, const roco_usage *usage)
{
    roco_json_format(out, "{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64,
                     usage->prompt_tokens, usage->completion_tokens, usage->prompt_tokens + usage->completion_tokens);
    roco_usage_write_kv(out, usage);
    roco_json_raw(out, "}");
}

void roco_usage_write_kv(roco_json_out *out, const roco_usage *usage)
{
    roco_json_format(out, ",\"kv\":{\"policy\":\"%s\",\"budget\":%u,\"held\":%u,\"evicted\":%" PRIu64 ",\"pinned\":%u",
                     usage->policy->name, usage->budget, usage->held, usage->evicted, usage->pinned);
    if (isnan(usage->evicted_mass))
        roco_json_raw(out, ",\"evicted_mass\":null}");
    else
        roco_json_format(out, ",\"evicted_mass\":%.4f}", usage->evicted_mass);
}
