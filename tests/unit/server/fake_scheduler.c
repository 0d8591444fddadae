#include "fake_scheduler.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_JOBS = 256 };

typedef struct fake_job {
    roco_job *job;
    uint32_t n_generated, n_rounds;
    bool started, cancelled;
} fake_job;

struct roco_scheduler {
    roco_scheduler_config config;
    pthread_t thread;
    pthread_mutex_t mutex;
    bool stopping;
    uint64_t next_id;
    fake_job jobs[MAX_JOBS];
    uint32_t n_jobs;
    roco_event_list events;
    roco_job *retired;
    roco_counters counters;
};

static void push(roco_scheduler *s, roco_event event)
{
    roco_event_list *list = &s->events;
    if (list->size == list->capacity) {
        list->capacity = list->capacity * 2 + 16;
        list->data = realloc(list->data, list->capacity * sizeof *list->data);
        ROCO_CHECK(list->data);
    }
    list->data[list->size++] = event;
}

static roco_event event_of(const fake_job *f, roco_event_kind kind)
{
    uint32_t length = f->job->n_prompt + f->n_generated;
    uint32_t held = length < f->job->budget ? length : f->job->budget;
    return (roco_event){
        .kind = kind,
        .user = f->job->user,
        .job = f->job->id,
        .n_generated = f->n_generated,
        .kv = {.length = length, .held = held, .evicted = length - held},
    };
}

static void finish(roco_scheduler *s, fake_job *f, roco_finish reason, roco_status status)
{
    ROCO_CHECK(strlen(f->job->label) > 0); /* still borrowed */
    roco_event event = event_of(f, ROCO_EVENT_FINISHED);
    event.finish = reason;
    event.status = status;
    push(s, event);
    f->job->next = s->retired;
    s->retired = f->job;
    f->job = NULL;
}

/* Of token number `index` of the sequence. */
static void score(const roco_job *job, uint32_t index, int32_t token)
{
    if (!job->logprobs)
        return;
    roco_logprob *row = job->logprobs + (size_t)(job->score_prompt ? index : index - job->n_prompt) * (1 + job->n_top);
    row[0] = (roco_logprob){token, token == 3 + '~' || index == 0 ? -INFINITY : -(float)index};
    for (uint32_t i = 1; i <= job->n_top; i++)
        row[i] = (roco_logprob){3 + 'a' + (int32_t)i - 1, -(float)i / 8};
}

static void draw(roco_scheduler *s, fake_job *f)
{
    roco_job *job = f->job;
    bool over = f->n_generated >= job->n_prompt && !job->ignore_eos;
    int32_t token = over ? 0 : job->prompt[f->n_generated % job->n_prompt];
    score(job, job->n_prompt + f->n_generated, token);
    f->n_generated++;
    roco_event event = event_of(f, ROCO_EVENT_TOKEN);
    event.token = token;
    if (!job->ignore_eos && s->config.is_end(s->config.is_end_context, token))
        event.finish = ROCO_FINISH_STOP;
    else if (f->n_generated == job->max_tokens)
        event.finish = ROCO_FINISH_LENGTH;
    push(s, event);
    if (event.finish != ROCO_FINISH_NONE)
        finish(s, f, event.finish, ROCO_OK);
}

static void play(roco_scheduler *s, fake_job *f)
{
    int32_t script = f->job->sampling.top_k;
    if (f->cancelled)
        finish(s, f, ROCO_FINISH_CANCELLED, ROCO_CANCELLED);
    else if (s->stopping)
        finish(s, f, ROCO_FINISH_ERROR, ROCO_SHUTDOWN);
    else if (script == FAKE_QUEUE_TIMEOUT)
        finish(s, f, ROCO_FINISH_ERROR, ROCO_TIMEOUT);
    if (!f->job || script == FAKE_STUCK)
        return;
    if (!f->started) {
        f->started = true;
        push(s, event_of(f, ROCO_EVENT_STARTED));
        for (uint32_t i = 0; i < f->job->n_prompt && f->job->score_prompt; i++)
            score(f->job, i, f->job->prompt[i]);
    }
    if (f->job->max_tokens == 0) {
        finish(s, f, ROCO_FINISH_LENGTH, ROCO_OK);
        return;
    }
    if (script == FAKE_NUMERIC)
        finish(s, f, ROCO_FINISH_ERROR, ROCO_NUMERIC);
    else if (script == FAKE_DEVICE && f->n_generated == 5)
        finish(s, f, ROCO_FINISH_ERROR, ROCO_DEVICE);
    else if (script == FAKE_TIMEOUT && f->n_generated == 2)
        finish(s, f, ROCO_FINISH_ERROR, ROCO_TIMEOUT);
    else if (script != FAKE_SLOW || f->n_rounds++ % 20 == 19)
        for (int i = 0; i < (script == FAKE_FAST ? 1000 : 1) && f->job; i++)
            draw(s, f);
}

