/* The compute threads: a fixed team that runs one batch of tasks at a time.
 *
 * Called by the engine's thread alone, which is thread 0 of the team and works too. A batch is announced by storing its
 * generation into `open`; while workers spin that store is all it takes, no system call is made. A worker enters a
 * batch by counting itself into `active` and then reading `open` again, and the caller changes the batch's fields only
 * when `open` is 0 and `active` is 0, so a late worker finds the door shut and touches nothing.
 *
 * Each thread has a share of the tasks, neighbours in order, and helps the others once its own is done. Neighbours tend
 * to lie side by side in memory: a thread that takes them one after the other reads a stream, and what is fetched ahead
 * is its own. Knows nothing of tensors.
 */
#include "kernels/cpu/cpu.h"

#include "config/clock.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The gap between two operations of a step is a few microseconds; between two steps it is sampling and delivery. */
#define SPIN_NS          50000u
#define SPINS_PER_LOOK   64u /* pauses between two looks at the clock */
#define MAX_THREADS      1024u
#define WORKER_STACK     (512u * 1024u)
#define CACHE_LINE_BYTES 64

typedef struct worker {
    roco_threads *team;
    pthread_t thread;
    uint32_t index; /* 1..count-1 */
} worker;

/* In a cache line of its own, as its thread takes from it alone for most of a batch. */
typedef struct share {
    alignas(CACHE_LINE_BYTES) atomic_uint next; /* the first task that nobody has taken; may pass the share's end */
} share;

struct roco_threads {
    alignas(CACHE_LINE_BYTES) atomic_uint open;   /* generation of the batch that runs, 0 when none does */
    alignas(CACHE_LINE_BYTES) atomic_uint active; /* workers inside a batch */
    alignas(CACHE_LINE_BYTES) atomic_uint sleepers;
    atomic_bool stop;
    uint32_t n_tasks, generation;
    roco_task *task;
    void *context;
    share *shares; /* [count] */

    uint32_t count, n_started; /* the caller included; workers that run */
    worker *workers;
    pthread_mutex_t mutex; /* guards going to sleep and waking only */
    pthread_cond_t wake;
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Where a thread's share begins, and so where the one before it ends. */
static uint32_t first_task(const roco_threads *team, uint32_t index)
{
    return (uint32_t)((uint64_t)team->n_tasks * index / team->count);
}

/* Thread `index` takes what is left of the share of thread `owner`. */
static void take_share(roco_threads *team, uint32_t index, uint32_t owner)
{
    atomic_uint *next = &team->shares[owner].next;
    const uint32_t end = first_task(team, owner + 1);
    while (atomic_load_explicit(next, memory_order_relaxed) < end) {
        uint32_t task = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        if (task < end)
            team->task(team->context, index, task);
    }
}

static void take_tasks(roco_threads *team, uint32_t index)
{
    for (uint32_t i = 0; i < team->count; i++)
        take_share(team, index, (index + i) % team->count);
}

static bool has_news(roco_threads *team, uint32_t seen)
{
    uint32_t open = atomic_load(&team->open);
    return (open != 0 && open != seen) || atomic_load(&team->stop);
}

/* Returns true when there was news while spinning. */
static bool spin_for_news(roco_threads *team, uint32_t seen)
{
    uint64_t until = roco_now_ns() + SPIN_NS;
    do {
        for (uint32_t i = 0; i < SPINS_PER_LOOK; i++) {
            if (has_news(team, seen))
                return true;
            pause_cpu();
        }
    } while (roco_now_ns() < until);
    return false;
}

static void sleep_for_news(roco_threads *team, uint32_t seen)
{
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->sleepers, 1);
    while (!has_news(team, seen))
        pthread_cond_wait(&team->wake, &team->mutex);
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
}

