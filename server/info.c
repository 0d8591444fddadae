/* `roco info`: a model's keys and tensors, and the memory arithmetic of serving it. Reads headers only, so it is quick
 * on any model. Main thread; opens no backend and allocates no pool. */
#include "server/info.h"

#include "config/options.h"
#include "config/status.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/source.h"
#include "kernels/kv_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct sized {
    char text[24];
} sized;

static sized in_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    sized s;
    double value = (double)bytes;
    int unit = -1;
    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        snprintf(s.text, sizeof s.text, "%" PRIu64 " B", bytes);
    else
        snprintf(s.text, sizeof s.text, "%.1f %s", value, units[unit]);
    return s;
}

static void print_files(const roco_source *source)
{
    uint64_t bytes = roco_source_bytes(source), n_files = roco_source_n_files(source);
    printf("%s\n  %s, ", roco_source_path(source), roco_source_format(source));
    if (n_files > 1)
        printf("%" PRIu64 " files, ", n_files);
    printf("%s (%" PRIu64 " bytes), %" PRIu64 " keys, %" PRIu64 " tensors\n", in_bytes(bytes).text, bytes,
           roco_source_n_keys(source), roco_source_n_tensors(source));
}

static void print_keys(const roco_source *source)
{
    enum { WIDEST = 48 };
    char name[WIDEST + 1], value[128];
    int width = 0;
    for (uint64_t i = 0; i < roco_source_n_keys(source); i++) {
        size_t size = roco_source_key_at(source, i, NULL, 0).size;
        int shown = size < WIDEST ? (int)size : WIDEST;
        width = shown > width ? shown : width;
    }
    printf("\nKeys\n");
    for (uint64_t i = 0; i < roco_source_n_keys(source); i++) {
        roco_text_print(roco_source_key_at(source, i, value, sizeof value), name, sizeof name);
        printf("  %-*s  %s\n", width, name, value);
    }
}

/* What the tensors of one type, or of all, add up to. */
typedef struct tally {
    uint64_t n_tensors, n_values, n_bytes;
} tally;

/* `type` UINT32_MAX: all. */
static tally count(const roco_source *source, uint32_t type)
{
    tally t = {0};
    for (uint64_t i = 0; i < roco_source_n_tensors(source); i++) {
        const roco_source_tensor *tensor = roco_source_tensor_at(source, i);
        if (type != UINT32_MAX && (uint32_t)tensor->type != type)
            continue;
        t.n_tensors++;
        t.n_values += tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
        t.n_bytes += tensor->bytes;
    }
    return t;
}

static void print_tally(const char *name, tally t)
{
    printf("  %-6s  %7" PRIu64 "  %14" PRIu64 "  %11s  %5.2f\n", name, t.n_tensors, t.n_values,
           in_bytes(t.n_bytes).text, t.n_values ? (double)t.n_bytes * 8 / (double)t.n_values : 0);
}

static void print_tensors(const roco_source *source)
{
    enum { TYPES = 64 }; /* the format's type numbers are small */
    printf("\nTensors\n  %-6s  %7s  %14s  %11s  %5s\n", "type", "tensors", "values", "bytes", "bits");
    for (uint32_t type = 0; type < TYPES; type++) {
        const roco_type_traits *traits = roco_type_find(type);
        tally t = traits ? count(source, type) : (tally){0};
        if (t.n_tensors > 0)
            print_tally(traits->name, t);
    }
    print_tally("all", count(source, UINT32_MAX));
}

static uint32_t n_windowed(const roco_shape *s)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < s->n_layers; l++)
        n += roco_shape_window(s, l) > 0;
    return n;
}

static void print_model(const char *architecture, const roco_shape *s)
{
    printf("\nModel\n");
    printf("  architecture  %s\n", architecture);
    printf("  layers        %" PRIu32 ", width %" PRIu32 ", feed-forward %" PRIu32 "\n", s->n_layers, s->width,
           s->ffn_width);
    printf("  heads         %" PRIu32 " query, %" PRIu32 " KV of %" PRIu32 " (key) and %" PRIu32 " (value)\n",
           s->n_heads, s->n_kv_heads, s->key_dim, s->value_dim);
    printf("  vocabulary    %" PRIu32 "\n", s->n_vocab);
    printf("  context       %" PRIu32 "\n", s->n_context);
    if (s->window > 0)
        printf("  window        %" PRIu32 " tokens in %" PRIu32 " of the layers\n", s->window, n_windowed(s));
}

/* The arithmetic of the pool. */
typedef struct arithmetic {
    roco_kv_layout layout;
    uint64_t n_heads;    /* over all layers */
    uint64_t n_windowed; /* of these, in layers with a sliding window */
    uint32_t window;
    uint64_t n_pages; /* in the pool; 0 when only the start will tell */
    uint32_t context;
} arithmetic;

