/* The attention operation: scratch, and which compute thread does which head.
 *
 * open and close on the engine's thread. A task is one KV head of one sequence with all its chunks in order; when that
 * gives fewer tasks than would keep the threads busy, prompts are cut finer, into parts of strides.
 */
#include "kernels/cpu/attention.h"

#include <stdlib.h>

#define ALIGNMENT 64u

/* Jobs that may be cut into parts, by thread; with more than that there is no need. */
#define STAGES_PER_THREAD 2u
/* A stride has about this many parts, of no fewer rows than PART_ROWS. */
#define PARTS             4u
#define PART_ROWS         16u

typedef struct sizes {
    size_t rows, columns, pages, stride_pages, parts;
} sizes;

/* Whole blocks of any group size that divides 8; the stride alone decides. */
static uint32_t part_rows_for(uint32_t stride)
{
    uint32_t rows = ((stride + PARTS - 1) / PARTS + 7) / 8 * 8;
    return rows > PART_ROWS ? rows : PART_ROWS;
}

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Enough for heads of every type that the pool can hold. */
static sizes sizes_of(const roco_backend_config *config)
{
    sizes s = {.rows = config->max_group > ROCO_BLOCK_ROWS ? config->max_group : ROCO_BLOCK_ROWS};
    for (uint32_t type = 0; type < ROCO_N_KV_TYPES; type++) {
        if (type == ROCO_KV_F32 && config->layout.type != ROCO_KV_F32)
            continue;
        const roco_kv_layout l = roco_kv_layout_of(&config->layout, (roco_kv_type)type);
        /* The cache's last page and the stride's may both be partly used. */
        const size_t pages = (size_t)roco_kv_pages_for(&l, config->max_slots) + 2;
        s.stride_pages = greater(s.stride_pages, roco_kv_pages_for(&l, config->stride));
        s.pages = greater(s.pages, pages);
        s.columns = greater(s.columns, roco_column_pad((uint32_t)pages * l.slots));
    }
    s.parts = (config->stride + part_rows_for(config->stride) - 1) / part_rows_for(config->stride);
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
    w->pages = carve(memory, used, s.pages * sizeof *w->pages);
    w->half = carve(memory, used, l->key_dim * sizeof *w->half);
    const uint32_t dim = l->key_dim > l->value_dim ? l->key_dim : l->value_dim;
    w->codes = carve(memory, used, roco_kv_blocks(dim) * ROCO_KV_BLOCK);
    w->numbers = carve(memory, used, 2 * roco_kv_blocks(dim) * sizeof *w->numbers);
    w->policy_scratch = carve(memory, used, 2 * s.columns * sizeof *w->policy_scratch);
    w->order = carve(memory, used, s.columns * sizeof *w->order);
    w->victims = carve(memory, used, s.columns * sizeof *w->victims);
    w->inside = carve(memory, used, s.columns * sizeof *w->inside);
    w->block = carve(memory, used, (size_t)dim * ROCO_POLICY_BLOCK * sizeof *w->block);
    w->vector = carve(memory, used, dim * sizeof *w->vector);
}

static void lay_out_stage(roco_attention_stage *stage, const roco_backend_config *config, unsigned char *memory,
                          size_t *used)
{
    sizes s = sizes_of(config);
    stage->pages = carve(memory, used, s.stride_pages * config->layout.page_bytes);
    stage->sum = carve(memory, used, s.parts * s.columns * sizeof *stage->sum);
    stage->rank = carve(memory, used, s.columns * sizeof *stage->rank);
    stage->last = carve(memory, used, s.columns * sizeof *stage->last);
    stage->sum_sq = carve(memory, used, s.parts * s.columns * sizeof *stage->sum_sq);
}

/* Workers, stages, runs and all their arrays, in one block. */
static void lay_out(roco_attention_scratch *a, const roco_cpu *cpu, unsigned char *memory, size_t *used)
{
    uint32_t n_workers = roco_threads_count(cpu->threads);
    roco_attention_worker no_worker;
    roco_attention_stage no_stage;
    a->n_cut_stages = STAGES_PER_THREAD * n_workers;
    a->workers = carve(memory, used, n_workers * sizeof *a->workers);
    a->stages = carve(memory, used, (n_workers + a->n_cut_stages) * sizeof *a->stages);
    a->cut_stages = memory == NULL ? NULL : a->stages + n_workers;
    a->runs = carve(memory, used, ((size_t)cpu->config.max_rows + 1) * sizeof *a->runs);
    for (uint32_t i = 0; i < n_workers; i++)
        lay_out_worker(memory == NULL ? &no_worker : &a->workers[i], &cpu->config, memory, used);
    for (uint32_t i = 0; i < n_workers + a->n_cut_stages; i++)
        lay_out_stage(memory == NULL ? &no_stage : &a->stages[i], &cpu->config, memory, used);
}

static const roco_attention_kernels *kernels_for(roco_isa isa)
{
#ifdef __x86_64__
    if (isa == ROCO_ISA_AVX512)
        return &roco_attention_avx512;
    if (isa == ROCO_ISA_AVX2 || isa == ROCO_ISA_AVX_VNNI)
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
    size_t used = 0;
    lay_out(a, cpu, a->memory, &used);
    a->columns = sizes_of(&cpu->config).columns;
    a->part_rows = part_rows_for(cpu->config.stride);
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
    uint32_t n_runs;   /* sequences in the batch */
    uint32_t n_cut;    /* of these, prompts at the batch's end that are cut into parts */
    uint32_t level;    /* the chunk of each cut run that is worked on */
    uint32_t n_parts;  /* of that chunk, the most of any run */
    uint32_t n_levels; /* chunks of the longest cut run */
} operation;

