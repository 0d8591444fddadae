/* The end of a decoded token's attention, one block for a KV head of a chunk: joins the splits, averages the group's
 * weights, adds them to S and S2, and chooses the slot that the next token takes. */
#include "kernels/cuda/select.h"

namespace
{

constexpr unsigned THREADS = 256;

/* Of each query head of the group: its greatest score and 1 / its sum, to shared [n_group][2]. */
__device__ void join_normals(const roco_cuda_layer &l, const roco_cuda_chunk *chunk, unsigned kv_head, unsigned n_group,
                             unsigned value_dim, float *normals)
{
    for (unsigned g = threadIdx.x; g < n_group; g += blockDim.x) {
        const size_t head = (size_t)kv_head * n_group + g;
        float greatest = -INFINITY, sum = 0;
        if (l.n_splits == 1) {
            normals[2 * g] = l.normals[((size_t)chunk->row * l.n_heads + head) * 2];
            normals[2 * g + 1] = l.normals[((size_t)chunk->row * l.n_heads + head) * 2 + 1];
            continue;
        }
        const float *from = l.partials + ((size_t)blockIdx.y * l.n_heads + head) * l.n_splits * (value_dim + 2);
        for (unsigned s = 0; s < l.n_splits; s++)
            greatest = fmaxf(greatest, from[(size_t)s * (value_dim + 2)]);
        for (unsigned s = 0; s < l.n_splits; s++) {
            const float own = from[(size_t)s * (value_dim + 2)];
            sum += own == -INFINITY ? 0.0f : from[(size_t)s * (value_dim + 2) + 1] * expf(own - greatest);
        }
        normals[2 * g] = greatest;
        normals[2 * g + 1] = 1.0f / sum;
    }
}

__device__ void join_values(const roco_cuda_layer &l, const roco_cuda_chunk *chunk, unsigned kv_head, unsigned n_group,
                            unsigned value_dim, const float *normals)
{
    for (unsigned i = threadIdx.x; i < n_group * value_dim; i += blockDim.x) {
        const unsigned g = i / value_dim, d = i % value_dim;
        const size_t head = (size_t)kv_head * n_group + g;
        const float *from = l.partials + ((size_t)blockIdx.y * l.n_heads + head) * l.n_splits * (value_dim + 2);
        float value = 0;
        for (unsigned s = 0; s < l.n_splits; s++, from += value_dim + 2)
            if (from[0] != -INFINITY)
                value += from[2 + d] * expf(from[0] - normals[2 * g]);
        l.out[((size_t)chunk->row * l.n_heads + head) * value_dim + d] = value * normals[2 * g + 1];
    }
}

/* What the query paid to each column: into the state, and kept in the first head's scores. */
__device__ void add_statistics(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head, unsigned n_group,
                               const float *normals)
{
    const roco_cuda_chunk *chunk = c.chunk;
    float *scores = l.scores + chunk->first_score + (size_t)kv_head * n_group * chunk->columns;
    const int32_t window = (int32_t)chunk->policy_window;
    const bool moves = chunk->kept == ROCO_KEPT_WINDOW && chunk->position > 0 &&
                       chunk->position / window != (chunk->position - 1) / window;
    for (unsigned column = threadIdx.x; column < c.n_old; column += blockDim.x) {
        float sum = 0, peak = 0;
        for (unsigned g = 0; g < n_group; g++) {
            const float score = scores[(size_t)g * chunk->columns + column];
            const float p = score == -INFINITY ? 0.0f : expf(score - normals[2 * g]) * normals[2 * g + 1];
            sum += p;
            peak = fmaxf(peak, p);
        }
        const float mean = sum * (1.0f / (float)n_group);
        unsigned slot;
        unsigned char *page = page_of_column(c, column, &slot);
        float *s = sum_of(c, page, slot), *s2 = sum_sq_of(c, page, slot);
        scores[column] = mean;
        if (chunk->kept == ROCO_KEPT_LAST) {
            *s = mean;
        } else if (chunk->kept == ROCO_KEPT_SUMS) {
            *s += mean;
            *s2 += __fmul_rn(mean, mean);
        } else {
            if (moves) {
                *s2 = *s;
                *s = 0;
            }
            *s = chunk->peak ? fmaxf(*s, peak) : *s + mean;
        }
    }
}

__device__ void choose_next(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head, unsigned n_group)
{
    roco_kv_head *head = c.head;
    if (c.n_old < head->budget) {
        if (threadIdx.x == 0)
            head->victim = ROCO_NO_SLOT;
        return;
    }
    const question q = ask(l, c, kv_head, c.n_old, 0, 1);
    const answer a = choose_victims(q);
    const bool keeps = keeps_statistics(l, c);
    const float *paid = l.scores + c.chunk->first_score + (size_t)kv_head * n_group * c.chunk->columns;
    for (unsigned column = threadIdx.x; column < c.n_old; column += blockDim.x) {
        const candidate t = candidate_at(q, column);
        if (!is_victim(q, a, t))
            continue;
        head->victim = column;
        head->victim_mass = keeps && !is_outside(q, t) ? paid[column] : 0.0f;
    }
}

__global__ void finish(roco_cuda_layer l)
{
    DYNAMIC_SHARED(float, normals);
    const unsigned kv_head = blockIdx.x, n_group = l.n_heads / l.n_kv_heads;
    const roco_cuda_chunk *chunk = l.chunks + l.order[blockIdx.y];
    if (chunk->n_rows == 0)
        return;
    const head_cache c = open_cache(l, chunk, kv_head);
    join_normals(l, chunk, kv_head, n_group, c.layout->value_dim, normals);
    __syncthreads();
    if (l.n_splits > 1)
        join_values(l, chunk, kv_head, n_group, c.layout->value_dim, normals);
    if (keeps_statistics(l, c))
        add_statistics(l, c, kv_head, n_group, normals);
    __syncthreads();
    if (c.head->evicts)
        choose_next(l, c, kv_head, n_group);
    __syncthreads(); /* all have read what the head held */
    if (threadIdx.x == 0)
        c.head->held = c.n_old;
}

} // namespace

void roco_cuda_launch_finish(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t n)
{
    const unsigned n_group = layer->n_heads / layer->n_kv_heads;
    LAUNCH(finish, dim3(layer->n_kv_heads, n), THREADS, 2 * n_group * sizeof(float), stream, *layer);
}
