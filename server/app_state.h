/* The inside of roco_app, shared by the endpoints of this folder. Loop thread, but `model`, which is constant once
 * loaded and may be read by tasks on libuv's pool. */
#ifndef ROCO_SERVER_APP_STATE_H
#define ROCO_SERVER_APP_STATE_H

#include "config/options.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"
#include "scheduler/scheduler.h"
#include "http/account.h"
#include "server/app.h"
#include "server/chat_template.h"
#include "server/faults.h"
#include "server/fields.h"
#include "server/reply.h"

#include <time.h>

typedef enum roco_app_phase { ROCO_APP_LOADING, ROCO_APP_READY, ROCO_APP_DRAINING, ROCO_APP_STOPPED } roco_app_phase;

/* What turning a request into jobs needs to know. */
typedef struct roco_served_model {
    char id[256]; /* the file's base name without .gguf: the one name in replies, /v1/models and metrics */
    const roco_options *options;
    const roco_tokenizer *tokenizer;
    const roco_policy *policy; /* for requests that name none */
    uint32_t n_vocab, n_context;
    int64_t budget_max;
    struct roco_constraints *constraints; /* owned */
    bool has_profile;                     /* budgets go by head unless a request says otherwise */
    roco_chat_template chat;              /* owned; without one no_chat says why */
    char no_chat[512];
} roco_served_model;

/* The endpoints that answer with text; one life for all (completions.c). */
typedef enum roco_endpoint {
    ROCO_ENDPOINT_COMPLETIONS,
    ROCO_ENDPOINT_CHAT,
    ROCO_ENDPOINT_RESPONSES,
    ROCO_ENDPOINT_MESSAGES,
} roco_endpoint;

typedef struct roco_completion roco_completion;

struct roco_app {
    const roco_options *options;
    uv_loop_t *loop;
    roco_app_phase phase;
    bool device_failed; /* the last step that ended did so with a device fault */
    time_t created;
    roco_faults faults;

    roco_served_model model;
    roco_source *source;
    roco_tokenizer *tokenizer;
    roco_engine *engine;
    roco_scheduler *scheduler;

    uv_async_t wake;  /* from the engine thread: events wait */
    uv_timer_t clock; /* while a stream is open: its keep-alive comments */
    uint32_t n_handles;
    bool closing;
    roco_event_list events;

    roco_completion *completions; /* answered or not, until their last event was taken */
    uint32_t n_completions;
    uint32_t n_tasks; /* on libuv's pool */
    uint64_t n_outcomes[ROCO_N_OUTCOMES];
    const struct roco_api_keys *keys; /* NULL: none are asked for */
};

/* True when work may come in; else answers 503 and returns false. */
bool roco_app_admits(roco_app *app, roco_exchange *exchange);
/* Frees the app when it was closed and nothing holds it any more. Called after n_tasks or n_handles went down. */
void roco_app_settle(roco_app *app);

/* completions.c */
void roco_completions_take(roco_app *app, const roco_event *event);
/* Writes the comments that are due. */
void roco_completions_tick(roco_app *app);

/* the handlers of routes.c */
void roco_handle_completions(roco_exchange *exchange, void *context);
void roco_handle_chat(roco_exchange *exchange, void *context);
void roco_handle_responses(roco_exchange *exchange, void *context);
void roco_handle_messages(roco_exchange *exchange, void *context);
void roco_handle_count_tokens(roco_exchange *exchange, void *context);
void roco_handle_embeddings(roco_exchange *exchange, void *context);
void roco_handle_models(roco_exchange *exchange, void *context);
void roco_handle_health(roco_exchange *exchange, void *context);
void roco_handle_ready(roco_exchange *exchange, void *context);
void roco_handle_metrics(roco_exchange *exchange, void *context);
void roco_handle_tokenize(roco_exchange *exchange, void *context);
void roco_handle_detokenize(roco_exchange *exchange, void *context);
void roco_handle_openapi(roco_exchange *exchange, void *context);

/* tokenize.c */
extern const roco_field roco_tokenize_fields[], roco_detokenize_fields[];

#endif
