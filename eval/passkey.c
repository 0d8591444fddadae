/* `roco eval passkey`: a number is told once in a long filler and asked for at its end.
 *
 * The form of the test: Landmark Attention, arXiv 2305.16300, section 4.2. Lengths and depths make the grid, each with
 * several numbers; of an answer's digits the first five count. Main thread.
 */
#include "eval/commands.h"
#include "eval/generate.h"
#include "eval/plot.h"
#include "eval/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIZES = 16, NEW_TOKENS = 12, DIGITS = 5, SHORTEST = 128 };

static const char opening[] =
    "There is a pass key hidden in a lot of text that does not matter. Find it and remember it.\n";
static const char filler[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";
static const char question[] = "What is the pass key? The pass key is";

/* One prompt. */
typedef struct puzzle {
    uint32_t length, depth; /* tokens; percent */
    unsigned key;
    roco_ids ids;
} puzzle;

typedef struct passkey {
    const char *lengths, *depths, *csv, *json, *svg;
    uint32_t trials;
    uint32_t n_lengths, length[MOST_SIZES], n_depths, depth[MOST_SIZES];

    roco_eval_cases cases;
    roco_eval_setup setup;
    puzzle *puzzles;      /* [n_lengths][n_depths][trials] */
    roco_answer *answers; /* [cases.n][puzzles] */
    int32_t *drawn;
    roco_report report;
} passkey;

static uint32_t count_puzzles(const passkey *p)
{
    return p->n_lengths * p->n_depths * p->trials;
}

/* --- prompts --- */

static roco_status append(const passkey *p, const char *text, unsigned flags, roco_ids *ids, roco_error *error)
{
    return roco_tokenizer_encode(p->setup.tokenizer, text, strlen(text), flags, SIZE_MAX, ids, error);
}

/* Whole sentences of filler up to n tokens. */
static roco_status append_filler(const passkey *p, size_t n, roco_ids *ids, roco_error *error)
{
    roco_ids one = {0};
    roco_status status = append(p, filler, 0, &one, error);
    const size_t size = one.size;
    roco_ids_free(&one);
    for (size_t done = 0; !status && size && done + size <= n; done += size)
        status = append(p, filler, 0, ids, error);
    return status;
}

static roco_status write_puzzle(const passkey *p, puzzle *out, roco_error *error)
{
    char told[128];
    roco_ids end = {0}, key = {0};
    snprintf(told, sizeof told, "The pass key is %u. Remember it. %u is the pass key.\n", out->key, out->key);
    roco_status status = append(p, opening, ROCO_ENCODE_ADD_BOS, &out->ids, error);
    if (!status)
        status = append(p, told, 0, &key, error);
    if (!status)
        status = append(p, question, 0, &end, error);
    const size_t fixed = out->ids.size + key.size + end.size;
    const size_t room = out->length > fixed ? out->length - fixed : 0, before = room * out->depth / 100;
    if (!status)
        status = append_filler(p, before, &out->ids, error);
    if (!status)
        status = append(p, told, 0, &out->ids, error);
    if (!status)
        status = append_filler(p, room - before, &out->ids, error);
    if (!status)
        status = append(p, question, 0, &out->ids, error);
    roco_ids_free(&key);
    roco_ids_free(&end);
    return status;
}

/* Numbers of five digits that look alike in nothing; the same ones each time. */
static unsigned key_of(uint32_t index)
{
    uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    return 10000 + (unsigned)((z ^ (z >> 31)) % 90000);
}

static roco_status write_puzzles(passkey *p, roco_error *error)
{
    p->puzzles = calloc(count_puzzles(p), sizeof *p->puzzles);
    if (!p->puzzles)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i < count_puzzles(p) && !status; i++) {
        const uint32_t place = i / p->trials;
        p->puzzles[i] = (puzzle){
            .length = p->length[place / p->n_depths], .depth = p->depth[place % p->n_depths], .key = key_of(i)};
        status = write_puzzle(p, &p->puzzles[i], error);
    }
    return status;
}

/* --- answers --- */

