/* The compensation token: what a head has evicted, as one more slot that queries attend to. Compute threads.
 *
 * Source: RazorAttention, arXiv 2407.15891, section 3.3: the mean K and the mean V of the N evicted tokens, and the
 * weight N exp(q.K). Deviation: the means are weighted by S, so that what was never attended to does not blur the rest.
 * It is slot 0 of the head from the start, with a position before all others, so that no policy may take it; while
 * nothing is evicted its logit is minus infinity. Sums are kept beside the pool in float32: a mean that is rounded
 * anew each time would soon stand still.
 */
#include "kernels/cpu/attention.h"

#include <math.h>
#include <string.h>

/* A token that no query has looked at counts for a little, so that there always is a mean. */
#define LEAST_WEIGHT 1e-20f

typedef struct sums {
    float *keys, *values; /* [key_dim], [value_dim] weighted */
    float *weight, *count;
} sums;

static sums sums_of(const roco_attention_job *job)
{
    const roco_kv_layout *l = &job->layout;
    const uint32_t head = job->args->layer * job->args->n_kv_heads + job->kv_head;
    float *at = job->chunk->sequence->evicted + (size_t)head * roco_kv_evicted_floats(l);
    return (sums){at, at + l->key_dim, at + l->key_dim + l->value_dim, at + l->key_dim + l->value_dim + 1};
}

void roco_compensation_open(const roco_attention_job *job, unsigned char *page)
{
    float *zeros = job->worker->block;
    memset(zeros, 0, (job->layout.key_dim + job->layout.value_dim) * sizeof *zeros);
    roco_slot_write(job, zeros, zeros, page, 0, ROCO_COMPENSATION_POSITION);
}

void roco_compensation_add(const roco_attention_job *job, const unsigned char *page, uint32_t slot)
{
    const roco_kv_layout *l = &job->layout;
    const sums s = sums_of(job);
    float weight = ((const float *)(const void *)(page + l->sum_offset))[slot];
    if (!(weight > LEAST_WEIGHT))
        weight = LEAST_WEIGHT;
    for (uint32_t c = 0; c < l->key_dim; c++)
        s.keys[c] += weight * roco_kv_key(l, page, slot, c);
    for (uint32_t c = 0; c < l->value_dim; c++)
        s.values[c] += weight * roco_kv_value(l, page, slot, c);
    *s.weight += weight;
    *s.count += 1;
}

void roco_compensation_store(const roco_attention_job *job, unsigned char *page)
{
    const roco_kv_layout *l = &job->layout;
    const sums s = sums_of(job);
    float *key = job->worker->block, *value = key + l->key_dim;
    for (uint32_t c = 0; c < l->key_dim; c++)
        key[c] = s.keys[c] / *s.weight;
    for (uint32_t c = 0; c < l->value_dim; c++)
        value[c] = s.values[c] / *s.weight;
    roco_slot_write(job, key, value, page, 0, ROCO_COMPENSATION_POSITION);
}

float roco_compensation_logit(const roco_attention_job *job)
{
    return logf(*sums_of(job).count);
}