static void wake_sleepers(roco_threads *team)
{
    if (atomic_load(&team->sleepers) == 0)
        return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->mutex);
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    roco_threads *team = self->team;
    uint32_t seen = 0;
    for (;;) {
        if (!spin_for_news(team, seen))
            sleep_for_news(team, seen);
        if (atomic_load(&team->stop))
            return NULL;
        atomic_fetch_add(&team->active, 1);
        uint32_t open = atomic_load(&team->open);
        if (open != 0) {
            seen = open;
            take_tasks(team, self->index);
        }
        atomic_fetch_sub(&team->active, 1);
    }
}

/* Signals belong to the thread that waits for them, so workers are started with all of them blocked. */
static int start_worker(worker *w)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return -1;
    pthread_attr_setstacksize(&attributes, WORKER_STACK);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, &attributes, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed)
        return -1;
    char name[16];
    snprintf(name, sizeof(name), "roco-cpu-%u", w->index % 10000u);
    pthread_setname_np(w->thread, name);
    return 0;
}

roco_status roco_threads_open(uint32_t count, roco_threads **out, roco_error *error)
{
    *out = NULL;
    if (count < 1 || count > MAX_THREADS)
        return roco_fail(error, ROCO_INVALID, "threads", "threads is %u; 1 to %u are allowed", count, MAX_THREADS);
    roco_threads *team = aligned_alloc(CACHE_LINE_BYTES, sizeof(*team));
    worker *workers = calloc(count, sizeof(*workers));
    share *shares = aligned_alloc(CACHE_LINE_BYTES, count * sizeof(*shares));
    if (team == NULL || workers == NULL || shares == NULL) {
        free(team);
        free(workers);
        free(shares);
        return roco_fail(error, ROCO_NO_MEMORY, "threads", "no memory for %u compute threads", count);
    }
    memset(team, 0, sizeof(*team));
    team->count = count;
    team->workers = workers;
    team->shares = shares;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->wake, NULL);
    for (uint32_t i = 1; i < count; i++) {
        workers[i] = (worker){.team = team, .index = i};
        if (start_worker(&workers[i]) != 0) {
            roco_threads_close(team);
            return roco_fail(error, ROCO_NO_MEMORY, "threads", "only %u of %u compute threads could be started", i,
                             count);
        }
        team->n_started++;
    }
    *out = team;
    return ROCO_OK;
}

void roco_threads_close(roco_threads *threads)
{
    if (threads == NULL)
        return;
    atomic_store(&threads->stop, true);
    wake_sleepers(threads);
    for (uint32_t i = 1; i <= threads->n_started; i++)
        pthread_join(threads->workers[i].thread, NULL);
    pthread_cond_destroy(&threads->wake);
    pthread_mutex_destroy(&threads->mutex);
    free(threads->workers);
    free(threads->shares);
    free(threads);
}

uint32_t roco_threads_count(const roco_threads *threads)
{
    return threads->count;
}

/* With more threads than processors the one waited for may not be running: give it this processor. */
static void wait_until_idle(roco_threads *team)
{
    for (uint32_t spins = 1; atomic_load(&team->active) != 0; spins++) {
        if (spins % 512 == 0)
            sched_yield();
        else
            pause_cpu();
    }
}

void roco_threads_run(roco_threads *threads, uint32_t n_tasks, roco_task *task, void *context)
{
    if (n_tasks <= 1 || threads->count == 1) {
        for (uint32_t i = 0; i < n_tasks; i++)
            task(context, 0, i);
        return;
    }
    /* Every thread bumps a share's `next` past its end at most once: kept clear of wrapping round. */
    ROCO_CHECK(n_tasks < UINT32_MAX - MAX_THREADS);
    threads->task = task;
    threads->context = context;
    threads->n_tasks = n_tasks;
    for (uint32_t i = 0; i < threads->count; i++)
        atomic_store_explicit(&threads->shares[i].next, first_task(threads, i), memory_order_relaxed);
    threads->generation = threads->generation == UINT32_MAX ? 1 : threads->generation + 1;
    atomic_store(&threads->open, threads->generation);
    wake_sleepers(threads);
    take_tasks(threads, 0);
    atomic_store(&threads->open, 0);
    wait_until_idle(threads);
}
