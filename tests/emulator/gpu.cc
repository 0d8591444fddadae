/* kernels/cuda/gpu.h and dense.h on the CPU. Memory has exactly the size that was asked for, and fresh memory the
 * poison of the moment. */
extern "C" {
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/dense.h"
}
#include "tests/emulator/emulator.h"

#include <cstring>

static size_t free_bytes = size_t(4) << 30;

struct roco_gpu {
    uint32_t n_open; /* pieces of memory */
};

struct roco_gpu_graph {
    emulator_graph *graph;
};

struct roco_dense {
    roco_gpu *gpu;
};

extern "C" {

void emulator_set_free_bytes(size_t bytes)
{
    free_bytes = bytes;
}

roco_status roco_gpu_open(uint32_t device, roco_gpu **out, roco_error *error)
{
    *out = nullptr;
    if (device > 0)
        return roco_fail(error, ROCO_UNSUPPORTED, "device", "there is no CUDA device %u; there are 0..0", device);
    *out = new roco_gpu{0};
    return ROCO_OK;
}

/* What is still open then was forgotten. */
void roco_gpu_close(roco_gpu *gpu)
{
    if (gpu == nullptr)
        return;
    ROCO_CHECK(gpu->n_open == 0);
    delete gpu;
}

roco_gpu_info roco_gpu_describe(const roco_gpu *)
{
    roco_gpu_info info = {};
    strcpy(info.name, "emulated");
    info.n_processors = 16;
    info.total_bytes = size_t(4) << 30;
    info.free_bytes = free_bytes;
    return info;
}

roco_gpu_stream roco_gpu_stream_of(const roco_gpu *)
{
    return nullptr;
}

void *roco_gpu_memory_open(roco_gpu *gpu, size_t bytes)
{
    if (bytes > size_t(4) << 30)
        return nullptr;
    gpu->n_open++;
    return emulator_memory_open(bytes);
}

void roco_gpu_memory_close(roco_gpu *gpu, void *memory)
{
    if (memory == nullptr)
        return;
    gpu->n_open--;
    emulator_memory_close(memory);
}

void roco_gpu_zero(roco_gpu *, void *memory, size_t bytes)
{
    emulator_keep([=]() { memset(memory, 0, bytes); });
}

void *roco_gpu_host_open(roco_gpu *gpu, size_t bytes)
{
    return roco_gpu_memory_open(gpu, bytes);
}

void roco_gpu_host_close(roco_gpu *gpu, void *memory)
{
    roco_gpu_memory_close(gpu, memory);
}

void roco_gpu_upload(roco_gpu *, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        emulator_keep([=]() { memcpy(to, from, bytes); });
}

void roco_gpu_download(roco_gpu *, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

void roco_gpu_copy(roco_gpu *gpu, void *to, const void *from, size_t bytes)
{
    roco_gpu_upload(gpu, to, from, bytes);
}

bool roco_gpu_graph_begin(roco_gpu *)
{
    emulator_graph_begin();
    return true;
}

roco_gpu_graph *roco_gpu_graph_end(roco_gpu *)
{
    emulator_graph *graph = emulator_graph_end();
    return graph == nullptr ? nullptr : new roco_gpu_graph{graph};
}

void roco_gpu_graph_run(roco_gpu *, roco_gpu_graph *graph)
{
    emulator_graph_run(graph->graph);
}

void roco_gpu_graph_close(roco_gpu *, roco_gpu_graph *graph)
{
    if (graph == nullptr)
        return;
    emulator_graph_close(graph->graph);
    delete graph;
}

/* Time is counted in threads: nothing here has a speed of its own. */
double roco_gpu_time(roco_gpu *, void (*work)(void *), void *context, uint32_t)
{
    const uint64_t before = emulator_count().threads;
    work(context);
    return double(emulator_count().threads - before);
}

roco_status roco_gpu_finish(roco_gpu *, roco_error *)
{
    return ROCO_OK;
}

/* --- dense.h --- */

roco_status roco_dense_open(roco_gpu *gpu, roco_dense **out, roco_error *)
{
    *out = new roco_dense{gpu};
    return ROCO_OK;
}

void roco_dense_close(roco_dense *dense)
{
    delete dense;
}

static float element(roco_tensor_type type, const void *from, size_t i)
{
    if (type == ROCO_TYPE_F32)
        return static_cast<const float *>(from)[i];
    const uint16_t bits = static_cast<const uint16_t *>(from)[i];
    return type == ROCO_TYPE_F16 ? roco_f16_to_f32(bits) : roco_bf16_to_f32(bits);
}

static void multiply(const roco_dense_product &p)
{
    for (uint32_t i = 0; i < p.n; i++)
        for (uint32_t r = 0; r < p.n_rows; r++) {
            float sum = 0;
            for (uint32_t k = 0; k < p.n_cols; k++)
                sum += element(p.type, p.x, (size_t)i * p.n_cols + k) *
                       element(p.type, p.weight, (size_t)r * p.n_cols + k);
            float *to = p.out + (size_t)i * p.out_stride + r;
            *to = p.add ? *to + sum : sum;
        }
}

void roco_dense_multiply(roco_dense *, const roco_dense_product *product)
{
    const roco_dense_product p = *product;
    emulator_keep([p]() { multiply(p); });
}

void roco_dense_forgive(roco_dense *)
{
}

roco_status roco_dense_finish(const roco_dense *, roco_error *)
{
    return ROCO_OK;
}

} // extern "C"
