#include "scheduler/queue.h"

void roco_queue_push(roco_queue *queue, roco_job *job)
{
    job->next = NULL;
    if (queue->tail)
        queue->tail->next = job;
    else
        queue->head = job;
    queue->tail = job;
    queue->size++;
}

roco_job *roco_queue_pop(roco_queue *queue)
{
    roco_job *job = queue->head;
    if (!job)
        return NULL;
    queue->head = job->next;
    if (!queue->head)
        queue->tail = NULL;
    queue->size--;
    job->next = NULL;
    return job;
}

void roco_queue_remove(roco_queue *queue, roco_job *job)
{
    roco_job *before = NULL, *at = queue->head;
    for (; at != job; at = at->next)
        before = at;
    *(before ? &before->next : &queue->head) = job->next;
    if (queue->tail == job)
        queue->tail = before;
    queue->size--;
    job->next = NULL;
}

roco_job *roco_queue_sweep(roco_queue *queue, bool (*is_over)(void *context, roco_job *job), void *context)
{
    roco_queue kept = {0}, over = {0};
    for (roco_job *job = roco_queue_pop(queue); job; job = roco_queue_pop(queue))
        roco_queue_push(is_over(context, job) ? &over : &kept, job);
    *queue = kept;
    return over.head;
}
