/* `roco eval ppl` and `recall`: cases over one text. Main thread. */
#include "eval/commands.h"
#include "eval/plot.h"
#include "eval/report.h"
#include "eval/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 16 };

/* Where in a text the passage and what stands around it are taken from. */
enum { PASSAGE_AT = 200, AROUND_AT = 2000 };

typedef struct evaluation {
    bool recall;
    const char *text, *csv, *json, *svg;
    uint32_t tokens, passage, depth, filler;

    roco_eval_cases cases;
    roco_eval_setup setup;
    roco_ids ids;
    roco_score_run *runs; /* [cases.n] */
    double *nll;          /* [cases.n][ids.size] */
    roco_report report;
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
    const bool past_context = strcmp(e->cases.positions, "cache") == 0;
    if (!*e->text)
        return roco_fail(error, ROCO_INVALID, "text", "--text FILE is needed");
    roco_status status = roco_eval_read_text(&e->setup, e->text, e->recall ? SIZE_MAX : e->tokens, &e->ids, error);
    if (!status && e->recall)
        status = arrange_recall(e, error);
    if (!status && e->ids.size > n_context && !past_context)
        status = roco_fail(error, ROCO_INVALID, "context",
                           "%zu tokens are more than the context of %u (--positions cache goes past it)", e->ids.size,
                           n_context);
    if (!status && e->ids.size < 2)
        status = roco_fail(error, ROCO_INVALID, "text", "the text has fewer than two tokens");
    return status;
}

/* --- the numbers --- */

static roco_status open_runs(evaluation *e, roco_error *error)
{
    const size_t n_ids = e->ids.size;
    e->runs = calloc(e->cases.n, sizeof *e->runs);
    e->nll = calloc(e->cases.n * n_ids, sizeof *e->nll);
    if (!e->runs || !e->nll)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < e->cases.n; i++)
        e->runs[i] = (roco_score_run){
            .how = e->cases.list[i], .ids = e->ids.data, .n_ids = (uint32_t)n_ids, .nll = e->nll + i * n_ids};
    return ROCO_OK;
}

/* The two values of a run: recall and elsewhere; perplexity, and what it is over the full cache's. */
static void value_of(const evaluation *e, uint32_t run, double out[2])
{
    const uint32_t n = (uint32_t)e->ids.size, second = n - e->passage;
    const double *nll = e->runs[run].nll;
    if (e->recall) {
        out[0] = roco_perplexity(nll, second + MARGIN, n - 1);
        out[1] = roco_perplexity(nll, 0, second - MARGIN);
        return;
    }
    double full = NAN;
    for (uint32_t i = 0; i < e->cases.n; i++)
        if (!e->cases.list[i].policy->evicts)
            full = roco_perplexity(e->runs[i].nll, 0, n - 1);
    out[0] = roco_perplexity(nll, 0, n - 1);
    out[1] = 100 * (out[0] / full - 1);
}

static roco_status fill_report(evaluation *e, roco_error *error)
{
    roco_report *r = &e->report;
    const bool strides = *e->cases.strides != '\0';
    uint32_t n = roco_report_name_case(r, strides);
    r->names[n++] = "tokens";
    r->names[n++] = "held";
    r->names[n++] = e->recall ? "recall" : "perplexity";
    r->names[n++] = e->recall ? "elsewhere" : "percent_over_full";
    r->n_columns = n;
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i < e->cases.n && !status; i++) {
        roco_cell row[ROCO_MAX_COLUMNS];
        double values[2];
        n = roco_report_fill_case(&e->cases.list[i], strides, row);
        value_of(e, i, values);
        row[n++] = roco_cell_count(e->ids.size);
        row[n++] = roco_cell_count(e->runs[i].kept.held);
        row[n++] = roco_cell_number(values[0]);
        row[n++] = roco_cell_number(values[1]);
        status = roco_report_add(r, row, error);
    }
    return status;
}

