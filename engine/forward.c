/* The forward pass, written once over the backend's operations. Engine thread. It knows nothing of sequences but their
 * chunks. */
#include "engine/state.h"

/* What a block reads: x, normed where the family norms before it. */
static const float *normed(roco_engine *e, const float *gain, uint32_t n)
{
    const roco_shape *s = &e->model.shape;
    if (!gain)
        return e->buffers.x;
    e->backend->ops->rms_norm(e->backend, e->buffers.x, gain, s->norm_eps, n, s->width, e->buffers.h);
    return e->buffers.h;
}

/* x += the block's result, normed and scaled where the family asks for it. */
static void add_block(roco_engine *e, const roco_weight *weight, const float *input, const float *post_norm, uint32_t n)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    roco_buffers *b = &e->buffers;
    if (!post_norm && s->residual_scale == 1.0f) {
        ops->matmul(e->backend, &weight, &b->x, 1, input, n, true);
        return;
    }
    ops->matmul(e->backend, &weight, &b->h, 1, input, n, false);
    if (post_norm)
        ops->rms_norm(e->backend, b->h, post_norm, s->norm_eps, n, s->width, b->h);
    ops->add(e->backend, b->x, b->h, s->residual_scale, n, s->width);
}

static void norm_heads(roco_engine *e, float *x, const float *gain, uint32_t n, uint32_t n_heads)
{
    const roco_shape *s = &e->model.shape;
    if (!gain)
        return;
    uint32_t n_norms = s->norms_whole_qk ? n : n * n_heads;
    e->backend->ops->rms_norm(e->backend, x, gain, s->norm_eps, n_norms, n * n_heads / n_norms * s->key_dim, x);
}

/* Queries, keys and values of the layer into their buffers, rotated. */
static void project(roco_engine *e, uint32_t l, uint32_t n)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    const roco_layer *layer = &e->model.layers[l];
    roco_buffers *b = &e->buffers;
    const roco_weight *qkv[] = {layer->q, layer->k, layer->v};
    float *outs[] = {b->q, b->k, b->v};
    ops->matmul(e->backend, qkv, outs, 3, normed(e, layer->attention_norm, n), n, false);
    if (layer->q_bias) {
        ops->add_bias(e->backend, b->q, layer->q_bias, n, s->n_heads * s->key_dim);
        ops->add_bias(e->backend, b->k, layer->k_bias, n, s->n_kv_heads * s->key_dim);
        ops->add_bias(e->backend, b->v, layer->v_bias, n, s->n_kv_heads * s->value_dim);
    }
    norm_heads(e, b->q, layer->q_norm, n, s->n_heads);
    norm_heads(e, b->k, layer->k_norm, n, s->n_kv_heads);
    const size_t rope = roco_shape_window(s, l) ? roco_rope_offset(e, s->n_ropes - 1) : 0;
    ops->rope(e->backend, b->q, b->cosines + rope, b->sines + rope, n, s->n_heads, s->key_dim, s->rope_dim,
              s->rope_halves);
    ops->rope(e->backend, b->k, b->cosines + rope, b->sines + rope, n, s->n_kv_heads, s->key_dim, s->rope_dim,
              s->rope_halves);
}

/* x += attention of the layer over the batch. */
static void attention_block(roco_engine *e, uint32_t l, uint32_t n, uint32_t n_chunks)
{
    const roco_shape *s = &e->model.shape;
    const roco_layer *layer = &e->model.layers[l];
    roco_buffers *b = &e->buffers;
    project(e, l, n);
    roco_attention attention = {.layer = l,
                                .n_heads = s->n_heads,
                                .n_kv_heads = s->n_kv_heads,
                                .window = roco_shape_window(s, l),
                                .scale = s->attention_scale,
                                .softcap = s->attention_softcap,
                                .q = b->q,
                                .k = b->k,
                                .v = b->v,
                                .out = b->attended,
                                .chunks = e->chunks,
                                .n_chunks = n_chunks,
                                .rank_rope = roco_ranks_of_layer(e, l),
                                .layout = e->info.layout,
                                .pool = e->pool};
    e->backend->ops->attention(e->backend, &attention);
    if (e->observe)
        e->observe(e->observe_context, &attention);
    add_block(e, layer->output, b->attended, layer->attention_post_norm, n);
}

static void feed_forward_block(roco_engine *e, uint32_t l, uint32_t n)
{
    const roco_backend_ops *ops = e->backend->ops;
    const roco_shape *s = &e->model.shape;
    const roco_layer *layer = &e->model.layers[l];
    roco_buffers *b = &e->buffers;
    const roco_weight *gate_up[] = {layer->gate, layer->up};
    float *outs[] = {b->gate, b->up};
    ops->matmul(e->backend, gate_up, outs, 2, normed(e, layer->ffn_norm, n), n, false);
    (s->gelu ? ops->geglu : ops->swiglu)(e->backend, b->gate, b->up, n, s->ffn_width);
    add_block(e, layer->down, b->gate, layer->ffn_post_norm, n);
}

void roco_forward(roco_engine *e, uint32_t n, uint32_t n_chunks)
{
    const roco_shape *s = &e->model.shape;
    e->backend->ops->embed(e->backend, e->model.embedding, e->ids, n, e->buffers.x);
    if (s->embedding_scale != 1.0f)
        e->backend->ops->scale(e->backend, e->buffers.x, s->embedding_scale, n, s->width);
    for (uint32_t l = 0; l < s->n_layers; l++) {
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
    if (s->logit_scale != 1.0f)
        ops->scale(e->backend, b->logits, s->logit_scale, n, s->n_vocab);
    if (s->logit_softcap > 0)
        ops->softcap(e->backend, b->logits, s->logit_softcap, n, s->n_vocab);
}
