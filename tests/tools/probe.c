/* Runs one sequence of given token ids through the engine and writes what the Python tests compare with the reference.
 *
 *     probe MODEL IDS.json [--tokens N] [--decode N] [--policy P] [--budget B] [--head-budgets FILE] [--stride N]
 * [--precision P]
 *           [--kv-type T] [--isa I] [--threads N] [--step-tokens N] [--logits OUT] [--kept OUT] [--nll] [--company N]
 *           [--rope-scaling S] [--rope-factor F] [--profile OUT] [--mass] [--by-rank]
 *
 * --decode N feeds the last N ids one by one, as decode does. --logits writes float32 [tokens, vocabulary]; --kept
 * writes a line "layer head position position ..." per head, ascending; --nll prints the mean of -log p of ids[1..].
 * --mass prints the share of attention that evicted tokens drew.
 * --company N has two more sequences in every batch, a prompt of N tokens in strides and one that decodes.
 * --profile takes the first half of the ids as passage, the second as filler, and writes the head profile; nothing else
 * is done.
 */
#include "engine/engine.h"
#include "engine/policies.h"
#include "engine/profile.h"
#include "kernels/kv_code.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *model, *ids, *policy, *head_budgets, *precision, *kv_type, *isa, *rope_scaling, *rope_factor, *logits,
        *kept, *profile;
    uint32_t tokens, decode, budget, stride, threads, step_tokens, company;
    bool nll, mass, by_rank, compensate;
} options;

typedef struct totals {
    double nll;
    uint32_t n_scored;
} totals;

static void stop(const char *what)
{
    fprintf(stderr, "probe: %s\n", what);
    exit(1);
}

/* Every integer in a file of JSON lists. */
static int32_t *read_ints(const char *path, uint32_t *count)
{
    FILE *file = fopen(path, "r");
    if (!file)
        stop("cannot read a list of integers");
    int32_t *out = NULL;
    uint32_t n = 0, capacity = 0;
    for (int c; (c = fgetc(file)) != EOF;) {
        if (!isdigit(c))
            continue;
        ungetc(c, file);
        if (n == capacity)
            out = realloc(out, (capacity = capacity ? 2 * capacity : 1024) * sizeof *out);
        if (!out || fscanf(file, "%d", &out[n++]) != 1)
            stop("bad integer");
    }
    fclose(file);
    *count = n;
    return out;
}

static options parse(int argc, char **argv)
{
    options o = {.policy = "full",
                 .precision = "f32",
                 .kv_type = "f32",
                 .budget = 512,
                 .stride = 64,
                 .threads = 2,
                 .step_tokens = 256};
    const struct {
        const char *name;
        const char **text;
        uint32_t *number;
    } rows[] = {
        {"--policy", &o.policy, NULL},
        {"--head-budgets", &o.head_budgets, NULL},
        {"--precision", &o.precision, NULL},
        {"--kv-type", &o.kv_type, NULL},
        {"--isa", &o.isa, NULL},
        {"--rope-scaling", &o.rope_scaling, NULL},
        {"--rope-factor", &o.rope_factor, NULL},
        {"--logits", &o.logits, NULL},
        {"--kept", &o.kept, NULL},
        {"--profile", &o.profile, NULL},
        {"--tokens", NULL, &o.tokens},
        {"--decode", NULL, &o.decode},
        {"--budget", NULL, &o.budget},
        {"--stride", NULL, &o.stride},
        {"--threads", NULL, &o.threads},
        {"--step-tokens", NULL, &o.step_tokens},
        {"--company", NULL, &o.company},
    };
    if (argc < 3)
        stop("usage: probe MODEL IDS.json [options]");
    o.model = argv[1];
    o.ids = argv[2];
    for (int i = 3; i < argc; i++) {
        const bool nll = !strcmp(argv[i], "--nll"), mass = !strcmp(argv[i], "--mass");
        const bool by_rank = !strcmp(argv[i], "--by-rank"), compensate = !strcmp(argv[i], "--compensate");
        bool known = nll || mass || by_rank || compensate;
        o.nll |= nll;
        o.mass |= mass;
        o.by_rank |= by_rank;
        o.compensate |= compensate;
        for (size_t r = 0; !known && r < sizeof rows / sizeof rows[0]; r++) {
            if (strcmp(argv[i], rows[r].name) || i + 1 >= argc)
                continue;
            known = true;
            i++;
            if (rows[r].text)
                *rows[r].text = argv[i];
            else
                *rows[r].number = (uint32_t)strtoul(argv[i], NULL, 10);
            break;
        }
        if (!known)
            stop("unknown option");
    }
    return o;
}

