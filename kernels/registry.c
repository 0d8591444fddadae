/* The one place that knows which backends this build has. */
#include "config/log.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu.h"
#ifdef ROCO_HAS_CUDA
#include "kernels/cuda/cuda.h"
#endif

#include <string.h>

typedef struct registered_backend {
    const char *name;
    roco_status (*open)(const roco_backend_config *config, roco_backend **out, roco_error *error);
} registered_backend;

/* In the order "auto" tries them. */
static const registered_backend backends[] = {
#ifdef ROCO_HAS_CUDA
    {"cuda", roco_cuda_open},
#endif
    {"cpu", roco_cpu_open},
};

#define N_BACKENDS (sizeof(backends) / sizeof(backends[0]))

static roco_status unknown_backend(roco_error *error)
{
    char list[128] = "auto";
    for (size_t i = 0; i < N_BACKENDS; i++) {
        strncat(list, ", ", sizeof(list) - strlen(list) - 1);
        strncat(list, backends[i].name, sizeof(list) - strlen(list) - 1);
    }
    return roco_fail(error, ROCO_UNSUPPORTED, "backend", "this build has no such backend; it has %s", list);
}

/* The next one is tried only where this machine or model has nothing for the first: what fails for another reason, as
 * too little memory, is told. */
static roco_status open_first(const roco_backend_config *config, roco_backend **out, roco_error *error)
{
    roco_status status = ROCO_UNSUPPORTED;
    for (size_t i = 0; i < N_BACKENDS && status == ROCO_UNSUPPORTED; i++) {
        roco_error reason = {.status = ROCO_OK};
        status = backends[i].open(config, out, &reason);
        if (status == ROCO_UNSUPPORTED && i + 1 < N_BACKENDS)
            roco_log(ROCO_LOG_INFO, "%s is left out: %s", backends[i].name, reason.message);
        else if (status != ROCO_OK && error != NULL)
            *error = reason;
    }
    return status;
}

roco_status roco_backend_open(const char *name, const roco_backend_config *config, roco_backend **out,
                              roco_error *error)
{
    *out = NULL;
    if (name == NULL || strcmp(name, "auto") == 0)
        return open_first(config, out, error);
    for (size_t i = 0; i < N_BACKENDS; i++)
        if (strcmp(name, backends[i].name) == 0)
            return backends[i].open(config, out, error);
    return unknown_backend(error);
}
