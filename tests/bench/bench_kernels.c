/* What the CPU products reach, against what the machine can: prints GB/s for one row and GOPS for many.
 *
 * The shapes are those of SmolLM2-135M: width 576, heads 576 + 192 + 192, feed-forward 1536, vocabulary 49152; every
 * layer has matrices of its own, so one row streams weights from memory as decoding does. Run: bench_kernels [threads
 * [isa [type of the layers]]].
 */
#include "config/clock.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N_LAYERS 30u
#define N_MAX    512u
#define WIDTH    576u
#define FFN      1536u
#define KV       192u
#define VOCAB    49152u

#define READ_TASKS 16u
#define HUGE_PAGE  ((size_t)2 << 20)

typedef struct bench_layer {
    roco_weight *q, *k, *v, *o, *gate, *up, *down;
} bench_layer;

typedef struct bench {
    roco_backend *backend;
    bench_layer layers[N_LAYERS];
    roco_weight *head;
    float *x, *qkv[3], *ffn[2], *logits;
} bench;

static roco_weight *random_weight(bench *b, roco_tensor_type type, uint32_t n_rows, uint32_t n_cols)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)type);
    size_t bytes = (size_t)n_rows * n_cols / traits->block_values * traits->block_bytes;
    uint8_t *data = malloc(bytes);
    for (size_t i = 0; data != NULL && i < bytes; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13) & 0x3f; /* half floats of at most 1.9 wherever they are */
    roco_tensor_view view = {.name = traits->name, .type = type, .n_rows = n_rows, .n_cols = n_cols, .data = data};
    roco_weight *weight = NULL;
    roco_error error;
    if (data == NULL || b->backend->ops->weight_open(b->backend, &view, &weight, &error) != ROCO_OK) {
        fprintf(stderr, "cannot open a %s matrix\n", traits->name);
        exit(1);
    }
    free(data);
    return weight;
}

static void multiply(bench *b, roco_weight *const *weights, float *const *outs, uint32_t n_weights, uint32_t n,
                     bool add)
{
    b->backend->ops->matmul(b->backend, (const roco_weight *const *)weights, outs, n_weights, b->x, n, add);
}

static void run_layers(bench *b, uint32_t n)
{
    for (uint32_t l = 0; l < N_LAYERS; l++) {
        bench_layer *layer = &b->layers[l];
        multiply(b, (roco_weight *[]){layer->q, layer->k, layer->v}, b->qkv, 3, n, false);
        multiply(b, (roco_weight *[]){layer->o}, b->qkv, 1, n, true);
        multiply(b, (roco_weight *[]){layer->gate, layer->up}, b->ffn, 2, n, false);
        multiply(b, (roco_weight *[]){layer->down}, b->qkv, 1, n, true);
    }
}

static void open_weights(bench *b, roco_tensor_type type)
{
    for (uint32_t l = 0; l < N_LAYERS; l++)
        b->layers[l] = (bench_layer){.q = random_weight(b, type, WIDTH, WIDTH),
                                     .k = random_weight(b, type, KV, WIDTH),
                                     .v = random_weight(b, type, KV, WIDTH),
                                     .o = random_weight(b, type, WIDTH, WIDTH),
                                     .gate = random_weight(b, type, FFN, WIDTH),
                                     .up = random_weight(b, type, FFN, WIDTH),
                                     .down = random_weight(b, type, WIDTH, FFN)};
    b->head = random_weight(b, ROCO_TYPE_Q8_0, VOCAB, WIDTH);
}

/* --- the machine's own read speed: the threads sum an array as large as the weights --- */

typedef uint64_t line __attribute__((vector_size(64)));

typedef struct read_job {
    const line *lines;
    size_t lines_per_task;
    line sums[READ_TASKS];
} read_job;

static void read_task(void *context, uint32_t thread, uint32_t task)
{
    read_job *job = context;
    const line *at = job->lines + task * job->lines_per_task;
    line s[4] = {{0}};
    for (size_t i = 0; i + 4 <= job->lines_per_task; i += 4)
        for (size_t j = 0; j < 4; j++) {
            __builtin_prefetch(&at[i + j + 64]);
            s[j] += at[i + j];
        }
    job->sums[task] = s[0] + s[1] + s[2] + s[3];
}

