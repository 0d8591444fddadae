#include "support_app.h"

#include "server/app.h"
#include "support_gguf.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum command { COMMAND_NONE, COMMAND_DRAIN, COMMAND_IDLE, COMMAND_CLOSE } command;

struct support_app_inside {
    uv_loop_t loop;
    uv_async_t async;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    command command;
    bool idle;
    roco_options options;
    roco_app *app;
    roco_http *http;
    char folder[64], model[128];
};

static void on_command(uv_async_t *async)
{
    struct support_app_inside *inside = async->data;
    pthread_mutex_lock(&inside->mutex);
    switch (inside->command) {
    case COMMAND_NONE: break;
    case COMMAND_DRAIN: roco_app_drain(inside->app); break;
    case COMMAND_IDLE: inside->idle = roco_app_idle(inside->app); break;
    case COMMAND_CLOSE:
        roco_app_stop(inside->app);
        roco_http_close(inside->http);
        roco_app_close(inside->app);
        uv_close((uv_handle_t *)async, NULL);
        break;
    }
    inside->command = COMMAND_NONE;
    pthread_cond_signal(&inside->done);
    pthread_mutex_unlock(&inside->mutex);
}

static void *run_loop(void *context)
{
    uv_run(context, UV_RUN_DEFAULT);
    return NULL;
}

static void must(roco_status status, const roco_error *error)
{
    if (status)
        fprintf(stderr, "%s: %s\n", error->field, error->message);
    ROCO_CHECK(status == ROCO_OK);
}

static void open_options(struct support_app_inside *inside, char **flags)
{
    snprintf(inside->folder, sizeof inside->folder, "/tmp/roco-test-XXXXXX");
    ROCO_CHECK(mkdtemp(inside->folder));
    snprintf(inside->model, sizeof inside->model, "%s/%s.gguf", inside->folder, SUPPORT_MODEL_ID);
    tiny_model model = tiny_model_default();
    ROCO_CHECK(model.n_vocab == SUPPORT_N_VOCAB && model.context == SUPPORT_CONTEXT);
    model.call_marks = true;
    tiny_model_save(&model, inside->model);
    char *argv[32] = {inside->model, "--kv-pool-tokens", "4096", "--threads", "1", "--log-level",
                      "error",       "--head-profile",   "off"};
    int argc = 9;
    for (; flags && *flags; flags++)
        argv[argc++] = *flags;
    char *environment[] = {NULL};
    roco_options_result result;
    roco_error error;
    must(roco_options_parse(&inside->options, argc, argv, environment, stdout, &result, &error), &error);
}

support_app *support_app_open(support_stage stage, char **flags)
{
    support_app *app = calloc(1, sizeof *app);
    struct support_app_inside *inside = calloc(1, sizeof *inside);
    ROCO_CHECK(app && inside);
    app->inside = inside;
    open_options(inside, flags);
    uv_loop_init(&inside->loop);
    uv_async_init(&inside->loop, &inside->async, on_command);
    inside->async.data = inside;
    pthread_mutex_init(&inside->mutex, NULL);
    pthread_cond_init(&inside->done, NULL);

    roco_error error;
    roco_app_config config = {&inside->options, &inside->loop};
    must(roco_app_open(&config, &inside->app, &error), &error);
    if (stage == SUPPORT_READY) {
        must(roco_app_load(inside->app, &error), &error);
        must(roco_app_start(inside->app, &error), &error);
    }
    roco_http_config http = {
        .host = "127.0.0.1",
        .max_body = (uint64_t)inside->options.max_body,
        .max_connections = 500,
        .idle_timeout_s = 60,
        .receive_timeout_s = 60,
        .routes = roco_app_routes(),
        .context = inside->app,
    };
    must(roco_http_open(&inside->loop, &http, &inside->http, &error), &error);
    app->client.port = roco_http_port(inside->http);
    pthread_create(&inside->thread, NULL, run_loop, &inside->loop);
    return app;
}

static void give(support_app *app, command c)
{
    struct support_app_inside *inside = app->inside;
    pthread_mutex_lock(&inside->mutex);
    inside->command = c;
    uv_async_send(&inside->async);
    while (inside->command != COMMAND_NONE)
        pthread_cond_wait(&inside->done, &inside->mutex);
    pthread_mutex_unlock(&inside->mutex);
}

void support_app_drain(support_app *app)
{
    give(app, COMMAND_DRAIN);
}

bool support_app_idle(support_app *app)
{
    for (int i = 0; i < 2000; i++) {
        give(app, COMMAND_IDLE);
        if (app->inside->idle)
            return true;
        usleep(1000);
    }
    return false;
}

void support_app_close(support_app *app)
{
    struct support_app_inside *inside = app->inside;
    give(app, COMMAND_CLOSE);
    pthread_join(inside->thread, NULL);
    int busy = uv_loop_close(&inside->loop);
    ROCO_CHECK(busy == 0);
    pthread_mutex_destroy(&inside->mutex);
    pthread_cond_destroy(&inside->done);
    roco_options_free(&inside->options);
    unlink(inside->model);
    rmdir(inside->folder);
    free(inside);
    free(app);
}

int support_begin_post(const support_app *app, const char *path, const char *body, size_t size)
{
    char head[256];
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", path,
             size);
    int descriptor = support_connect(&app->client);
    support_send(descriptor, head);
    support_send_bytes(descriptor, body, size);
    return descriptor;
}

support_reply support_post(const support_app *app, const char *path, const char *body)
{
    int descriptor = support_begin_post(app, path, body, strlen(body));
    support_reply reply = support_read(descriptor, false);
    close(descriptor);
    return reply;
}

support_reply support_get(const support_app *app, const char *path)
{
    char head[256];
    snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    int descriptor = support_connect(&app->client);
    support_send(descriptor, head);
    support_reply reply = support_read(descriptor, false);
    close(descriptor);
    return reply;
}