static void *run(void *context)
{
    roco_scheduler *s = context;
    for (bool stopping = false; !stopping;) {
        usleep(1000);
        pthread_mutex_lock(&s->mutex);
        stopping = s->stopping;
        uint32_t n = 0;
        for (uint32_t i = 0; i < s->n_jobs; i++) {
            play(s, &s->jobs[i]);
            if (s->jobs[i].job)
                s->jobs[n++] = s->jobs[i];
        }
        s->n_jobs = n;
        bool wake = s->events.size > 0;
        pthread_mutex_unlock(&s->mutex);
        if (wake)
            s->config.wake(s->config.wake_context);
    }
    return NULL;
}

roco_status roco_scheduler_open(const roco_scheduler_config *config, roco_scheduler **out, roco_error *error)
{
    roco_scheduler *s = calloc(1, sizeof *s);
    ROCO_CHECK(s);
    s->config = *config;
    s->next_id = 1;
    roco_counters_init(&s->counters);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_create(&s->thread, NULL, run, s);
    *out = s;
    return ROCO_OK;
}

roco_status roco_scheduler_submit(roco_scheduler *s, roco_job **jobs, uint32_t n, roco_error *error)
{
    int32_t script = jobs[0]->sampling.top_k;
    if (script == FAKE_BUSY)
        return roco_fail(error, ROCO_BUSY, NULL, "the queue is full");
    if (script == FAKE_TOO_LARGE)
        return roco_fail(error, ROCO_TOO_LARGE, "kv_budget", "65 pages of 64");
    pthread_mutex_lock(&s->mutex);
    for (uint32_t i = 0; i < n; i++) {
        ROCO_CHECK(s->n_jobs < MAX_JOBS);
        jobs[i]->id = s->next_id++;
        s->jobs[s->n_jobs++] = (fake_job){.job = jobs[i]};
        atomic_fetch_add(&s->counters.running, 1);
    }
    pthread_mutex_unlock(&s->mutex);
    return ROCO_OK;
}

void roco_scheduler_cancel(roco_scheduler *s, uint64_t job)
{
    pthread_mutex_lock(&s->mutex);
    for (uint32_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].job && s->jobs[i].job->id == job)
            s->jobs[i].cancelled = true;
    pthread_mutex_unlock(&s->mutex);
}

void roco_scheduler_complete(roco_scheduler *s, uint64_t job)
{
    roco_scheduler_cancel(s, job);
}

static void free_jobs(roco_scheduler *s, roco_job *job)
{
    while (job) {
        roco_job *next = job->next;
        roco_job_free(job);
        atomic_fetch_sub(&s->counters.running, 1);
        job = next;
    }
}

void roco_scheduler_take_events(roco_scheduler *s, roco_event_list *list)
{
    pthread_mutex_lock(&s->mutex);
    roco_event_list taken = s->events;
    s->events = *list;
    s->events.size = 0;
    *list = taken;
    free_jobs(s, s->retired);
    s->retired = NULL;
    pthread_mutex_unlock(&s->mutex);
}

const roco_counters *roco_scheduler_counters(const roco_scheduler *s)
{
    return &s->counters;
}

void roco_scheduler_drain(roco_scheduler *s)
{
}

void roco_scheduler_stop(roco_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    s->stopping = true;
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
}

void roco_scheduler_close(roco_scheduler *s)
{
    ROCO_CHECK(s->n_jobs == 0 && !s->retired && s->counters.running == 0);
    roco_event_list_free(&s->events);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}
