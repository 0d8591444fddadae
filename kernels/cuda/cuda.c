/* The CUDA backend: its operation table, opening and closing, device memory, and the operations that are one launch.
 * Engine thread. */
#include "kernels/cuda/graphs.h"
#include "kernels/cuda/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *cuda_describe(const roco_backend *backend)
{
    return ((const roco_cuda *)backend)->description;
}

static size_t cuda_weight_bytes(const roco_backend *backend)
{
    return ((const roco_cuda *)backend)->weight_bytes;
}

static size_t cuda_scratch_bytes(const roco_backend *backend)
{
    return ((const roco_cuda *)backend)->scratch_bytes;
}

static void *cuda_memory_open(roco_backend *backend, size_t bytes)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    void *memory = roco_gpu_memory_open(cuda->gpu, bytes > 0 ? bytes : 1);
    if (memory != NULL)
        roco_gpu_zero(cuda->gpu, memory, bytes);
    return memory;
}

static size_t cuda_memory_left(const roco_backend *backend)
{
    const roco_cuda *cuda = (const roco_cuda *)backend;
    roco_gpu_finish(cuda->gpu, NULL); /* memory is given back in the order of the work */
    return roco_gpu_describe(cuda->gpu).free_bytes;
}

static void cuda_memory_close(roco_backend *backend, void *memory)
{
    roco_gpu_memory_close(roco_cuda_of(backend)->gpu, memory);
}

static void cuda_upload(roco_backend *backend, void *to, const void *from, size_t bytes)
{
    roco_gpu_upload(roco_cuda_of(backend)->gpu, to, from, bytes);
}

static void cuda_download(roco_backend *backend, void *to, const void *from, size_t bytes)
{
    roco_gpu_download(roco_cuda_of(backend)->gpu, to, from, bytes);
}

static void cuda_copy(roco_backend *backend, void *to, const void *from, size_t bytes)
{
    roco_gpu_copy(roco_cuda_of(backend)->gpu, to, from, bytes);
}

void *roco_cuda_scratch(roco_cuda *cuda, size_t bytes, const char *what, roco_status *status, roco_error *error)
{
    if (*status != ROCO_OK)
        return NULL;
    void *memory = roco_gpu_memory_open(cuda->gpu, bytes > 0 ? bytes : 1);
    if (memory == NULL)
        *status = roco_fail(error, ROCO_NO_MEMORY, NULL, "no device memory for %s (%zu bytes)", what, bytes);
    else
        cuda->scratch_bytes += bytes;
    return memory;
}

/* --- operations of one launch --- */

static void cuda_rms_norm(roco_backend *backend, const float *x, const float *gain, float eps, uint32_t n,
                          uint32_t width, float *out)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_rms_norm(roco_cuda_of(backend)->stream, x, gain, eps, n, width, out);
}

static void cuda_rope(roco_backend *backend, float *x, const float *cosines, const float *sines, uint32_t n,
                      uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves)
{
    if (n > 0 && n_heads > 0 && rope_dim >= 2)
        roco_cuda_launch_rope(roco_cuda_of(backend)->stream, x, cosines, sines, n, n_heads, head_dim, rope_dim, halves);
}

static void cuda_swiglu(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_swiglu(roco_cuda_of(backend)->stream, gate, up, (size_t)n * width);
}

static void cuda_geglu(roco_backend *backend, float *gate, const float *up, uint32_t n, uint32_t width)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_geglu(roco_cuda_of(backend)->stream, gate, up, (size_t)n * width);
}

static void cuda_add(roco_backend *backend, float *x, const float *y, float factor, uint32_t n, uint32_t width)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_add(roco_cuda_of(backend)->stream, x, y, factor, (size_t)n * width);
}

static void cuda_add_bias(roco_backend *backend, float *x, const float *bias, uint32_t n, uint32_t width)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_add_bias(roco_cuda_of(backend)->stream, x, bias, width, (size_t)n * width);
}

static void cuda_scale(roco_backend *backend, float *x, float factor, uint32_t n, uint32_t width)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_scale(roco_cuda_of(backend)->stream, x, factor, (size_t)n * width);
}

static void cuda_softcap(roco_backend *backend, float *x, float cap, uint32_t n, uint32_t width)
{
    if (n > 0 && width > 0)
        roco_cuda_launch_softcap(roco_cuda_of(backend)->stream, x, cap, (size_t)n * width);
}

static void cuda_gather(roco_backend *backend, const float *x, const uint32_t *rows, uint32_t n_out, uint32_t width,
                        float *out)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    ROCO_CHECK(n_out <= cuda->config.max_rows);
    if (n_out == 0 || width == 0)
        return;
    roco_cuda_launch_gather(cuda->stream, x, roco_cuda_tables_rows(cuda, rows, n_out), n_out, width, out);
}

static void cuda_sample(roco_backend *backend, float *logits, uint32_t n_vocab, const roco_sample_row *rows, uint32_t n,
                        int32_t *tokens)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    ROCO_CHECK(n <= cuda->config.max_rows);
    if (n == 0)
        return;
    roco_gpu_upload(cuda->gpu, cuda->samples, rows, n * sizeof *rows);
    roco_cuda_launch_sample(cuda->stream, logits, n_vocab, cuda->samples, n, cuda->tokens);
    roco_gpu_download(cuda->gpu, tokens, cuda->tokens, n * sizeof *tokens);
}

