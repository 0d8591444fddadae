/* `roco bench`: the engine's speed by context, budget and batch, and where a step's time goes. Main thread.
 *
 * Figures are of one run on one machine: compare them with others of the same run, like the memory-read limit that is
 * measured beside them.
 */
#include "eval/bench_measure.h"

#include "engine/policies.h"
#include "engine/profile.h"
#include "eval/eval.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "roco bench MODEL [FLAGS]"

enum { MOST_NUMBERS = 16, MOST_CASES = 256, MOST_TIMED = 3, DRAWS = 3 };

typedef struct numbers {
    uint32_t at[MOST_NUMBERS], n;
} numbers;

typedef struct draw_row {
    const char *name;
    roco_sampling sampling;
    double ns;
} draw_row;

typedef struct benchmark {
    const char *prompts, *contexts, *budgets, *batches, *policy, *json;
    uint32_t rounds, steps, eviction_budget;
    roco_eval_setup setup;
    roco_bench bench;
    roco_bench_case cases[MOST_CASES];
    uint32_t n_cases;
    roco_bench_case timed[MOST_TIMED];
    uint32_t n_timed;
    double bandwidth, eviction;
    draw_row draws[DRAWS];
} benchmark;

/* --- what is measured --- */

/* "0,512,none": none is 0. */
static roco_status read_numbers(const char *name, const char *list, uint32_t low, numbers *out, roco_error *error)
{
    *out = (numbers){0};
    while (*list) {
        char *end;
        errno = 0;
        const bool none = strncmp(list, "none", 4) == 0;
        const unsigned long value = none ? 0 : strtoul(list, &end, 10);
        const char *next = none ? list + 4 : end;
        if (errno || next == list || (*next && *next != ',') || value > INT32_MAX || (!none && value < low) ||
            out->n == MOST_NUMBERS)
            return roco_fail(error, ROCO_INVALID, name, "--%s: '%.40s' is not a list of up to %d numbers from %u on",
                             name, list, MOST_NUMBERS, low);
        out->at[out->n++] = (uint32_t)value;
        list = *next ? next + 1 : next;
    }
    return ROCO_OK;
}

static void add_case(benchmark *b, roco_bench_case c)
{
    if (b->n_cases < MOST_CASES)
        b->cases[b->n_cases++] = c;
}

/* Where the time goes is asked of a prompt, of an answer's start, and of an answer under the last budget. */
static void add_timed(benchmark *b, const roco_bench_case *c)
{
    b->timed[b->n_timed] = *c;
    b->timed[b->n_timed++].timed = true;
}

static roco_status plan(benchmark *b, roco_error *error)
{
    numbers prompts, contexts, budgets, batches;
    roco_status status;
    if ((status = read_numbers("prompts", b->prompts, 1, &prompts, error)) ||
        (status = read_numbers("contexts", b->contexts, 0, &contexts, error)) ||
        (status = read_numbers("budgets", b->budgets, 32, &budgets, error)) ||
        (status = read_numbers("batches", b->batches, 1, &batches, error)))
        return status;
    for (uint32_t i = 0; i < prompts.n; i++)
        for (uint32_t k = 0; k < budgets.n; k++)
            if (budgets.at[k] < prompts.at[i])
                add_case(b, (roco_bench_case){.context = prompts.at[i], .batch = 1, .budget = budgets.at[k]});
    if (b->n_cases)
        add_timed(b, &b->cases[0]);
    const uint32_t first = b->n_cases;
    for (uint32_t i = 0; i < contexts.n; i++)
        for (uint32_t k = 0; k < budgets.n; k++)
            if (budgets.at[k] < contexts.at[i] || budgets.at[k] == 0)
                add_case(b, (roco_bench_case){
                                .decode = true, .context = contexts.at[i], .batch = 1, .budget = budgets.at[k]});
    if (b->n_cases > first)
        add_timed(b, &b->cases[first]);
    if (b->n_cases > first && b->cases[b->n_cases - 1].budget)
        add_timed(b, &b->cases[b->n_cases - 1]);
    for (uint32_t i = 0; i < batches.n && contexts.n; i++)
        for (uint32_t k = 0; k < budgets.n && batches.at[i] > 1; k++)
            if (budgets.at[k] < contexts.at[0] || budgets.at[k] == 0)
                add_case(
                    b, (roco_bench_case){
                           .decode = true, .context = contexts.at[0], .batch = batches.at[i], .budget = budgets.at[k]});
    return ROCO_OK;
}

