/* Ranks of an evicting head's columns, for sequences whose positions are ranks in the cache: how many older tokens the
 * head holds. One block a KV head. A stride's own tokens come after all of them, so they need none. */
#include "kernels/cuda/cache.h"
#include "kernels/cuda/sort.h"

namespace
{

constexpr unsigned THREADS = 256;

__global__ void rank(roco_cuda_layer l, unsigned first)
{
    const roco_cuda_chunk *chunk = l.chunks + l.order[first + blockIdx.y];
    if (chunk->n_rows == 0 || !chunk->by_rank)
        return;
    const head_cache c = open_cache(l, chunk, blockIdx.x);
    if (!c.head->evicts)
        return;
    for (unsigned column = threadIdx.x; column < c.n_old; column += blockDim.x) {
        unsigned slot;
        unsigned char *page = page_of_column(c, column, &slot);
        c.cells.sorted[column] = sortable(*position_of(c, page, slot), column);
    }
    __syncthreads();
    sort_ascending(c.cells.sorted, c.n_old);
    for (unsigned i = threadIdx.x; i < c.n_old; i += blockDim.x)
        c.cells.rank[(unsigned)c.cells.sorted[i]] = i;
}

} // namespace

void roco_cuda_launch_rank(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n)
{
    LAUNCH(rank, dim3(layer->n_kv_heads, n), THREADS, 0, stream, *layer, first);
}
