/* The `usage` object of a reply: what was read, written, kept and evicted. */
#ifndef ROCO_SERVER_USAGE_H
#define ROCO_SERVER_USAGE_H

#include "kernels/policy.h"
#include "server/choice.h"
#include "http/json.h"

typedef struct roco_usage {
    uint64_t prompt_tokens; /* each prompt once */
    uint64_t completion_tokens;
    const roco_policy *policy;
    uint32_t budget;     /* tokens a head may hold on average; of several sequences the largest */
    uint32_t held;       /* tokens a head holds at the end, likewise */
    uint64_t evicted;    /* tokens a head gave up, the sum over sequences */
    uint32_t pinned;     /* tokens that are never evicted, besides first and newest; of several sequences the most */
    double evicted_mass; /* share of attention that the evicted drew, the largest; NaN: the policy does not know */
} roco_usage;

/* Adds a finished choice. Tokens drawn after the one that completed a stop string do not count. */
void roco_usage_add(roco_usage *usage, const roco_choice *choice);
void roco_usage_write(roco_json_out *out, const roco_usage *usage);
/* Its member `kv` alone, with a comma in front. */
void roco_usage_write_kv(roco_json_out *out, const roco_usage *usage);

#endif
