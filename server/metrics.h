/* Prometheus text (exposition format 0.0.4) from the counters. Loop thread reads, the engine thread writes: each number
 * is exact, and together they are as close as one scrape needs. */
#ifndef ROCO_SERVER_METRICS_H
#define ROCO_SERVER_METRICS_H

#include "scheduler/counters.h"
#include "server/app_state.h"
#include "server/json.h"

/* `outcomes` [ROCO_N_OUTCOMES]; `counters` NULL while there is no scheduler: only the server's own are written. */
void roco_metrics_write(roco_json_out *out, const char *model_id, const uint64_t *outcomes,
                        const roco_counters *counters);

#endif
