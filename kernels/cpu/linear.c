/* Weights and matrix products: opening a matrix, sharing a product out to the compute threads, embedding rows.
 *
 * Runs on the engine's thread. How a matrix lies in memory is in linear.h, what a panel costs in linear_<isa>.c. A
 * product is cut into parts, each some panels of one matrix times some rows; every output belongs to one part, so the
 * cut never changes a result.
 */
#include "kernels/cpu/linear.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WEIGHTS      4u
#define PARTS_PER_THREAD 4u   /* enough that threads end together, few enough that each part streams */
#define ROWS_PER_PART    128u /* their activations stay in a core's second-level cache while panels pass by */
#define VALUES_PER_TASK  16384u

struct roco_linear {
    const roco_linear_variant *variant;
    roco_q8_block *quantized; /* [max_rows, max_width / 32]; NULL in f32 */
    roco_arena arena;         /* the weights' panels */
};

static const roco_linear_variant *variant_of(roco_isa isa)
{
#if defined(__x86_64__)
    if (isa == ROCO_ISA_AVX512)
        return &roco_linear_avx512;
    if (isa == ROCO_ISA_AVX_VNNI)
        return &roco_linear_avxvnni;
    if (isa == ROCO_ISA_AVX2)
        return &roco_linear_avx2;
#endif
    return &roco_linear_portable;
}

roco_status roco_linear_open(roco_cpu *cpu, roco_error *error)
{
    roco_linear *linear = calloc(1, sizeof(*linear));
    cpu->linear = linear;
    if (linear == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the matrix products");
    linear->variant = variant_of(cpu->isa);
    if (cpu->config.precision == ROCO_PRECISION_F32)
        return ROCO_OK;
    size_t blocks_per_row = ((size_t)cpu->config.max_width + ROCO_BLOCK - 1) / ROCO_BLOCK;
    size_t bytes = (blocks_per_row * cpu->config.max_rows * sizeof(roco_q8_block) + 63) / 64 * 64;
    linear->quantized = aligned_alloc(64, bytes);
    if (linear->quantized == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for %zu bytes of quantised activations", bytes);
    cpu->scratch_bytes += bytes;
    return ROCO_OK;
}

void roco_linear_close(roco_cpu *cpu)
{
    if (cpu->linear == NULL)
        return;
    free(cpu->linear->quantized);
    free(cpu->linear);
    cpu->linear = NULL;
}

/* --- weights --- */

typedef struct pack_job {
    const roco_tensor_view *view;
    const roco_weight *weight;
} pack_job;

static void pack_task(void *context, uint32_t thread, uint32_t task)
{
    const pack_job *job = context;
    roco_panel_pack(job->view, job->weight, task);
}

static roco_status check_view(const roco_cpu *cpu, const roco_tensor_view *view, roco_error *error)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)view->type);
    if (traits == NULL)
        return roco_fail(error, ROCO_UNSUPPORTED, view->name, "tensor type %d is not supported", (int)view->type);
    if (view->n_rows == 0 || view->n_cols == 0 || view->n_cols % traits->block_values != 0)
        return roco_fail(error, ROCO_UNSUPPORTED, view->name,
                         "a matrix of %u x %u cannot be made of %s blocks of %u values", view->n_rows, view->n_cols,
                         traits->name, traits->block_values);
    if (view->n_cols > cpu->config.max_width)
        return roco_fail(error, ROCO_UNSUPPORTED, view->name, "%u columns are over the backend's width of %u",
                         view->n_cols, cpu->config.max_width);
    return ROCO_OK;
}

static size_t bytes_of(const roco_weight *weight)
{
    return weight->panel_bytes * weight->n_panels;
}

roco_status roco_cpu_weight_open(roco_backend *backend, const roco_tensor_view *view, roco_weight **out,
                                 roco_error *error)
{
    roco_cpu *cpu = roco_cpu_of(backend);
    *out = NULL;
    roco_status status = check_view(cpu, view, error);
    if (status != ROCO_OK)
        return status;
    roco_weight *weight = calloc(1, sizeof(*weight));
    if (weight == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, view->name, "no memory for a matrix");
    if (!roco_panel_layout(view, cpu->config.precision, weight)) {
        free(weight);
        return roco_fail(error, ROCO_UNSUPPORTED, view->name, "tensor type %d has no integer form", (int)view->type);
    }
    weight->panels = roco_arena_take(&cpu->linear->arena, bytes_of(weight), &weight->chunk);
    if (weight->panels == NULL) {
        size_t bytes = bytes_of(weight);
        free(weight);
        return roco_fail(error, ROCO_NO_MEMORY, view->name, "no memory for a matrix of %zu bytes", bytes);
    }
    pack_job job = {.view = view, .weight = weight};
    roco_threads_run(cpu->threads, weight->n_panels, pack_task, &job);
    cpu->weight_bytes += bytes_of(weight);
    *out = weight;
    return ROCO_OK;
}

void roco_cpu_weight_close(roco_backend *backend, roco_weight *weight)
{
    if (weight == NULL)
        return;
    roco_cpu *cpu = roco_cpu_of(backend);
    cpu->weight_bytes -= bytes_of(weight);
    roco_arena_give_back(&cpu->linear->arena, weight->chunk);
    free(weight);
}

/* --- products --- */

typedef struct product_job {
    const roco_linear_variant *variant;
    const roco_weight *const *weights;
    float *outs[MAX_WEIGHTS];
    uint32_t n_weights;
    uint32_t panels_per_part, rows_per_part;
    uint32_t first_part[MAX_WEIGHTS + 1]; /* of each matrix, within one run of rows */
    uint32_t n;
    const float *x;
    roco_q8_block *quantized;
    bool add;
} product_job;

