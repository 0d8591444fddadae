/* GET /metrics. The names are an interface: dashboards depend on them. */
#include "server/metrics.h"

#include "engine/policies.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

void roco_metrics_head(roco_json_out *out, const char *name, const char *type, const char *help)
{
    roco_json_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static uint64_t load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* --- single numbers --- */

typedef struct number_row {
    const char *name, *type;
    size_t offset; /* in roco_counters */
    const char *help;
} number_row;

#define AT(member) offsetof(roco_counters, member)
static const number_row number_rows[] = {
    {"roco_requests_running", "gauge", AT(running), "Sequences being generated."},
    {"roco_requests_queued", "gauge", AT(queued), "Sequences waiting for pages."},
    /* A gauge by nature, but a linter allows the suffix for counters and untyped metrics alone. */
    {"roco_pool_pages", "gauge", AT(pages_total), "Pages in the KV pool."},
    {"roco_pages_total", "untyped", AT(pages_total), "The same, under a name that should be a counter's."},
    {"roco_pages_held", "gauge", AT(pages_held), "Pages reserved by running sequences."},
    {"roco_tokens_prompt_total", "counter", AT(tokens_prompt), "Prompt tokens processed."},
    {"roco_tokens_generated_total", "counter", AT(tokens_generated), "Tokens generated."},
    {"roco_submits_rejected_total", "counter", AT(rejected), "Sequences refused: queue full, or can never fit."},
    {"roco_steps_total", "counter", AT(steps), "Forward passes."},
    {"roco_masks_total", "counter", AT(masks), "Masks of allowed tokens used by constrained answers."},
    {"roco_mask_walks_total", "counter", AT(mask_walks),
     "Of these, masks for which the vocabulary was walked through."},
};

static double usage(const roco_counters *counters)
{
    double total = (double)load(&counters->pages_total);
    return total > 0 ? (double)load(&counters->pages_held) / total : 0;
}

static void write_usage(roco_json_out *out, const roco_counters *counters)
{
    roco_metrics_head(out, "roco_pool_usage_ratio", "gauge", "Pages held, of all pages in the KV pool.");
    roco_json_format(out, "roco_pool_usage_ratio %.9g\n", usage(counters));
}

static void write_numbers(roco_json_out *out, const roco_counters *counters)
{
    for (size_t i = 0; i < sizeof number_rows / sizeof *number_rows; i++) {
        const number_row *row = &number_rows[i];
        roco_metrics_head(out, row->name, row->type, row->help);
        const _Atomic uint64_t *value = (const void *)((const char *)counters + row->offset);
        roco_json_format(out, "%s %" PRIu64 "\n", row->name, load(value));
    }
}

static void write_mask_seconds(roco_json_out *out, const roco_counters *counters)
{
    roco_metrics_head(out, "roco_mask_seconds_total", "counter", "Time between steps spent on masks.");
    roco_json_format(out, "roco_mask_seconds_total %.9g\n", (double)load(&counters->mask_ns) * 1e-9);
}

/* --- by label --- */

const char *const roco_outcome_names[ROCO_N_OUTCOMES] = {"stop", "length", "cancelled", "rejected", "error"};

static void write_outcomes(roco_json_out *out, const uint64_t *outcomes)
{
    roco_metrics_head(out, "roco_requests_total", "counter",
                      "Completion requests by outcome, whatever their number of choices.");
    for (size_t i = 0; i < ROCO_N_OUTCOMES; i++)
        roco_json_format(out, "roco_requests_total{outcome=\"%s\"} %" PRIu64 "\n", roco_outcome_names[i], outcomes[i]);
}

static void write_by_policy(roco_json_out *out, const char *name, const char *help, const _Atomic uint64_t *values)
{
    roco_metrics_head(out, name, "counter", help);
    for (const roco_policy *const *policy = roco_policies(); *policy; policy++)
        roco_json_format(out, "%s{policy=\"%s\"} %" PRIu64 "\n", name, (*policy)->name, load(&values[(*policy)->id]));
}

/* --- histograms --- */

static void write_histogram(roco_json_out *out, const char *name, const char *help, const roco_histogram *histogram)
{
    roco_metrics_head(out, name, "histogram", help);
    uint64_t count = 0;
    for (uint32_t i = 0; i < ROCO_HISTOGRAM_BUCKETS; i++) {
        count += load(&histogram->buckets[i]);
        if (i + 1 < ROCO_HISTOGRAM_BUCKETS)
            roco_json_format(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, histogram->bounds[i], count);
        else
            roco_json_format(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, count);
    }
    /* The count is the sum of the buckets just read, so that both agree whatever the writer does meanwhile. */
    roco_json_format(out, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name, (double)load(&histogram->sum_nano) * 1e-9, name,
                     count);
}

/* --- for routers --- */

static void write_alias(roco_json_out *out, const char *model_id, const char *name, double value, const char *help)
{
    roco_metrics_head(out, name, "gauge", help);
    roco_json_format(out, "%s{model_name=", name);
    roco_json_string(out, model_id, strlen(model_id));
    roco_json_format(out, "} %.9g\n", value);
}

/* What the endpoint picker of the Gateway API inference extension reads when it is told of no other names: its model
 * server protocol (docs/proposals/003-model-server-protocol), in the columns for vLLM. */
static void write_aliases(roco_json_out *out, const roco_metrics *m)
{
    const char *id = m->model_id;
    double blocks = m->n_heads ? floor((double)load(&m->counters->pages_total) / m->n_heads) : 0;
    write_alias(out, id, "vllm:num_requests_waiting", (double)load(&m->counters->queued), "roco_requests_queued.");
    write_alias(out, id, "vllm:num_requests_running", (double)load(&m->counters->running), "roco_requests_running.");
    write_alias(out, id, "vllm:kv_cache_usage_perc", usage(m->counters), "roco_pool_usage_ratio.");
    roco_metrics_head(out, "vllm:cache_config_info", "gauge", "Always 1; the labels tell of the KV pool.");
    roco_json_format(out, "vllm:cache_config_info{block_size=\"%" PRIu32 "\",num_gpu_blocks=\"%.0f\"} 1\n",
                     m->page_tokens, blocks);
    roco_metrics_head(out, "vllm:lora_requests_info", "gauge", "No adapters are served.");
    roco_json_raw(out,
                  "vllm:lora_requests_info{max_lora=\"0\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1\n");
}

void roco_metrics_write(roco_json_out *out, const roco_metrics *m)
{
    const roco_counters *counters = m->counters;
    roco_metrics_head(out, "roco_build_info", "gauge", "Always 1; the labels say what runs.");
    roco_json_format(out, "roco_build_info{version=\"%s\",model=", ROCO_VERSION);
    roco_json_string(out, m->model_id, strlen(m->model_id));
    roco_json_raw(out, "} 1\n");
    write_outcomes(out, m->outcomes);
    if (m->keys)
        roco_metrics_write_keys(out, m->keys);
    if (!counters)
        return;
    write_numbers(out, counters);
    write_mask_seconds(out, counters);
    write_usage(out, counters);
    write_by_policy(out, "roco_tokens_evicted_total", "Tokens evicted, the mean over layers and heads.",
                    counters->tokens_evicted);
    write_by_policy(out, "roco_slots_evicted_total", "Cache slots evicted, over all layers and heads.",
                    counters->slots_evicted);
    write_histogram(out, "roco_queue_seconds", "From arrival to admission.", &counters->queue_seconds);
    write_histogram(out, "roco_first_token_seconds", "From arrival to the first token.",
                    &counters->first_token_seconds);
    write_histogram(out, "roco_inter_token_seconds", "Between two tokens of a sequence.",
                    &counters->inter_token_seconds);
    write_histogram(out, "roco_step_seconds", "Duration of a step.", &counters->step_seconds);
    write_histogram(out, "roco_step_rows", "Tokens in a step.", &counters->step_rows);
    write_histogram(out, "roco_evicted_mass",
                    "Share of a query's attention that evicted tokens drew, by finished sequence.",
                    &counters->evicted_mass);
    if (m->aliases)
        write_aliases(out, m);
}

void roco_handle_metrics(roco_exchange *exchange, void *context)
{
    roco_app *app = context;
    roco_json_out out = {0};
    roco_metrics metrics = {
        .model_id = app->model.id,
        .outcomes = app->n_outcomes,
        .keys = app->keys,
        .counters = app->scheduler ? roco_scheduler_counters(app->scheduler) : NULL,
        .aliases = strcmp(app->options->metrics_aliases, "vllm") == 0,
    };
    if (app->scheduler) {
        const roco_engine_info *info = roco_engine_describe(app->engine);
        metrics.page_tokens = info->layout.slots;
        metrics.n_heads = info->n_layers * info->n_kv_heads;
    }
    roco_metrics_write(&out, &metrics);
    roco_text_reply(&out, "text/plain; version=0.0.4; charset=utf-8", exchange);
}
