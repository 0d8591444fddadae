/* The registry: the one list of policies. Immutable; any thread. It knows each policy's symbol and nothing of its rule.
 */
#include "engine/policies.h"

#include <string.h>

/* In the order of their ids. */
#define POLICIES(FIRST, NEXT)                                                                                          \
    FIRST(full, "full")                                                                                                \
    NEXT(roco, "roco")                                                                                                 \
    NEXT(recency, "recency")                                                                                           \
    NEXT(mean, "mean")                                                                                                 \
    NEXT(h2o, "h2o")                                                                                                   \
    NEXT(tova, "tova")                                                                                                 \
    NEXT(random, "random")                                                                                             \
    NEXT(keydiff, "keydiff")                                                                                           \
    NEXT(roco_caote, "roco+caote")                                                                                     \
    NEXT(h2o_caote, "h2o+caote")                                                                                       \
    NEXT(tova_caote, "tova+caote")                                                                                     \
    NEXT(vatp, "vatp")                                                                                                 \
    NEXT(snapkv, "snapkv")                                                                                             \
    NEXT(rkv, "r-kv")

#define DECLARE(symbol, name) extern const roco_policy roco_policy_##symbol;
POLICIES(DECLARE, DECLARE)

#define ROW(symbol, name) &roco_policy_##symbol,
static const roco_policy *const registry[] = {POLICIES(ROW, ROW) NULL};

const roco_policy *const *roco_policies(void)
{
    return registry;
}

const roco_policy *roco_policy_find(const char *name)
{
    for (const roco_policy *const *policy = registry; *policy != NULL; policy++)
        if (strcmp((*policy)->name, name) == 0)
            return *policy;
    return NULL;
}

const char *roco_policy_names(void)
{
#define FIRST_NAME(symbol, name) name
#define NEXT_NAME(symbol, name)  ", " name
    return POLICIES(FIRST_NAME, NEXT_NAME);
}
