/* The CUDA runtime behind gpu.h. It is linked statically and looks for the driver itself, so that the program starts
 * on machines without one. Engine thread. */
#include "kernels/cuda/gpu.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct roco_gpu {
    int device;
    cudaStream_t stream;
    cudaError_t fault; /* the first; cudaSuccess: none */
    const char *during;
    struct cudaDeviceProp properties;
};

struct roco_gpu_graph {
    cudaGraphExec_t executable;
};

/* The current device is a thread's own, and an engine is opened on another thread than it runs on. */
static roco_gpu *on_device(roco_gpu *gpu)
{
    cudaSetDevice(gpu->device);
    return gpu;
}

static bool works(roco_gpu *gpu, cudaError_t result, const char *during)
{
    if (result != cudaSuccess && gpu->fault == cudaSuccess) {
        gpu->fault = result;
        gpu->during = during;
    }
    return result == cudaSuccess;
}

static roco_status open_stream(roco_gpu *gpu, roco_error *error)
{
    cudaMemPool_t pool;
    uint64_t keep_all = UINT64_MAX;
    cudaError_t result = cudaSetDevice(gpu->device);
    if (result == cudaSuccess)
        result = cudaGetDeviceProperties(&gpu->properties, gpu->device);
    if (result == cudaSuccess)
        result = cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking);
    /* Memory that is closed stays with the process: a sequence's tables come and go with every request. */
    if (result == cudaSuccess)
        result = cudaDeviceGetDefaultMemPool(&pool, gpu->device);
    if (result == cudaSuccess)
        result = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all);
    if (result != cudaSuccess)
        return roco_fail(error, ROCO_UNSUPPORTED, "device", "CUDA device %d cannot be used: %s", gpu->device,
                         cudaGetErrorString(result));
    if (gpu->properties.major < 8)
        return roco_fail(error, ROCO_UNSUPPORTED, "device",
                         "CUDA device %d, %s, is of compute capability %d.%d; the least is 8.0", gpu->device,
                         gpu->properties.name, gpu->properties.major, gpu->properties.minor);
    return ROCO_OK;
}

roco_status roco_gpu_open(uint32_t device, roco_gpu **out, roco_error *error)
{
    int n_devices = 0;
    cudaError_t result = cudaGetDeviceCount(&n_devices);
    *out = NULL;
    if (result != cudaSuccess || n_devices == 0)
        return roco_fail(error, ROCO_UNSUPPORTED, "backend", "no CUDA device: %s",
                         result != cudaSuccess ? cudaGetErrorString(result) : "the driver finds none");
    if (device >= (uint32_t)n_devices)
        return roco_fail(error, ROCO_UNSUPPORTED, "device", "there is no CUDA device %u; there are 0..%d", device,
                         n_devices - 1);
    roco_gpu *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the cuda backend");
    gpu->device = (int)device;
    roco_status status = open_stream(gpu, error);
    if (status != ROCO_OK) {
        roco_gpu_close(gpu);
        return status;
    }
    *out = gpu;
    return ROCO_OK;
}

void roco_gpu_close(roco_gpu *gpu)
{
    if (gpu == NULL)
        return;
    if (gpu->stream != NULL) {
        cudaStreamSynchronize(gpu->stream);
        cudaStreamDestroy(gpu->stream);
    }
    free(gpu);
}

roco_gpu_info roco_gpu_describe(const roco_gpu *gpu)
{
    roco_gpu_info info = {.n_processors = (uint32_t)gpu->properties.multiProcessorCount};
    snprintf(info.name, sizeof info.name, "%.80s", gpu->properties.name);
    cudaMemGetInfo(&info.free_bytes, &info.total_bytes);
    return info;
}

roco_gpu_stream roco_gpu_stream_of(const roco_gpu *gpu)
{
    return gpu->stream;
}

void *roco_gpu_memory_open(roco_gpu *gpu, size_t bytes)
{
    void *memory = NULL;
    cudaError_t result = cudaMallocAsync(&memory, bytes, on_device(gpu)->stream);
    if (result == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* the caller says it; not a fault */
        return NULL;
    }
    return works(gpu, result, "taking memory") ? memory : NULL;
}

