/* POST /v1/completions and /v1/chat/completions: from request to jobs, from events to the reply, plain or streamed.
 * Loop thread. */
#include "config/clock.h"
#include "config/log.h"
#include "server/logprobs.h"
#include "http/sse.h"
#include "server/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A client that lets this much pile up is not reading. */
enum { MAX_PENDING_BYTES = 4 * 1024 * 1024, CLOCK_MS = 250 };

/* --- life --- */

static void on_clock(uv_timer_t *clock)
{
    roco_completions_tick(clock->data);
}

static roco_completion *open_completion(roco_app *app, const roco_exchange *exchange, roco_endpoint endpoint)
{
    roco_completion *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->arrival_ns = roco_now_ns();
    c->created = time(NULL);
    c->endpoint = endpoint;
    c->writer = roco_writer_of(endpoint);
    c->account = roco_exchange_account(exchange);
    if (c->account)
        roco_account_hold(c->account);
    snprintf(c->label, sizeof c->label, "%s", roco_exchange_id(exchange));
    /* Not the exchange's id: a client may use that one again and again. */
    uint64_t unique = c->arrival_ns;
    if (getrandom(&unique, sizeof unique, GRND_NONBLOCK) != (ssize_t)sizeof unique)
        unique = c->arrival_ns;
    c->unique = unique;
    snprintf(c->id, sizeof c->id, "%s%016llx", c->writer->id_prefix, (unsigned long long)unique);
    c->next = app->completions;
    if (c->next)
        c->next->previous = c;
    app->completions = c;
    if (app->n_completions++ == 0)
        uv_timer_start(&app->clock, on_clock, CLOCK_MS, CLOCK_MS);
    return c;
}

static void close_completion(roco_completion *c)
{
    roco_app *app = c->task.app;
    ROCO_CHECK(!c->exchange && c->n_running == 0);
    *(c->previous ? &c->previous->next : &app->completions) = c->next;
    if (c->next)
        c->next->previous = c->previous;
    if (--app->n_completions == 0)
        uv_timer_stop(&app->clock);
    for (uint32_t i = 0; i < c->n_slots; i++) {
        roco_choice_free(&c->slots[i].choice);
        free(c->slots[i].logprobs);
        roco_turn_free(&c->slots[i].turn);
    }
    free(c->slots);
    roco_completion_jobs_free(&c->jobs);
    roco_account_release(c->account);
    roco_json_out_free(&c->out);
    free(c);
}

static void settle(roco_completion *c, roco_outcome outcome)
{
    if (c->settled)
        return;
    c->settled = true;
    c->task.app->n_outcomes[outcome]++;
    if (c->account)
        c->account->n_outcomes[outcome]++;
}

static void cancel_jobs(roco_completion *c)
{
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (!c->slots[i].ended)
            roco_scheduler_cancel(c->task.app->scheduler, c->slots[i].job);
}

static void on_gone(void *context)
{
    roco_completion *c = context;
    c->exchange = NULL;
    settle(c, ROCO_OUTCOME_CANCELLED);
    cancel_jobs(c);
}

/* --- replies --- */

/* Sends what was written. False: the stream was cut, the exchange is gone. */
static bool flush(roco_completion *c)
{
    bool cut = c->out.failed || roco_exchange_stream_pending(c->exchange) > MAX_PENDING_BYTES;
    if (!cut && c->out.buffer.size)
        roco_exchange_stream_write(c->exchange, c->out.buffer.data, c->out.buffer.size);
    roco_buffer_clear(&c->out.buffer);
    c->written_ms = uv_now(c->task.app->loop);
    if (!cut)
        return true;
    roco_log(ROCO_LOG_WARN, "%s: %s; the stream is cut", c->label,
             c->out.failed ? "out of memory" : "the client does not read");
    roco_exchange_stream_end(c->exchange, false);
    c->exchange = NULL;
    settle(c, c->out.failed ? ROCO_OUTCOME_ERROR : ROCO_OUTCOME_CANCELLED);
    cancel_jobs(c);
    return false;
}

/* Ends the request with an error: a reply, or, when the stream has begun, an event and a cut. */
static void fail(roco_completion *c, const roco_problem *problem, roco_outcome outcome)
{
    settle(c, outcome);
    cancel_jobs(c);
    if (c->streaming) {
        c->writer->error(c, problem);
        if (!flush(c))
            return;
        roco_exchange_stream_end(c->exchange, false);
    } else {
        roco_problem_reply(problem, c->exchange);
    }
    c->exchange = NULL;
}

