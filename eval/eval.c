/* `roco eval`: policies times budgets over one text, as perplexity or as recall. Main thread. */
#include "eval/eval.h"

#include "engine/policies.h"
#include "engine/profile.h"
#include "eval/report.h"
#include "eval/score.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "roco eval ppl|recall MODEL.gguf --text FILE [FLAGS]"

enum { MOST_BUDGETS = 16, MOST_ROWS = 1 + 2 * MOST_BUDGETS * (int)ROCO_MAX_POLICIES, MARGIN = 16 };

/* Where in a text the passage and what stands around it are taken from. */
enum { PASSAGE_AT = 200, AROUND_AT = 2000 };

typedef struct evaluation {
    bool recall;
    const char *text, *policies, *budgets, *heads, *csv, *json;
    uint32_t tokens, passage, depth, filler;

    roco_eval_setup setup;
    roco_ids ids;
    roco_score_run runs[MOST_ROWS];
    roco_report_row rows[MOST_ROWS];
    uint32_t n_rows;
} evaluation;

/* --- the text --- */

/* "depth tokens, passage, filler, passage". */
static roco_status arrange_recall(evaluation *e, roco_error *error)
{
    const size_t around = e->ids.size >= AROUND_AT + (size_t)e->depth + e->filler ? AROUND_AT : PASSAGE_AT + e->passage;
    const size_t n = (size_t)e->depth + e->filler + 2 * (size_t)e->passage;
    if (around + e->depth + e->filler > e->ids.size)
        return roco_fail(error, ROCO_INVALID, "text", "the text has %zu tokens; %zu are needed", e->ids.size,
                         around + e->depth + e->filler);
    int32_t *out = malloc(n * sizeof *out);
    if (!out)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    const int32_t *from = e->ids.data + around, *passage = e->ids.data + PASSAGE_AT;
    memcpy(out, from, e->depth * sizeof *out);
    memcpy(out + e->depth, passage, e->passage * sizeof *out);
    memcpy(out + e->depth + e->passage, from + e->depth, e->filler * sizeof *out);
    memcpy(out + n - e->passage, passage, e->passage * sizeof *out);
    free(e->ids.data);
    e->ids = (roco_ids){.data = out, .size = n, .capacity = n};
    return ROCO_OK;
}

static roco_status read_text(evaluation *e, roco_error *error)
{
    const uint32_t n_context = roco_engine_describe(e->setup.engine)->n_context;
    if (!*e->text)
        return roco_fail(error, ROCO_INVALID, "text", "--text FILE is needed");
    roco_status status = roco_eval_read_text(&e->setup, e->text, e->recall ? SIZE_MAX : e->tokens, &e->ids, error);
    if (!status && e->recall)
        status = arrange_recall(e, error);
    if (!status && e->ids.size > n_context)
        status = roco_fail(error, ROCO_INVALID, "context", "%zu tokens are more than the context of %u", e->ids.size,
                           n_context);
    if (!status && e->ids.size < 2)
        status = roco_fail(error, ROCO_INVALID, "text", "the text has fewer than two tokens");
    return status;
}

/* --- the grid --- */

/* Takes the next word of a list like "a,b"; false at its end. */
static bool next_word(const char **list, char *word, size_t size)
{
    const size_t n = strcspn(*list, ",");
    if (!n)
        return false;
    snprintf(word, size, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ',');
    return true;
}

static roco_status read_budgets(const char *list, uint32_t *out, uint32_t *n, roco_error *error)
{
    char word[32], *end;
    for (*n = 0; next_word(&list, word, sizeof word); ++*n) {
        errno = 0;
        const unsigned long budget = strtoul(word, &end, 10);
        if (errno || *end || budget < 32 || budget > INT32_MAX || *n == MOST_BUDGETS)
            return roco_fail(error, ROCO_INVALID, "budgets",
                             "--budgets: '%s': up to %d whole numbers of 32 or more are wanted, with commas between",
                             word, MOST_BUDGETS);
        out[*n] = (uint32_t)budget;
    }
    return ROCO_OK;
}

static roco_status add_run(evaluation *e, const roco_policy *policy, uint32_t budget, bool uniform, roco_error *error)
{
    double *nll = e->n_rows < MOST_ROWS ? calloc(e->ids.size, sizeof *nll) : NULL;
    if (!nll)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory, or more than %d rows", MOST_ROWS);
    e->runs[e->n_rows] = (roco_score_run){.policy = policy,
                                          .budget = budget,
                                          .uniform = uniform,
                                          .ids = e->ids.data,
                                          .n_ids = (uint32_t)e->ids.size,
                                          .nll = nll};
    e->rows[e->n_rows++] = (roco_report_row){.policy = policy->name,
                                             .heads = budget ? (uniform ? "uniform" : "profile") : "",
                                             .budget = budget,
                                             .tokens = (uint32_t)e->ids.size};
    return ROCO_OK;
}

/* Asks for a head profile only when it is used. */
static roco_status choose_heads(evaluation *e, bool *profile, bool *uniform, roco_error *error)
{
    roco_profile_origin origin;
    *profile = strcmp(e->heads, "uniform") != 0;
    *uniform = strcmp(e->heads, "profile") != 0;
    if (*profile && *uniform && strcmp(e->heads, "both") != 0)
        return roco_fail(error, ROCO_INVALID, "heads", "--heads must be profile, uniform or both");
    if (!*profile)
        return ROCO_OK;
    roco_status status = roco_profile_find(e->setup.engine, e->setup.source, e->setup.tokenizer,
                                           e->setup.options.head_profile, NULL, NULL, &origin, error);
    if (status)
        return status;
    if (!*uniform && !roco_engine_describe(e->setup.engine)->has_profile)
        return roco_fail(error, ROCO_INVALID, "heads", "there is no head profile: %s", origin.warning);
    *profile = roco_engine_describe(e->setup.engine)->has_profile;
    return ROCO_OK;
}