static void score(const float *logits, uint32_t n_vocab, int32_t target, totals *t)
{
    double highest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        highest = fmax(highest, logits[i]);
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp(logits[i] - highest);
    t->nll += highest + log(sum) - logits[target];
    t->n_scored++;
}

/* Sequences whose results nobody looks at, to be in the batch. */
typedef struct company {
    roco_cache *prompt, *decoding;
    uint32_t n_prompt, fed, stride; /* tokens of `prompt`, those fed */
} company;

static roco_cache *open_plain(roco_engine *engine, uint32_t length, uint32_t first_page, uint32_t *n_pages)
{
    roco_cache_spec spec = {.policy = roco_policy_find("full"), .length = length};
    uint32_t pages[4096];
    roco_cache *cache = NULL;
    *n_pages = roco_cache_pages(engine, &spec);
    if (first_page + *n_pages > roco_engine_describe(engine)->n_pages || *n_pages > 4096)
        stop("no room for company");
    for (uint32_t i = 0; i < *n_pages; i++)
        pages[i] = first_page + i;
    if (roco_cache_open(engine, &spec, pages, &cache, NULL))
        stop("the company's cache cannot be opened");
    return cache;
}

static void open_company(roco_engine *engine, const options *o, uint32_t first_page, uint32_t n_steps, company *c)
{
    uint32_t n_pages;
    *c = (company){.n_prompt = o->company, .stride = o->stride};
    if (!o->company)
        return;
    c->prompt = open_plain(engine, o->company, first_page, &n_pages);
    c->decoding = open_plain(engine, n_steps, first_page + n_pages, &n_pages);
}

/* Adds what company there is to the items; their number. */
static uint32_t invite(company *c, const int32_t *ids, roco_step_item *items)
{
    uint32_t n = 0, left = c->n_prompt - c->fed, take = left < c->stride ? left : c->stride;
    if (c->decoding)
        items[n++] = (roco_step_item){.cache = c->decoding, .tokens = ids + c->fed, .n_tokens = 1, .decode = true};
    if (take)
        items[n++] = (roco_step_item){.cache = c->prompt, .tokens = ids + c->fed, .n_tokens = take};
    c->fed += take;
    return n;
}

static void feed(roco_engine *engine, roco_cache *cache, const options *o, const int32_t *ids, uint32_t n, company *c,
                 totals *total)
{
    const uint32_t n_vocab = roco_engine_describe(engine)->n_vocab;
    const bool wanted = o->logits || o->nll;
    float *logits = wanted ? malloc((size_t)o->step_tokens * n_vocab * sizeof *logits) : NULL;
    FILE *out = o->logits ? fopen(o->logits, "wb") : NULL;
    const uint32_t prompt = n - o->decode;
    for (uint32_t at = 0; at < n;) {
        const bool decode = at >= prompt;
        uint32_t take = decode ? 1 : o->company ? o->stride : o->step_tokens / o->stride * o->stride;
        if (!decode && take > prompt - at)
            take = prompt - at;
        roco_step_item items[3];
        const uint32_t n_others = invite(c, ids, items);
        items[n_others] =
            (roco_step_item){.cache = cache, .tokens = ids + at, .n_tokens = take, .decode = decode, .logits = logits};
        roco_error error;
        if (roco_engine_step(engine, items, n_others + 1, &error))
            stop(error.message);
        if (out && fwrite(logits, sizeof *logits, (size_t)take * n_vocab, out) != (size_t)take * n_vocab)
            stop("cannot write logits");
        for (uint32_t t = 0; o->nll && t < take && at + t + 1 < n; t++)
            score(logits + (size_t)t * n_vocab, n_vocab, ids[at + t + 1], total);
        at += take;
    }
    if (out && fclose(out))
        stop("cannot write logits");
    free(logits);
}