static uint32_t ceil_divide(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

static void quantize_task(void *context, uint32_t thread, uint32_t task)
{
    const product_job *job = context;
    uint32_t n_cols = job->weights[0]->n_cols, rows = VALUES_PER_TASK / n_cols + 1;
    uint32_t first = task * rows, last = job->n - first < rows ? job->n : first + rows;
    for (size_t i = first; i < last; i++)
        job->variant->quantize(job->x + i * n_cols, n_cols, job->quantized + i * (n_cols / ROCO_BLOCK));
}

static bool any_integers(const product_job *job)
{
    for (uint32_t w = 0; w < job->n_weights; w++)
        if (roco_element_is_integer(job->weights[w]->element))
            return true;
    return false;
}

static void product_task(void *context, uint32_t thread, uint32_t task)
{
    const product_job *job = context;
    uint32_t runs = ceil_divide(job->n, job->rows_per_part);
    uint32_t first_row = task % runs * job->rows_per_part, part = task / runs, w = 0;
    while (part >= job->first_part[w + 1])
        w++;
    const roco_weight *weight = job->weights[w];
    roco_linear_part p = {.weight = weight, .add = job->add};
    p.first_panel = (part - job->first_part[w]) * job->panels_per_part;
    p.last_panel = p.first_panel + job->panels_per_part;
    if (p.last_panel > weight->n_panels)
        p.last_panel = weight->n_panels;
    p.n = job->n - first_row < job->rows_per_part ? job->n - first_row : job->rows_per_part;
    p.x = job->x + (size_t)first_row * weight->n_cols;
    p.out = job->outs[w] + (size_t)first_row * weight->n_rows;
    if (roco_element_is_integer(weight->element)) {
        p.quantized = job->quantized + (size_t)first_row * (weight->n_cols / ROCO_BLOCK);
        job->variant->multiply_integers(&p);
    } else {
        job->variant->multiply_floats(&p);
    }
}

static void plan_parts(product_job *job, uint32_t n_threads)
{
    uint32_t n_panels = 0;
    for (uint32_t w = 0; w < job->n_weights; w++)
        n_panels += job->weights[w]->n_panels;
    uint32_t runs = ceil_divide(job->n, ROWS_PER_PART);
    job->rows_per_part = ceil_divide(job->n, runs);
    job->panels_per_part = ceil_divide(n_panels, n_threads * PARTS_PER_THREAD);
    for (uint32_t w = 0; w < job->n_weights; w++)
        job->first_part[w + 1] = job->first_part[w] + ceil_divide(job->weights[w]->n_panels, job->panels_per_part);
}

static void multiply_rows(roco_threads *threads, product_job *job)
{
    if (any_integers(job)) {
        uint32_t rows_per_task = VALUES_PER_TASK / job->weights[0]->n_cols + 1;
        roco_threads_run(threads, ceil_divide(job->n, rows_per_task), quantize_task, job);
    }
    plan_parts(job, roco_threads_count(threads));
    uint32_t n_tasks = ceil_divide(job->n, job->rows_per_part) * job->first_part[job->n_weights];
    roco_threads_run(threads, n_tasks, product_task, job);
}

void roco_cpu_matmul(roco_backend *backend, const roco_weight *const *weights, float *const *outs, uint32_t n_weights,
                     const float *x, uint32_t n, bool add)
{
    roco_cpu *cpu = roco_cpu_of(backend);
    ROCO_CHECK(n_weights >= 1 && n_weights <= MAX_WEIGHTS);
    for (uint32_t w = 1; w < n_weights; w++)
        ROCO_CHECK(weights[w]->n_cols == weights[0]->n_cols);
    for (uint32_t first = 0; first < n; first += cpu->config.max_rows) {
        uint32_t rows = n - first < cpu->config.max_rows ? n - first : cpu->config.max_rows;
        product_job job = {.variant = cpu->linear->variant,
                           .weights = weights,
                           .n_weights = n_weights,
                           .n = rows,
                           .x = x + (size_t)first * weights[0]->n_cols,
                           .quantized = cpu->linear->quantized,
                           .add = add};
        for (uint32_t w = 0; w < n_weights; w++)
            job.outs[w] = outs[w] + (size_t)first * weights[w]->n_rows;
        multiply_rows(cpu->threads, &job);
    }
}

/* --- embedding --- */

typedef struct embed_job {
    const roco_weight *weight;
    const int32_t *ids;
    uint32_t n, rows_per_task;
    float *out;
} embed_job;

static void embed_task(void *context, uint32_t thread, uint32_t task)
{
    const embed_job *job = context;
    uint32_t first = task * job->rows_per_task;
    uint32_t last = job->n - first < job->rows_per_task ? job->n : first + job->rows_per_task;
    for (size_t i = first; i < last; i++)
        roco_panel_unpack_row(job->weight, (uint32_t)job->ids[i], job->out + i * job->weight->n_cols);
}

void roco_cpu_embed(roco_backend *backend, const roco_weight *weight, const int32_t *ids, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++)
        ROCO_CHECK(ids[i] >= 0 && (uint32_t)ids[i] < weight->n_rows);
    embed_job job = {.weight = weight, .ids = ids, .n = n, .out = out};
    job.rows_per_task = VALUES_PER_TASK / weight->n_cols + 1;
    roco_threads_run(roco_cpu_of(backend)->threads, ceil_divide(n, job.rows_per_task), embed_task, &job);
}
