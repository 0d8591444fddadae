/* The table of every option. Data only: how a row is read is in options.c, how it is printed in options_print.c. */
#include "config/options_table.h"

#define AT(field) offsetof(roco_options, field)

#define INT(name, section, field, min, max, value, help)                                                               \
    {                                                                                                                  \
        name, section, ROCO_OPTION_INT, AT(field), min, max, NULL, "N", value, help, false                             \
    }
#define SIZE(name, section, field, min, max, value, help)                                                              \
    {                                                                                                                  \
        name, section, ROCO_OPTION_SIZE, AT(field), min, max, NULL, "SIZE", value, help, false                         \
    }
#define SECONDS(name, section, field, min, max, value, help)                                                           \
    {                                                                                                                  \
        name, section, ROCO_OPTION_INT, AT(field), min, max, NULL, "SECONDS", value, help, false                       \
    }
#define TEXT(name, section, field, min, value_name, value, help)                                                       \
    {                                                                                                                  \
        name, section, ROCO_OPTION_TEXT, AT(field), min, INT64_MAX, NULL, value_name, value, help, false               \
    }
#define CHOICE(name, section, field, choices, value, help)                                                             \
    {                                                                                                                  \
        name, section, ROCO_OPTION_CHOICE, AT(field), 0, 0, choices, "NAME", value, help, false                        \
    }

#define MODEL     "Model and backend"
#define KV        "KV pool and eviction"
#define SCHEDULER "Scheduler"
#define HTTP      "HTTP"
#define LOGGING   "Logging"
#define TESTS     "Test builds"

enum { ONE_DAY = 86400 };