/* --- the report for people --- */

static void print_budget(uint32_t budget)
{
    if (budget)
        printf("%7" PRIu32, budget);
    else
        printf("%7s", "-");
}

static void print_case(const benchmark *b, const roco_bench_case *c)
{
    printf("%-8s %7" PRIu32 " ", c->decode ? "decode" : "prefill", c->context);
    print_budget(c->budget);
    printf(" %5" PRIu32, c->batch);
    if (!c->fits) {
        printf("  does not fit in context or pool\n");
        return;
    }
    printf(" %10.1f  %10.1f %10.1f", c->rate, c->low, c->high);
    if (c->decode && b->bandwidth > 0)
        printf("  %6.1f %%", 100 * c->rate / c->batch * c->bytes / b->bandwidth);
    printf("\n");
    fflush(stdout);
}

static void print_timed(const roco_bench_case *c)
{
    double sum = 0;
    printf("\nA step of %s, context %" PRIu32, c->decode ? "decode" : "prefill", c->context);
    if (c->budget)
        printf(", budget %" PRIu32, c->budget);
    printf(": %.0f us with timers\n", c->step_ns / 1e3);
    for (uint32_t i = 0; i < c->n_ops; i++) {
        const double ns = (double)c->ops[i].ns / c->n_steps;
        printf("  %-18s %10.1f us %6.1f %%  (%.0f calls)\n", c->ops[i].name, ns / 1e3, 100 * ns / c->step_ns,
               (double)c->ops[i].n_calls / c->n_steps);
        sum += ns;
    }
    printf("  %-18s %10.1f us %6.1f %%\n", "the rest", (c->step_ns - sum) / 1e3, 100 * (1 - sum / c->step_ns));
}

static void print_head(const benchmark *b)
{
    const roco_engine_info *info = roco_engine_describe(b->setup.engine);
    const double bytes = roco_bench_weight_bytes(&b->setup);
    printf("%s, %s, K and V in %s\n", info->model_name, info->backend, b->setup.options.kv_type);
    printf(
        "memory reads %.1f GB/s (buffer as large as the weights of a step, %.0f MB): at most %.0f decode steps/s\n\n",
        b->bandwidth / 1e9, bytes / 1e6, b->bandwidth / bytes);
    printf("%-8s %7s %7s %5s %10s  %10s %10s  %8s\n", "", "context", "budget", "batch", "tokens/s", "slow", "fast",
           "of limit");
}

/* --- JSON --- */

static void write_case(FILE *out, const benchmark *b, const roco_bench_case *c, bool last)
{
    fprintf(out,
            "  {\"what\": \"%s\", \"context\": %" PRIu32 ", \"budget\": %" PRIu32 ", \"batch\": %" PRIu32
            ", \"fits\": %s, \"tokens_per_second\": %.2f, \"slow\": %.2f, \"fast\": %.2f, \"of_limit\": %.4f}%s\n",
            c->decode ? "decode" : "prefill", c->context, c->budget, c->batch, c->fits ? "true" : "false", c->rate,
            c->low, c->high, c->decode && b->bandwidth > 0 ? c->rate / c->batch * c->bytes / b->bandwidth : 0.0,
            last ? "" : ",");
}

