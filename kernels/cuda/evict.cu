/* The end of a prompt's stride, one block for a KV head: the policy gives up what is over the budget, the stride's
 * survivors go to the free slots and then over the victims, in the order the CPU has too. A plain head only counts. */
#include "kernels/cuda/select.h"

namespace
{

constexpr unsigned THREADS = 256, WARPS = THREADS / ROCO_WARP;

template <class T>
__device__ __forceinline__ void copy_column(const unsigned char *from, unsigned from_slot, unsigned char *to,
                                            unsigned to_slot, unsigned n, unsigned slots)
{
    for (unsigned i = lane_of_thread(); i < n; i += ROCO_WARP)
        reinterpret_cast<T *>(to)[i * slots + to_slot] = reinterpret_cast<const T *>(from)[i * slots + from_slot];
}

/* Numbers of codes: of a key one line each, of a value side by side; leasts behind all scales. */
__device__ void copy_numbers(const roco_kv_layout *l, const unsigned char *from, unsigned from_slot, unsigned char *to,
                             unsigned to_slot)
{
    const unsigned arrays = l->type == ROCO_KV_Q4 ? 2 : 1;
    const unsigned key_blocks = (l->key_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK;
    const unsigned value_blocks = (l->value_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK;
    copy_column<uint16_t>(from + l->key_scale_offset, from_slot, to + l->key_scale_offset, to_slot, arrays * key_blocks,
                          l->slots);
    const uint16_t *source = reinterpret_cast<const uint16_t *>(from + l->value_scale_offset);
    uint16_t *target = reinterpret_cast<uint16_t *>(to + l->value_scale_offset);
    for (unsigned i = lane_of_thread(); i < arrays * value_blocks; i += ROCO_WARP) {
        const unsigned array = i / value_blocks * l->slots, b = i % value_blocks;
        target[(array + to_slot) * value_blocks + b] = source[(array + from_slot) * value_blocks + b];
    }
}

/* A token, by one warp. */
__device__ void copy_slot(const roco_kv_layout *l, const unsigned char *from, unsigned from_slot, unsigned char *to,
                          unsigned to_slot)
{
    unsigned value_bytes = l->value_dim;
    switch (l->type) {
    case ROCO_KV_F16:
        copy_column<uint16_t>(from, from_slot, to, to_slot, l->key_dim, l->slots);
        value_bytes = 2 * l->value_dim;
        break;
    case ROCO_KV_F32:
        copy_column<uint32_t>(from, from_slot, to, to_slot, l->key_dim, l->slots);
        value_bytes = 4 * l->value_dim;
        break;
    case ROCO_KV_Q8:
        copy_column<uint8_t>(from, from_slot, to, to_slot, l->key_dim, l->slots);
        copy_numbers(l, from, from_slot, to, to_slot);
        break;
    case ROCO_KV_Q4:
        copy_column<uint8_t>(from, from_slot, to, to_slot, (l->key_dim + 1) / 2, l->slots);
        copy_numbers(l, from, from_slot, to, to_slot);
        value_bytes = (l->value_dim + ROCO_KV_BLOCK - 1) / ROCO_KV_BLOCK * (ROCO_KV_BLOCK / 2);
        break;
    }
    for (unsigned i = lane_of_thread(); i < value_bytes; i += ROCO_WARP)
        to[l->value_offset + to_slot * value_bytes + i] = from[l->value_offset + from_slot * value_bytes + i];
    const unsigned offsets[3] = {l->position_offset, l->sum_offset, l->sum_sq_offset};
    if (lane_of_thread() < 3) {
        const unsigned offset = offsets[lane_of_thread()];
        reinterpret_cast<uint32_t *>(to + offset)[to_slot] =
            reinterpret_cast<const uint32_t *>(from + offset)[from_slot];
    }
}

/* What the last query paid to the victims that the policy chose. Fixed order. */
__device__ float paid_to(const roco_cuda_layer &l, const question &q, const answer &a, unsigned kv_head)
{
    const head_cache &c = *q.cache;
    const float *paid = l.scores + c.chunk->first_score + (size_t)kv_head * c.chunk->columns;
    float sum = 0;
    for (unsigned j = threadIdx.x; j < q.n; j += blockDim.x)
        if (is_chosen(q, a, candidate_at(q, j)))
            sum += paid[j < q.n_old ? j : c.base + (j - q.n_old)];
    return block_sum(sum);
}

/* Moves the stride's survivors. `lists` is shared, [2][stride]. Returns what the head then holds. */
__device__ unsigned commit_stride(const head_cache &c, const question &q, const answer &a, bool evicts, uint32_t *lists)
{
    uint32_t *over = lists, *kept = lists + c.n_new;
    const unsigned n_old = c.n_old, budget = q.budget;
    if (evicts)
        each_in_order(
            0, n_old, [&](unsigned j) { return is_victim(q, a, candidate_at(q, j)); },
            [over](unsigned i, unsigned j) { over[i] = j; });
    const unsigned n_kept = each_in_order(
        n_old, n_old + c.n_new, [&](unsigned j) { return !evicts || !is_victim(q, a, candidate_at(q, j)); },
        [kept, n_old](unsigned i, unsigned j) { kept[i] = j - n_old; });
    for (unsigned i = warp_of_thread(); i < n_kept; i += WARPS) {
        const unsigned target = n_old + i < budget ? n_old + i : over[n_old + i - budget];
        unsigned from_slot, to_slot;
        const unsigned char *from = page_of_column(c, c.base + kept[i], &from_slot);
        unsigned char *to = c.pool + (size_t)c.pages[target / c.layout->slots] * c.layout->page_bytes;
        to_slot = target % c.layout->slots;
        copy_slot(c.layout, from, from_slot, to, to_slot);
    }
    __syncthreads();
    return n_old + n_kept < budget ? n_old + n_kept : budget;
}

/* The first decoded token's place. What is in the slots now is the cache; the stride is gone. */
__device__ void choose_next(const roco_cuda_layer &l, const head_cache &c, unsigned kv_head, unsigned held)
{
    if (held < c.head->budget) {
        if (threadIdx.x == 0)
            c.head->victim = ROCO_NO_SLOT;
        return;
    }
    head_cache after = c;
    after.n_old = held;
    after.base = round_up_32(held);
    after.n_new = 0;
    const question q = ask(l, after, kv_head, held, 0, 1);
    const answer a = choose_victims(q);
    for (unsigned column = threadIdx.x; column < held; column += blockDim.x)
        if (is_victim(q, a, candidate_at(q, column))) {
            c.head->victim = column;
            c.head->victim_mass = 0;
        }
}

__global__ void evict(roco_cuda_layer l, unsigned first_entry)
{
    DYNAMIC_SHARED(uint32_t, lists);
    const roco_cuda_chunk *chunk = l.chunks + l.order[first_entry + blockIdx.y];
    const unsigned kv_head = blockIdx.x;
    if (chunk->n_rows == 0)
        return;
    const head_cache c = open_cache(l, chunk, kv_head);
    if (!c.staged) {
        __syncthreads(); /* all have read what the head held */
        if (threadIdx.x == 0 && chunk->is_last)
            c.head->held = c.n_old;
        return;
    }
    const unsigned n = c.n_old + c.n_new, budget = c.head->budget - c.head->reserved;
    const unsigned surplus = n > budget ? n - budget : 0;
    const question q = ask(l, c, kv_head, c.n_old, c.n_new, surplus);
    answer a = {};
    if (surplus > 0) {
        a = choose_victims(q);
        const float paid = keeps_statistics(l, c) && a.asks ? paid_to(l, q, a, kv_head) : 0.0f;
        if (threadIdx.x == 0)
            c.head->evicted_mass += paid;
    }
    const unsigned held = commit_stride(c, q, a, surplus > 0, lists);
    choose_next(l, c, kv_head, held);
    __syncthreads();
    if (threadIdx.x == 0)
        c.head->held = held;
}

} // namespace

void roco_cuda_launch_evict(roco_gpu_stream stream, const roco_cuda_layer *layer, uint32_t first, uint32_t n)
{
    LAUNCH(evict, dim3(layer->n_kv_heads, n), THREADS, 2 * ROCO_CUDA_MOST_STRIDE * sizeof(uint32_t), stream, *layer,
           first);
}
