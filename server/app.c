/* The app's life: open, load, start, drain, stop, close; and the wake-up that brings events from the engine thread. */
#include "config/log.h"
#include "engine/policies.h"
#include "engine/profile.h"
#include "server/app_state.h"
#include "server/constraints.h"

#include <stdlib.h>
#include <string.h>

/* --- open and close --- */

static void on_wake(uv_async_t *wake)
{
    roco_app *app = wake->data;
    /* Wake-ups merge, so each takes all there is. */
    roco_scheduler_take_events(app->scheduler, &app->events);
    for (size_t i = 0; i < app->events.size; i++)
        roco_completions_take(app, &app->events.data[i]);
}

/* Engine thread. */
static void wake_loop(void *context)
{
    uv_async_send(context);
}

/* The base name of the file, without .gguf, or of the folder; whatever cannot be printed in every place it shows up
 * becomes '_'. */
static void name_model(roco_served_model *model, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') /* a folder */
        end--;
    const char *slash = memrchr(path, '/', end);
    const char *name = slash ? slash + 1 : path;
    size_t size = (size_t)(path + end - name);
    if (size > 5 && memcmp(name + size - 5, ".gguf", 5) == 0)
        size -= 5;
    if (size > sizeof model->id - 1)
        size = sizeof model->id - 1;
    for (size_t i = 0; i < size; i++)
        model->id[i] = name[i] > 0x20 && name[i] < 0x7f && !strchr("\"\\", name[i]) ? name[i] : '_';
    model->id[size] = '\0';
}

/* What only this layer knows of the options; before anything else, so that a typing mistake costs no load. */
static roco_status check_options(roco_app *app, roco_error *error)
{
    const roco_options *o = app->options;
    app->model.policy = roco_policy_find(o->kv_policy);
    if (!app->model.policy)
        return roco_fail(error, ROCO_INVALID, "kv-policy", "kv-policy must be one of: %s", roco_policy_names());
    return roco_faults_parse(o->fault, &app->faults, error);
}

roco_status roco_app_open(const roco_app_config *config, roco_app **out, roco_error *error)
{
    roco_app *app = calloc(1, sizeof *app);
    if (!app)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    app->options = config->options;
    roco_status status = check_options(app, error);
    if (status) {
        free(app);
        return status;
    }
    app->loop = config->loop;
    app->created = time(NULL);
    app->model.options = config->options;
    name_model(&app->model, config->options->model);
    app->wake.data = app;
    app->clock.data = app;
    int failed = uv_async_init(config->loop, &app->wake, on_wake);
    if (failed) {
        free(app);
        return roco_fail(error, ROCO_IO, NULL, "the event loop refuses a handle: %s", uv_strerror(failed));
    }
    uv_timer_init(config->loop, &app->clock); /* cannot fail */
    app->n_handles = 2;
    *out = app;
    return ROCO_OK;
}

void roco_app_settle(roco_app *app)
{
    if (!app->closing || app->n_handles || app->n_tasks)
        return;
    ROCO_CHECK(app->n_completions == 0);
    if (app->engine)
        roco_engine_close(app->engine);
    if (app->tokenizer)
        roco_tokenizer_close(app->tokenizer);
    roco_constraints_close(app->model.constraints);
    roco_chat_template_free(&app->model.chat);
    if (app->source)
        roco_source_close(app->source);
    roco_event_list_free(&app->events);
    free(app);
}

static void on_closed(uv_handle_t *handle)
{
    roco_app *app = handle->data;
    app->n_handles--;
    roco_app_settle(app);
}

void roco_app_close(roco_app *app)
{
    ROCO_CHECK(app->phase == ROCO_APP_STOPPED && !app->closing);
    app->closing = true;
    /* The engine thread has ended: nobody can send to the handle any more. */
    if (app->scheduler)
        roco_scheduler_close(app->scheduler);
    app->scheduler = NULL;
    uv_close((uv_handle_t *)&app->wake, on_closed);
    uv_close((uv_handle_t *)&app->clock, on_closed);
}

/* --- load and start --- */

static roco_status open_engine(roco_app *app, roco_error *error)
{
    const roco_engine_config config = roco_engine_configure(app->options, app->source);
    return roco_engine_open(&config, &app->engine, error);
}

