/* Matrices on the device: taking them in, embedding rows, and which product multiplies them.
 *
 * Few rows: the matrix is read as it is, once for every eight of them. Many: dequantised a part at a time to f16, or
 * dense as it is, and multiplied by the library. Engine thread.
 */
#include "kernels/cuda/weights.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/tables.h"

#include <stdlib.h>
#include <string.h>

struct roco_weight {
    roco_tensor_type type;
    bool is_quantized;
    uint32_t n_rows, n_cols;
    void *memory; /* all planes, or the dense matrix */
    size_t bytes;
    roco_planes planes;
};

static roco_status check_view(const roco_cuda *cuda, const roco_tensor_view *view, roco_error *error)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)view->type);
    if (traits == NULL)
        return roco_fail(error, ROCO_UNSUPPORTED, view->name, "tensor type %d is not supported", (int)view->type);
    if (view->n_rows == 0 || view->n_cols == 0 || view->n_cols % traits->block_values != 0)
        return roco_fail(error, ROCO_UNSUPPORTED, view->name,
                         "a matrix of %u x %u cannot be made of %s blocks of %u values", view->n_rows, view->n_cols,
                         traits->name, traits->block_values);
    if (view->n_cols > cuda->config.max_width)
        return roco_fail(error, ROCO_UNSUPPORTED, view->name, "%u columns are over the backend's width of %u",
                         view->n_cols, cuda->config.max_width);
    return ROCO_OK;
}

/* A place in cuda->few. */
static uint32_t form_of(const roco_weight *weight)
{
    if (weight->is_quantized)
        return (uint32_t)weight->planes.quant;
    return ROCO_N_QUANT_FORMS + (weight->type == ROCO_TYPE_F32 ? 0u : weight->type == ROCO_TYPE_F16 ? 1u : 2u);
}

static void point_planes(roco_planes *planes, const roco_plane_sizes *sizes, void *memory)
{
    char *at = memory;
    planes->quants = at;
    planes->high = at += sizes->quants;
    planes->scales = at += sizes->high;
    planes->supers = at + sizes->scales;
}

/* Planes are made on the host and sent whole. */
static roco_status upload_planes(roco_cuda *cuda, const roco_tensor_view *view, roco_weight *weight, roco_error *error)
{
    const roco_plane_sizes sizes = roco_planes_sizes(&weight->planes);
    void *host = malloc(weight->bytes);
    if (host == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, view->name, "no memory to repack a matrix of %zu bytes", weight->bytes);
    roco_planes on_host = weight->planes;
    memset(host, 0, weight->bytes);
    point_planes(&on_host, &sizes, host);
    roco_planes_pack(view, &on_host);
    point_planes(&weight->planes, &sizes, weight->memory);
    roco_gpu_upload(cuda->gpu, weight->memory, host, weight->bytes);
    free(host);
    return ROCO_OK;
}

static size_t bytes_of(const roco_tensor_view *view, const roco_weight *weight)
{
    if (weight->is_quantized) {
        const roco_plane_sizes s = roco_planes_sizes(&weight->planes);
        return s.quants + s.high + s.scales + s.supers;
    }
    return (size_t)view->n_rows * view->n_cols * roco_type_find((uint32_t)view->type)->block_bytes;
}

roco_status roco_cuda_weight_open(roco_backend *backend, const roco_tensor_view *view, roco_weight **out,
                                  roco_error *error)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    *out = NULL;
    roco_status status = check_view(cuda, view, error);
    if (status != ROCO_OK)
        return status;
    roco_weight *weight = calloc(1, sizeof *weight);
    if (weight == NULL)
        return roco_fail(error, ROCO_NO_MEMORY, view->name, "no memory for a matrix");
    *weight = (roco_weight){.type = view->type, .n_rows = view->n_rows, .n_cols = view->n_cols};
    weight->is_quantized = roco_planes_form(view, &weight->planes);
    weight->bytes = bytes_of(view, weight);
    weight->memory = roco_gpu_memory_open(cuda->gpu, weight->bytes);
    if (weight->memory == NULL)
        status =
            roco_fail(error, ROCO_NO_MEMORY, view->name, "no device memory for a matrix of %zu bytes", weight->bytes);
    else if (weight->is_quantized)
        status = upload_planes(cuda, view, weight, error);
    else
        roco_gpu_upload(cuda->gpu, weight->memory, view->data, weight->bytes);
    if (status != ROCO_OK) {
        roco_gpu_memory_close(cuda->gpu, weight->memory);
        free(weight);
        return status;
    }
    cuda->weight_bytes += weight->bytes;
    *out = weight;
    roco_cuda_few *few = &cuda->few[form_of(weight)];
    if (cuda->config.times_products && !few->measured) {
        few->measured = true; /* before the trial's own matrix comes */
        roco_cuda_measure(cuda, weight->type, &few->rows);
    }
    return ROCO_OK;
}

