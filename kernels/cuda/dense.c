/* Dense products through cuBLAS. The library is opened at run time, so the program runs on machines that have none; of
 * its headers only types and numbers are used. Engine thread. */
#include "kernels/cuda/dense.h"

#include <cublas_v2.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* cuBLAS may need so much for its fastest kernels (its own recommendation for Hopper). A graph must not allocate. */
#define WORKSPACE_BYTES ((size_t)32 << 20)

struct roco_dense {
    roco_gpu *gpu;
    void *library;
    cublasHandle_t handle;
    void *workspace;
    cublasStatus_t fault;
    __typeof__(&cublasCreate_v2) create;
    __typeof__(&cublasDestroy_v2) destroy;
    __typeof__(&cublasSetStream_v2) set_stream;
    __typeof__(&cublasSetWorkspace_v2) set_workspace;
    __typeof__(&cublasGemmEx) multiply;
};

/* The release this was compiled with first; numbers of types and algorithms are the same in both. */
static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};

static bool find(roco_dense *d, const char *symbol, void *to)
{
    void *address = dlsym(d->library, symbol);
    memcpy(to, &address, sizeof address); /* ISO C has no cast from an object's pointer to a function's */
    return address != NULL;
}

static roco_status open_library(roco_dense *d, roco_error *error)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0] && d->library == NULL; i++)
        d->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (d->library == NULL)
        return roco_fail(error, ROCO_UNSUPPORTED, "backend",
                         "cuBLAS is not on this machine: none of libcublas.so.13, libcublas.so.12 and libcublas.so can "
                         "be opened");
    if (!find(d, "cublasCreate_v2", &d->create) || !find(d, "cublasDestroy_v2", &d->destroy) ||
        !find(d, "cublasSetStream_v2", &d->set_stream) || !find(d, "cublasSetWorkspace_v2", &d->set_workspace) ||
        !find(d, "cublasGemmEx", &d->multiply))
        return roco_fail(error, ROCO_UNSUPPORTED, "backend", "this machine's cuBLAS is not of release 12 or 13");
    return ROCO_OK;
}

static roco_status open_handle(roco_dense *d, roco_error *error)
{
    cublasStatus_t result = d->create(&d->handle);
    d->workspace = roco_gpu_memory_open(d->gpu, WORKSPACE_BYTES);
    if (result == CUBLAS_STATUS_SUCCESS && d->workspace != NULL)
        result = d->set_stream(d->handle, roco_gpu_stream_of(d->gpu));
    if (result == CUBLAS_STATUS_SUCCESS && d->workspace != NULL)
        result = d->set_workspace(d->handle, d->workspace, WORKSPACE_BYTES);
    if (result != CUBLAS_STATUS_SUCCESS || d->workspace == NULL)
        return roco_fail(error, ROCO_UNSUPPORTED, "backend", "cuBLAS cannot be started on this device (status %d)",
                         (int)result);
    return ROCO_OK;
}

roco_status roco_dense_open(roco_gpu *gpu, roco_dense **out, roco_error *error)
{
    roco_dense *d = calloc(1, sizeof *d);
    *out = NULL;
    if (d == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the matrix products");
    d->gpu = gpu;
    roco_status status = open_library(d, error);
    if (status == ROCO_OK)
        status = open_handle(d, error);
    if (status != ROCO_OK) {
        roco_dense_close(d);
        return status;
    }
    *out = d;
    return ROCO_OK;
}

void roco_dense_close(roco_dense *d)
{
    if (d == NULL)
        return;
    if (d->handle != NULL)
        d->destroy(d->handle);
    roco_gpu_memory_close(d->gpu, d->workspace);
    if (d->library != NULL)
        dlclose(d->library);
    free(d);
}

static cudaDataType_t type_of(roco_tensor_type type)
{
    return type == ROCO_TYPE_F32 ? CUDA_R_32F : type == ROCO_TYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* Rows are cuBLAS's columns: out^T [n_rows, n] = weight^T's transpose times x^T. */
void roco_dense_multiply(roco_dense *d, const roco_dense_product *p)
{
    const float one = 1, kept = p->add ? 1 : 0;
    const cudaDataType_t type = type_of(p->type);
    cublasStatus_t result =
        d->multiply(d->handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)p->n_rows, (int)p->n, (int)p->n_cols, &one, p->weight,
                    type, (int)p->n_cols, p->x, type, (int)p->n_cols, &kept, p->out, CUDA_R_32F, (int)p->out_stride,
                    CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (result != CUBLAS_STATUS_SUCCESS && d->fault == CUBLAS_STATUS_SUCCESS)
        d->fault = result;
}

void roco_dense_forgive(roco_dense *d)
{
    d->fault = CUBLAS_STATUS_SUCCESS;
}

roco_status roco_dense_finish(const roco_dense *d, roco_error *error)
{
    if (d->fault == CUBLAS_STATUS_SUCCESS)
        return ROCO_OK;
    return roco_fail(error, ROCO_DEVICE, "device", "cuBLAS failed (status %d)", (int)d->fault);
}
