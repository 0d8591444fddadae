/* Up to how many rows the backend's own products beat the library's, found when a model's first matrix of a form comes:
 * both multiply a seeded square one of the same type, for more and more rows, until the library is faster. Larger
 * matrices differ little. Engine thread, before any step. */
#include "kernels/cuda/weights.h"

#include "config/log.h"

#include <stdlib.h>

#define MOST_WIDTH 4096u
#define TIMES      5u

static const uint32_t sizes[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

typedef struct trial {
    roco_cuda *cuda;
    roco_weight *weight;
    float *x, *out;
    uint32_t n;
} trial;

static void multiply(void *context)
{
    const trial *t = context;
    const roco_weight *weight = t->weight;
    float *out = t->out;
    roco_cuda_matmul(&t->cuda->base, &weight, &out, 1, t->x, t->n, false);
}

static double time_of(trial *t, uint32_t *few, uint32_t own_up_to)
{
    *few = own_up_to;
    return roco_gpu_time(t->cuda->gpu, multiply, t, TIMES);
}

/* The last size before the library is faster. */
static uint32_t search(trial *t, uint32_t *few)
{
    const uint32_t most = t->cuda->config.max_rows;
    uint32_t best = 0;
    for (size_t i = 0; i < N_SIZES && sizes[i] <= most; i++) {
        t->n = sizes[i];
        if (time_of(t, few, t->n) > time_of(t, few, 0))
            break;
        best = t->n;
    }
    return best;
}

/* Random bytes are numbers of every kind, and no product's speed depends on which. */
static void *random_bytes(size_t n)
{
    unsigned char *out = malloc(n);
    uint64_t state = 1;
    for (size_t i = 0; out != NULL && i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (unsigned char)(state >> 56);
    }
    return out;
}

void roco_cuda_measure(roco_cuda *cuda, roco_tensor_type type, uint32_t *few)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)type);
    const uint32_t wished = cuda->config.max_width < MOST_WIDTH ? cuda->config.max_width : MOST_WIDTH;
    const uint32_t width = wished / traits->block_values * traits->block_values;
    const uint32_t most = cuda->config.max_rows < sizes[N_SIZES - 1] ? cuda->config.max_rows : sizes[N_SIZES - 1];
    const size_t bytes = (size_t)width * most * sizeof(float);
    if (width == 0)
        return;
    void *data = random_bytes((size_t)width * width / traits->block_values * traits->block_bytes);
    const roco_tensor_view view = {"a trial's matrix", type, width, width, data};
    trial t = {
        .cuda = cuda, .x = roco_gpu_memory_open(cuda->gpu, bytes), .out = roco_gpu_memory_open(cuda->gpu, bytes)};
    if (data != NULL && t.x != NULL && t.out != NULL &&
        roco_cuda_weight_open(&cuda->base, &view, &t.weight, NULL) == ROCO_OK) {
        roco_gpu_zero(cuda->gpu, t.x, bytes);
        *few = search(&t, few);
        roco_log(ROCO_LOG_INFO, "cuda: %s matrices are multiplied without cuBLAS up to %u rows, as measured",
                 traits->name, *few);
    }
    roco_cuda_weight_close(&cuda->base, t.weight);
    roco_gpu_memory_close(cuda->gpu, t.x);
    roco_gpu_memory_close(cuda->gpu, t.out);
    free(data);
}
