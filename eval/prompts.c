/* `roco eval agree` and `compare`: cases on the user's own prompts. Main thread.
 *
 * agree: the full cache answers, and every case reads that answer: the share of places where its most likely token is
 * the same, and how far its probabilities are off. compare: two cases answer on their own.
 */
#include "engine/policies.h"
#include "eval/commands.h"
#include "eval/generate.h"
#include "eval/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROMPTS = 256 };

typedef struct prompts {
    bool side_by_side;
    const char *path, *a, *b, *csv, *json;
    uint32_t n_new;

    roco_eval_cases cases; /* of compare: the two */
    roco_eval_setup setup;
    char *text; /* of the file, cut into prompts */
    const char *starts[MOST_PROMPTS];
    roco_ids ids[MOST_PROMPTS];
    uint32_t n;
    roco_answer *answers; /* [n][group] */
    int32_t *drawn;
    uint32_t group; /* cases of each prompt, the leader included */
    roco_report report;
} prompts;

/* --- the file --- */

/* Lines of "---" stand between prompts; without any each line is one. */
static roco_status cut_prompts(prompts *p, roco_error *error)
{
    static const char fence[] = "\n---\n";
    const bool fenced = strstr(p->text, fence) != NULL;
    for (char *at = p->text; at && *at;) {
        char *end = fenced ? strstr(at, fence) : strchr(at, '\n');
        char *next = end ? end + (fenced ? sizeof fence - 1 : 1) : NULL;
        if (end)
            *end = '\0';
        for (size_t n = strlen(at); n && at[n - 1] == '\n';)
            at[--n] = '\0';
        if (*at && p->n == MOST_PROMPTS)
            return roco_fail(error, ROCO_INVALID, "prompts", "%s has more than %d prompts", p->path, MOST_PROMPTS);
        if (*at)
            p->starts[p->n++] = at;
        at = next;
    }
    return p->n ? ROCO_OK : roco_fail(error, ROCO_INVALID, "prompts", "%s holds no prompt", p->path);
}

static roco_status read_prompts(prompts *p, roco_error *error)
{
    if (!*p->path)
        return roco_fail(error, ROCO_INVALID, "prompts", "--prompts FILE is needed");
    size_t size;
    roco_status status = roco_eval_read_bytes("prompts", p->path, &p->text, &size, error);
    if (!status)
        status = cut_prompts(p, error);
    const uint32_t n_context = roco_engine_describe(p->setup.engine)->n_context;
    for (uint32_t i = 0; i < p->n && !status; i++) {
        status = roco_tokenizer_encode(p->setup.tokenizer, p->starts[i], strlen(p->starts[i]),
                                       ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS, SIZE_MAX, &p->ids[i], error);
        if (!status && (p->ids[i].size == 0 || p->ids[i].size + p->n_new > n_context))
            status = roco_fail(error, ROCO_INVALID, "prompts",
                               "prompt %u has %zu tokens; with %u new ones they must be at most %u, the context", i + 1,
                               p->ids[i].size, p->n_new, n_context);
    }
    return status;
}

/* --- answers --- */

static roco_status answer(prompts *p, roco_error *error)
{
    const bool leads = !p->side_by_side;
    const roco_eval_case full = {.policy = roco_policy_find("full"), .uniform = true};
    p->group = p->cases.n + leads;
    const uint32_t n = p->n * p->group;
    p->answers = calloc(n, sizeof *p->answers);
    p->drawn = calloc((size_t)n * p->n_new, sizeof *p->drawn);
    if (!p->answers || !p->drawn)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t member = i % p->group;
        p->answers[i] = (roco_answer){.how = leads && member == 0 ? full : p->cases.list[member - leads],
                                      .prompt = p->ids[i / p->group].data,
                                      .n_prompt = (uint32_t)p->ids[i / p->group].size,
                                      .drawn = p->drawn + (size_t)i * p->n_new};
    }
    return roco_generate(&p->setup, p->answers, n, leads ? p->group : 1, p->n_new, error);
}

static uint32_t count_equal(const roco_answer *a, const roco_answer *b, bool from_the_start)
{
    const uint32_t n = a->n_drawn < b->n_drawn ? a->n_drawn : b->n_drawn;
    uint32_t equal = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (a->drawn[i] == b->drawn[i])
            equal++;
        else if (from_the_start)
            break;
    }
    return equal;
}

/* --- agree --- */

static roco_status fill_agreement(prompts *p, roco_error *error)
{
    roco_report *r = &p->report;
    const bool strides = *p->cases.strides != '\0';
    uint32_t n = roco_report_name_case(r, strides);
    r->names[n++] = "held";
    r->names[n++] = "agree";
    r->names[n++] = "kl";
    r->names[n++] = "evicted_mass";
    r->n_columns = n;
    roco_status status = ROCO_OK;
    for (uint32_t c = 0; c < p->cases.n && !status; c++) {
        double equal = 0, kl = 0, held = 0, mass = 0;
        for (uint32_t i = 0; i < p->n; i++) {
            const roco_answer *leader = &p->answers[i * p->group], *a = leader + c + 1;
            equal += count_equal(leader, a, false);
            kl += a->kl;
            held += a->kept.held;
            mass += a->evicted_mass;
        }
        roco_cell row[ROCO_MAX_COLUMNS];
        n = roco_report_fill_case(&p->cases.list[c], strides, row);
        row[n++] = roco_cell_count((uint64_t)(held / p->n + 0.5));
        row[n++] = roco_cell_number(equal / ((double)p->n * p->n_new));
        row[n++] = roco_cell_number(p->n_new > 1 ? kl / ((double)p->n * (p->n_new - 1)) : NAN);
        row[n++] = roco_cell_number(mass / p->n);
        status = roco_report_add(r, row, error);
    }
    return status;
}