static roco_status plan(evaluation *e, roco_error *error)
{
    uint32_t budgets[MOST_BUDGETS], n_budgets;
    bool profile, uniform;
    roco_status status = read_budgets(e->budgets, budgets, &n_budgets, error);
    if (!status)
        status = choose_heads(e, &profile, &uniform, error);
    char name[32];
    for (const char *list = e->policies; !status && next_word(&list, name, sizeof name);) {
        const roco_policy *policy = roco_policy_find(name);
        if (!policy)
            return roco_fail(error, ROCO_INVALID, "policies", "--policies: there is no '%s'; known are %s", name,
                             roco_policy_names());
        if (!policy->evicts)
            status = add_run(e, policy, 0, true, error);
        for (uint32_t i = 0; i < n_budgets && policy->evicts && !status; i++) {
            if (uniform)
                status = add_run(e, policy, budgets[i], true, error);
            if (profile && !status)
                status = add_run(e, policy, budgets[i], false, error);
        }
    }
    if (!status && !e->n_rows)
        return roco_fail(error, ROCO_INVALID, "policies", "there is nothing to do: no policy, or no budget");
    return status;
}

/* --- the numbers --- */

static void measure(evaluation *e)
{
    const uint32_t n = (uint32_t)e->ids.size, second = n - e->passage;
    double full = NAN;
    for (uint32_t i = 0; i < e->n_rows; i++) {
        roco_report_row *row = &e->rows[i];
        const double *nll = e->runs[i].nll;
        row->held = e->runs[i].kept.held;
        if (e->recall) {
            row->values[0] = roco_perplexity(nll, second + MARGIN, n - 1);
            row->values[1] = roco_perplexity(nll, 0, second - MARGIN);
        } else {
            row->values[0] = roco_perplexity(nll, 0, n - 1);
            full = e->runs[i].policy->evicts ? full : row->values[0];
        }
    }
    for (uint32_t i = 0; i < e->n_rows && !e->recall; i++)
        e->rows[i].values[1] = 100 * (e->rows[i].values[0] / full - 1);
}

static roco_status evaluate(evaluation *e, roco_error *error)
{
    roco_status status = read_text(e, error);
    if (!status)
        status = plan(e, error);
    if (!status)
        status = roco_score(&e->setup, e->runs, e->n_rows, error);
    if (status)
        return status;
    measure(e);
    const roco_report report = {
        .names = {e->recall ? "recall" : "perplexity", e->recall ? "elsewhere" : "percent_over_full"},
        .rows = e->rows,
        .n_rows = e->n_rows};
    roco_report_print(&report);
    status = roco_report_write_csv(&report, e->csv, error);
    return status ? status : roco_report_write_json(&report, e->json, error);
}

int roco_eval(int argc, char **argv, char **environment)
{
    evaluation *e = calloc(1, sizeof *e);
    if (!e)
        return 1;
    *e = (evaluation){.text = "",
                      .policies = "full,roco",
                      .budgets = "512,256,128",
                      .heads = "both",
                      .csv = "",
                      .json = "",
                      .tokens = 4096,
                      .passage = 400,
                      .depth = 600,
                      .filler = 600};
    const roco_eval_flag flags[] = {
        {"text", &e->text, NULL, 0, 0, "text to measure on; needed"},
        {"policies", &e->policies, NULL, 0, 0, "with commas between (full,roco)"},
        {"budgets", &e->budgets, NULL, 0, 0, "tokens, with commas between (512,256,128)"},
        {"heads", &e->heads, NULL, 0, 0, "how a budget is spent: profile, uniform or both (both)"},
        {"tokens", NULL, &e->tokens, 2, INT32_MAX, "ppl: of the text, at most (4096)"},
        {"passage", NULL, &e->passage, 2 * MARGIN, 100000, "recall: tokens that come twice (400)"},
        {"depth", NULL, &e->depth, 2 * MARGIN, 10000000, "recall: tokens before the passage (600)"},
        {"filler", NULL, &e->filler, 0, 10000000, "recall: tokens between the two copies (600)"},
        {"csv", &e->csv, NULL, 0, 0, "file that gets the table as CSV"},
        {"json", &e->json, NULL, 0, 0, "file that gets the table as JSON"},
        {0},
    };
    const char *what = argc > 0 ? argv[0] : "";
    const bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    e->recall = strcmp(what, "recall") == 0;
    if (help || (!e->recall && strcmp(what, "ppl") != 0)) {
        const bool asked = help || strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0;
        roco_eval_help(USAGE, flags, asked ? stdout : stderr);
        free(e);
        return asked ? 0 : 2;
    }
    roco_error error = {0};
    roco_status status = roco_eval_open(argc - 1, argv + 1, environment, flags, &e->setup, &error);
    if (!status)
        status = evaluate(e, &error);
    if (status)
        fprintf(stderr, "roco: %s\n", error.message);
    for (uint32_t i = 0; i < e->n_rows; i++)
        free(e->runs[i].nll);
    roco_ids_free(&e->ids);
    roco_eval_close(&e->setup);
    free(e);
    return status == ROCO_OK ? 0 : status == ROCO_INVALID ? 2 : 1;
}