/* One line for each policy, way to spend a budget and stride, over budgets. */
static roco_status plot(const evaluation *e, roco_error *error)
{
    roco_series *series = calloc(ROCO_MAX_SERIES, sizeof *series);
    uint32_t n = 0;
    if (!series)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < e->cases.n; i++) {
        const roco_eval_case *c = &e->cases.list[i];
        char name[sizeof series->name];
        double values[2];
        value_of(e, i, values);
        snprintf(name, sizeof name, "%s%s", c->policy->name, c->policy->evicts && !c->uniform ? ", by head" : "");
        if (c->stride)
            snprintf(name + strlen(name), sizeof name - strlen(name), ", stride %u", c->stride);
        uint32_t at = 0;
        while (at < n && strcmp(series[at].name, name) != 0)
            at++;
        if (at == ROCO_MAX_SERIES || series[at].n == ROCO_MAX_POINTS)
            continue;
        n = at == n ? n + 1 : n;
        snprintf(series[at].name, sizeof series[at].name, "%s", name);
        series[at].dashed = !c->uniform;
        series[at].colour = (uint32_t)c->policy->id;
        series[at].x[series[at].n] = c->budget;
        series[at].y[series[at].n++] = values[0];
    }
    char title[96];
    snprintf(title, sizeof title, "%s, %zu tokens",
             e->recall ? "Recall: perplexity of a passage's second copy" : "Perplexity", e->ids.size);
    roco_status status = roco_plot_lines(e->svg, title, "budget (tokens)", e->recall ? "recall" : "perplexity",
                                         e->recall, series, n, error);
    free(series);
    return status;
}

static roco_status evaluate(evaluation *e, roco_error *error)
{
    roco_status status = read_text(e, error);
    if (!status)
        status = roco_eval_cases_make(&e->setup, &e->cases, error);
    if (!status)
        status = open_runs(e, error);
    if (!status)
        status = roco_score(&e->setup, e->runs, e->cases.n, error);
    if (!status)
        status = fill_report(e, error);
    if (status)
        return status;
    roco_report_print(&e->report);
    status = roco_report_write_csv(&e->report, e->csv, error);
    if (!status)
        status = roco_report_write_json(&e->report, e->json, error);
    return status ? status : plot(e, error);
}

int roco_eval_text(bool recall, int argc, char **argv, char **environment)
{
    evaluation e = {.recall = recall,
                    .text = "",
                    .csv = "",
                    .json = "",
                    .svg = "",
                    .tokens = 4096,
                    .passage = 400,
                    .depth = 600,
                    .filler = 600,
                    .cases = ROCO_EVAL_CASES_DEFAULT};
    const roco_eval_flag flags[] = {
        {"text", &e.text, NULL, 0, 0, "text to measure on; needed"},
        ROCO_EVAL_CASES_FLAGS(e.cases),
        {"tokens", NULL, &e.tokens, 2, INT32_MAX, "ppl: of the text, at most (4096)"},
        {"passage", NULL, &e.passage, 2 * MARGIN, 100000, "recall: tokens that come twice (400)"},
        {"depth", NULL, &e.depth, 2 * MARGIN, 10000000, "recall: tokens before the passage (600)"},
        {"filler", NULL, &e.filler, 0, 10000000, "recall: tokens between the two copies (600)"},
        {"csv", &e.csv, NULL, 0, 0, "file that gets the table as CSV"},
        {"json", &e.json, NULL, 0, 0, "file that gets the table as JSON"},
        {"svg", &e.svg, NULL, 0, 0, "file that gets a plot"},
        {0},
    };
    if (roco_eval_helped(argc, argv, "roco eval ppl|recall MODEL.gguf --text FILE [FLAGS]", flags))
        return 0;
    roco_error error = {0};
    roco_status status = roco_eval_open(argc, argv, environment, flags, &e.setup, &error);
    if (!status)
        status = evaluate(&e, &error);
    roco_report_free(&e.report);
    free(e.runs);
    free(e.nll);
    roco_ids_free(&e.ids);
    roco_eval_cases_free(&e.cases);
    roco_eval_close(&e.setup);
    return roco_eval_exit(status, &error);
}
