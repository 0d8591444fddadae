/* Every setting of roco, in one table.
 *
 * A setting is one row of options.c (name, kind, bounds, default, help). The row feeds the flag `--kv-budget`, the
 * environment `ROCO_KV_BUDGET`, the line `kv-budget = 1024` of a roco.conf, `--help`, and the check that refuses a
 * value out of range with the name and the range. Order of precedence: flag, environment, file, default.
 */
#ifndef ROCO_CONFIG_OPTIONS_H
#define ROCO_CONFIG_OPTIONS_H

#include "config/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct roco_options {
    /* model and backend */
    const char *model;         /* path; the positional argument, or `model` */
    const char *chat_template; /* path; "" the one in the model's file */
    const char *backend;       /* "auto" | "cpu" | "cuda" (registered ones) */
    const char *precision;     /* "auto" (int8 on quantised files, f32 on others) | "f32" | "int8" */
    int64_t device;            /* number of the GPU */
    int64_t threads;           /* compute threads; 0: one per core this process may use */
    const char *rope_scaling;  /* "file" | "none" | "linear" | "dynamic" | "yarn" */
    const char *rope_factor;   /* a number of 1 or more */
    int64_t rope_original;     /* positions the model was trained on; 0: what its file says */
    int64_t context;           /* tokens; 0: what the model was made for */

    /* KV pool and eviction */
    int64_t kv_pool_bytes;      /* default 2 GiB; used when kv_pool_tokens and kv_pool_share are 0 */
    const char *kv_pool_share;  /* of the memory that is free; a number, "0" none */
    int64_t kv_pool_tokens;     /* tokens of full cache over all layers and heads; 0: by bytes */
    int64_t kv_budget;          /* tokens, for requests that name none */
    int64_t kv_budget_max;      /* ceiling for requests; 0: the context */
    const char *kv_policy;      /* for requests that name none */
    const char *head_profile;   /* "auto" | "off" | path */
    const char *kv_type;        /* "f16" | "q8" | "q4" | "f32" */
    int64_t kv_sink, kv_recent; /* for requests that name none */
    int64_t evict_stride;       /* prompt tokens between two evictions */

    /* scheduler */
    int64_t step_tokens;     /* rows of one step at most */
    int64_t max_seqs;        /* sequences running at once at most */
    int64_t queue;           /* sequences waiting at most */
    int64_t queue_timeout;   /* seconds a request may wait; 0: no limit */
    int64_t request_timeout; /* seconds from arrival to the last token; 0: no limit */
    const char *trace;       /* file of JSON lines, one per step; "" none */

    /* HTTP */
    const char *host;
    int64_t port;     /* 0: any free port, printed */
    int64_t max_body; /* bytes */
    int64_t max_connections;
    int64_t keep_alive;             /* seconds between SSE comments while nothing else flows */
    int64_t idle_timeout;           /* seconds an idle or slow connection is kept, from its last byte */
    int64_t drain_timeout;          /* seconds running requests get after SIGTERM */
    const char *api_key_file;       /* http/auth.h; "" none needed */
    const char *cors_origins;       /* of web pages that may use the server; "" none, "*" all */
    const char *metrics_aliases;    /* "none" | "vllm" */
    const char *tls_cert, *tls_key; /* PEM files; "" plain HTTP */
    const char *log_level;          /* "error" | "warn" | "info" | "debug" */
    const char *log_format;         /* "text" | "json" */
    const char *fault;              /* test builds only: see docs; "" none */

    char **owned; /* strings the options own; roco_options_free */
    size_t n_owned;
} roco_options;

typedef enum roco_options_result { ROCO_OPTIONS_RUN, ROCO_OPTIONS_EXIT /* help was printed */ } roco_options_result;

/* Defaults, then the file (`--config FILE`, else ROCO_CONFIG; none is read otherwise), then the environment, then
 * argv[0..argc-1] (program and subcommand already taken off; of a flag given twice the last counts). `environment` is
 * as environ, NULL for none. A model must have been named. Returns ROCO_OK, or ROCO_INVALID with the name and the
 * allowed range.
 * `--help` prints the table to `out` and sets *result. Ownership: roco_options_free on success and on failure. */
roco_status roco_options_parse(roco_options *options, int argc, char **argv, char **environment, FILE *out,
                               roco_options_result *result, roco_error *error);
void roco_options_free(roco_options *options);

/* Sizes like "2GiB", "512M", "1048576", all units binary; ROCO_INVALID when malformed or over INT64_MAX. */
roco_status roco_parse_size(const char *text, int64_t *out);
/* Prints a commented roco.conf with every row at its default (what `roco config` shows and roco.conf.example holds). */
void roco_options_print_file(FILE *out);

#endif