void roco_cuda_weight_close(roco_backend *backend, roco_weight *weight)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    if (weight == NULL)
        return;
    cuda->weight_bytes -= weight->bytes;
    roco_gpu_memory_close(cuda->gpu, weight->memory);
    free(weight);
}

void roco_cuda_embed(roco_backend *backend, const roco_weight *weight, const int32_t *ids, uint32_t n, float *out)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    ROCO_CHECK(n <= cuda->config.max_rows);
    for (uint32_t i = 0; i < n; i++)
        ROCO_CHECK(ids[i] >= 0 && (uint32_t)ids[i] < weight->n_rows);
    if (n == 0)
        return;
    const int32_t *on_device = roco_cuda_tables_ids(cuda, ids, n);
    if (weight->is_quantized)
        roco_cuda_launch_embed_planes(cuda->stream, weight->planes, on_device, n, out);
    else
        roco_cuda_launch_embed_dense(cuda->stream, weight->type, weight->memory, weight->n_cols, on_device, n, out);
}

/* --- products --- */

/* The type in which the library multiplies. */
static roco_tensor_type dense_type(const roco_weight *weight)
{
    return weight->is_quantized ? ROCO_TYPE_F16 : weight->type;
}

static bool is_few(const roco_cuda *cuda, const roco_weight *weight, uint32_t n)
{
    return n <= cuda->few[form_of(weight)].rows;
}

static void multiply_few(roco_cuda *cuda, const roco_weight *weight, const float *x, uint32_t n, float *out, bool add)
{
    if (weight->is_quantized)
        roco_cuda_launch_multiply_planes(cuda->stream, weight->planes, x, n, out, add);
    else
        roco_cuda_launch_multiply_dense(cuda->stream, weight->type, weight->memory, weight->n_rows, weight->n_cols, x,
                                        n, out, add);
}

static void multiply_many(roco_cuda *cuda, const roco_weight *weight, const void *x, uint32_t n, float *out, bool add)
{
    roco_dense_product product = {.type = dense_type(weight),
                                  .weight = weight->memory,
                                  .n_rows = weight->n_rows,
                                  .n_cols = weight->n_cols,
                                  .x = x,
                                  .n = n,
                                  .out = out,
                                  .out_stride = weight->n_rows,
                                  .add = add};
    if (!weight->is_quantized) {
        roco_dense_multiply(cuda->dense, &product);
        return;
    }
    const uint32_t at_once = (uint32_t)(ROCO_CUDA_DEQUANTIZED / weight->n_cols);
    for (uint32_t first = 0; first < weight->n_rows; first += at_once) {
        product.n_rows = weight->n_rows - first < at_once ? weight->n_rows - first : at_once;
        product.weight = cuda->dequantized;
        product.out = out + first;
        roco_cuda_launch_dequantize(cuda->stream, weight->planes, first, product.n_rows, cuda->dequantized);
        roco_dense_multiply(cuda->dense, &product);
    }
}

/* `narrowed` is the type that cuda->narrow holds x in, F32 while it holds nothing. */
static void multiply(roco_cuda *cuda, const roco_weight *weight, const float *x, uint32_t n, float *out, bool add,
                     roco_tensor_type *narrowed)
{
    if (is_few(cuda, weight, n)) {
        multiply_few(cuda, weight, x, n, out, add);
        return;
    }
    const roco_tensor_type type = dense_type(weight);
    if (type != ROCO_TYPE_F32 && type != *narrowed) {
        roco_cuda_launch_narrow(cuda->stream, type, x, (size_t)n * weight->n_cols, cuda->narrow);
        *narrowed = type;
    }
    multiply_many(cuda, weight, type == ROCO_TYPE_F32 ? (const void *)x : cuda->narrow, n, out, add);
}

void roco_cuda_matmul(roco_backend *backend, const roco_weight *const *weights, float *const *outs, uint32_t n_weights,
                      const float *x, uint32_t n, bool add)
{
    roco_cuda *cuda = roco_cuda_of(backend);
    for (uint32_t first = 0; first < n; first += cuda->config.max_rows) {
        const uint32_t rows = n - first < cuda->config.max_rows ? n - first : cuda->config.max_rows;
        roco_tensor_type narrowed = ROCO_TYPE_F32;
        for (uint32_t w = 0; w < n_weights; w++) {
            ROCO_CHECK(weights[w]->n_cols == weights[0]->n_cols);
            multiply(cuda, weights[w], x + (size_t)first * weights[w]->n_cols, rows,
                     outs[w] + (size_t)first * weights[w]->n_rows, add, &narrowed);
        }
    }
}
