/* Prometheus text (exposition format 0.0.4) from the counters. Loop thread reads, the engine thread writes: each number
 * is exact, and together they are as close as one scrape needs. */
#ifndef ROCO_SERVER_METRICS_H
#define ROCO_SERVER_METRICS_H

#include "scheduler/counters.h"
#include "server/app_state.h"
#include "http/json.h"

typedef struct roco_metrics {
    const char *model_id;
    const uint64_t *outcomes;         /* [ROCO_N_OUTCOMES] */
    const struct roco_api_keys *keys; /* whose owners are told of; NULL: none */
    const roco_counters *counters;    /* NULL while there is no scheduler: only the server's own are written */
    bool aliases;                     /* the names of vLLM as well, for routers that know no others */
    uint32_t page_tokens, n_heads;    /* tokens of a page; heads of all layers, each of which has its own pages */
} roco_metrics;

void roco_metrics_write(roco_json_out *out, const roco_metrics *metrics);

/* metrics_keys.c: what each owner of API keys did and may do. Writes nothing when none has a name. */
void roco_metrics_write_keys(roco_json_out *out, const struct roco_api_keys *keys);
/* Writes HELP and TYPE. */
void roco_metrics_head(roco_json_out *out, const char *name, const char *type, const char *help);
extern const char *const roco_outcome_names[ROCO_N_OUTCOMES];

#endif