static roco_status cuda_finish(roco_backend *backend, roco_error *error)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    roco_status status = roco_gpu_finish(cuda->gpu, error);
    return status != ROCO_OK ? status : roco_dense_finish(cuda->dense, error);
}

/* --- open and close --- */

static void cuda_close(roco_backend *backend)
{
    if (backend == NULL)
        return;
    roco_cuda *cuda = roco_cuda_of(backend);
    void *scratch[] = {cuda->ids, cuda->rows, cuda->samples, cuda->tokens, cuda->narrow, cuda->dequantized};
    for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++)
        roco_gpu_memory_close(cuda->gpu, scratch[i]);
    roco_cuda_graphs_close(cuda);
    roco_cuda_attention_close(cuda);
    roco_dense_close(cuda->dense);
    roco_gpu_close(cuda->gpu);
    free(cuda);
}

static bool cuda_knows_policy(const roco_backend *backend, const roco_policy *policy)
{
    return policy->id <= ROCO_CUDA_LAST_POLICY;
}

static const roco_backend_ops cuda_ops = {
    .name = "cuda",
    .takes_ranks = true,
    .takes_types = true,
    .knows_policy = cuda_knows_policy,
    .close = cuda_close,
    .describe = cuda_describe,
    .weight_bytes = cuda_weight_bytes,
    .scratch_bytes = cuda_scratch_bytes,
    .memory_open = cuda_memory_open,
    .memory_left = cuda_memory_left,
    .memory_close = cuda_memory_close,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .weight_open = roco_cuda_weight_open,
    .weight_close = roco_cuda_weight_close,
    .begin = roco_cuda_begin,
    .end = roco_cuda_end,
    .embed = roco_cuda_embed,
    .rms_norm = cuda_rms_norm,
    .matmul = roco_cuda_matmul,
    .rope = cuda_rope,
    .swiglu = cuda_swiglu,
    .geglu = cuda_geglu,
    .add = cuda_add,
    .add_bias = cuda_add_bias,
    .scale = cuda_scale,
    .softcap = cuda_softcap,
    .attention = roco_cuda_attention_run,
    .gather = cuda_gather,
    .sample = cuda_sample,
    .finish = cuda_finish,
};

static roco_status open_scratch(roco_cuda *cuda, roco_error *error)
{
    const roco_backend_config *c = &cuda->config;
    const size_t dequantized = c->max_width > ROCO_CUDA_DEQUANTIZED ? c->max_width : ROCO_CUDA_DEQUANTIZED;
    roco_status status = ROCO_OK;
    cuda->ids = roco_cuda_scratch(cuda, c->max_rows * sizeof *cuda->ids, "token ids", &status, error);
    cuda->rows = roco_cuda_scratch(cuda, c->max_rows * sizeof *cuda->rows, "row numbers", &status, error);
    cuda->samples = roco_cuda_scratch(cuda, c->max_rows * sizeof *cuda->samples, "samplings", &status, error);
    cuda->tokens = roco_cuda_scratch(cuda, c->max_rows * sizeof *cuda->tokens, "tokens", &status, error);
    cuda->narrow = roco_cuda_scratch(cuda, (size_t)c->max_rows * c->max_width * sizeof *cuda->narrow, "activations",
                                     &status, error);
    cuda->dequantized =
        roco_cuda_scratch(cuda, dequantized * sizeof *cuda->dequantized, "a dequantised matrix", &status, error);
    return status;
}

static roco_status open_parts(roco_cuda *cuda, roco_error *error)
{
    if (cuda->config.max_rows < 1 || cuda->config.max_width < 1)
        return roco_fail(error, ROCO_INVALID, "max_rows", "max_rows and max_width must be at least 1");
    roco_status status = roco_gpu_open(cuda->config.device, &cuda->gpu, error);
    if (status != ROCO_OK)
        return status;
    cuda->stream = roco_gpu_stream_of(cuda->gpu);
    cuda->n_processors = roco_gpu_describe(cuda->gpu).n_processors;
    status = roco_dense_open(cuda->gpu, &cuda->dense, error);
    if (status == ROCO_OK)
        status = open_scratch(cuda, error);
    if (status == ROCO_OK)
        status = roco_cuda_attention_open(cuda, error);
    return status != ROCO_OK ? status : roco_cuda_graphs_open(cuda, error);
}

roco_status roco_cuda_open(const roco_backend_config *config, roco_backend **out, roco_error *error)
{
    *out = NULL;
    roco_cuda *cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for the cuda backend");
    cuda->base.ops = &cuda_ops;
    cuda->config = *config;
    cuda->config.isa = NULL;
    for (uint32_t form = 0; form < ROCO_CUDA_FORMS; form++)
        cuda->few[form].rows = form < ROCO_N_QUANT_FORMS ? 64 : 8; /* until it is measured */
    roco_status status = open_parts(cuda, error);
    if (status != ROCO_OK) {
        cuda_close(&cuda->base);
        return status;
    }
    const roco_gpu_info info = roco_gpu_describe(cuda->gpu);
    snprintf(cuda->description, sizeof cuda->description, "cuda, device %u, %s", config->device, info.name);
    *out = &cuda->base;
    return ROCO_OK;
}
