/* The CUDA backend's inside: its state, and which file does what.
 *
 *   cuda.c         the operation table, open and close, memory, the operations that are one launch
 *   gpu.c, gpu.h   the device: memory, copies, graphs
 *   dense.c        dense products through cuBLAS
 *   weights.c      taking matrices in, and which product multiplies them; pack.c: the quantised form
 *   measure.c      which product is faster for how many rows
 *   attention.c    what a layer's attention launches
 *   tables.c       what a step brings from the host, and how its chunks are cut into launches
 *   graphs.c       a step's start and end: decode steps are recorded once and run again
 *   *.cu           kernels and their launches (kernels.h); C++ for nvcc, or for the tests' emulator
 *
 * Host code is the engine thread's. The device does everything in one stream, in order.
 */
#ifndef ROCO_KERNELS_CUDA_CUDA_H
#define ROCO_KERNELS_CUDA_CUDA_H

#include "kernels/backend.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/kernels.h"

typedef struct roco_cuda_attention roco_cuda_attention; /* attention.c's */
typedef struct roco_cuda_tables roco_cuda_tables;       /* tables.c's */
typedef struct roco_cuda_graphs roco_cuda_graphs;       /* graphs.c's */

#define ROCO_CUDA_FORMS (ROCO_N_QUANT_FORMS + 3u)

/* Up to `rows` rows a matrix is multiplied without the library. */
typedef struct roco_cuda_few {
    uint32_t rows;
    bool measured;
} roco_cuda_few;

typedef struct roco_cuda {
    roco_backend base;
    roco_backend_config config;
    roco_gpu *gpu;
    roco_gpu_stream stream;
    uint32_t n_processors;
    roco_dense *dense;
    int32_t *ids;                       /* [max_rows] of a batch's tokens */
    uint32_t *rows;                     /* [max_rows] that are gathered */
    roco_sample_row *samples;           /* [max_rows] */
    int32_t *tokens;                    /* [max_rows] that are drawn */
    uint16_t *narrow;                   /* [max_rows * max_width] activations in the weights' type */
    uint16_t *dequantized;              /* [ROCO_CUDA_DEQUANTIZED] a part of a matrix as f16 */
    roco_cuda_few few[ROCO_CUDA_FORMS]; /* by a matrix' form: quantised ones, then F32, F16, BF16 */
    roco_cuda_attention *attention;
    roco_cuda_tables *tables;
    roco_cuda_graphs *graphs;
    size_t weight_bytes, scratch_bytes;
    char description[160];
} roco_cuda;

/* Ids of policies that select.h has twins of: 0 to this. */
#define ROCO_CUDA_LAST_POLICY 13

/* Values of a quantised matrix that are dequantised at once, unless a row has more. */
#define ROCO_CUDA_DEQUANTIZED ((size_t)32 << 20)

static inline roco_cuda *roco_cuda_of(roco_backend *backend)
{
    return (roco_cuda *)backend;
}

/* Device memory that is counted as scratch; NULL with *status ROCO_NO_MEMORY when there is none, or when *status is a
 * failure already. */
void *roco_cuda_scratch(roco_cuda *cuda, size_t bytes, const char *what, roco_status *status, roco_error *error);

#ifdef __cplusplus
extern "C"
#endif
    /* What the registry opens. ROCO_UNSUPPORTED on a machine without a device, driver or cuBLAS. Returns owned. */
    roco_status
    roco_cuda_open(const roco_backend_config *config, roco_backend **out, roco_error *error);

/* Allocates scratch from cuda->config. Closing takes a backend whose open failed or was never reached. */
roco_status roco_cuda_attention_open(roco_cuda *cuda, roco_error *error);
void roco_cuda_attention_close(roco_cuda *cuda);
void roco_cuda_attention_run(roco_backend *backend, const roco_attention *args);

#endif