static void write_timed(FILE *out, const roco_bench_case *c, bool last)
{
    fprintf(out,
            "  {\"what\": \"%s\", \"context\": %" PRIu32 ", \"budget\": %" PRIu32 ", \"step_us\": %.2f, \"ops\": {",
            c->decode ? "decode" : "prefill", c->context, c->budget, c->step_ns / 1e3);
    for (uint32_t i = 0; i < c->n_ops; i++)
        fprintf(out, "%s\"%s\": %.2f", i ? ", " : "", c->ops[i].name, (double)c->ops[i].ns / c->n_steps / 1e3);
    fprintf(out, "}}%s\n", last ? "" : ",");
}

static roco_status write_json(const benchmark *b, roco_error *error)
{
    if (!*b->json)
        return ROCO_OK;
    FILE *out = fopen(b->json, "w");
    if (!out)
        return roco_fail(error, ROCO_IO, "json", "%s cannot be written: %s", b->json, strerror(errno));
    const roco_engine_info *info = roco_engine_describe(b->setup.engine);
    fprintf(out, "{\n \"model\": \"");
    for (const char *c = info->model_name; *c; c++)
        fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    fprintf(out, "\", \"backend\": \"%s\", \"kv_type\": \"%s\",\n", info->backend, b->setup.options.kv_type);
    fprintf(out, " \"read_bytes_per_second\": %.0f, \"weight_bytes\": %.0f, \"eviction_share\": %.4f,\n \"cases\": [\n",
            b->bandwidth, roco_bench_weight_bytes(&b->setup), b->eviction);
    for (uint32_t i = 0; i < b->n_cases; i++)
        write_case(out, b, &b->cases[i], i + 1 == b->n_cases);
    fprintf(out, " ],\n \"steps\": [\n");
    for (uint32_t i = 0; i < b->n_timed; i++)
        write_timed(out, &b->timed[i], i + 1 == b->n_timed);
    fprintf(out, " ],\n \"draws_us\": {");
    for (int i = 0; i < DRAWS; i++)
        fprintf(out, "%s\"%s\": %.2f", i ? ", " : "", b->draws[i].name, b->draws[i].ns / 1e3);
    fprintf(out, "}\n}\n");
    const bool failed = ferror(out) != 0;
    if (fclose(out) || failed)
        return roco_fail(error, ROCO_IO, "json", "%s cannot be written", b->json);
    return ROCO_OK;
}

/* --- the run --- */

static roco_status run_draws(benchmark *b, roco_error *error)
{
    const draw_row rows[DRAWS] = {{"greedy", {.temperature = 0}, 0},
                                  {"top_p 0.9", {.temperature = 0.8f, .top_p = 0.9f}, 0},
                                  {"top_k 40, top_p 0.9", {.temperature = 0.8f, .top_p = 0.9f, .top_k = 40}, 0}};
    roco_status status = ROCO_OK;
    memcpy(b->draws, rows, sizeof rows);
    printf("\nDrawing a token:");
    for (int i = 0; i < DRAWS && !status; i++) {
        status = roco_bench_draw(&b->bench, &b->draws[i].sampling, &b->draws[i].ns, error);
        printf("%s %s %.0f us", i ? "," : "", b->draws[i].name, b->draws[i].ns / 1e3);
    }
    printf("\n");
    return status;
}

/* Twice the budget is read, and the cache then holds half of the steps more. */
static bool eviction_fits(const benchmark *b)
{
    const roco_engine_info *info = roco_engine_describe(b->setup.engine);
    return b->bench.policy->evicts && 2 * b->eviction_budget + b->steps <= info->n_context &&
           b->eviction_budget > b->steps;
}