static void on_profile(void *context, uint32_t done, uint32_t total)
{
    roco_log(ROCO_LOG_INFO, "head profile: measuring, once for this model; %u of %u tokens", done, total);
}

static roco_status find_profile(roco_app *app, roco_error *error)
{
    roco_profile_origin origin;
    roco_status status = roco_profile_find(app->engine, app->source, app->tokenizer, app->options->head_profile,
                                           on_profile, NULL, &origin, error);
    if (status)
        return status;
    if (origin.warning[0])
        roco_log(ROCO_LOG_WARN, "head profile: %s", origin.warning);
    roco_log(ROCO_LOG_INFO, "head profile: %s", origin.text[0] ? origin.text : "none, all heads get the same");
    return ROCO_OK;
}

roco_status roco_app_load(roco_app *app, roco_error *error)
{
    const roco_options *o = app->options;
    roco_served_model *model = &app->model;
    roco_status status = roco_source_open(o->model, &app->source, error);
    if (!status)
        status = roco_tokenizer_open(app->source, &app->tokenizer, error);
    if (!status)
        status = roco_chat_template_load(o, app->source, app->tokenizer, &model->chat, model->no_chat, error);
    if (!status)
        status = open_engine(app, error);
    if (!status)
        status = find_profile(app, error);
    if (status)
        return status;
    const roco_engine_info *info = roco_engine_describe(app->engine);
    model->tokenizer = app->tokenizer;
    model->n_vocab = info->n_vocab;
    model->n_context = info->n_context;
    model->has_profile = info->has_profile;
    status = roco_constraints_open(app->tokenizer, info->n_vocab, &model->constraints, error);
    if (status)
        return status;
    model->budget_max = o->kv_budget_max ? o->kv_budget_max : info->n_context;
    return ROCO_OK;
}

static bool is_end(const void *context, int32_t token)
{
    return roco_tokenizer_is_end(context, token);
}

roco_status roco_app_start(roco_app *app, roco_error *error)
{
    const roco_options *o = app->options;
    if (app->phase != ROCO_APP_LOADING)
        return roco_fail(error, ROCO_SHUTDOWN, NULL, "shut down before the model was loaded");
    roco_scheduler_config config = {
        .engine = app->engine,
        .is_end = is_end,
        .is_end_context = app->tokenizer,
        .vocabulary = roco_constraints_vocabulary(app->model.constraints),
        .step_tokens = (uint32_t)o->step_tokens,
        .max_seqs = (uint32_t)o->max_seqs,
        .queue = (uint32_t)o->queue,
        .trace = o->trace[0] ? o->trace : NULL,
        .fault_after = app->faults.device_after,
        .wake = wake_loop,
        .wake_context = &app->wake,
    };
    if (app->faults.nan_after)
        roco_engine_fault_nan(app->engine, app->faults.nan_after);
    roco_status status = roco_scheduler_open(&config, &app->scheduler, error);
    if (!status)
        app->phase = ROCO_APP_READY;
    return status;
}

/* --- the end --- */

bool roco_app_admits(roco_app *app, roco_exchange *exchange)
{
    roco_problem problem = {0};
    switch (app->phase) {
    case ROCO_APP_READY: return true;
    case ROCO_APP_LOADING:
        problem.code = "loading";
        roco_fail(&problem.error, ROCO_SHUTDOWN, NULL, "the model is being loaded");
        break;
    case ROCO_APP_DRAINING:
    case ROCO_APP_STOPPED: roco_fail(&problem.error, ROCO_SHUTDOWN, NULL, "the server is shutting down"); break;
    }
    roco_problem_reply(&problem, exchange);
    return false;
}

void roco_app_set_keys(roco_app *app, const struct roco_api_keys *keys)
{
    app->keys = keys;
}

void roco_app_drain(roco_app *app)
{
    if (app->phase != ROCO_APP_LOADING && app->phase != ROCO_APP_READY)
        return;
    app->phase = ROCO_APP_DRAINING;
}

bool roco_app_idle(const roco_app *app)
{
    return app->n_completions == 0 && app->n_tasks == 0;
}

void roco_app_stop(roco_app *app)
{
    if (app->phase == ROCO_APP_STOPPED)
        return;
    app->phase = ROCO_APP_STOPPED;
    if (!app->scheduler)
        return;
    roco_scheduler_stop(app->scheduler);
    on_wake(&app->wake); /* the last events: every job ends */
}
