/* The registry of eviction policies. To add one: its file policy_<name>.c, its row in policies.c, a golden. */
#ifndef ROCO_ENGINE_POLICIES_H
#define ROCO_ENGINE_POLICIES_H

#include "kernels/policy.h"

#include <stddef.h>

#define ROCO_MAX_POLICIES 16u

/* A policy's id, its index in the registry. */
enum {
    ROCO_POLICY_FULL,
    ROCO_POLICY_ROCO,
    ROCO_POLICY_RECENCY,
    ROCO_POLICY_MEAN,
    ROCO_POLICY_H2O,
    ROCO_POLICY_TOVA,
    ROCO_POLICY_RANDOM,
    ROCO_POLICY_KEYDIFF,
    ROCO_POLICY_ROCO_CAOTE,
    ROCO_POLICY_H2O_CAOTE,
    ROCO_POLICY_TOVA_CAOTE,
    ROCO_POLICY_VATP,
    ROCO_POLICY_SNAPKV,
    ROCO_POLICY_RKV
};

/* NULL-terminated, full first; policy->id is its index. */
const roco_policy *const *roco_policies(void);
/* NULL when there is none of that name. */
const roco_policy *roco_policy_find(const char *name);
/* "full, roco, recency, ...": for error texts. */
const char *roco_policy_names(void);

#endif