static roco_attention_job job_of(const operation *op, uint32_t thread, uint32_t run, uint32_t chunk, uint32_t kv_head)
{
    const roco_attention *args = op->args;
    roco_attention_job job = {.args = args,
                              .scratch = op->scratch,
                              .worker = &op->scratch->workers[thread],
                              .stage = &op->scratch->stages[thread],
                              .chunk = &args->chunks[op->scratch->runs[run] + chunk],
                              .kv_head = kv_head};
    job.head = &job.chunk->sequence->heads[args->layer * args->n_kv_heads + kv_head];
    job.layout = roco_kv_layout_of(&args->layout, job.head->type);
    return job;
}

static uint32_t n_chunks_of(const operation *op, uint32_t run)
{
    return op->scratch->runs[run + 1] - op->scratch->runs[run];
}

/* One KV head of one uncut sequence. */
static void do_whole(const operation *op, uint32_t thread, uint32_t task)
{
    uint32_t n_kv_heads = op->args->n_kv_heads, run = op->n_runs - op->n_cut - 1 - task / n_kv_heads;
    for (uint32_t i = 0; i < n_chunks_of(op, run); i++) {
        roco_attention_job job = job_of(op, thread, run, i, task % n_kv_heads);
        roco_attention_prepare(&job);
        for (uint32_t part = 0; part < roco_attention_n_parts(op->scratch, job.chunk); part++)
            roco_attention_part(&job, part);
        roco_attention_finish(&job);
    }
}

/* Between two levels: a cut head's chunk is finished and its next one prepared. */
static void do_between(void *context, uint32_t thread, uint32_t task)
{
    const operation *op = context;
    uint32_t n_kv_heads = op->args->n_kv_heads, run = op->n_runs - op->n_cut + task / n_kv_heads;
    for (uint32_t i = op->level > 0 ? op->level - 1 : 0; i <= op->level && i < n_chunks_of(op, run); i++) {
        roco_attention_job job = job_of(op, thread, run, i, task % n_kv_heads);
        job.stage = &op->scratch->cut_stages[task];
        if (i < op->level)
            roco_attention_finish(&job);
        else
            roco_attention_prepare(&job);
    }
}

/* Parts of the cut heads' chunks first, as they take longest; beside the first ones, all uncut sequences. */
static void do_level(void *context, uint32_t thread, uint32_t task)
{
    const operation *op = context;
    uint32_t n_kv_heads = op->args->n_kv_heads, n_jobs = op->n_cut * n_kv_heads;
    if (task >= n_jobs * op->n_parts) {
        do_whole(op, thread, task - n_jobs * op->n_parts);
        return;
    }
    uint32_t index = task / op->n_parts, part = task % op->n_parts, run = op->n_runs - op->n_cut + index / n_kv_heads;
    if (op->level >= n_chunks_of(op, run))
        return;
    roco_attention_job job = job_of(op, thread, run, op->level, index % n_kv_heads);
    job.stage = &op->scratch->cut_stages[index];
    if (part < roco_attention_n_parts(op->scratch, job.chunk))
        roco_attention_part(&job, part);
}

/* Finds the sequences of the batch, and cuts the prompts when few enough stand at its end. */
static void plan(operation *op, roco_attention_scratch *a, uint32_t n_threads)
{
    const roco_attention *args = op->args;
    ROCO_CHECK(args->n_chunks <= a->max_rows);
    for (uint32_t i = 0; i < args->n_chunks; i++)
        if (i == 0 || args->chunks[i].sequence != args->chunks[i - 1].sequence)
            a->runs[op->n_runs++] = i;
    a->runs[op->n_runs] = args->n_chunks;

    uint32_t n_prompts = 0;
    while (n_prompts < op->n_runs && !args->chunks[a->runs[op->n_runs - 1 - n_prompts]].decode)
        n_prompts++;
    if (n_threads == 1 || (uint64_t)n_prompts * args->n_kv_heads > a->n_cut_stages)
        return;
    op->n_cut = n_prompts;
    for (uint32_t run = op->n_runs - n_prompts; run < op->n_runs; run++) {
        op->n_levels = n_chunks_of(op, run) > op->n_levels ? n_chunks_of(op, run) : op->n_levels;
        for (uint32_t i = a->runs[run]; i < a->runs[run + 1]; i++) {
            uint32_t n = roco_attention_n_parts(a, &args->chunks[i]);
            op->n_parts = n > op->n_parts ? n : op->n_parts;
        }
    }
}

void roco_cpu_attention(roco_backend *backend, const roco_attention *args)
{
    roco_cpu *cpu = roco_cpu_of(backend);
    operation op = {.args = args, .scratch = cpu->attention};
    plan(&op, cpu->attention, roco_threads_count(cpu->threads));
    uint32_t n_jobs = op.n_cut * args->n_kv_heads, n_whole = (op.n_runs - op.n_cut) * args->n_kv_heads;
    if (n_jobs == 0) {
        roco_threads_run(cpu->threads, n_whole, do_level, &op);
        return;
    }
    for (; op.level < op.n_levels; op.level++, n_whole = 0) {
        roco_threads_run(cpu->threads, n_jobs, do_between, &op);
        roco_threads_run(cpu->threads, n_jobs * op.n_parts + n_whole, do_level, &op);
    }
    roco_threads_run(cpu->threads, n_jobs, do_between, &op);
}
