/* Norms, rotary positions, gated activations, element-wise operations and row copies: how rows are shared out to the
 * compute threads.
 *
 * Runs on the engine's thread; what one row costs is in rowwise_body.h. A row's result depends on that row alone.
 */
#include "kernels/cpu/rowwise.h"
#include "kernels/cpu/cpu.h"

#include <string.h>

/* Below this a task costs less than handing it to another thread. */
#define TASK_VALUES 16384u

typedef struct rows_job {
    const roco_rowwise_variant *variant;
    uint32_t n, width, rows_per_task;
    const float *x, *gain, *cosines, *sines, *up;
    const uint32_t *rows;
    float eps, factor;
    uint32_t n_heads, head_dim, rope_dim;
    bool halves;
    float *out;
} rows_job;

static const roco_rowwise_variant *variant_of(const roco_backend *backend)
{
#if defined(__x86_64__)
    roco_isa isa = ((const roco_cpu *)backend)->isa;
    if (isa == ROCO_ISA_AVX512)
        return &roco_rowwise_avx512;
    if (isa == ROCO_ISA_AVX2 || isa == ROCO_ISA_AVX_VNNI)
        return &roco_rowwise_avx2;
#endif
    return &roco_rowwise_portable;
}

static void run(roco_backend *backend, rows_job *job, roco_task *task)
{
    if (job->n == 0 || job->width == 0)
        return;
    job->variant = variant_of(backend);
    job->rows_per_task = job->width >= TASK_VALUES ? 1 : TASK_VALUES / job->width;
    uint32_t n_tasks = (job->n + job->rows_per_task - 1) / job->rows_per_task;
    roco_threads_run(roco_cpu_of(backend)->threads, n_tasks, task, job);
}

static uint32_t first_row(const rows_job *job, uint32_t task)
{
    return task * job->rows_per_task;
}

static uint32_t last_row(const rows_job *job, uint32_t task)
{
    uint32_t first = first_row(job, task);
    return job->n - first < job->rows_per_task ? job->n : first + job->rows_per_task;
}

static void rms_norm_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    for (size_t i = first_row(job, task); i < last_row(job, task); i++)
        job->variant->rms_norm(job->x + i * job->width, job->gain, job->eps, job->width, job->out + i * job->width);
}

void roco_cpu_rms_norm(roco_backend *backend, const float *x, const float *gain, float eps, uint32_t n, uint32_t width,
                       float *out)
{
    rows_job job = {.n = n, .width = width, .x = x, .gain = gain, .eps = eps, .out = out};
    run(backend, &job, rms_norm_task);
}

static void rope_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    for (size_t i = first_row(job, task); i < last_row(job, task); i++)
        (job->halves ? job->variant->rope_halves : job->variant->rope)(
            job->out + i * job->width, job->cosines + i * (job->rope_dim / 2), job->sines + i * (job->rope_dim / 2),
            job->n_heads, job->head_dim, job->rope_dim);
}

void roco_cpu_rope(roco_backend *backend, float *x, const float *cosines, const float *sines, uint32_t n,
                   uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves)
{
    rows_job job = {.n = n,
                    .width = n_heads * head_dim,
                    .out = x,
                    .cosines = cosines,
                    .sines = sines,
                    .n_heads = n_heads,
                    .head_dim = head_dim,
                    .rope_dim = rope_dim,
                    .halves = halves};
    run(backend, &job, rope_task);
}

/* The values of a task's rows, for what is done value by value. */
typedef struct span {
    size_t first, n;
} span;

static span span_of(const rows_job *job, uint32_t task)
{
    size_t first = (size_t)first_row(job, task) * job->width;
    return (span){first, (size_t)last_row(job, task) * job->width - first};
}

static void swiglu_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    span part = span_of(job, task);
    job->variant->swiglu(job->out + part.first, job->up + part.first, part.n);
}

void roco_cpu_swiglu(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width)
{
    rows_job job = {.n = n, .width = width, .up = up, .out = gate};
    run(backend, &job, swiglu_task);
}

static void geglu_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    span part = span_of(job, task);
    job->variant->geglu(job->out + part.first, job->up + part.first, part.n);
}

void roco_cpu_geglu(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width)
{
    rows_job job = {.n = n, .width = width, .up = up, .out = gate};
    run(backend, &job, geglu_task);
}

static void add_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    span part = span_of(job, task);
    job->variant->add(job->out + part.first, job->x + part.first, job->factor, part.n);
}

void roco_cpu_add(roco_backend *backend, float *x, const float *y, float factor, uint32_t n, uint32_t width)
{
    rows_job job = {.n = n, .width = width, .x = y, .factor = factor, .out = x};
    run(backend, &job, add_task);
}

static void add_bias_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    for (size_t i = first_row(job, task); i < last_row(job, task); i++)
        job->variant->add(job->out + i * job->width, job->x, 1.0f, job->width);
}

void roco_cpu_add_bias(roco_backend *backend, float *x, const float *bias, uint32_t n, uint32_t width)
{
    rows_job job = {.n = n, .width = width, .x = bias, .out = x};
    run(backend, &job, add_bias_task);
}

static void scale_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    span part = span_of(job, task);
    job->variant->scale(job->out + part.first, job->factor, part.n);
}

void roco_cpu_scale(roco_backend *backend, float *x, float factor, uint32_t n, uint32_t width)
{
    rows_job job = {.n = n, .width = width, .factor = factor, .out = x};
    run(backend, &job, scale_task);
}

static void softcap_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    span part = span_of(job, task);
    job->variant->softcap(job->out + part.first, job->factor, part.n);
}

void roco_cpu_softcap(roco_backend *backend, float *x, float cap, uint32_t n, uint32_t width)
{
    rows_job job = {.n = n, .width = width, .factor = cap, .out = x};
    run(backend, &job, softcap_task);
}

static void gather_task(void *context, uint32_t thread, uint32_t task)
{
    const rows_job *job = context;
    for (size_t i = first_row(job, task); i < last_row(job, task); i++)
        memcpy(job->out + i * job->width, job->x + (size_t)job->rows[i] * job->width, job->width * sizeof(float));
}

void roco_cpu_gather(roco_backend *backend, const float *x, const uint32_t *rows, uint32_t n_out, uint32_t width,
                     float *out)
{
    rows_job job = {.n = n_out, .width = width, .x = x, .rows = rows, .out = out};
    run(backend, &job, gather_task);
}
