/* GET /v1/models: the one model, with what a client may want to know of its cache beside OpenAI's fields. */
#include "server/app_state.h"
#include "http/json.h"

#include <string.h>

static void write_meta(roco_json_out *out, const roco_app *app)
{
    const roco_engine_info *info = roco_engine_describe(app->engine);
    roco_json_raw(out, "{\"name\":");
    roco_json_string(out, info->model_name, strlen(info->model_name));
    roco_json_raw(out, ",\"architecture\":");
    roco_json_string(out, info->architecture, strlen(info->architecture));
    roco_json_format(out, ",\"n_vocab\":%u,\"n_context\":%u,\"n_layers\":%u,\"n_heads\":%u,\"n_kv_heads\":%u",
                     info->n_vocab, info->n_context, info->n_layers, info->n_heads, info->n_kv_heads);
    roco_json_format(
        out, ",\"kv_policy\":\"%s\",\"kv_heads\":\"%s\",\"kv_budget\":%lld,\"kv_budget_max\":%lld}",
        app->model.policy->name, app->model.has_profile ? "profile" : "uniform",
        (long long)(app->options->kv_budget < app->model.budget_max ? app->options->kv_budget : app->model.budget_max),
        (long long)app->model.budget_max);
}

void roco_handle_models(roco_exchange *exchange, void *context)
{
    roco_app *app = context;
    if (!roco_app_admits(app, exchange))
        return;
    roco_json_out out = {0};
    roco_json_raw(&out, "{\"object\":\"list\",\"data\":[{\"id\":");
    roco_json_string(&out, app->model.id, strlen(app->model.id));
    roco_json_format(&out,
                     ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"roco\",\"meta\":", (long long)app->created);
    write_meta(&out, app);
    roco_json_raw(&out, "}]}");
    roco_json_reply(&out, exchange);
}
