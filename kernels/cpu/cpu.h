/* The CPU backend's inside: its state, its threads, and which file implements which operation.
 *
 *   cpu.c        the operation table, open and close, device memory
 *   isa.c        what this machine can do
 *   threads.c    the compute threads
 *   linear*.c    weights: repacking, quantised activations, matrix products, embedding rows
 *   rowwise.c    norm, rope, gates, element-wise operations, gather
 *   attention*.c attention over pages, statistics, eviction
 *
 * The variants of a hot operation are `<op>_portable.c` (the reference), `<op>_avx2.c`, `<op>_avx512.c`; one is chosen
 * at open.
 */
#ifndef ROCO_KERNELS_CPU_CPU_H
#define ROCO_KERNELS_CPU_CPU_H

#include "kernels/backend.h"

typedef enum roco_isa {
    ROCO_ISA_PORTABLE,
    ROCO_ISA_AVX2,     /* with FMA and F16C */
    ROCO_ISA_AVX_VNNI, /* the same and VNNI */
    ROCO_ISA_AVX512,   /* F BW DQ VL VNNI */
    ROCO_N_ISAS
} roco_isa;

/* The best this machine has, or the one asked for by name; ROCO_UNSUPPORTED when the machine lacks it. */
roco_status roco_isa_choose(const char *name, roco_isa *out, roco_error *error);
const char *roco_isa_name(roco_isa isa); /* static text, for the log */

/* --- threads.c: a fixed team; the caller is thread 0 and works too. --- */
typedef struct roco_threads roco_threads;
/* thread: 0..count-1; task: 0..n_tasks-1. Which thread runs which task is not fixed: results must not depend on it. */
typedef void roco_task(void *context, uint32_t thread, uint32_t task);
roco_status roco_threads_open(uint32_t count, roco_threads **out, roco_error *error);
void roco_threads_close(roco_threads *threads);
uint32_t roco_threads_count(const roco_threads *threads);
/* Runs every task once and returns when all are done. Workers spin a little for the next call, then sleep. */
void roco_threads_run(roco_threads *threads, uint32_t n_tasks, roco_task *task, void *context);

typedef struct roco_linear roco_linear;                       /* linear.c's scratch and chosen variants */
typedef struct roco_attention_scratch roco_attention_scratch; /* attention.c's */

typedef struct roco_cpu {
    roco_backend base;
    roco_backend_config config;
    roco_isa isa;
    roco_threads *threads;
    roco_linear *linear;
    roco_attention_scratch *attention;
    size_t weight_bytes, scratch_bytes;
    char description[64];
} roco_cpu;

static inline roco_cpu *roco_cpu_of(roco_backend *backend)
{
    return (roco_cpu *)backend;
}

/* What the registry opens. Returns owned. */
roco_status roco_cpu_open(const roco_backend_config *config, roco_backend **out, roco_error *error);

/* available.c: see kernels/backend.h, memory_left. */
size_t roco_cpu_memory_left(const roco_backend *backend);

/* The close functions take a backend whose open failed or was never reached. */
roco_status roco_linear_open(roco_cpu *cpu, roco_error *error);
void roco_linear_close(roco_cpu *cpu);
roco_status roco_cpu_weight_open(roco_backend *backend, const roco_tensor_view *view, roco_weight **out,
                                 roco_error *error);
void roco_cpu_weight_close(roco_backend *backend, roco_weight *weight);
void roco_cpu_embed(roco_backend *backend, const roco_weight *weight, const int32_t *ids, uint32_t n, float *out);
void roco_cpu_matmul(roco_backend *backend, const roco_weight *const *weights, float *const *outs, uint32_t n_weights,
                     const float *x, uint32_t n, bool add);

void roco_cpu_rms_norm(roco_backend *backend, const float *x, const float *gain, float eps, uint32_t n, uint32_t width,
                       float *out);
void roco_cpu_rope(roco_backend *backend, float *x, const float *cosines, const float *sines, uint32_t n,
                   uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves);
void roco_cpu_swiglu(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width);
void roco_cpu_geglu(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width);
void roco_cpu_add(roco_backend *backend, float *x, const float *y, float factor, uint32_t n, uint32_t width);
void roco_cpu_add_bias(roco_backend *backend, float *x, const float *bias, uint32_t n, uint32_t width);
void roco_cpu_scale(roco_backend *backend, float *x, float factor, uint32_t n, uint32_t width);
void roco_cpu_softcap(roco_backend *backend, float *x, float cap, uint32_t n, uint32_t width);
void roco_cpu_gather(roco_backend *backend, const float *x, const uint32_t *rows, uint32_t n_out, uint32_t width,
                     float *out);

/* Allocates per-thread scratch from cpu->config (max_slots, stride, max_group, layout); adds to cpu->scratch_bytes. */
roco_status roco_attention_open(roco_cpu *cpu, roco_error *error);
void roco_attention_close(roco_cpu *cpu);
void roco_cpu_attention(roco_backend *backend, const roco_attention *args);

#endif
