/* The forward pass, written once over the backend's operations. Engine thread. It knows nothing of sequences but their
 * chunks. */
#include "engine/state.h"

#include <math.h>

/* h += attention of the layer over the batch. */
static void attention_block(roco_engine *e, uint32_t l, uint32_t n, uint32_t n_chunks)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    const roco_layer *layer = &e->model.layers[l];
    roco_buffers *b = &e->buffers;
    const roco_weight *qkv[] = {layer->q, layer->k, layer->v};
    float *outs[] = {b->q, b->k, b->v};
    ops->rms_norm(e->backend, b->x, layer->attention_norm, s->norm_eps, n, s->width, b->h);
    ops->matmul(e->backend, qkv, outs, 3, b->h, n, false);
    ops->rope(e->backend, b->q, b->cosines, b->sines, n, s->n_heads, s->key_dim, s->rope_dim, false);
    ops->rope(e->backend, b->k, b->cosines, b->sines, n, s->n_kv_heads, s->key_dim, s->rope_dim, false);
    roco_attention attention = {.layer = l,
                                .n_heads = s->n_heads,
                                .n_kv_heads = s->n_kv_heads,
                                .scale = 1.0f / sqrtf((float)s->key_dim),
                                .q = b->q,
                                .k = b->k,
                                .v = b->v,
                                .out = b->attended,
                                .chunks = e->chunks,
                                .n_chunks = n_chunks,
                                .layout = e->info.layout,
                                .pool = e->pool};
    ops->attention(e->backend, &attention);
    if (e->observe)
        e->observe(e->observe_context, &attention);
    const roco_weight *output = layer->output;
    ops->matmul(e->backend, &output, &b->x, 1, b->attended, n, true);
}

static void feed_forward_block(roco_engine *e, uint32_t l, uint32_t n)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    const roco_layer *layer = &e->model.layers[l];
    roco_buffers *b = &e->buffers;
    const roco_weight *gate_up[] = {layer->gate, layer->up};
    float *outs[] = {b->gate, b->up};
    ops->rms_norm(e->backend, b->x, layer->ffn_norm, s->norm_eps, n, s->width, b->h);
    ops->matmul(e->backend, gate_up, outs, 2, b->h, n, false);
    ops->swiglu(e->backend, b->gate, b->up, n, s->ffn_width);
    const roco_weight *down = layer->down;
    ops->matmul(e->backend, &down, &b->x, 1, b->gate, n, true);
}

void roco_forward(roco_engine *e, uint32_t n, uint32_t n_chunks)
{
    e->backend->ops->embed(e->backend, e->model.embedding, e->ids, n, e->buffers.x);
    for (uint32_t l = 0; l < e->model.shape.n_layers; l++) {
        attention_block(e, l, n, n_chunks);
        feed_forward_block(e, l, n);
    }
}

void roco_forward_logits(roco_engine *e, const uint32_t *wanted, uint32_t n)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    roco_buffers *b = &e->buffers;
    const roco_weight *head = e->model.head;
    ops->gather(e->backend, b->x, wanted, n, s->width, b->picked);
    ops->rms_norm(e->backend, b->picked, e->model.final_norm, s->norm_eps, n, s->width, b->picked);
    ops->matmul(e->backend, &head, &b->logits, 1, b->picked, n, false);
}
