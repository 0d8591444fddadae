#include "eval/cases.h"

#include "engine/policies.h"
#include "engine/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBERS = 16, LEAST_BUDGET = 32 };

bool roco_eval_next_word(const char **list, char *word, size_t size)
{
    const size_t n = strcspn(*list, ",");
    if (!n)
        return false;
    snprintf(word, size, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ',');
    return true;
}

roco_status roco_eval_read_numbers(const char *flag, const char *list, uint32_t low, uint32_t high, uint32_t most,
                                   uint32_t *out, uint32_t *n, roco_error *error)
{
    char word[32], *end;
    for (*n = 0; roco_eval_next_word(&list, word, sizeof word); ++*n) {
        errno = 0;
        const unsigned long number = strtoul(word, &end, 10);
        if (errno || *end || *word == '-' || number < low || number > high || *n == most)
            return roco_fail(error, ROCO_INVALID, flag,
                             "--%s: '%s': up to %u whole numbers from %u to %u are wanted, with commas between", flag,
                             word, most, low, high);
        out[*n] = (uint32_t)number;
    }
    return ROCO_OK;
}

/* Asks for a head profile only when it is used. */
static roco_status find_profile(const roco_eval_setup *setup, const char *flag, bool needed, bool *found,
                                roco_error *error)
{
    roco_profile_origin origin = {0};
    roco_status status = ROCO_OK;
    if (!roco_engine_describe(setup->engine)->has_profile)
        status = roco_profile_find(setup->engine, setup->source, setup->tokenizer, setup->options.head_profile, NULL,
                                   NULL, &origin, error);
    *found = roco_engine_describe(setup->engine)->has_profile;
    if (!status && needed && !*found)
        return roco_fail(error, ROCO_INVALID, flag, "there is no head profile: %s", origin.warning);
    return status;
}

static roco_status choose_heads(const roco_eval_setup *setup, const char *heads, bool by_rank, bool *profile,
                                bool *uniform, roco_error *error)
{
    *profile = strcmp(heads, "uniform") != 0 && !by_rank;
    *uniform = strcmp(heads, "profile") != 0 || by_rank;
    if (strcmp(heads, "uniform") != 0 && strcmp(heads, "profile") != 0 && strcmp(heads, "both") != 0)
        return roco_fail(error, ROCO_INVALID, "heads", "--heads must be profile, uniform or both");
    return *profile ? find_profile(setup, "heads", !*uniform, profile, error) : ROCO_OK;
}

static roco_status add(roco_eval_cases *cases, roco_eval_case one, roco_error *error)
{
    if (cases->n == ROCO_MAX_CASES)
        return roco_fail(error, ROCO_INVALID, "budgets", "more than %u policies, budgets and strides", ROCO_MAX_CASES);
    cases->list[cases->n++] = one;
    return ROCO_OK;
}

/* What the flags say, read. */
typedef struct plan {
    uint32_t budgets[MOST_NUMBERS], n_budgets, strides[MOST_NUMBERS], n_strides;
    bool by_rank, compensate, profile, uniform;
} plan;

static roco_status read_plan(const roco_eval_setup *setup, const roco_eval_cases *cases, plan *p, roco_error *error)
{
    *p =
        (plan){.by_rank = strcmp(cases->positions, "cache") == 0, .compensate = strcmp(cases->compensation, "on") == 0};
    if (!p->by_rank && strcmp(cases->positions, "text") != 0)
        return roco_fail(error, ROCO_INVALID, "positions", "--positions must be text or cache");
    if (!p->compensate && strcmp(cases->compensation, "off") != 0)
        return roco_fail(error, ROCO_INVALID, "compensation", "--compensation must be on or off");
    roco_status status = roco_eval_read_numbers("budgets", cases->budgets, LEAST_BUDGET, INT32_MAX, MOST_NUMBERS,
                                                p->budgets, &p->n_budgets, error);
    if (!status)
        status = roco_eval_read_numbers("strides", cases->strides, 1, (uint32_t)setup->options.evict_stride,
                                        MOST_NUMBERS, p->strides, &p->n_strides, error);
    if (!status && !p->n_strides)
        p->n_strides = 1; /* of 0: the engine's */
    return status ? status : choose_heads(setup, cases->heads, p->by_rank, &p->profile, &p->uniform, error);
}

