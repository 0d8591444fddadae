#include "support_cuda.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"

#include <string.h>

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
