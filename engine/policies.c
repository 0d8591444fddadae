/* The registry: the one list of policies. Immutable; any thread. It knows each policy's symbol and nothing of its rule.
 */
#include "engine/policies.h"

#include <string.h>

/* In the order of their ids. */
#define POLICIES(FIRST, NEXT) FIRST(full) NEXT(roco) NEXT(recency) NEXT(mean) NEXT(h2o) NEXT(tova) NEXT(random)

#define DECLARE(name) extern const roco_policy roco_policy_##name;
POLICIES(DECLARE, DECLARE)

#define ROW(name) &roco_policy_##name,
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
#define FIRST_NAME(name) #name
#define NEXT_NAME(name)  ", " #name
    return POLICIES(FIRST_NAME, NEXT_NAME);
}