static roco_status run(benchmark *b, roco_error *error)
{
    roco_status status = plan(b, error);
    if (status)
        return status;
    const uint32_t n_threads = b->setup.options.threads
                                   ? (uint32_t)b->setup.options.threads
                                   : roco_engine_configure(&b->setup.options, b->setup.source).threads;
    b->bandwidth = roco_read_bandwidth(n_threads, (size_t)roco_bench_weight_bytes(&b->setup));
    print_head(b);
    for (uint32_t i = 0; i < b->n_cases && !status; i++) {
        status = roco_bench_run(&b->bench, &b->cases[i], error);
        if (!status)
            print_case(b, &b->cases[i]);
    }
    if (!status && eviction_fits(b) &&
        !(status = roco_bench_eviction(&b->bench, b->eviction_budget, &b->eviction, error)))
        printf("\nStatistics and eviction at budget %" PRIu32 ": %.1f %% of a decode step\n", b->eviction_budget,
               100 * b->eviction);
    if (!status)
        status = run_draws(b, error);
    if (!status)
        status = roco_engine_time(b->setup.engine, error);
    for (uint32_t i = 0; i < b->n_timed && !status; i++) {
        status = roco_bench_run(&b->bench, &b->timed[i], error);
        if (!status && b->timed[i].fits)
            print_timed(&b->timed[i]);
    }
    return status ? status : write_json(b, error);
}

/* Any text is as fast as any other. */
static roco_status prepare(benchmark *b, roco_error *error)
{
    const uint32_t n = roco_engine_describe(b->setup.engine)->n_context;
    const roco_policy *policy = roco_policy_find(b->policy);
    if (!policy)
        return roco_fail(error, ROCO_INVALID, "policy", "there is no policy '%s'", b->policy);
    b->bench = (roco_bench){.setup = &b->setup, .policy = policy, .rounds = b->rounds, .steps = b->steps};
    b->bench.ids = malloc(n * sizeof *b->bench.ids);
    if (!b->bench.ids)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_profile_draw(b->setup.tokenizer, b->bench.ids, n);
    return ROCO_OK;
}

int roco_bench_main(int argc, char **argv, char **environment)
{
    benchmark b = {.prompts = "512,128,2048,6000",
                   .contexts = "0,2048,6144",
                   .budgets = "none,1024,512,256",
                   .batches = "4,8,16,32",
                   .policy = "roco",
                   .json = "",
                   .rounds = 3,
                   .steps = 96,
                   .eviction_budget = 512};
    const roco_eval_flag flags[] = {
        {"prompts", &b.prompts, NULL, 0, 0, "lengths of prompts to read, commas between (512,128,2048,6000)"},
        {"contexts", &b.contexts, NULL, 0, 0, "tokens read before an answer is decoded (0,2048,6144)"},
        {"budgets", &b.budgets, NULL, 0, 0, "budgets where shorter than that; none: a full cache (none,1024,512,256)"},
        {"batches", &b.batches, NULL, 0, 0, "sequences decoded at once at the first context (4,8,16,32)"},
        {"policy", &b.policy, NULL, 0, 0, "policy of the cases with a budget (roco)"},
        {"eviction", NULL, &b.eviction_budget, 32, 65536, "budget at which statistics and eviction are weighed (512)"},
        {"rounds", NULL, &b.rounds, 1, 100, "times a prompt is read (3)"},
        {"steps", NULL, &b.steps, 8, 10000, "tokens decoded for each case (96)"},
        {"json", &b.json, NULL, 0, 0, "file for the figures as JSON"},
        {0},
    };
    if (argc < 1 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        roco_eval_help(USAGE, flags, argc < 1 ? stderr : stdout);
        return argc < 1 ? 2 : 0;
    }
    roco_error error = {0};
    roco_status status = roco_eval_open(argc, argv, environment, flags, &b.setup, &error);
    if (!status)
        status = prepare(&b, &error);
    if (!status)
        status = run(&b, &error);
    if (status)
        fprintf(stderr, "roco: %s\n", error.message);
    free(b.bench.ids);
    roco_eval_close(&b.setup);
    return status == ROCO_OK ? 0 : status == ROCO_INVALID ? 2 : 1;
}