static roco_status ask(passkey *p, roco_error *error)
{
    const uint32_t n_puzzles = count_puzzles(p), n = p->cases.n * n_puzzles;
    p->answers = calloc(n, sizeof *p->answers);
    p->drawn = calloc((size_t)n * NEW_TOKENS, sizeof *p->drawn);
    if (!p->answers || !p->drawn)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        p->answers[i] = (roco_answer){.how = p->cases.list[i / n_puzzles],
                                      .prompt = p->puzzles[i % n_puzzles].ids.data,
                                      .n_prompt = (uint32_t)p->puzzles[i % n_puzzles].ids.size,
                                      .drawn = p->drawn + (size_t)i * NEW_TOKENS};
    return roco_generate(&p->setup, p->answers, n, 1, NEW_TOKENS, error);
}

static bool is_right(const passkey *p, const roco_answer *answer, unsigned key)
{
    char digits[DIGITS + 1] = "", expected[16];
    size_t n = 0;
    for (uint32_t i = 0; i < answer->n_drawn; i++) {
        const roco_text piece = roco_tokenizer_piece(p->setup.tokenizer, answer->drawn[i], false);
        for (size_t k = 0; k < piece.size && n < DIGITS; k++)
            if (piece.data[k] >= '0' && piece.data[k] <= '9')
                digits[n++] = piece.data[k];
    }
    snprintf(expected, sizeof expected, "%u", key);
    return strcmp(digits, expected) == 0;
}

/* Share of right answers of a case at a place of the grid. */
static double found_at(const passkey *p, uint32_t at_case, uint32_t place)
{
    uint32_t right = 0;
    for (uint32_t t = 0; t < p->trials; t++) {
        const uint32_t i = place * p->trials + t;
        right += is_right(p, &p->answers[at_case * count_puzzles(p) + i], p->puzzles[i].key);
    }
    return (double)right / p->trials;
}

/* --- results --- */

static roco_status fill_report(passkey *p, roco_error *error)
{
    roco_report *r = &p->report;
    const bool strides = *p->cases.strides != '\0';
    uint32_t n = roco_report_name_case(r, strides);
    r->names[n++] = "length";
    r->names[n++] = "depth";
    r->names[n++] = "found";
    r->n_columns = n;
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i < p->cases.n; i++)
        for (uint32_t place = 0; place < p->n_lengths * p->n_depths && !status; place++) {
            roco_cell row[ROCO_MAX_COLUMNS];
            n = roco_report_fill_case(&p->cases.list[i], strides, row);
            row[n++] = roco_cell_count(p->length[place / p->n_depths]);
            row[n++] = roco_cell_number(p->depth[place % p->n_depths]);
            row[n++] = roco_cell_number(found_at(p, i, place));
            status = roco_report_add(r, row, error);
        }
    return status;
}

/* On the terminal a line for each case and length; depths side by side. */
static void print(const passkey *p)
{
    printf("%-11s %-8s %6s %6s  share found at a depth of", "policy", "heads", "budget", "length");
    for (uint32_t d = 0; d < p->n_depths; d++)
        printf(" %4u%%", p->depth[d]);
    putchar('\n');
    for (uint32_t i = 0; i < p->cases.n; i++)
        for (uint32_t l = 0; l < p->n_lengths; l++) {
            const roco_eval_case *c = &p->cases.list[i];
            printf("%-11s %-8s %6u %6u  %25s", c->policy->name, c->policy->evicts ? roco_eval_case_heads(c) : "-",
                   c->budget, p->length[l], "");
            for (uint32_t d = 0; d < p->n_depths; d++)
                printf(" %5.2f", found_at(p, i, l * p->n_depths + d));
            putchar('\n');
        }
}