static arithmetic work_out(const roco_options *options, const roco_shape *s, double share)
{
    roco_kv_type type = ROCO_KV_F16;
    ROCO_CHECK(roco_kv_type_find(options->kv_type, &type));
    arithmetic a = {
        .layout = roco_kv_layout_make(type, s->key_dim, s->value_dim),
        .n_heads = (uint64_t)s->n_layers * s->n_kv_heads,
        .n_windowed = (uint64_t)n_windowed(s) * s->n_kv_heads,
        .window = s->window,
        .context = s->n_context,
    };
    if (options->context > 0 && options->context < (int64_t)s->n_context)
        a.context = (uint32_t)options->context;
    if (options->kv_pool_tokens > 0)
        a.n_pages = ((uint64_t)options->kv_pool_tokens + a.layout.slots - 1) / a.layout.slots * a.n_heads;
    else if (share == 0)
        a.n_pages = (uint64_t)options->kv_pool_bytes / a.layout.page_bytes;
    return a;
}

/* Pages of a request whose heads hold `budget` tokens; windowed ones never more than their window. */
static uint64_t pages_of(const arithmetic *a, uint32_t budget)
{
    uint32_t windowed = a->window < budget ? a->window : budget;
    return (a->n_heads - a->n_windowed) * roco_kv_pages_for(&a->layout, budget) +
           a->n_windowed * roco_kv_pages_for(&a->layout, windowed);
}

static void print_budget(const arithmetic *a, uint32_t budget, const char *note)
{
    uint64_t pages = pages_of(a, budget);
    printf("  %8" PRIu32 "  %8" PRIu64 "  %11s  ", budget, pages, in_bytes(pages * a->layout.page_bytes).text);
    if (a->n_pages > 0)
        printf("%8" PRIu64 "%s\n", a->n_pages / pages, note);
    else
        printf("%8s%s\n", "-", note);
}

/* Powers of two below the context, the default budget where it falls between, and the whole context. */
static void print_budgets(const arithmetic *a, uint32_t usual)
{
    printf("\nRequests at once, by budget (tokens a head may hold)\n");
    printf("  %8s  %8s  %11s  %8s\n", "budget", "pages", "bytes", "requests");
    for (uint64_t budget = 128, last = 0; last < a->context; last = budget, budget *= 2) {
        uint64_t next = budget < a->context ? budget : a->context;
        if (usual > last && usual < next)
            print_budget(a, usual, "  --kv-budget");
        if (next < a->context)
            print_budget(a, (uint32_t)next, usual == next ? "  --kv-budget" : "");
    }
    print_budget(a, a->context, "  the whole context, nothing evicted");
}

static void print_memory(const roco_source *source, const roco_options *options, const roco_shape *shape, double share)
{
    arithmetic a = work_out(options, shape, share);
    uint64_t page = a.layout.page_bytes, full = pages_of(&a, a.context);
    printf("\nMemory\n");
    printf("  weights       %s, as stored\n", in_bytes(count(source, UINT32_MAX).n_bytes).text);
    printf("  page          %" PRIu64 " bytes: %" PRIu32 " tokens of one KV head of one layer, K and V in %s\n", page,
           a.layout.slots, options->kv_type);
    printf("  full context  %" PRIu32 " tokens x %" PRIu64 " KV heads: %" PRIu64 " pages, %s\n", a.context, a.n_heads,
           full, in_bytes(full * page).text);
    if (a.n_pages > 0)
        printf("  pool          %" PRIu64 " pages, %s: %" PRIu64 " tokens over all layers and heads\n", a.n_pages,
               in_bytes(a.n_pages * page).text, a.n_pages / a.n_heads * a.layout.slots);
    else
        printf("  pool          %s of the memory that is free when the server starts\n", options->kv_pool_share);
    print_budgets(&a, options->kv_budget < (int64_t)a.context ? (uint32_t)options->kv_budget : a.context);
}

static roco_status describe(const roco_options *options, roco_error *error)
{
    roco_source *source;
    const roco_model_family *family;
    roco_shape shape;
    double share;
    roco_status status = roco_pool_read_share(options->kv_pool_share, &share, error);
    if (!status)
        status = roco_source_open(options->model, &source, error);
    if (status)
        return status;
    print_files(source);
    print_keys(source);
    print_tensors(source);
    status = roco_model_family_find(source, &family, error);
    if (!status)
        status = family->read_shape(source, &shape, error);
    if (!status) {
        print_model(family->architecture, &shape);
        print_memory(source, options, &shape, share);
    }
    roco_source_close(source);
    return status;
}

int roco_info(int argc, char **argv, char **environment)
{
    roco_options options;
    roco_options_result result;
    roco_error error;
    int code = 0;
    if (roco_options_parse(&options, argc, argv, environment, stdout, &result, &error)) {
        fprintf(stderr, "roco info: %s\n", error.message);
        code = 2;
    } else if (result == ROCO_OPTIONS_RUN && describe(&options, &error)) {
        fflush(stdout); /* first what could be read, then why it ends there */
        fprintf(stderr, "roco info: %s\n", error.message);
        code = 1;
    }
    roco_options_free(&options);
    return code;
}