static void fail_with(roco_completion *c, roco_status status, const char *message)
{
    roco_problem problem = {0};
    roco_fail(&problem.error, status, NULL, "%s", message);
    fail(c, &problem, ROCO_OUTCOME_ERROR);
}

static void fail_job(roco_completion *c, const roco_completion_slot *slot)
{
    roco_problem problem = {0};
    roco_status status = slot->choice.status ? slot->choice.status : ROCO_SHUTDOWN;
    const roco_options *options = c->task.app->options;
    if (status == ROCO_TIMEOUT && !slot->started) {
        problem.code = "queue_timeout";
        roco_fail(&problem.error, status, NULL, "no room came free within %lld seconds",
                  (long long)options->queue_timeout);
    } else if (status == ROCO_TIMEOUT) {
        problem.code = "request_timeout";
        roco_fail(&problem.error, status, NULL, "the answer was not complete after %lld seconds",
                  (long long)options->request_timeout);
    } else if (status == ROCO_TOO_LARGE) {
        roco_fail(&problem.error, status, NULL,
                  "the grammar of the answer needs more work or memory than one token may take: it is too ambiguous");
    } else if (status == ROCO_INVALID) {
        roco_fail(&problem.error, status, NULL,
                  "the model has no token with which the grammar of the answer could go on");
    } else {
        roco_fail(&problem.error, status, NULL, "%s", roco_status_text(status));
    }
    fail(c, &problem, ROCO_OUTCOME_ERROR);
}

static roco_outcome outcome_of(const roco_completion *c)
{
    roco_outcome outcome = ROCO_OUTCOME_STOP;
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (c->slots[i].choice.finish == ROCO_FINISH_LENGTH)
            outcome = ROCO_OUTCOME_LENGTH;
    return outcome;
}

static void complete(roco_completion *c)
{
    settle(c, outcome_of(c));
    if (!c->streaming) {
        c->writer->whole(c);
        if (c->out.failed) {
            fail_with(c, ROCO_NO_MEMORY, "out of memory");
            return;
        }
        roco_exchange_reply(c->exchange, 200, "application/json", c->out.buffer.data, c->out.buffer.size, NULL);
    } else {
        c->writer->end(c);
        if (!flush(c))
            return;
        roco_exchange_stream_end(c->exchange, true);
    }
    c->exchange = NULL;
}

/* --- events --- */

/* What is ready of a chat's answer goes on to its turn. A turn that is over ends the choice as a stop string does. */
static roco_status read_turn(roco_completion_slot *slot)
{
    roco_choice *choice = &slot->choice;
    roco_status status = choice->ready ? roco_turn_take(&slot->turn, choice->text.data, choice->ready) : ROCO_OK;
    roco_choice_sent(choice);
    slot->n_reasoning += roco_turn_reasons(&slot->turn);
    if (!status && choice->done)
        status = roco_turn_end(&slot->turn);
    if (slot->turn.over && !choice->done) {
        choice->done = true;
        choice->finish = ROCO_FINISH_STOP;
    }
    return status;
}

static void take(roco_completion *c, roco_completion_slot *slot, const roco_event *event)
{
    roco_choice *choice = &slot->choice;
    bool chat = c->endpoint != ROCO_ENDPOINT_COMPLETIONS;
    if (roco_choice_take(choice, c->task.app->tokenizer, event) || (chat && read_turn(slot))) {
        fail_with(c, ROCO_NO_MEMORY, "out of memory");
        return;
    }
    if (choice->done && !roco_choice_finish_reason(choice)) {
        fail_job(c, slot);
        return;
    }
    /* An echoed prompt is ready at once, its log-probabilities are when the first token is. */
    if (c->streaming && event->kind != ROCO_EVENT_STARTED && (chat || choice->ready || choice->done)) {
        c->writer->advance(c, slot);
        roco_choice_sent(choice);
        if (!flush(c))
            return;
    }
    if (!choice->done)
        return;
    if (event->finish == ROCO_FINISH_NONE) /* a stop string: the scheduler does not know yet */
        roco_scheduler_complete(c->task.app->scheduler, slot->job);
    if (++c->n_done == c->n_slots)
        complete(c);
}