const roco_option_row roco_option_rows[] = {
    TEXT("model", MODEL, model, 0, "PATH", "",
         "GGUF file or Hugging Face folder to serve; the argument without a name means the same"),
    TEXT("chat-template", MODEL, chat_template, 0, "PATH", "",
         "file with the chat template; empty: the one that comes with the model"),
    CHOICE("backend", MODEL, backend, "auto|cpu|cuda", "auto",
           "where the model runs; auto: on a GPU where there is one and this build knows it"),
    INT("device", MODEL, device, 0, 63, "0", "number of the GPU"),
    CHOICE("precision", MODEL, precision, "auto|f32|int8", "auto",
           "arithmetic of the dense products; auto: int8 on quantised files, f32 on others; int8 rounds the weights of "
           "others, "
           "which halves what a token reads"),
    INT("threads", MODEL, threads, 0, 1024, "0", "compute threads; 0: one per core this process may use"),
    INT("context", MODEL, context, 0, INT32_MAX, "0",
        "tokens of prompt and answer together that one request may have; 0: what the model was made for"),
    CHOICE("rope-scaling", MODEL, rope_scaling, "file|none|linear|dynamic|yarn", "file",
           "how positions beyond those trained on are made; file: as the model says"),
    TEXT("rope-factor", MODEL, rope_factor, 1, "FACTOR", "1",
         "how many times the positions trained on rope-scaling makes room for, 1 to 1000"),
    INT("rope-original", MODEL, rope_original, 0, INT32_MAX, "0",
        "positions trained on, for rope-scaling; 0: what the model says"),

    SIZE("kv-pool-bytes", KV, kv_pool_bytes, 1024 * 1024, INT64_MAX, "2GiB",
         "memory of the KV pool, all requests together; used when kv-pool-tokens and kv-pool-share are 0"),
    TEXT("kv-pool-share", KV, kv_pool_share, 1, "SHARE", "0",
         "KV pool as a share of the memory, the GPU's on one, that is free beside weights and scratch, 0.01 to 0.98; "
         "0: by kv-pool-bytes"),
    INT("kv-pool-tokens", KV, kv_pool_tokens, 0, INT32_MAX, "0",
        "size of the KV pool in tokens of full cache over all layers and heads; 0: by kv-pool-share or "
        "kv-pool-bytes"),
    INT("kv-budget", KV, kv_budget, 32, INT32_MAX, "1024",
        "tokens each head may hold on average, for requests that name no budget"),
    INT("kv-budget-max", KV, kv_budget_max, 0, INT32_MAX, "0", "highest budget a request may name; 0: the context"),
    TEXT("kv-policy", KV, kv_policy, 1, "NAME", "roco", "how victims are chosen, for requests that name no policy"),
    TEXT("head-profile", KV, head_profile, 1, "FILE", "auto",
         "profile of the heads that get more of a budget; auto: beside the model, in the cache, or measured; off: "
         "none"),
    CHOICE("kv-type", KV, kv_type, "f16|q8|q4|f32", "f16",
           "how K and V are stored; q8 and q4 take blocks of 32 and hold 1.75 and 2.75 times the tokens"),
    INT("kv-sink", KV, kv_sink, 0, 1024, "4", "first positions never evicted, for requests that name no number"),
    INT("kv-recent", KV, kv_recent, 1, 4096, "10", "newest tokens never evicted, for requests that name no number"),
    INT("evict-stride", KV, evict_stride, 1, 1024, "64", "prompt tokens between two evictions"),

    INT("step-tokens", SCHEDULER, step_tokens, 1, 8192, "512",
        "rows of one step at most; max-seqs + evict-stride or more, so that prompts always go on"),
    INT("max-seqs", SCHEDULER, max_seqs, 1, 4096, "64", "sequences running at once at most"),
    INT("queue", SCHEDULER, queue, 0, 100000, "256", "sequences waiting at most; one more is answered with 429"),
    SECONDS("queue-timeout", SCHEDULER, queue_timeout, 0, ONE_DAY, "300", "seconds a request may wait; 0: no limit"),
    SECONDS("request-timeout", SCHEDULER, request_timeout, 0, ONE_DAY, "0",
            "seconds from arrival to the last token; 0: no limit"),

    TEXT("host", HTTP, host, 1, "ADDRESS", "127.0.0.1", "address to listen on"),
    INT("port", HTTP, port, 0, 65535, "8080", "port to listen on; 0: any free one, which is printed"),
    SIZE("max-body", HTTP, max_body, 1024, 1024 * 1024 * 1024, "8MiB", "largest request body"),
    INT("max-connections", HTTP, max_connections, 1, 65535, "1024", "open connections at most"),
    SECONDS("keep-alive", HTTP, keep_alive, 1, 3600, "10",
            "seconds between comments on a stream that has nothing else to say"),
    SECONDS("idle-timeout", HTTP, idle_timeout, 1, ONE_DAY, "60",
            "seconds an idle or slow connection is kept, from the last byte that the system took"),
    SECONDS("drain-timeout", HTTP, drain_timeout, 0, ONE_DAY, "30", "seconds running requests get after SIGTERM"),
    TEXT("api-key-file", HTTP, api_key_file, 0, "PATH", "",
         "file of bearer keys, one a line, with names and limits behind them; empty: none is asked for"),
    TEXT("tls-cert", HTTP, tls_cert, 0, "PATH", "",
         "certificate (PEM, with what leads to its authority behind it): serves HTTPS instead of HTTP; empty: plain "
         "HTTP"),
    TEXT("tls-key", HTTP, tls_key, 0, "PATH", "", "private key of tls-cert (PEM)"),
    TEXT("cors-origins", HTTP, cors_origins, 0, "ORIGINS", "",
         "origins of the web pages that may use the server, commas between, or *; empty: none"),
    CHOICE("metrics-aliases", HTTP, metrics_aliases, "none|vllm", "none",
           "names under which /metrics says the same again, for a router such as the Gateway API inference extension"),

    CHOICE("log-level", LOGGING, log_level, "error|warn|info|debug", "info", "least important records shown"),
    CHOICE("log-format", LOGGING, log_format, "text|json", "text", "a line of text or a JSON object for each record"),
    TEXT("trace", LOGGING, trace, 0, "PATH", "",
         "file that gets the decisions of each step as JSON lines; empty: none"),
#ifdef ROCO_FAULTS
    {"fault", TESTS, ROCO_OPTION_TEXT, AT(fault), 0, INT64_MAX, NULL, "SWITCH", "", "makes a part fail on purpose",
     true},
#endif
};

const size_t roco_n_option_rows = sizeof roco_option_rows / sizeof roco_option_rows[0];

_Static_assert(sizeof roco_option_rows / sizeof roco_option_rows[0] <= ROCO_OPTIONS_MOST, "raise ROCO_OPTIONS_MOST");
