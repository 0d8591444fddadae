/* What a layer's attention launches, and the scratch that its kernels share. Engine thread. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attend_widths.h"
#include "kernels/cuda/tables.h"

#include <stdlib.h>
#include <string.h>

/* Scores kept for the statistics, at most, unless one sequence alone needs more. */
#define MOST_SCORES   ((size_t)32 << 20)
/* Cells, in the same way: with a thousand columns for each head of each row of a step, or these. */
#define MOST_CELLS    ((size_t)2 << 20)
#define CELL_COLUMNS  1024u
/* Columns that a decode's split should have at most. */
#define SPLIT_COLUMNS 2048u
#define MOST_SPLITS   64u
/* Blocks that should run on each processor before columns are not split any further. */
#define BLOCKS_EACH   4u

struct roco_cuda_attention {
    unsigned char *stage, *cells;
    float *scores, *normals, *partials;
    size_t n_partials;
};

static uint32_t round_up_32(uint32_t n)
{
    return (n + 31u) & ~31u;
}

static uint32_t most_heads(const roco_backend_config *c)
{
    return c->max_group * c->max_kv_heads;
}

/* --- open and close --- */

static roco_status check_config(const roco_backend_config *c, roco_error *error)
{
    const roco_kv_layout *l = &c->layout;
    if (l->key_dim > ROCO_CUDA_MOST_COMPONENTS || l->value_dim > ROCO_CUDA_MOST_COMPONENTS || l->value_dim % 2 != 0)
        return roco_fail(
            error, ROCO_UNSUPPORTED, "backend",
            "the cuda backend reads heads of up to %u components, values of an even number; this model has "
            "%u and %u",
            ROCO_CUDA_MOST_COMPONENTS, l->key_dim, l->value_dim);
    if (c->stride < 1 || c->stride > ROCO_CUDA_MOST_STRIDE || c->max_group < 1 || c->max_kv_heads < 1)
        return roco_fail(error, ROCO_INVALID, "evict-stride", "a stride of %u tokens; allowed: 1..%u", c->stride,
                         ROCO_CUDA_MOST_STRIDE);
    return ROCO_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

roco_status roco_cuda_attention_open(roco_cuda *cuda, roco_error *error)
{
    const roco_backend_config *c = &cuda->config;
    roco_status status = check_config(c, error);
    if (status != ROCO_OK)
        return status;
    roco_cuda_attention *a = cuda->attention = calloc(1, sizeof *a);
    if (a == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for attention");
    const size_t n_heads = most_heads(c), columns = round_up_32(c->max_slots) + round_up_32(c->stride);
    const size_t wished = (size_t)c->max_rows * n_heads * SPLIT_COLUMNS;
    const size_t wished_cells = (size_t)c->max_rows * c->max_kv_heads * CELL_COLUMNS;
    const roco_cuda_room room = {
        .n_scores = larger(n_heads * columns, wished < MOST_SCORES ? wished : MOST_SCORES),
        .n_cells = larger(c->max_kv_heads * columns, wished_cells < MOST_CELLS ? wished_cells : MOST_CELLS),
        .n_stage_pages = c->max_kv_heads * (2 * (c->max_rows / ROCO_PAGE_SLOTS) + c->stride / ROCO_PAGE_SLOTS + 64),
        .n_heads = (uint32_t)n_heads,
        .n_kv_heads = c->max_kv_heads};
    a->n_partials = n_heads * (c->layout.value_dim + 2) * (2 * (size_t)c->max_rows + MOST_SPLITS);
    a->stage = roco_cuda_scratch(cuda, (size_t)room.n_stage_pages * c->layout.page_bytes, "strides", &status, error);
    a->scores = roco_cuda_scratch(cuda, room.n_scores * sizeof(float), "scores", &status, error);
    a->cells = roco_cuda_scratch(cuda, room.n_cells * ROCO_CUDA_CELL_BYTES, "policies", &status, error);
    a->normals = roco_cuda_scratch(cuda, 2 * c->max_rows * n_heads * sizeof(float), "softmax sums", &status, error);
    a->partials = roco_cuda_scratch(cuda, a->n_partials * sizeof(float), "split attention", &status, error);
    return status != ROCO_OK ? status : roco_cuda_tables_open(cuda, &room, error);
}

void roco_cuda_attention_close(roco_cuda *cuda)
{
    roco_cuda_attention *a = cuda->attention;
    if (a == NULL)
        return;
    void *memory[] = {a->stage, a->scores, a->cells, a->normals, a->partials};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        roco_gpu_memory_close(cuda->gpu, memory[i]);
    roco_cuda_tables_close(cuda);
    free(a);
    cuda->attention = NULL;
}

/* --- launches --- */

/* Enough splits that all processors work and none has too many columns, as a power of two. */
static uint32_t splits_for(const roco_cuda *cuda, const roco_attention *args, const roco_cuda_span *decode)
{
    const roco_cuda_attention *a = cuda->attention;
    const uint32_t n_blocks = decode->n * args->n_kv_heads, wished = BLOCKS_EACH * cuda->n_processors;
    const size_t each = (size_t)decode->n * args->n_heads * (args->layout.value_dim + 2);
    uint32_t splits = 1;
    while (splits < MOST_SPLITS && 2 * splits * each <= a->n_partials && decode->most_columns > 32 * splits &&
           (n_blocks * splits < wished || decode->most_columns > SPLIT_COLUMNS * splits))
        splits *= 2;
    return splits;
}

static bool is_narrow(const roco_cuda_layer *l)
{
    return l->layouts[0].value_dim <= 128;
}

static void run_decode(const roco_cuda *cuda, roco_cuda_layer *l, const roco_attention *args,
                       const roco_cuda_span *decode)
{
    if (decode->n == 0)
        return;
    l->order += decode->first;
    l->n_splits = splits_for(cuda, args, decode);
    roco_cuda_launch_store(cuda->stream, l, 0, decode->n, 1);
    if (decode->ranked)
        roco_cuda_launch_rank(cuda->stream, l, 0, decode->n);
    if (is_narrow(l))
        roco_cuda_attend_decode_128(cuda->stream, l, decode->n);
    else
        roco_cuda_attend_decode_256(cuda->stream, l, decode->n);
    roco_cuda_launch_finish(cuda->stream, l, decode->n);
    l->order -= decode->first;
}

static void run_prompts(const roco_cuda *cuda, const roco_cuda_layer *l, const roco_cuda_plan *plan,
                        const roco_cuda_wave *w)
{
    for (uint32_t i = 0; i < w->n_levels; i++) {
        const roco_cuda_span *s = &plan->levels[w->first_level + i];
        roco_cuda_launch_store(cuda->stream, l, s->first, s->n, s->most_rows);
        if (s->ranked)
            roco_cuda_launch_rank(cuda->stream, l, s->first, s->n);
        if (is_narrow(l))
            roco_cuda_attend_prompt_128(cuda->stream, l, s->first, s->n, s->most_rows);
        else
            roco_cuda_attend_prompt_256(cuda->stream, l, s->first, s->n, s->most_rows);
        if (s->kept)
            roco_cuda_launch_pay(cuda->stream, l, s->first, s->n, s->most_columns);
        roco_cuda_launch_evict(cuda->stream, l, s->first, s->n);
    }
}

void roco_cuda_attention_run(roco_backend *backend, const roco_attention *args)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    roco_cuda_attention *a = cuda->attention;
    const roco_pin *pins;
    const roco_cuda_plan *plan = args->n_chunks > 0 ? roco_cuda_tables_plan(cuda, args, &pins) : NULL;
    if (plan == NULL)
        return;
    roco_cuda_layer l = {.layer = args->layer,
                         .n_heads = args->n_heads,
                         .n_kv_heads = args->n_kv_heads,
                         .window = args->window,
                         .scale = args->scale,
                         .softcap = args->softcap,
                         .q = args->q,
                         .k = args->k,
                         .v = args->v,
                         .out = args->out,
                         .pool = args->pool,
                         .stage = a->stage,
                         .chunks = plan->chunks,
                         .order = plan->order,
                         .pins = pins,
                         .scores = a->scores,
                         .cells = a->cells,
                         .rank_rope = args->rank_rope,
                         .normals = a->normals,
                         .partials = a->partials,
                         .n_splits = 1};
    for (uint32_t type = 0; type < ROCO_N_KV_TYPES; type++)
        l.layouts[type] = roco_kv_layout_of(&args->layout, (roco_kv_type)type);
    for (uint32_t i = 0; i < plan->n_waves; i++) {
        run_decode(cuda, &l, args, &plan->waves[i].decode);
        run_prompts(cuda, &l, plan, &plan->waves[i]);
    }
}
