/* The whole API on a loop thread of its own, over a tiny model and the fake scheduler, for the endpoint tests. */
#ifndef ROCO_TESTS_SUPPORT_APP_H
#define ROCO_TESTS_SUPPORT_APP_H

#include "http/json.h"
#include "support_http.h"

/* Ids of the tiny model's byte tokens, as text of a JSON array element: byte b is id b + 3. */
#define SUPPORT_FIRST_BYTE 3
#define SUPPORT_N_VOCAB    320
#define SUPPORT_CONTEXT    512
#define SUPPORT_MODEL_ID   "tiny-model"

typedef struct support_app {
    support_server client; /* only its port, for the client calls of support_http.h */
    struct support_app_inside *inside;
} support_app;

typedef enum support_stage { SUPPORT_LOADING, SUPPORT_READY } support_stage;

/* `flags` as on the command line, NULL-terminated, or NULL. */
support_app *support_app_open(support_stage stage, char **flags);
void support_app_drain(support_app *app);
bool support_app_idle(support_app *app);
/* Stops and closes everything; aborts when something is left. */
void support_app_close(support_app *app);

/* One request on a connection of its own. The reply is the caller's (support_reply_free). */
support_reply support_post(const support_app *app, const char *path, const char *body);
support_reply support_get(const support_app *app, const char *path);
/* Sends only; returns the descriptor. */
int support_begin_post(const support_app *app, const char *path, const char *body, size_t size);

#endif