static roco_status plot(const passkey *p, roco_error *error)
{
    const uint32_t n = p->cases.n, n_places = p->n_lengths * p->n_depths;
    char(*names)[64] = calloc(n, sizeof *names);
    const char **panels = calloc(n, sizeof *panels);
    double *values = calloc((size_t)n * n_places, sizeof *values);
    roco_status status = names && panels && values ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < n && !status; i++) {
        const roco_eval_case *c = &p->cases.list[i];
        if (c->policy->evicts)
            snprintf(names[i], sizeof *names, "%s %u, %s", c->policy->name, c->budget, roco_eval_case_heads(c));
        else
            snprintf(names[i], sizeof *names, "%s", c->policy->name);
        panels[i] = names[i];
        for (uint32_t d = 0; d < p->n_depths; d++)
            for (uint32_t l = 0; l < p->n_lengths; l++)
                values[(size_t)i * n_places + d * p->n_lengths + l] = found_at(p, i, l * p->n_depths + d);
    }
    const roco_heat heat = {.title = "Pass key",
                            .row_name = "depth in percent",
                            .column_name = "length in tokens",
                            .panels = panels,
                            .rows = p->depth,
                            .columns = p->length,
                            .n_panels = n,
                            .n_rows = p->n_depths,
                            .n_columns = p->n_lengths,
                            .values = values};
    if (!status)
        status = roco_plot_heat(p->svg, &heat, error);
    free(names);
    free(panels);
    free(values);
    return status;
}

static roco_status evaluate(passkey *p, roco_error *error)
{
    const uint32_t n_context = roco_engine_describe(p->setup.engine)->n_context;
    const uint32_t longest = strcmp(p->cases.positions, "cache") == 0 ? INT32_MAX : n_context - NEW_TOKENS;
    roco_status status =
        roco_eval_read_numbers("lengths", p->lengths, SHORTEST, longest, MOST_SIZES, p->length, &p->n_lengths, error);
    if (!status)
        status = roco_eval_read_numbers("depths", p->depths, 0, 100, MOST_SIZES, p->depth, &p->n_depths, error);
    if (!status && (!p->n_lengths || !p->n_depths))
        status = roco_fail(error, ROCO_INVALID, "lengths", "--lengths and --depths must hold a number");
    if (!status)
        status = roco_eval_cases_make(&p->setup, &p->cases, error);
    if (!status)
        status = write_puzzles(p, error);
    if (!status)
        status = ask(p, error);
    if (!status)
        status = fill_report(p, error);
    if (status)
        return status;
    print(p);
    status = roco_report_write_csv(&p->report, p->csv, error);
    if (!status)
        status = roco_report_write_json(&p->report, p->json, error);
    return status ? status : plot(p, error);
}

int roco_eval_passkey(int argc, char **argv, char **environment)
{
    passkey p = {.lengths = "512,1024,2048",
                 .depths = "0,25,50,75,100",
                 .csv = "",
                 .json = "",
                 .svg = "",
                 .trials = 4,
                 .cases = ROCO_EVAL_CASES_DEFAULT};
    const roco_eval_flag flags[] = {
        ROCO_EVAL_CASES_FLAGS(p.cases),
        {"lengths", &p.lengths, NULL, 0, 0, "tokens of a prompt, with commas between (512,1024,2048)"},
        {"depths", &p.depths, NULL, 0, 0, "where the number is told, in percent of the filler (0,25,50,75,100)"},
        {"trials", NULL, &p.trials, 1, 100, "numbers tried at each length and depth (4)"},
        {"csv", &p.csv, NULL, 0, 0, "file that gets the table as CSV"},
        {"json", &p.json, NULL, 0, 0, "file that gets the table as JSON"},
        {"svg", &p.svg, NULL, 0, 0, "file that gets a plot, lengths by depths for each case"},
        {0},
    };
    if (roco_eval_helped(argc, argv, "roco eval passkey MODEL.gguf [FLAGS]", flags))
        return 0;
    roco_error error = {0};
    roco_status status = roco_eval_open(argc, argv, environment, flags, &p.setup, &error);
    if (!status)
        status = evaluate(&p, &error);
    for (uint32_t i = 0; p.puzzles && i < count_puzzles(&p); i++)
        roco_ids_free(&p.puzzles[i].ids);
    free(p.puzzles);
    free(p.answers);
    free(p.drawn);
    roco_report_free(&p.report);
    roco_eval_cases_free(&p.cases);
    roco_eval_close(&p.setup);
    return roco_eval_exit(status, &error);
}