/* --- compare --- */

static void print_answer(const prompts *p, const char *name, const roco_answer *a)
{
    printf("--- %s, held %u, evicted %u\n", name, a->kept.held, a->kept.evicted);
    for (uint32_t i = 0; i < a->n_drawn; i++) {
        const roco_text piece = roco_tokenizer_piece(p->setup.tokenizer, a->drawn[i], false);
        fwrite(piece.data, 1, piece.size, stdout);
    }
    putchar('\n');
}

static roco_status fill_comparison(prompts *p, roco_error *error)
{
    static const char *const names[] = {"prompt",   "tokens",    "equal_from_start", "answer_a",
                                        "answer_b", "evicted_a", "evicted_b"};
    roco_report *r = &p->report;
    r->n_columns = sizeof names / sizeof *names;
    memcpy(r->names, names, sizeof names);
    roco_status status = ROCO_OK;
    for (uint32_t i = 0; i < p->n && !status; i++) {
        const roco_answer *a = &p->answers[i * p->group], *b = a + 1;
        printf("=== prompt %u, %u tokens: %.60s%s\n", i + 1, a->n_prompt, p->starts[i],
               strlen(p->starts[i]) > 60 ? "..." : "");
        print_answer(p, p->a, a);
        print_answer(p, p->b, b);
        const roco_cell row[] = {
            roco_cell_count(i + 1),          roco_cell_count(a->n_prompt), roco_cell_count(count_equal(a, b, true)),
            roco_cell_count(a->n_drawn),     roco_cell_count(b->n_drawn),  roco_cell_count(a->kept.evicted),
            roco_cell_count(b->kept.evicted)};
        status = roco_report_add(r, row, error);
    }
    putchar('\n');
    return status;
}

static roco_status read_two(prompts *p, roco_error *error)
{
    p->cases.list = calloc(2, sizeof *p->cases.list);
    if (!p->cases.list)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    p->cases.n = 2;
    roco_status status = roco_eval_case_read(&p->setup, "a", p->a, &p->cases.list[0], error);
    return status ? status : roco_eval_case_read(&p->setup, "b", p->b, &p->cases.list[1], error);
}

/* --- both --- */

static roco_status evaluate(prompts *p, roco_error *error)
{
    roco_status status = p->side_by_side ? read_two(p, error) : roco_eval_cases_make(&p->setup, &p->cases, error);
    if (!status)
        status = read_prompts(p, error);
    if (!status)
        status = answer(p, error);
    if (!status)
        status = p->side_by_side ? fill_comparison(p, error) : fill_agreement(p, error);
    if (status)
        return status;
    roco_report_print(&p->report);
    status = roco_report_write_csv(&p->report, p->csv, error);
    return status ? status : roco_report_write_json(&p->report, p->json, error);
}

int roco_eval_prompts(bool side_by_side, int argc, char **argv, char **environment)
{
    prompts p = {.side_by_side = side_by_side,
                 .path = "",
                 .a = "full",
                 .b = "roco:512",
                 .csv = "",
                 .json = "",
                 .n_new = 64,
                 .cases = ROCO_EVAL_CASES_DEFAULT};
    p.cases.policies = "roco";
    const roco_eval_flag common[] = {
        {"prompts", &p.path, NULL, 0, 0, "file of prompts, one a line, or with lines of --- between; needed"},
        {"new-tokens", NULL, &p.n_new, 1, 4096, "of an answer (64)"},
        {"csv", &p.csv, NULL, 0, 0, "file that gets the table as CSV"},
        {"json", &p.json, NULL, 0, 0, "file that gets the table as JSON"},
    };
    const roco_eval_flag agree[] = {common[0], common[1], ROCO_EVAL_CASES_FLAGS(p.cases), common[2], common[3], {0}};
    const roco_eval_flag compare[] = {
        common[0],
        common[1],
        {"a", &p.a, NULL, 0, 0, "POLICY:BUDGET[:uniform], or full (full)"},
        {"b", &p.b, NULL, 0, 0, "the other one (roco:512)"},
        common[2],
        common[3],
        {0},
    };
    const roco_eval_flag *flags = side_by_side ? compare : agree;
    const char *usage = side_by_side ? "roco eval compare MODEL.gguf --prompts FILE [--a CASE] [--b CASE] [FLAGS]"
                                     : "roco eval agree MODEL.gguf --prompts FILE [FLAGS]";
    if (roco_eval_helped(argc, argv, usage, flags))
        return 0;
    roco_error error = {0};
    roco_status status = roco_eval_open(argc, argv, environment, flags, &p.setup, &error);
    if (!status)
        status = evaluate(&p, &error);
    for (uint32_t i = 0; i < p.n; i++)
        roco_ids_free(&p.ids[i]);
    free(p.text);
    free(p.answers);
    free(p.drawn);
    roco_report_free(&p.report);
    roco_eval_cases_free(&p.cases);
    roco_eval_close(&p.setup);
    return roco_eval_exit(status, &error);
}
