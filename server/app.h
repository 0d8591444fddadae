/* The API over one model: what serve.c drives from start to end.
 *
 * It owns the model side (tokenizer, engine, scheduler) and the routes over it. Everything runs on the loop thread but
 * roco_app_load, which may run on a worker thread while the routes already answer 503.
 */
#ifndef ROCO_SERVER_APP_H
#define ROCO_SERVER_APP_H

#include "config/options.h"
#include "config/status.h"
#include "http/http.h"

#include <stdbool.h>
#include <uv.h>

typedef struct roco_app roco_app;

typedef struct roco_app_config {
    const roco_options *options; /* borrowed until close */
    uv_loop_t *loop;
} roco_app_config;

/* The routes work at once and answer 503 until the model is there. Returns owned. */
roco_status roco_app_open(const roco_app_config *config, roco_app **out, roco_error *error);
/* The route table (server/routes.c); every handler's context is the roco_app. */
const roco_route *roco_app_routes(void);
/* Opens file, tokenizer and engine. Any thread; touches nothing of the loop. */
roco_status roco_app_load(roco_app *app, roco_error *error);
/* After load, on the loop thread: starts the scheduler; the app becomes ready. */
roco_status roco_app_start(roco_app *app, roco_error *error);
/* The keys whose owners /metrics tells of from now on; NULL: none. Borrowed until the next call or stop. */
void roco_app_set_keys(roco_app *app, const struct roco_api_keys *keys);
/* Refuses new work; what is queued or runs goes on. */
void roco_app_drain(roco_app *app);
/* Nothing queued or running. */
bool roco_app_idle(const roco_app *app);
/* Ends the scheduler's thread and every exchange that still waits for it. Valid at any time after open. */
void roco_app_stop(roco_app *app);
/* After stop, before or after roco_http_close; closes the app's own handles, so the loop must run once more. */
void roco_app_close(roco_app *app);

#endif
