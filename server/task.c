/* Tasks on libuv's thread pool. Loop thread but for `on_pool`. */
#include "server/task.h"

static void on_pool(uv_work_t *work)
{
    roco_task *task = work->data;
    task->run(task);
}

static void on_done(uv_work_t *work, int status)
{
    (void)status; /* nothing cancels the work, so it always ran */
    roco_task *task = work->data;
    roco_app *app = task->app;
    roco_buffer_free(&task->copy);
    task->body = NULL;
    app->n_tasks--;
    task->done(task);
    roco_app_settle(app);
}

static void on_gone(void *context)
{
    roco_task *task = context;
    task->exchange = NULL;
}

void roco_task_start(roco_task *task, roco_app *app, roco_exchange *exchange)
{
    task->app = app;
    task->exchange = exchange;
    task->body = roco_exchange_body(exchange, &task->size);
    roco_exchange_on_gone(exchange, on_gone, task);
    task->work.data = task;
    if (task->size > ROCO_TASK_INLINE_BYTES && roco_buffer_append(&task->copy, task->body, task->size) == ROCO_OK) {
        task->body = task->copy.data;
        if (uv_queue_work(app->loop, &task->work, on_pool, on_done) == 0) {
            app->n_tasks++;
            return;
        }
    }
    task->run(task);
    roco_buffer_free(&task->copy);
    task->body = NULL;
    task->done(task);
}
