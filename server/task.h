/* Work on one request's body that may be too long for the loop: small bodies at once, large ones on libuv's pool.
 *
 * A task is embedded at the front of its user's struct. It runs `run` on some thread, then `done` on the loop thread.
 * The client may be gone by then: `exchange` is NULL.
 */
#ifndef ROCO_SERVER_TASK_H
#define ROCO_SERVER_TASK_H

#include "config/buffer.h"
#include "server/app_state.h"

/* Bodies over this take longer to tokenise than other connections should wait. */
#define ROCO_TASK_INLINE_BYTES 16384u

typedef struct roco_task {
    roco_app *app;
    roco_exchange *exchange; /* loop thread only; NULL once the client is gone */
    const char *body;
    size_t size;
    /* Any thread: may read the app's `model`, the body and its own struct, nothing else. */
    void (*run)(struct roco_task *task);
    /* Loop thread; owns the task again and may free it. */
    void (*done)(struct roco_task *task);

    bool on_pool;    /* `run` is on libuv's pool, where it may take long */
    bool wants_pool; /* set by a `run` that is not: it did nothing, and is called again there */

    roco_buffer copy; /* of the body, which goes away with its exchange */
    uv_work_t work;
} roco_task;

/* Takes the exchange and registers its gone callback. `run` and `done` are set. `done` may have been called when it
 * returns. */
void roco_task_start(roco_task *task, roco_app *app, roco_exchange *exchange);

#endif