static int ascending(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static void write_kept(const roco_engine *engine, const roco_cache *cache, const char *path, uint32_t n)
{
    const roco_engine_info *info = roco_engine_describe(engine);
    FILE *out = fopen(path, "w");
    int32_t *positions = malloc(n * sizeof *positions);
    if (!out || !positions)
        stop("cannot write kept positions");
    for (uint32_t l = 0; l < info->n_layers; l++)
        for (uint32_t h = 0; h < info->n_kv_heads; h++) {
            uint32_t held = roco_cache_positions(engine, cache, l, h, positions);
            qsort(positions, held, sizeof *positions, ascending);
            fprintf(out, "%u %u", l, h);
            for (uint32_t i = 0; i < held; i++)
                fprintf(out, " %d", positions[i]);
            fputc('\n', out);
        }
    free(positions);
    if (fclose(out))
        stop("cannot write kept positions");
}

static void profile(roco_engine *engine, const roco_source *gguf, const options *o)
{
    const roco_engine_info *info = roco_engine_describe(engine);
    uint32_t n;
    int32_t *ids = read_ints(o->ids, &n);
    float *scores = malloc((size_t)info->n_layers * info->n_kv_heads * sizeof *scores);
    roco_error error;
    if (!scores || roco_profile_measure(engine, ids, n / 2, n - n / 2, NULL, NULL, scores, &error) ||
        roco_profile_write(o->profile, gguf, info, scores, &error))
        stop(error.message);
    free(scores);
    free(ids);
}

static void run(roco_engine *engine, const options *o)
{
    uint32_t n, n_heads = 0;
    int32_t *ids = read_ints(o->ids, &n);
    if (o->tokens && o->tokens < n)
        n = o->tokens;
    int32_t *head_budgets = o->head_budgets ? read_ints(o->head_budgets, &n_heads) : NULL;
    roco_cache_spec spec = {.policy = roco_policy_find(o->policy),
                            .budget = o->budget,
                            .length = n,
                            .by_rank = o->by_rank,
                            .compensate = o->compensate,
                            .sink = 4,
                            .recent = 10,
                            .head_budgets = (const uint32_t *)head_budgets};
    if (!spec.policy || o->decode > n)
        stop("no such policy, or fewer tokens than --decode");
    const uint32_t n_pages = roco_cache_pages(engine, &spec);
    uint32_t *pages = malloc((n_pages + 1u) * sizeof *pages);
    for (uint32_t i = 0; pages && i < n_pages; i++)
        pages[i] = n_pages - 1 - i; /* any order must do */
    roco_cache *cache = NULL;
    roco_error error;
    if (!pages || n_pages > roco_engine_describe(engine)->n_pages ||
        roco_cache_open(engine, &spec, pages, &cache, &error))
        stop("the cache cannot be opened");
    totals total = {0};
    company others;
    open_company(engine, o, n_pages, n, &others);
    feed(engine, cache, o, ids, n, &others, &total);
    roco_cache_check(engine, cache);
    roco_cache_close(engine, others.prompt);
    roco_cache_close(engine, others.decoding);
    if (o->kept)
        write_kept(engine, cache, o->kept, n);
    if (o->nll)
        printf("%.6f\n", total.nll / total.n_scored);
    if (o->mass)
        printf("%.6f\n", roco_cache_evicted_mass(engine, cache));
    roco_cache_close(engine, cache);
    free(pages);
    free(head_budgets);
    free(ids);
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    roco_error error;
    roco_source *gguf = NULL;
    roco_engine *engine = NULL;
    roco_kv_type kv_type;
    if (!roco_kv_type_find(o.kv_type, &kv_type))
        stop("--kv-type is f16, f32, q8 or q4");
    if (roco_source_open(o.model, &gguf, &error))
        stop(error.message);
    roco_engine_config config = {.source = gguf,
                                 .backend = "cpu",
                                 .precision = o.precision,
                                 .isa = o.isa,
                                 .rope = {o.rope_scaling, o.rope_factor, 0},
                                 .threads = o.threads,
                                 .kv_type = kv_type,
                                 .kv_pool_tokens = 8192,
                                 .stride = o.stride,
                                 .step_tokens = o.step_tokens};
    if (roco_engine_open(&config, &engine, &error))
        stop(error.message);
    if (o.profile)
        profile(engine, gguf, &o);
    else
        run(engine, &o);
    roco_engine_close(engine);
    roco_source_close(gguf);
    return 0;
}
