/* Metrics by owner of API keys. The labels are the names in the key file, so their number is bounded. Loop thread. */
#include "http/auth.h"
#include "server/metrics.h"

#include <inttypes.h>

typedef struct row {
    const char *label, *value;
    uint64_t (*read)(const roco_account *account);
} row;

static void write_family(roco_json_out *out, const roco_api_keys *keys, const char *name, const char *type,
                         const char *help, const row *rows, size_t n)
{
    roco_metrics_head(out, name, type, help);
    for (size_t k = 0; k < roco_api_keys_count_accounts(keys); k++) {
        const roco_account *account = roco_api_keys_account(keys, k);
        for (size_t i = 0; i < n; i++)
            roco_json_format(out, "%s{key=\"%s\",%s=\"%s\"} %" PRIu64 "\n", name, account->name, rows[i].label,
                             rows[i].value, rows[i].read(account));
    }
}

static uint64_t running(const roco_account *account)
{
    return account->share.running;
}

static uint64_t queued(const roco_account *account)
{
    return account->share.queued;
}

static uint64_t prompt_tokens(const roco_account *account)
{
    return account->prompt_tokens;
}

static uint64_t answer_tokens(const roco_account *account)
{
    return account->answer_tokens;
}

static uint64_t over_share(const roco_account *account)
{
    return account->n_over_share;
}

static uint64_t over_tokens(const roco_account *account)
{
    return account->n_over_tokens;
}

static void write_outcomes(roco_json_out *out, const roco_api_keys *keys)
{
    static const char name[] = "roco_key_requests_total";
    roco_metrics_head(out, name, "counter", "Completion requests by key and outcome.");
    for (size_t k = 0; k < roco_api_keys_count_accounts(keys); k++) {
        const roco_account *account = roco_api_keys_account(keys, k);
        for (size_t i = 0; i < ROCO_N_OUTCOMES; i++)
            roco_json_format(out, "%s{key=\"%s\",outcome=\"%s\"} %" PRIu64 "\n", name, account->name,
                             roco_outcome_names[i], account->n_outcomes[i]);
    }
}

void roco_metrics_write_keys(roco_json_out *out, const roco_api_keys *keys)
{
    static const row sequences[] = {{"state", "running", running}, {"state", "queued", queued}};
    static const row tokens[] = {{"kind", "prompt", prompt_tokens}, {"kind", "answer", answer_tokens}};
    static const row limited[] = {{"limit", "sequences", over_share}, {"limit", "tokens", over_tokens}};
    if (roco_api_keys_count_accounts(keys) == 0)
        return;
    write_outcomes(out, keys);
    write_family(out, keys, "roco_key_sequences", "gauge", "Sequences by key.", sequences, 2);
    write_family(out, keys, "roco_key_tokens_total", "counter", "Tokens charged to a key.", tokens, 2);
    write_family(out, keys, "roco_key_limited_total", "counter", "Requests answered with 429 for a limit of the key.",
                 limited, 2);
}
