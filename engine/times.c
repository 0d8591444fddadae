/* Where a step's time goes: the backend's table replaced by one that times each operation. Engine thread.
 *
 * The backend stays the same object with another table of operations, a copy of its own in which the timed ones are
 * ours; so an engine that nobody times pays nothing. Products are told apart by the buffers they read and write.
 */
#include "config/clock.h"
#include "engine/state.h"

#include <stddef.h>
#include <stdlib.h>

typedef enum op {
    OP_EMBED,
    OP_NORM,
    OP_QKV,
    OP_ROPE,
    OP_ATTENTION,
    OP_OUTPUT,
    OP_GATE_UP,
    OP_ACTIVATION,
    OP_DOWN,
    OP_HEAD,
    OP_ELEMENTS,
    OP_COPY,
    N_OPS
} op;

static const char *const names[N_OPS] = {
    [OP_EMBED] = "embedding",
    [OP_NORM] = "norm",
    [OP_QKV] = "q, k, v",
    [OP_ROPE] = "rope",
    [OP_ATTENTION] = "attention",
    [OP_OUTPUT] = "attention output",
    [OP_GATE_UP] = "gate, up",
    [OP_ACTIVATION] = "activation",
    [OP_DOWN] = "down",
    [OP_HEAD] = "output head",
    [OP_ELEMENTS] = "bias, scale, add",
    [OP_COPY] = "copies",
};

_Static_assert((int)N_OPS <= (int)ROCO_OP_TIMES, "raise ROCO_OP_TIMES");

struct roco_times {
    roco_backend_ops table;          /* the backend's while timed */
    const roco_backend_ops *untimed; /* its own */
    const roco_engine *engine;
    uint64_t ns[N_OPS], n_calls[N_OPS];
};

static roco_times *times_of(const roco_backend *backend)
{
    return (roco_times *)((const char *)backend->ops - offsetof(roco_times, table));
}

/* A device runs behind its caller: an operation has ended when everything has. */
static void note(roco_times *t, roco_backend *backend, op which, uint64_t began)
{
    t->untimed->finish(backend, NULL);
    t->ns[which] += roco_now_ns() - began;
    t->n_calls[which]++;
}

#define TIMED(which, call)                                                                                             \
    do {                                                                                                               \
        roco_times *t = times_of(b);                                                                                   \
        const uint64_t began = roco_now_ns();                                                                          \
        t->untimed->call;                                                                                              \
        note(t, b, which, began);                                                                                      \
    } while (0)

static void timed_embed(roco_backend *b, const roco_weight *weight, const int32_t *ids, uint32_t n, float *out)
{
    TIMED(OP_EMBED, embed(b, weight, ids, n, out));
}

static void timed_rms_norm(roco_backend *b, const float *x, const float *gain, float eps, uint32_t n, uint32_t width,
                           float *out)
{
    TIMED(OP_NORM, rms_norm(b, x, gain, eps, n, width, out));
}

static op product_of(const roco_buffers *buffers, float *const *outs, const float *x)
{
    return outs[0] == buffers->q        ? OP_QKV
           : outs[0] == buffers->gate   ? OP_GATE_UP
           : outs[0] == buffers->logits ? OP_HEAD
           : x == buffers->gate         ? OP_DOWN
                                        : OP_OUTPUT;
}

static void timed_matmul(roco_backend *b, const roco_weight *const *weights, float *const *outs, uint32_t n_weights,
                         const float *x, uint32_t n, bool add)
{
    TIMED(product_of(&times_of(b)->engine->buffers, outs, x), matmul(b, weights, outs, n_weights, x, n, add));
}

static void timed_rope(roco_backend *b, float *x, const float *cosines, const float *sines, uint32_t n,
                       uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim, bool halves)
{
    TIMED(OP_ROPE, rope(b, x, cosines, sines, n, n_heads, head_dim, rope_dim, halves));
}

static void timed_swiglu(roco_backend *b, float *gate, const float *up, uint32_t n, uint32_t width)
{
    TIMED(OP_ACTIVATION, swiglu(b, gate, up, n, width));
}

static void timed_geglu(roco_backend *b, float *gate, const float *up, uint32_t n, uint32_t width)
{
    TIMED(OP_ACTIVATION, geglu(b, gate, up, n, width));
}

static void timed_add(roco_backend *b, float *x, const float *y, float factor, uint32_t n, uint32_t width)
{
    TIMED(OP_ELEMENTS, add(b, x, y, factor, n, width));
}

static void timed_add_bias(roco_backend *b, float *x, const float *bias, uint32_t n, uint32_t width)
{
    TIMED(OP_ELEMENTS, add_bias(b, x, bias, n, width));
}

static void timed_scale(roco_backend *b, float *x, float factor, uint32_t n, uint32_t width)
{
    TIMED(OP_ELEMENTS, scale(b, x, factor, n, width));
}

static void timed_softcap(roco_backend *b, float *x, float cap, uint32_t n, uint32_t width)
{
    TIMED(OP_ELEMENTS, softcap(b, x, cap, n, width));
}

static void timed_attention(roco_backend *b, const roco_attention *args)
{
    TIMED(OP_ATTENTION, attention(b, args));
}

static void timed_gather(roco_backend *b, const float *x, const uint32_t *rows, uint32_t n_out, uint32_t width,
                         float *out)
{
    TIMED(OP_COPY, gather(b, x, rows, n_out, width, out));
}

static void timed_upload(roco_backend *b, void *to, const void *from, size_t bytes)
{
    TIMED(OP_COPY, upload(b, to, from, bytes));
}

static void timed_download(roco_backend *b, void *to, const void *from, size_t bytes)
{
    TIMED(OP_COPY, download(b, to, from, bytes));
}

roco_status roco_engine_time(roco_engine *engine, roco_error *error)
{
    if (engine->times)
        return ROCO_OK;
    roco_times *t = calloc(1, sizeof *t);
    if (!t)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for timers");
    t->engine = engine;
    t->untimed = engine->backend->ops;
    t->table = *t->untimed;
    t->table.embed = timed_embed;
    t->table.rms_norm = timed_rms_norm;
    t->table.matmul = timed_matmul;
    t->table.rope = timed_rope;
    t->table.swiglu = timed_swiglu;
    t->table.geglu = timed_geglu;
    t->table.add = timed_add;
    t->table.add_bias = timed_add_bias;
    t->table.scale = timed_scale;
    t->table.softcap = timed_softcap;
    t->table.attention = timed_attention;
    t->table.gather = timed_gather;
    t->table.upload = timed_upload;
    t->table.download = timed_download;
    engine->backend->ops = &t->table;
    engine->times = t;
    return ROCO_OK;
}

uint32_t roco_engine_times(roco_engine *engine, roco_op_time *out)
{
    roco_times *t = engine->times;
    uint32_t n = 0;
    ROCO_CHECK(t != NULL);
    for (uint32_t i = 0; i < N_OPS; i++) {
        if (t->n_calls[i])
            out[n++] = (roco_op_time){names[i], t->ns[i], t->n_calls[i]};
        t->ns[i] = t->n_calls[i] = 0;
    }
    return n;
}

void roco_times_stop(roco_engine *engine)
{
    if (!engine->times)
        return;
    engine->backend->ops = engine->times->untimed;
    free(engine->times);
    engine->times = NULL;
}
