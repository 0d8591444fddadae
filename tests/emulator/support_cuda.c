#include "support_cuda.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"
#include "tests/emulator/emulator.h"

#include <stdio.h>
#include <string.h>

static uint32_t n_checked, n_cases, every = 1;
static bool mixed = true;

void support_cuda_start(int argc, char **argv)
{
    const char *order = argc > 1 ? argv[1] : "mixed";
    mixed = strcmp(order, "mixed") == 0;
    emulator_set_order(strcmp(order, "reverse") == 0  ? EMULATOR_REVERSE
                       : strcmp(order, "random") == 0 ? EMULATOR_RANDOM
                                                      : EMULATOR_FORWARD,
                       7);
    emulator_set_poison(argc > 2 ? (unsigned char)atoi(argv[2]) : 255);
    every = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
}

bool support_cuda_next(void)
{
    const uint32_t number = n_cases++;
    if (mixed) {
        emulator_set_order((emulator_order)(number % 3), number);
        emulator_set_poison(number % 2 ? 0 : 255);
    }
    return number % every == 0;
}

void support_cuda_count(uint32_t n_shapes)
{
    n_checked += n_shapes;
}

int support_cuda_end(int failed)
{
    const emulator_counts c = emulator_count();
    printf("%u shapes, %llu launches, %llu threads, %llu switches\n", n_checked, (unsigned long long)c.launches,
           (unsigned long long)c.threads, (unsigned long long)c.switches);
    return failed;
}

/* In the stead of kernels/registry.c, which knows what this build has. */
roco_status roco_backend_open(const char *name, const roco_backend_config *config, roco_backend **out,
                              roco_error *error)
{
    return strcmp(name, "cuda") == 0 ? roco_cuda_open(config, out, error) : roco_cpu_open(config, out, error);
}

roco_backend *support_cuda_open(const roco_backend_config *config)
{
    roco_backend *backend = NULL;
    roco_error error = {0};
    if (roco_cuda_open(config, &backend, &error) != ROCO_OK)
        fail_msg("%s", error.message);
    return backend;
}

float *support_cuda_put(roco_backend *backend, const float *from, size_t n)
{
    float *memory = backend->ops->memory_open(backend, n * sizeof *memory);
    assert_non_null(memory);
    if (from != NULL)
        backend->ops->upload(backend, memory, from, n * sizeof *memory);
    return memory;
}

float *support_cuda_take(roco_backend *backend, float *memory, size_t n)
{
    float *out = malloc(n * sizeof *out);
    backend->ops->download(backend, out, memory, n * sizeof *out);
    backend->ops->memory_close(backend, memory);
    return out;
}
