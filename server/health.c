/* GET /health: the loop lives. GET /ready: requests would be answered. Neither waits for the engine thread. */
#include "server/app_state.h"

#include <string.h>

static void reply(roco_exchange *exchange, const char *body)
{
    roco_exchange_reply(exchange, 200, "application/json", body, strlen(body), NULL);
}

void roco_handle_health(roco_exchange *exchange, void *context)
{
    reply(exchange, "{\"status\":\"ok\"}");
}

void roco_handle_ready(roco_exchange *exchange, void *context)
{
    roco_app *app = context;
    if (!roco_app_admits(app, exchange))
        return;
    if (!app->device_failed) {
        reply(exchange, "{\"status\":\"ready\"}");
        return;
    }
    roco_problem problem = {.http = 503};
    roco_fail(&problem.error, ROCO_DEVICE, NULL, "the device failed");
    roco_problem_reply(&problem, exchange);
}
