/* The device as the backend's host code sees it: one device, one stream, memory, copies, graphs.
 *
 * gpu.c is the CUDA runtime's; tests/emulator has another on the CPU. All calls are the engine thread's. Work is done
 * in the order of the calls. A fault is kept and returned by roco_gpu_finish; after it nothing else works.
 */
#ifndef ROCO_KERNELS_CUDA_GPU_H
#define ROCO_KERNELS_CUDA_GPU_H

#include "config/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct roco_gpu roco_gpu;
typedef struct CUstream_st *roco_gpu_stream;
typedef struct roco_gpu_graph roco_gpu_graph;

typedef struct roco_gpu_info {
    char name[96];
    uint32_t n_processors; /* streaming multiprocessors */
    size_t total_bytes, free_bytes;
} roco_gpu_info;

/* ROCO_UNSUPPORTED when this machine has no such device or no driver for it; the message says which. Returns owned. */
roco_status roco_gpu_open(uint32_t device, roco_gpu **out, roco_error *error);
void roco_gpu_close(roco_gpu *gpu);
/* Free bytes are those of the moment. */
roco_gpu_info roco_gpu_describe(const roco_gpu *gpu);
roco_gpu_stream roco_gpu_stream_of(const roco_gpu *gpu);

/* Device memory, 256-byte aligned, not zeroed; NULL when there is none left. Closing NULL does nothing. */
void *roco_gpu_memory_open(roco_gpu *gpu, size_t bytes);
void roco_gpu_memory_close(roco_gpu *gpu, void *memory);
void roco_gpu_zero(roco_gpu *gpu, void *memory, size_t bytes);
/* Host memory that the device copies from and to by itself. */
void *roco_gpu_host_open(roco_gpu *gpu, size_t bytes);
void roco_gpu_host_close(roco_gpu *gpu, void *memory);

/* `from` may change when the call is back, but for memory of roco_gpu_host_open: that must stay as it is until
 * roco_gpu_finish. */
void roco_gpu_upload(roco_gpu *gpu, void *to, const void *from, size_t bytes);
/* Waits: `to` is filled when the call is back. */
void roco_gpu_download(roco_gpu *gpu, void *to, const void *from, size_t bytes);

/* From device memory to device memory. */
void roco_gpu_copy(roco_gpu *gpu, void *to, const void *from, size_t bytes);

/* Between begin and end launches are kept, not run. begin is false where the device cannot; end gives NULL when
 * something could not be kept, which is no fault of the device, and then nothing has run. Returns owned. */
bool roco_gpu_graph_begin(roco_gpu *gpu);
roco_gpu_graph *roco_gpu_graph_end(roco_gpu *gpu);
void roco_gpu_graph_run(roco_gpu *gpu, roco_gpu_graph *graph);
void roco_gpu_graph_close(roco_gpu *gpu, roco_gpu_graph *graph);

/* Seconds that the device takes for what `work` starts, mean of `times` runs. */
double roco_gpu_time(roco_gpu *gpu, void (*work)(void *context), void *context, uint32_t times);

/* Waits for all work; ROCO_OK or ROCO_DEVICE with the device's words. */
roco_status roco_gpu_finish(roco_gpu *gpu, roco_error *error);

#endif