static roco_status add_policy(roco_eval_cases *cases, const roco_policy *policy, const plan *p, roco_error *error)
{
    if (!policy->evicts)
        return add(cases, (roco_eval_case){.policy = policy, .uniform = true, .by_rank = p->by_rank}, error);
    roco_status status = ROCO_OK;
    for (uint32_t b = 0; b < p->n_budgets; b++)
        for (uint32_t s = 0; s < p->n_strides; s++)
            for (int uniform = 1; uniform >= 0 && !status; uniform--)
                if (uniform ? p->uniform : p->profile)
                    status = add(cases,
                                 (roco_eval_case){.policy = policy,
                                                  .budget = p->budgets[b],
                                                  .uniform = uniform != 0,
                                                  .stride = p->strides[s],
                                                  .by_rank = p->by_rank,
                                                  .compensate = p->compensate},
                                 error);
    return status;
}

roco_status roco_eval_cases_make(const roco_eval_setup *setup, roco_eval_cases *cases, roco_error *error)
{
    plan p;
    roco_status status = read_plan(setup, cases, &p, error);
    if (status)
        return status;
    cases->list = calloc(ROCO_MAX_CASES, sizeof *cases->list);
    if (!cases->list)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    char name[32];
    for (const char *list = cases->policies; !status && roco_eval_next_word(&list, name, sizeof name);) {
        const roco_policy *policy = roco_policy_find(name);
        status = policy ? add_policy(cases, policy, &p, error)
                        : roco_fail(error, ROCO_INVALID, "policies", "--policies: there is no '%s'; known are %s", name,
                                    roco_policy_names());
    }
    if (!status && !cases->n)
        return roco_fail(error, ROCO_INVALID, "policies", "there is nothing to do: no policy, or no budget");
    return status;
}

void roco_eval_cases_free(roco_eval_cases *cases)
{
    free(cases->list);
    cases->list = NULL;
}

roco_status roco_eval_case_read(const roco_eval_setup *setup, const char *flag, const char *text, roco_eval_case *out,
                                roco_error *error)
{
    char name[32] = "", heads[16] = "";
    unsigned budget = 0;
    const int n = sscanf(text, "%31[^:]:%u:%15s", name, &budget, heads);
    *out = (roco_eval_case){.policy = roco_policy_find(name), .budget = budget, .uniform = true};
    const bool bare = out->policy && !out->policy->evicts;
    const bool known = n < 3 || strcmp(heads, "uniform") == 0 || strcmp(heads, "profile") == 0;
    if (!out->policy || !known || (bare ? n != 1 : n < 2 || budget < LEAST_BUDGET))
        return roco_fail(error, ROCO_INVALID, flag,
                         "--%s: '%s' is not POLICY:BUDGET, POLICY:BUDGET:uniform or full; a budget is %d or more, "
                         "policies are %s",
                         flag, text, LEAST_BUDGET, roco_policy_names());
    bool found = false;
    roco_status status =
        bare || strcmp(heads, "uniform") == 0 ? ROCO_OK : find_profile(setup, flag, n == 3, &found, error);
    out->uniform = !found;
    return status;
}

const char *roco_eval_case_heads(const roco_eval_case *c)
{
    return c->policy->evicts ? (c->uniform ? "uniform" : "profile") : "";
}

roco_cache_spec roco_eval_case_spec(const roco_eval_setup *setup, const roco_eval_case *c, uint32_t length)
{
    return (roco_cache_spec){.policy = c->policy,
                             .budget = c->budget,
                             .length = length,
                             .sink = (uint32_t)setup->options.kv_sink,
                             .recent = (uint32_t)setup->options.kv_recent,
                             .stride = c->stride,
                             .by_rank = c->by_rank,
                             .compensate = c->compensate,
                             .uniform = c->uniform};
}
