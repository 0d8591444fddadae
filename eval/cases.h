/* The cases an evaluation compares: policies times budgets times how a budget is spent times strides, from flags. Main
 * thread. */
#ifndef ROCO_EVAL_CASES_H
#define ROCO_EVAL_CASES_H

#include "eval/setup.h"

/* One way to keep a cache. */
typedef struct roco_eval_case {
    const roco_policy *policy;
    uint32_t budget; /* tokens; 0 with a policy that does not evict */
    bool uniform;    /* all heads alike; else by the engine's profile */
    uint32_t stride; /* tokens between two evictions of a prompt; 0: --evict-stride */
    bool by_rank;    /* positions are ranks in the cache */
    bool compensate; /* a slot stands for what was evicted */
} roco_eval_case;

#define ROCO_MAX_CASES 512u

typedef struct roco_eval_cases {
    /* from flags */
    const char *policies, *budgets, *heads, *strides, *positions, *compensation;
    /* made of them */
    roco_eval_case *list; /* owned */
    uint32_t n;
} roco_eval_cases;

/* Rows of a table of flags that fill `cases`; its defaults are set by ROCO_EVAL_CASES_DEFAULT. */
#define ROCO_EVAL_CASES_DEFAULT                                                                                        \
    {                                                                                                                  \
        .policies = "full,roco", .budgets = "512,256,128", .heads = "both", .strides = "", .positions = "text",        \
        .compensation = "off"                                                                                          \
    }
/* clang-format off */
#define ROCO_EVAL_CASES_FLAGS(cases)                                                                    \
    {"policies", &(cases).policies, NULL, 0, 0, "with commas between (full,roco)"},                     \
    {"budgets", &(cases).budgets, NULL, 0, 0, "tokens, with commas between (512,256,128)"},             \
    {"heads", &(cases).heads, NULL, 0, 0, "how a budget is spent: profile, uniform or both (both)"},    \
    {"strides", &(cases).strides, NULL, 0, 0,                                                           \
     "prompt tokens between two evictions, at most --evict-stride (that)"},                             \
    {"positions", &(cases).positions, NULL, 0, 0, "text, or cache: ranks among the tokens held (text)"}, \
    {"compensation", &(cases).compensation, NULL, 0, 0, "on: one slot stands for what was evicted (off)"}
/* clang-format on */

/* Reads the flags, and finds a head profile when one is used. ROCO_INVALID names the flag. Free with
 * roco_eval_cases_free. */
roco_status roco_eval_cases_make(const roco_eval_setup *setup, roco_eval_cases *cases, roco_error *error);
void roco_eval_cases_free(roco_eval_cases *cases);
/* Reads "POLICY[:BUDGET[:uniform]]". ROCO_INVALID names `flag`. */
roco_status roco_eval_case_read(const roco_eval_setup *setup, const char *flag, const char *text, roco_eval_case *out,
                                roco_error *error);

/* "profile", "uniform"; "" where heads do not matter. */
const char *roco_eval_case_heads(const roco_eval_case *c);
/* The cache of a case for a sequence of `length` tokens. */
roco_cache_spec roco_eval_case_spec(const roco_eval_setup *setup, const roco_eval_case *c, uint32_t length);
/* Takes the next word of a list like "a,b"; false at its end. */
bool roco_eval_next_word(const char **list, char *word, size_t size);
/* Reads a list of whole numbers into out[*n], at most `most`. ROCO_INVALID names `flag`. */
roco_status roco_eval_read_numbers(const char *flag, const char *list, uint32_t low, uint32_t high, uint32_t most,
                                   uint32_t *out, uint32_t *n, roco_error *error);

#endif