void roco_gpu_memory_close(roco_gpu *gpu, void *memory)
{
    if (memory != NULL)
        works(gpu, cudaFreeAsync(memory, on_device(gpu)->stream), "giving memory back");
}

void roco_gpu_zero(roco_gpu *gpu, void *memory, size_t bytes)
{
    works(gpu, cudaMemsetAsync(memory, 0, bytes, gpu->stream), "clearing memory");
}

void *roco_gpu_host_open(roco_gpu *gpu, size_t bytes)
{
    void *memory = NULL;
    return works(on_device(gpu), cudaMallocHost(&memory, bytes), "taking host memory") ? memory : NULL;
}

void roco_gpu_host_close(roco_gpu *gpu, void *memory)
{
    if (memory != NULL)
        works(gpu, cudaFreeHost(memory), "giving host memory back");
}

void roco_gpu_upload(roco_gpu *gpu, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        works(on_device(gpu), cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->stream), "an upload");
}

void roco_gpu_download(roco_gpu *gpu, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        works(on_device(gpu), cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, gpu->stream), "a download");
    works(gpu, cudaStreamSynchronize(gpu->stream), "a step");
}

void roco_gpu_copy(roco_gpu *gpu, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        works(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu->stream), "a copy");
}

bool roco_gpu_graph_begin(roco_gpu *gpu)
{
    if (gpu->fault != cudaSuccess)
        return false;
    const cudaError_t result = cudaStreamBeginCapture(on_device(gpu)->stream, cudaStreamCaptureModeThreadLocal);
    if (result != cudaSuccess)
        cudaGetLastError();
    return result == cudaSuccess;
}

roco_gpu_graph *roco_gpu_graph_end(roco_gpu *gpu)
{
    cudaGraph_t graph = NULL;
    roco_gpu_graph *out = calloc(1, sizeof *out);
    const bool kept = cudaStreamEndCapture(gpu->stream, &graph) == cudaSuccess && gpu->fault == cudaSuccess &&
                      cudaGetLastError() == cudaSuccess;
    const bool ok = kept && out != NULL && cudaGraphInstantiateWithFlags(&out->executable, graph, 0) == cudaSuccess;
    if (graph != NULL)
        cudaGraphDestroy(graph);
    if (!ok) { /* what failed was not run, so the device is as it was */
        cudaGetLastError();
        gpu->fault = cudaSuccess;
        free(out);
        return NULL;
    }
    return out;
}

void roco_gpu_graph_run(roco_gpu *gpu, roco_gpu_graph *graph)
{
    works(gpu, cudaGraphLaunch(graph->executable, gpu->stream), "a graph's run");
}

void roco_gpu_graph_close(roco_gpu *gpu, roco_gpu_graph *graph)
{
    if (graph == NULL)
        return;
    works(gpu, cudaGraphExecDestroy(graph->executable), "closing a graph");
    free(graph);
}

double roco_gpu_time(roco_gpu *gpu, void (*work)(void *context), void *context, uint32_t times)
{
    cudaEvent_t from = NULL, to = NULL;
    float milliseconds = 0;
    work(context); /* the first run loads code */
    if (works(gpu, cudaEventCreate(&from), "timing") && works(gpu, cudaEventCreate(&to), "timing") &&
        works(gpu, cudaEventRecord(from, gpu->stream), "timing")) {
        for (uint32_t i = 0; i < times; i++)
            work(context);
        if (works(gpu, cudaEventRecord(to, gpu->stream), "timing") && works(gpu, cudaEventSynchronize(to), "timing"))
            works(gpu, cudaEventElapsedTime(&milliseconds, from, to), "timing");
    }
    if (from != NULL)
        cudaEventDestroy(from);
    if (to != NULL)
        cudaEventDestroy(to);
    return (double)milliseconds / 1000 / times;
}

roco_status roco_gpu_finish(roco_gpu *gpu, roco_error *error)
{
    works(on_device(gpu), cudaStreamSynchronize(gpu->stream), "a step");
    works(gpu, cudaGetLastError(), "a launch");
    if (gpu->fault == cudaSuccess)
        return ROCO_OK;
    return roco_fail(error, ROCO_DEVICE, "device", "CUDA device %d failed during %s: %s", gpu->device, gpu->during,
                     cudaGetErrorString(gpu->fault));
}
