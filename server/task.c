/* Tasks on libuv's thread pool. Loop thread but for `on_pool`. */
#include "server/task.h"

static void run_on_pool(uv_work_t *work)
{
    roco_task *task = work->data;
    task->run(task);
}

/* What was read of the body is in the task's own struct. */
static void finish(roco_task *task)
{
    roco_buffer_free(&task->copy);
    task->body = NULL;
    if (task->exchange)
        roco_exchange_drop_body(task->exchange);
    task->done(task);
}

static void on_done(uv_work_t *work, int status)
{
    (void)status; /* nothing cancels the work, so it always ran */
    roco_task *task = work->data;
    roco_app *app = task->app;
    app->n_tasks--;
    finish(task);
    roco_app_settle(app);
}

static void on_gone(void *context)
{
    roco_task *task = context;
    task->exchange = NULL;
}

/* False when memory or the pool fails. */
static bool start_on_pool(roco_task *task)
{
    const char *body = task->body;
    roco_buffer_clear(&task->copy);
    if (roco_buffer_append(&task->copy, task->body, task->size))
        return false;
    /* All of it before the pool has the task: from then on it reads these, and the exchange may go. */
    task->body = task->copy.data;
    task->on_pool = true;
    if (uv_queue_work(task->app->loop, &task->work, run_on_pool, on_done)) {
        task->body = body;
        task->on_pool = false;
        return false;
    }
    task->app->n_tasks++;
    return true;
}

void roco_task_start(roco_task *task, roco_app *app, roco_exchange *exchange)
{
    task->app = app;
    task->exchange = exchange;
    task->body = roco_exchange_body(exchange, &task->size);
    roco_exchange_on_gone(exchange, on_gone, task);
    task->work.data = task;
    if (task->size > ROCO_TASK_INLINE_BYTES && start_on_pool(task))
        return;
    task->run(task);
    if (task->wants_pool) {
        if (start_on_pool(task))
            return;
        task->on_pool = true; /* there is none: what takes long is done here */
        task->run(task);
    }
    finish(task);
}