void roco_completions_take(roco_app *app, const roco_event *event)
{
    roco_completion_slot *slot = event->user;
    roco_completion *c = slot->owner;
    if (event->kind == ROCO_EVENT_TOKEN)
        app->device_failed = false;
    if (event->kind == ROCO_EVENT_TOKEN && c->account)
        roco_account_charge(c->account, 0, 1);
    if (event->kind == ROCO_EVENT_FINISHED) {
        slot->ended = true;
        c->n_running--;
        app->device_failed = app->device_failed || event->status == ROCO_DEVICE;
    }
    slot->started = slot->started || event->kind != ROCO_EVENT_FINISHED;
    if (c->exchange && !slot->choice.done)
        take(c, slot, event);
    if (c->n_running == 0)
        close_completion(c);
}

void roco_completions_tick(roco_app *app)
{
    uint64_t now = uv_now(app->loop), interval = (uint64_t)app->options->keep_alive * 1000;
    for (roco_completion *c = app->completions; c; c = c->next) {
        bool quiet = c->exchange && c->streaming && roco_exchange_stream_pending(c->exchange) == 0;
        if (!quiet || now - c->written_ms < interval)
            continue;
        c->writer->keep_alive(&c->out);
        flush(c);
    }
}

/* --- jobs --- */

static roco_status open_slot(roco_completion *c, uint32_t index)
{
    roco_completion_slot *slot = &c->slots[index];
    roco_job *job = c->jobs.jobs[index];
    slot->owner = c;
    slot->index = index;
    roco_choice_init(&slot->choice, &c->jobs.stops);
    roco_choice_show(&slot->choice, c->jobs.turn.shown, c->jobs.turn.n_shown);
    roco_status status = roco_logprobs_open(&c->jobs, slot, job);
    if (!status && c->endpoint != ROCO_ENDPOINT_COMPLETIONS)
        status = roco_chat_turn_begin(&c->jobs.turn, &slot->turn);
    if (!status && c->jobs.echo)
        status =
            roco_choice_echo(&slot->choice, c->task.app->tokenizer, job->prompt, job->n_prompt, c->jobs.unsaid[index]);
    return status;
}

static roco_status open_slots(roco_completion *c)
{
    const roco_options *options = c->task.app->options;
    c->slots = calloc(c->jobs.n, sizeof *c->slots);
    if (!c->slots)
        return roco_fail(&c->problem.error, ROCO_NO_MEMORY, NULL, "out of memory");
    c->n_slots = c->jobs.n;
    for (uint32_t i = 0; i < c->n_slots; i++) {
        roco_job *job = c->jobs.jobs[i];
        if (open_slot(c, i))
            return roco_fail(&c->problem.error, ROCO_NO_MEMORY, NULL, "out of memory");
        job->user = &c->slots[i];
        job->label = c->label;
        job->share = c->account ? &c->account->share : NULL;
        job->arrival_ns = c->arrival_ns;
        if (options->queue_timeout)
            job->queue_deadline_ns = c->arrival_ns + (uint64_t)options->queue_timeout * 1000000000u;
        if (options->request_timeout)
            job->deadline_ns = c->arrival_ns + (uint64_t)options->request_timeout * 1000000000u;
    }
    return ROCO_OK;
}

/* --- the limits of a key --- */

static void log_over_limit(const roco_completion *c, const char *limit, uint32_t retry_s)
{
    const roco_log_value values[] = {
        {.name = "id", .text = c->label},
        {.name = "key", .text = c->account->name},
        {.name = "limit", .text = limit},
        {.name = "retry after", .number = retry_s, .unit = "s"},
    };
    roco_log_values(ROCO_LOG_INFO, "over a limit", values, sizeof values / sizeof values[0]);
}

static roco_status check_tokens(roco_completion *c)
{
    uint32_t wait_s = c->account ? roco_account_wait_s(c->account, roco_now_ns()) : 0;
    if (wait_s == 0)
        return ROCO_OK;
    c->account->n_over_tokens++;
    log_over_limit(c, "tokens-per-minute", wait_s);
    roco_exchange_set_retry(c->exchange, wait_s);
    c->problem.code = "token_limit";
    return roco_fail(&c->problem.error, ROCO_BUSY, NULL, "the key %s may use %u tokens a minute; again in %u s",
                     c->account->name, c->account->limits.tokens_per_minute, wait_s);
}

