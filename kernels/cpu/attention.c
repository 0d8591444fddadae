/* The attention operation: scratch, and which compute thread does which head.
 *
 * open and close on the engine's thread; a task is one KV head of one sequence, with all its chunks in order.
 */
#include "kernels/cpu/attention.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

typedef struct sizes {
    size_t rows, columns, pages, stride_pages;
} sizes;

static sizes sizes_of(const roco_backend_config *config)
{
    uint32_t slots = config->layout.slots;
    sizes s = {.rows = config->max_group > ROCO_BLOCK_ROWS ? config->max_group : ROCO_BLOCK_ROWS};
    s.stride_pages = roco_kv_pages_for(&config->layout, config->stride);
    /* The cache's last page and the stride's may both be partly used. */
    s.pages = (size_t)roco_kv_pages_for(&config->layout, config->max_slots) + 2;
    s.columns = s.pages * slots;
    return s;
}

/* Takes `bytes` off memory that starts at `memory`; with NULL only counts. */
static void *carve(unsigned char *memory, size_t *used, size_t bytes)
{
    void *part = memory == NULL ? NULL : memory + *used;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

static void lay_out_worker(roco_attention_worker *w, const roco_backend_config *config, unsigned char *memory,
                           size_t *used)
{
    const roco_kv_layout *l = &config->layout;
    sizes s = sizes_of(config);
    w->q = carve(memory, used, s.rows * l->key_dim * sizeof *w->q);
    w->scores = carve(memory, used, s.rows * (s.columns + ROCO_ROW_PADDING) * sizeof *w->scores);
    w->out = carve(memory, used, s.rows * roco_row_floats(l->value_dim) * sizeof *w->out);
    w->sum = carve(memory, used, s.columns * sizeof *w->sum);
    w->sum_sq = carve(memory, used, s.columns * sizeof *w->sum_sq);
    w->position = carve(memory, used, s.columns * sizeof *w->position);
    w->stride_pages = carve(memory, used, s.stride_pages * l->page_bytes);
    w->pages = carve(memory, used, s.pages * sizeof *w->pages);
    w->half = carve(memory, used, l->key_dim * sizeof *w->half);
    w->policy_scratch = carve(memory, used, 2 * s.columns * sizeof *w->policy_scratch);
    w->order = carve(memory, used, s.columns * sizeof *w->order);
    w->victims = carve(memory, used, s.columns * sizeof *w->victims);
}

/* Workers, runs and each worker's arrays, all in one block. */
static void lay_out(roco_attention_scratch *a, const roco_cpu *cpu, unsigned char *memory, size_t *used)
{
    uint32_t n_workers = roco_threads_count(cpu->threads);
    roco_attention_worker none;
    a->workers = carve(memory, used, n_workers * sizeof *a->workers);
    a->runs = carve(memory, used, ((size_t)cpu->config.max_rows + 1) * sizeof *a->runs);
    for (uint32_t i = 0; i < n_workers; i++)
        lay_out_worker(memory == NULL ? &none : &a->workers[i], &cpu->config, memory, used);
}

static const roco_attention_kernels *kernels_for(roco_isa isa)
{
#ifdef __x86_64__
    if (isa == ROCO_ISA_AVX512)
        return &roco_attention_avx512;
    if (isa == ROCO_ISA_AVX2)
        return &roco_attention_avx2;
#endif
    return &roco_attention_portable;
}

roco_status roco_attention_open(roco_cpu *cpu, roco_error *error)
{
    roco_attention_scratch *a = calloc(1, sizeof *a);
    if (a == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for attention");
    size_t bytes = 0;
    lay_out(a, cpu, NULL, &bytes);
    a->memory = aligned_alloc(ALIGNMENT, bytes);
    if (a->memory == NULL) {
        free(a);
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for attention's scratch of %zu bytes", bytes);
    }
    memset(a->memory, 0, bytes);
    size_t used = 0;
    lay_out(a, cpu, a->memory, &used);
    a->max_rows = cpu->config.max_rows;
    a->kernels = kernels_for(cpu->isa);
    cpu->attention = a;
    cpu->scratch_bytes += bytes;
    return ROCO_OK;
}

void roco_attention_close(roco_cpu *cpu)
{
    if (cpu->attention == NULL)
        return;
    free(cpu->attention->memory);
    free(cpu->attention);
    cpu->attention = NULL;
}

typedef struct operation {
    const roco_attention *args;
    const roco_attention_scratch *scratch;
    uint32_t n_runs;
} operation;

static void do_task(void *context, uint32_t thread, uint32_t task)
{
    const operation *op = context;
    const roco_attention *args = op->args;
    /* Prompts stand last in a batch and take longest: first come, they leave no thread waiting at the end. */
    uint32_t run = op->n_runs - 1 - task / args->n_kv_heads;
    roco_attention_job job = {.args = args,
                              .kernels = op->scratch->kernels,
                              .worker = &op->scratch->workers[thread],
                              .kv_head = task % args->n_kv_heads};
    for (uint32_t i = op->scratch->runs[run]; i < op->scratch->runs[run + 1]; i++) {
        job.chunk = &args->chunks[i];
        job.head = &job.chunk->sequence->heads[args->layer * args->n_kv_heads + job.kv_head];
        roco_attention_head(&job);
    }
}

void roco_cpu_attention(roco_backend *backend, const roco_attention *args)
{
    roco_cpu *cpu = roco_cpu_of(backend);
    roco_attention_scratch *a = cpu->attention;
    operation op = {.args = args, .scratch = a};
    ROCO_CHECK(args->n_chunks <= a->max_rows);
    for (uint32_t i = 0; i < args->n_chunks; i++)
        if (i == 0 || args->chunks[i].sequence != args->chunks[i - 1].sequence)
            a->runs[op.n_runs++] = i;
    a->runs[op.n_runs] = args->n_chunks;
    roco_threads_run(cpu->threads, op.n_runs * args->n_kv_heads, do_task, &op);
}
