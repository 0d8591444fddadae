/* How fast this machine reads memory: threads that add up their parts of one buffer. Any thread may ask. */
#include "config/clock.h"
#include "eval/bench_measure.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PASSES = 15, MOST_THREADS = 1024, HUGE_PAGE = 2 << 20 };

typedef struct part {
    const uint64_t *words;
    size_t n;
    pthread_barrier_t *barrier;
    uint64_t sum; /* keeps the loop alive */
} part;

/* A cache line, added up lane by lane. */
typedef uint64_t line __attribute__((vector_size(64)));

/* Fetched as far ahead as the products fetch their weights: without that one thread gets half of what it can. */
static uint64_t add_up(const uint64_t *words, size_t n)
{
    enum { WORDS = sizeof(line) / sizeof *words, AHEAD = 8192 / sizeof *words };
    line sums[2] = {{0}, {0}};
    for (size_t i = 0; i + 2 * WORDS <= n; i += 2 * WORDS)
        for (size_t k = 0; k < 2; k++) {
            line x;
            __builtin_prefetch(words + i + k * WORDS + AHEAD);
            memcpy(&x, words + i + k * WORDS, sizeof x);
            sums[k] += x;
        }
    sums[0] += sums[1];
    uint64_t sum = 0;
    for (size_t k = 0; k < WORDS; k++)
        sum += sums[0][k];
    return sum;
}

static void *read_part(void *context)
{
    part *p = context;
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(p->barrier);
        p->sum += add_up(p->words, p->n);
        pthread_barrier_wait(p->barrier);
    }
    return NULL;
}

static int ascending(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The caller is one of the readers. Returns the median pass in nanoseconds. */
static uint64_t time_passes(part *parts, pthread_barrier_t *barrier)
{
    uint64_t ns[PASSES];
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(barrier);
        const uint64_t began = roco_now_ns();
        parts[0].sum += add_up(parts[0].words, parts[0].n);
        pthread_barrier_wait(barrier);
        ns[pass] = roco_now_ns() - began;
    }
    qsort(ns, PASSES, sizeof *ns, ascending);
    return ns[PASSES / 2];
}

double roco_read_bandwidth(uint32_t n_threads, size_t bytes)
{
    static const size_t unit = 2 * sizeof(line);
    part parts[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    pthread_barrier_t barrier;
    n_threads = n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
    const size_t each = bytes / n_threads / unit * unit;
    uint64_t *words = aligned_alloc(HUGE_PAGE, (each * n_threads / HUGE_PAGE + 1) * HUGE_PAGE);
    if (!words)
        return 0;
    madvise(words, each * n_threads, MADV_HUGEPAGE);
    for (size_t i = 0; i < each * n_threads / sizeof *words; i++)
        words[i] = i;
    uint32_t n_started = 1;
    pthread_barrier_init(&barrier, NULL, n_threads);
    for (uint32_t i = 0; i < n_threads; i++)
        parts[i] = (part){words + i * (each / sizeof *words), each / sizeof *words, &barrier, 0};
    while (n_started < n_threads && !pthread_create(&threads[n_started], NULL, read_part, &parts[n_started]))
        n_started++;
    ROCO_CHECK(n_started == n_threads);
    const uint64_t ns = time_passes(parts, &barrier);
    for (uint32_t i = 1; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    free(words);
    return (double)(each * n_threads) * 1e9 / (double)ns;
}
