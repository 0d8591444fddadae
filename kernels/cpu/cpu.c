/* The CPU backend: its operation table, opening and closing, and device memory, which here is host memory.
 *
 * Runs on the engine's thread. What an operation does is in the file named after it.
 */
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64u

static const char *cpu_describe(const roco_backend *backend)
{
    return ((const roco_cpu *)backend)->description;
}

static size_t cpu_weight_bytes(const roco_backend *backend)
{
    return ((const roco_cpu *)backend)->weight_bytes;
}

static size_t cpu_scratch_bytes(const roco_backend *backend)
{
    return ((const roco_cpu *)backend)->scratch_bytes;
}

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* What stands in front of memory, so that it can be given back. */
typedef struct memory_head {
    void *start;
    size_t mapped; /* bytes; 0: of the heap */
} memory_head;

/* Fresh pages are zero and stay untouched until they are used, which keeps an idle pool out of memory. Large blocks ask
 * for huge pages: attention jumps about in the pool, and small ones would cost it a seventh of its time. */
static void *cpu_memory_open(roco_backend *backend, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    const bool large = bytes >= HUGE_PAGE_BYTES;
    const size_t alignment = large ? HUGE_PAGE_BYTES : ALIGNMENT, total = bytes + ALIGNMENT + alignment;
    memory_head head = {.mapped = large ? total : 0};
    head.start =
        large ? mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : calloc(1, total);
    if (head.start == NULL || head.start == MAP_FAILED)
        return NULL;
    const size_t past = ((uintptr_t)head.start + ALIGNMENT) % alignment;
    char *memory = (char *)head.start + ALIGNMENT + (past ? alignment - past : 0);
    if (large) /* advice only: without huge pages everything works, slower */
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    memcpy(memory - sizeof(head), &head, sizeof(head));
    return memory;
}

static void cpu_memory_close(roco_backend *backend, void *memory)
{
    if (memory == NULL)
        return;
    memory_head head;
    memcpy(&head, (char *)memory - sizeof(head), sizeof(head));
    if (head.mapped)
        munmap(head.start, head.mapped);
    else
        free(head.start);
}

static void cpu_copy(roco_backend *backend, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static roco_status cpu_finish(roco_backend *backend, roco_error *error)
{
    return ROCO_OK;
}

static void cpu_close(roco_backend *backend)
{
    if (backend == NULL)
        return;
    roco_cpu *cpu = roco_cpu_of(backend);
    roco_attention_close(cpu);
    roco_linear_close(cpu);
    roco_threads_close(cpu->threads);
    free(cpu);
}

static const roco_backend_ops cpu_ops = {
    .name = "cpu",
    .takes_ranks = true,
    .takes_types = true,
    .takes_compensation = true,
    .close = cpu_close,
    .describe = cpu_describe,
    .weight_bytes = cpu_weight_bytes,
    .scratch_bytes = cpu_scratch_bytes,
    .memory_open = cpu_memory_open,
    .memory_left = roco_cpu_memory_left,
    .memory_close = cpu_memory_close,
    .upload = cpu_copy,
    .copy = cpu_copy,
    .download = cpu_copy,
    .weight_open = roco_cpu_weight_open,
    .weight_close = roco_cpu_weight_close,
    .embed = roco_cpu_embed,
    .rms_norm = roco_cpu_rms_norm,
    .matmul = roco_cpu_matmul,
    .rope = roco_cpu_rope,
    .swiglu = roco_cpu_swiglu,
    .geglu = roco_cpu_geglu,
    .add = roco_cpu_add,
    .add_bias = roco_cpu_add_bias,
    .scale = roco_cpu_scale,
    .softcap = roco_cpu_softcap,
    .attention = roco_cpu_attention,
    .gather = roco_cpu_gather,
    .finish = cpu_finish,
};

static roco_status check_config(const roco_backend_config *config, roco_error *error)
{
    if (config->max_rows < 1)
        return roco_fail(error, ROCO_INVALID, "max_rows", "max_rows must be at least 1");
    if (config->max_width < 1)
        return roco_fail(error, ROCO_INVALID, "max_width", "max_width must be at least 1");
    return ROCO_OK;
}

static roco_status open_parts(roco_cpu *cpu, roco_error *error)
{
    roco_status status = roco_isa_choose(cpu->config.isa, &cpu->isa, error);
    cpu->config.isa = NULL; /* the caller's text is not ours to keep */
    if (status == ROCO_OK)
        status = roco_threads_open(cpu->config.threads, &cpu->threads, error);
    if (status == ROCO_OK)
        status = roco_linear_open(cpu, error);
    if (status == ROCO_OK)
        status = roco_attention_open(cpu, error);
    return status;
}

roco_status roco_cpu_open(const roco_backend_config *config, roco_backend **out, roco_error *error)
{
    *out = NULL;
    roco_status status = check_config(config, error);
    if (status != ROCO_OK)
        return status;
    roco_cpu *cpu = calloc(1, sizeof(*cpu));
    if (cpu == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the cpu backend");
    cpu->base.ops = &cpu_ops;
    cpu->config = *config;
    status = open_parts(cpu, error);
    if (status != ROCO_OK) {
        cpu_close(&cpu->base);
        return status;
    }
    snprintf(cpu->description, sizeof(cpu->description), "cpu, %u thread%s, %s", config->threads,
             config->threads == 1 ? "" : "s", roco_isa_name(cpu->isa));
    *out = &cpu->base;
    return ROCO_OK;
}
