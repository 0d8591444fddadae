/* The text of /metrics: names, types, and histograms that add up. Checked by promtool too where it is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *write_all(roco_counters *counters, bool aliases)
{
    uint64_t outcomes[ROCO_N_OUTCOMES] = {5, 4, 3, 2, 1};
    roco_json_out out = {0};
    roco_metrics_write(&out, &(roco_metrics){.model_id = "model-1",
                                             .outcomes = outcomes,
                                             .counters = counters,
                                             .aliases = aliases,
                                             .page_tokens = 32,
                                             .n_heads = 100});
    assert_false(out.failed);
    return out.buffer.data;
}

static void test_names(void **state)
{
    static const char *const lines[] = {
        "roco_requests_running 2\n",
        "roco_requests_queued 0\n",
        "roco_requests_total{outcome=\"stop\"} 5\n",
        "roco_requests_total{outcome=\"length\"} 4\n",
        "roco_requests_total{outcome=\"cancelled\"} 3\n",
        "roco_requests_total{outcome=\"rejected\"} 2\n",
        "roco_requests_total{outcome=\"error\"} 1\n",
        "roco_pool_pages 512\n",
        "roco_pages_total 512\n",
        "roco_pages_held 7\n",
        "roco_pool_usage_ratio 0.013671875\n",
        "roco_tokens_evicted_total{policy=\"roco\"} 99\n",
        "roco_tokens_evicted_total{policy=\"recency\"} 0\n",
        "roco_tokens_prompt_total 1000\n",
        "roco_tokens_generated_total 18446744073709551615\n",
        "# TYPE roco_first_token_seconds histogram\n",
        "# TYPE roco_inter_token_seconds histogram\n",
        "# TYPE roco_queue_seconds histogram\n",
        "# TYPE roco_step_seconds histogram\n",
        "# TYPE roco_step_rows histogram\n",
        "roco_first_token_seconds_bucket{le=\"+Inf\"} 2\n",
        "roco_first_token_seconds_count 2\n",
        "roco_first_token_seconds_sum 1000.25\n",
        "model=\"model-1\"",
    };
    roco_counters counters;
    roco_counters_init(&counters);
    counters.running = 2;
    counters.pages_total = 512;
    counters.pages_held = 7;
    counters.tokens_prompt = 1000;
    counters.tokens_generated = UINT64_MAX;
    counters.tokens_evicted[roco_policy_find("roco")->id] = 99;
    roco_histogram_add(&counters.first_token_seconds, 0.25);
    roco_histogram_add(&counters.first_token_seconds, 1000);
    char *text = write_all(&counters, false);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("not found: %s", lines[i]);
    free(text);
    text = write_all(NULL, false);
    assert_non_null(strstr(text, "roco_requests_total"));
    assert_null(strstr(text, "roco_pages_total"));
    free(text);
}

/* As the Gateway API inference extension reads them. */
static void test_aliases(void **state)
{
    static const char *const lines[] = {
        "vllm:num_requests_waiting{model_name=\"model-1\"} 3\n",
        "vllm:num_requests_running{model_name=\"model-1\"} 2\n",
        "vllm:kv_cache_usage_perc{model_name=\"model-1\"} 0.25\n",
        "vllm:cache_config_info{block_size=\"32\",num_gpu_blocks=\"40\"} 1\n",
        "vllm:lora_requests_info{max_lora=\"0\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1\n",
    };
    roco_counters counters;
    roco_counters_init(&counters);
    counters.running = 2;
    counters.queued = 3;
    counters.pages_total = 4000;
    counters.pages_held = 1000;
    char *text = write_all(&counters, true);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("not found: %s", lines[i]);
    free(text);
    text = write_all(&counters, false);
    assert_null(strstr(text, "vllm"));
    free(text);
}

static void test_linter(void **state)
{
    if (system("command -v promtool >/dev/null 2>&1") != 0)
        skip();
    roco_counters counters;
    roco_counters_init(&counters);
    char *text = write_all(&counters, false);
    FILE *pipe = popen("promtool check metrics", "w");
    assert_non_null(pipe);
    fputs(text, pipe);
    assert_int_equal(pclose(pipe), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_aliases),
                                       cmocka_unit_test(test_linter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
