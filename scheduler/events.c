#include "scheduler/events.h"

#include <stdlib.h>

static roco_status grow(roco_event_list *list, size_t capacity)
{
    if (capacity <= list->capacity)
        return ROCO_OK;
    size_t wanted = list->capacity * 2u > capacity ? list->capacity * 2u : capacity;
    wanted = wanted < 64u ? 64u : wanted;
    roco_event *data = realloc(list->data, wanted * sizeof *data);
    if (!data)
        return ROCO_NO_MEMORY;
    list->data = data;
    list->capacity = wanted;
    return ROCO_OK;
}

static void free_jobs(roco_job *job)
{
    while (job) {
        roco_job *next = job->next;
        roco_job_free(job);
        job = next;
    }
}

void roco_events_init(roco_events *events)
{
    *events = (roco_events){0};
    ROCO_CHECK(pthread_mutex_init(&events->mutex, NULL) == 0);
}

void roco_events_free(roco_events *events)
{
    free_jobs(events->retired);
    roco_event_list_free(&events->ready);
    pthread_mutex_destroy(&events->mutex);
}

roco_status roco_events_promise(roco_events *events, size_t n)
{
    pthread_mutex_lock(&events->mutex);
    roco_status status = grow(&events->ready, events->ready.size + events->promised + n);
    if (status == ROCO_OK)
        events->promised += n;
    pthread_mutex_unlock(&events->mutex);
    return status;
}

roco_status roco_events_push(roco_events *events, const roco_event *event, size_t promises, roco_job *retired)
{
    roco_status status = ROCO_OK;
    pthread_mutex_lock(&events->mutex);
    ROCO_CHECK(promises <= events->promised);
    if (promises == 0)
        status = grow(&events->ready, events->ready.size + 1u + events->promised);
    if (status == ROCO_OK) {
        events->promised -= promises;
        events->ready.data[events->ready.size++] = *event;
        if (retired) {
            retired->next = events->retired;
            events->retired = retired;
        }
    }
    pthread_mutex_unlock(&events->mutex);
    return status;
}

void roco_events_take(roco_events *events, roco_event_list *list)
{
    roco_job *retired = NULL;
    list->size = 0;
    pthread_mutex_lock(&events->mutex);
    /* The array that comes in must keep the promise too. When it cannot grow, the events stay for the next wake. */
    if (grow(list, events->promised) == ROCO_OK) {
        roco_event_list taken = events->ready;
        events->ready = *list;
        *list = taken;
        retired = events->retired;
        events->retired = NULL;
    }
    pthread_mutex_unlock(&events->mutex);
    free_jobs(retired);
}

void roco_event_list_free(roco_event_list *list)
{
    free(list->data);
    *list = (roco_event_list){0};
}