static double read_gigabytes_per_second(bench *b)
{
    size_t bytes = b->backend->ops->weight_bytes(b->backend) / HUGE_PAGE * HUGE_PAGE;
    read_job job = {.lines = aligned_alloc(HUGE_PAGE, bytes), .lines_per_task = bytes / 64 / READ_TASKS};
    if (job.lines == NULL)
        return 0;
    (void)madvise((void *)job.lines, bytes, MADV_HUGEPAGE);
    memset((void *)job.lines, 1, bytes);
    double best = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t start = roco_now_ns();
        roco_threads_run(roco_cpu_of(b->backend)->threads, READ_TASKS, read_task, &job);
        double speed = (double)bytes / (double)(roco_now_ns() - start);
        best = speed > best ? speed : best;
    }
    free((void *)job.lines);
    return best;
}

static double best_seconds(bench *b, uint32_t n, bool with_head, uint32_t rounds)
{
    double best = 1e9;
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = roco_now_ns();
        run_layers(b, n);
        if (with_head)
            multiply(b, &b->head, &b->logits, 1, n > 32 ? 1 : n, false);
        double seconds = (double)(roco_now_ns() - start) * 1e-9;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void report(bench *b, double limit)
{
    static const uint32_t batches[] = {1, 2, 4, 8, 16, 32, 128, N_MAX};
    double per_row = 2.0 * N_LAYERS * (WIDTH * (2.0 * WIDTH + 2 * KV) + 3.0 * WIDTH * FFN);
    double bytes = (double)b->backend->ops->weight_bytes(b->backend);
    for (uint32_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        uint32_t n = batches[i], head_rows = n > 32 ? 1 : n;
        double seconds = best_seconds(b, n, true, n <= 32 ? 20 : 3);
        double gops = (per_row * n + 2.0 * VOCAB * WIDTH * head_rows) / seconds * 1e-9;
        printf("%4u rows: %8.3f ms  %8.1f rows/s  %6.1f GB/s (%3.0f %% of reading)  %7.1f GOPS\n", n, seconds * 1e3,
               n / seconds, bytes / seconds * 1e-9, bytes / seconds * 1e-7 / limit, gops);
    }
}

int main(int argc, char **argv)
{
    roco_backend_config config = {.threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2,
                                  .max_rows = N_MAX,
                                  .max_width = FFN,
                                  .max_slots = 64,
                                  .stride = 32,
                                  .max_group = 3,
                                  .layout = roco_kv_layout_make(ROCO_KV_F16, 64, 64),
                                  .precision = ROCO_PRECISION_INT8,
                                  .isa = argc > 2 ? argv[2] : NULL};
    uint32_t type = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : ROCO_TYPE_Q4_1;
    static bench b;
    roco_error error;
    if (roco_type_find(type) == NULL || roco_backend_open("cpu", &config, &b.backend, &error) != ROCO_OK) {
        fprintf(stderr, "usage: bench_kernels [threads [isa [number of a GGUF type]]]\n");
        return 1;
    }
    uint64_t start = roco_now_ns();
    open_weights(&b, (roco_tensor_type)type);
    double open_ms = (double)(roco_now_ns() - start) * 1e-6, limit = read_gigabytes_per_second(&b);
    b.x = calloc((size_t)N_MAX * FFN, sizeof(float));
    for (uint32_t i = 0; i < 3; i++)
        b.qkv[i] = calloc((size_t)N_MAX * WIDTH, sizeof(float));
    for (uint32_t i = 0; i < 2; i++)
        b.ffn[i] = calloc((size_t)N_MAX * FFN, sizeof(float));
    b.logits = calloc((size_t)32 * VOCAB, sizeof(float));
    for (uint32_t i = 0; i < N_MAX * FFN; i++)
        b.x[i] = (float)(i * 2654435761u >> 20) / 2048.0f - 1.0f;
    printf("%s: %.1f MB of %s opened in %.0f ms; memory reads %.1f GB/s\n", b.backend->ops->describe(b.backend),
           (double)b.backend->ops->weight_bytes(b.backend) * 1e-6, roco_type_find(type)->name, open_ms, limit);
    report(&b, limit);
    return 0;
}