/* The scheduler's refusal for the key's own limit, not for the server's. */
static void note_over_share(roco_completion *c)
{
    roco_error *error = &c->problem.error;
    if (error->status != ROCO_BUSY || strcmp(error->field, "share") != 0)
        return;
    error->field[0] = '\0';
    c->problem.code = "key_limit";
    c->account->n_over_share++;
    log_over_limit(c, "running and queued", 1);
}

/* --- requests --- */

static roco_status submit(roco_completion *c)
{
    roco_app *app = c->task.app;
    roco_status status = c->status ? c->status : check_tokens(c);
    if (!status)
        status = open_slots(c);
    if (!status)
        status = roco_scheduler_submit(app->scheduler, c->jobs.jobs, c->jobs.n, &c->problem.error);
    app->device_failed = status == ROCO_DEVICE || (status && app->device_failed);
    if (status) {
        note_over_share(c);
        return status;
    }
    if (c->account)
        roco_account_charge(c->account, c->jobs.prompt_tokens, 0);
    for (uint32_t i = 0; i < c->n_slots; i++)
        c->slots[i].job = c->jobs.jobs[i]->id; /* readable until this thread takes the job's last event */
    c->jobs.n = 0;
    c->n_running = c->n_slots;
    return ROCO_OK;
}

static void prepare(roco_task *task)
{
    roco_completion *c = (roco_completion *)task;
    c->status = roco_completion_jobs_read(&task->app->model, c->endpoint, task->body, task->size, task->on_pool,
                                          &c->jobs, &c->problem);
    task->wants_pool = c->jobs.deferred;
}

static void refuse(roco_completion *c)
{
    roco_outcome outcome = roco_problem_http(&c->problem) == 500 ? ROCO_OUTCOME_ERROR : ROCO_OUTCOME_REJECTED;
    for (uint32_t i = 0; i < c->n_slots; i++)
        c->slots[i].ended = true;
    fail(c, &c->problem, outcome);
    close_completion(c);
}

static void prepared(roco_task *task)
{
    roco_completion *c = (roco_completion *)task;
    if (!task->exchange) {
        settle(c, ROCO_OUTCOME_CANCELLED);
        close_completion(c);
        return;
    }
    if (!roco_app_admits(task->app, task->exchange)) {
        settle(c, ROCO_OUTCOME_REJECTED);
        close_completion(c);
        return;
    }
    c->exchange = task->exchange;
    if (submit(c)) {
        refuse(c);
        return;
    }
    roco_exchange_on_gone(c->exchange, on_gone, c);
    c->streaming = c->jobs.stream;
    c->written_ms = uv_now(task->app->loop);
    if (!c->streaming)
        return;
    roco_exchange_stream_begin(c->exchange, 200, ROCO_SSE_CONTENT_TYPE, roco_sse_headers);
    if (c->writer->begin) {
        c->writer->begin(c);
        flush(c);
    }
}

static void handle(roco_app *app, roco_exchange *exchange, roco_endpoint endpoint)
{
    if (!roco_app_admits(app, exchange)) {
        app->n_outcomes[ROCO_OUTCOME_REJECTED]++;
        return;
    }
    roco_completion *c = open_completion(app, exchange, endpoint);
    if (!c) {
        app->n_outcomes[ROCO_OUTCOME_ERROR]++;
        roco_problem problem = {0};
        roco_fail(&problem.error, ROCO_NO_MEMORY, NULL, "out of memory");
        roco_problem_reply(&problem, exchange);
        return;
    }
    c->task.run = prepare;
    c->task.done = prepared;
    roco_task_start(&c->task, app, exchange);
}

void roco_handle_completions(roco_exchange *exchange, void *context)
{
    handle(context, exchange, ROCO_ENDPOINT_COMPLETIONS);
}

void roco_handle_responses(roco_exchange *exchange, void *context)
{
    handle(context, exchange, ROCO_ENDPOINT_RESPONSES);
}

void roco_handle_messages(roco_exchange *exchange, void *context)
{
    handle(context, exchange, ROCO_ENDPOINT_MESSAGES);
}

void roco_handle_chat(roco_exchange *exchange, void *context)
{
    handle(context, exchange, ROCO_ENDPOINT_CHAT);
}
