/* Attention's inner loops on vectors of WIDTH floats.
 *
 * Included once by each attention_<isa>.c, which defines `vec`, WIDTH, SCORE_ROWS (rows of a register tile), WEIGH_VECS
 * (vectors of one) and the few operations below that have no common spelling. Products are fused into sums, in the same
 * order whatever the tile: over components for a score, over slots for an output. Every loop over a tile has constant
 * bounds, so tiles stay in registers.
 */
#ifndef ROCO_KERNELS_CPU_ATTENTION_BODY_H
#define ROCO_KERNELS_CPU_ATTENTION_BODY_H

#define SLOTS        ROCO_PAGE_SLOTS
#define F16_GREATEST 65504.0f
#define WEIGH_ROWS   6u
#define UNROLL       _Pragma("GCC unroll 16")

INLINE uint32_t slots_of(roco_kv_type type, const roco_kv_layout *l)
{
    return roco_kv_type_is_quantized(type) ? l->slots : SLOTS;
}

/* What the codes of component d of 2 vectors of slots mean. */
typedef struct key_scale {
    vec scale[2], least[2];
} key_scale;

INLINE key_scale load_key_scale(roco_kv_type type, const roco_kv_layout *l, const unsigned char *page, uint32_t d,
                                uint32_t slot)
{
    const uint16_t *scales = (const uint16_t *)(const void *)(page + l->key_scale_offset);
    const size_t at = (size_t)(d / ROCO_KV_BLOCK) * l->slots + slot;
    const size_t leasts = at + (size_t)roco_kv_blocks(l->key_dim) * l->slots;
    key_scale k = {{load_f16(scales + at), load_f16(scales + at + WIDTH)}, {zero(), zero()}};
    if (type == ROCO_KV_Q4) {
        k.least[0] = load_f16(scales + leasts);
        k.least[1] = load_f16(scales + leasts + WIDTH);
    }
    return k;
}

/* Component d of the i-th of 2 vectors of slots from `slot` on. */
INLINE vec load_key(roco_kv_type type, const roco_kv_layout *l, const unsigned char *page, uint32_t d, uint32_t slot,
                    uint32_t i, const key_scale *k)
{
    const size_t at = (size_t)d * slots_of(type, l) + slot + i * WIDTH;
    if (type == ROCO_KV_F16)
        return load_f16((const uint16_t *)(const void *)page + at);
    if (type == ROCO_KV_F32)
        return load((const float *)(const void *)page + at);
    if (type == ROCO_KV_Q8)
        return multiply(load_codes(page + at), k->scale[i]);
    return fused(load_nibbles(page + (size_t)(d / 2) * l->slots + slot + i * WIDTH, d % 2 * 4), k->scale[i],
                 k->least[i]);
}

/* n rows by 2 vectors of a page's slots. */
INLINE void score_tile(roco_kv_type type, uint32_t n, const float *q, uint32_t q_stride, const roco_kv_layout *l,
                       const unsigned char *page, uint32_t slot, float *s, size_t s_stride)
{
    vec sum[SCORE_ROWS][2];
    key_scale k = {{zero(), zero()}, {zero(), zero()}};
    UNROLL
    for (uint32_t r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = zero();
    for (uint32_t d = 0; d < l->key_dim; d++) {
        if (roco_kv_type_is_quantized(type) && d % ROCO_KV_BLOCK == 0)
            k = load_key_scale(type, l, page, d, slot);
        vec k0 = load_key(type, l, page, d, slot, 0, &k), k1 = load_key(type, l, page, d, slot, 1, &k);
        const float *column = q + (size_t)d * q_stride;
        UNROLL
        for (uint32_t r = 0; r < n; r++) {
            vec x = broadcast(column[r]);
            sum[r][0] = fused(x, k0, sum[r][0]);
            sum[r][1] = fused(x, k1, sum[r][1]);
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n; r++) {
        store(s + r * s_stride + slot, sum[r][0]);
        store(s + r * s_stride + slot + WIDTH, sum[r][1]);
    }
}

INLINE void score_page(roco_kv_type type, uint32_t n, const float *q, uint32_t q_stride, const roco_kv_layout *l,
                       const unsigned char *page, float *s, size_t s_stride)
{
    for (uint32_t slot = 0; slot < slots_of(type, l); slot += 2 * WIDTH)
        score_tile(type, n, q, q_stride, l, page, slot, s, s_stride);
}

INLINE void scores(roco_kv_type type, const float *q, uint32_t n_rows, const roco_kv_layout *l,
                   const unsigned char *page, float *s, size_t s_stride)
{
    for (uint32_t r = 0; r < n_rows; r += SCORE_ROWS) {
        uint32_t n = n_rows - r < SCORE_ROWS ? n_rows - r : SCORE_ROWS;
        float *row = s + r * s_stride;
#define CASE(count)                                                                                                    \
    case count: score_page(type, count, q + r, n_rows, l, page, row, s_stride); break;
        switch (n) {
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
#if SCORE_ROWS > 6
            CASE(7)
            CASE(8)
            CASE(9)
            CASE(10)
            CASE(11)
            CASE(12)
#endif
        }
#undef CASE
    }
}

#define SCORES(name, type)                                                                                             \
    static void name(const float *q, uint32_t n_rows, const roco_kv_layout *l, const unsigned char *page, float *s,    \
                     size_t s_stride)                                                                                  \
    {                                                                                                                  \
        scores(type, q, n_rows, l, page, s, s_stride);                                                                 \
    }
SCORES(scores_f16, ROCO_KV_F16)
SCORES(scores_f32, ROCO_KV_F32)
SCORES(scores_q8, ROCO_KV_Q8)
SCORES(scores_q4, ROCO_KV_Q4)
#undef SCORES

/* e^x for x <= 0 to 2 units in the last place, 0 below -87 (the last normal results), NaN for NaN. x = n ln 2 + r with
 * |r| <= ln 2 / 2; e^r by its Taylor series to r^7. ln 2 is in two parts, the first with so few bits that n times it is
 * exact. */
INLINE vec exponential(vec x)
{
    vec z = greater(broadcast(-87.0f), x); /* in this order, NaN passes */
    vec n = nearest(multiply(z, broadcast(1.44269504f)));
    vec r = fused(n, broadcast(-0.693359375f), z);
    r = fused(n, broadcast(2.12194440e-4f), r);
    vec e = fused(r, broadcast(1.0f / 5040.0f), broadcast(1.0f / 720.0f));
    e = fused(e, r, broadcast(1.0f / 120.0f));
    e = fused(e, r, broadcast(1.0f / 24.0f));
    e = fused(e, r, broadcast(1.0f / 6.0f));
    e = fused(e, r, broadcast(0.5f));
    e = fused(e, r, broadcast(1.0f));
    e = fused(e, r, broadcast(1.0f));
    return zero_below(x, -87.0f, times_power_of_two(e, n));
}

/* In halves, the same way for every caller. */
INLINE float sum_of_lanes(vec v)
{
    float lanes[WIDTH];
    store(lanes, v);
    for (uint32_t half = WIDTH / 2; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

INLINE float greatest_of_lanes(vec v)
{
    float lanes[WIDTH];
    store(lanes, v);
    float greatest = lanes[0];
    for (uint32_t i = 1; i < WIDTH; i++)
        greatest = lanes[i] > greatest ? lanes[i] : greatest;
    return greatest;
}

/* n_columns is whole pages: an even number of vectors. Masked columns add 0 to a lane's sum, which changes nothing. */
static void softmax(float *s, uint32_t n_columns)
{
    vec greatest0 = load(s), greatest1 = load(s + WIDTH), sum = zero();
    for (uint32_t j = 2 * WIDTH; j < n_columns; j += 2 * WIDTH) {
        greatest0 = greater(greatest0, load(s + j));
        greatest1 = greater(greatest1, load(s + j + WIDTH));
    }
    vec top = broadcast(greatest_of_lanes(greater(greatest0, greatest1)));
    for (uint32_t j = 0; j < n_columns; j += WIDTH) {
        vec e = exponential(subtract(load(s + j), top));
        store(s + j, e);
        sum = add(sum, e);
    }
    vec scale = broadcast(1.0f / sum_of_lanes(sum));
    for (uint32_t j = 0; j < n_columns; j += WIDTH)
        store(s + j, multiply(load(s + j), scale));
}

static void statistics(const float *p, size_t p_stride, uint32_t n_positions, uint32_t n_group, uint32_t n_columns,
                       float *sum, float *sum_sq)
{
    vec scale = broadcast(1.0f / (float)n_group);
    for (uint32_t j = 0; j < n_columns; j += WIDTH) {
        vec s = load(sum + j), s2 = load(sum_sq + j);
        const float *row = p + j;
        for (uint32_t i = 0; i < n_positions; i++) {
            vec m = load(row);
            row += p_stride;
            for (uint32_t g = 1; g < n_group; g++, row += p_stride)
                m = add(m, load(row));
            m = multiply(m, scale);
            s = add(s, m);
            s2 = fused(m, m, s2);
        }
        store(sum + j, s);
        store(sum_sq + j, s2);
    }
}

/* The i-th vector of components from `component` on, which starts a tile: a tile's vectors never straddle blocks. */
INLINE vec load_value(roco_kv_type type, const roco_kv_layout *l, const unsigned char *page, uint32_t slot,
                      uint32_t component, uint32_t i)
{
    const unsigned char *values = page + l->value_offset;
    const uint32_t at = component + i * WIDTH;
    if (type == ROCO_KV_F16)
        return load_f16((const uint16_t *)(const void *)values + (size_t)slot * l->value_dim + at);
    if (type == ROCO_KV_F32)
        return load((const float *)(const void *)values + (size_t)slot * l->value_dim + at);
    const uint16_t *scales = (const uint16_t *)(const void *)(page + l->value_scale_offset);
    const uint32_t n_blocks = roco_kv_blocks(l->value_dim);
    const uint32_t block = component / ROCO_KV_BLOCK + i * WIDTH / ROCO_KV_BLOCK;
    const vec scale = broadcast_f16(scales[slot * n_blocks + block]);
    if (type == ROCO_KV_Q8)
        return multiply(load_codes(values + (size_t)slot * l->value_dim + at), scale);
    const uint32_t half = ROCO_KV_BLOCK / 2;
    const unsigned char *bytes = values + ((size_t)slot * n_blocks + block) * half + at % half;
    return fused(load_nibbles(bytes, at % ROCO_KV_BLOCK / half * 4), scale,
                 broadcast_f16(scales[(l->slots + slot) * n_blocks + block]));
}

/* n rows by n_vecs vectors of components. */
INLINE void weigh_tile(roco_kv_type type, uint32_t n, uint32_t n_vecs, const float *p, size_t p_stride,
                       const roco_kv_layout *l, const unsigned char *page, uint32_t component, uint32_t n_slots,
                       float *out, size_t out_stride)
{
    vec sum[WEIGH_ROWS][WEIGH_VECS];
    UNROLL
    for (uint32_t r = 0; r < n; r++)
        UNROLL
    for (uint32_t i = 0; i < n_vecs; i++)
        sum[r][i] = load(out + r * out_stride + component + i * WIDTH);
    for (uint32_t j = 0; j < n_slots; j++) {
        vec v[WEIGH_VECS];
        UNROLL
        for (uint32_t i = 0; i < n_vecs; i++)
            v[i] = load_value(type, l, page, j, component, i);
        UNROLL
        for (uint32_t r = 0; r < n; r++) {
            vec x = broadcast(p[r * p_stride + j]);
            UNROLL
            for (uint32_t i = 0; i < n_vecs; i++)
                sum[r][i] = fused(x, v[i], sum[r][i]);
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n; r++)
        UNROLL
    for (uint32_t i = 0; i < n_vecs; i++)
        store(out + r * out_stride + component + i * WIDTH, sum[r][i]);
}

INLINE void weigh_page(roco_kv_type type, uint32_t n, const float *p, size_t p_stride, const roco_kv_layout *l,
                       const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride)
{
    uint32_t c = 0;
    for (; c + WEIGH_VECS * WIDTH <= l->value_dim; c += WEIGH_VECS * WIDTH)
        weigh_tile(type, n, WEIGH_VECS, p, p_stride, l, page, c, n_slots, out, out_stride);
    for (; c < l->value_dim; c += WIDTH)
        weigh_tile(type, n, 1, p, p_stride, l, page, c, n_slots, out, out_stride);
}

INLINE void weigh(roco_kv_type type, const float *p, size_t p_stride, uint32_t n_rows, const roco_kv_layout *l,
                  const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride)
{
    for (uint32_t r = 0; r < n_rows; r += WEIGH_ROWS) {
        uint32_t n = n_rows - r < WEIGH_ROWS ? n_rows - r : WEIGH_ROWS;
        const float *row = p + r * p_stride;
        float *to = out + r * out_stride;
#define CASE(count)                                                                                                    \
    case count: weigh_page(type, count, row, p_stride, l, page, n_slots, to, out_stride); break;
        switch (n) {
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
        }
#undef CASE
    }
}

#define WEIGH(name, type)                                                                                              \
    static void name(const float *p, size_t p_stride, uint32_t n_rows, const roco_kv_layout *l,                        \
                     const unsigned char *page, uint32_t n_slots, float *out, size_t out_stride)                       \
    {                                                                                                                  \
        weigh(type, p, p_stride, n_rows, l, page, n_slots, out, out_stride);                                           \
    }
WEIGH(weigh_f16, ROCO_KV_F16)
WEIGH(weigh_f32, ROCO_KV_F32)
WEIGH(weigh_q8, ROCO_KV_Q8)
WEIGH(weigh_q4, ROCO_KV_Q4)
#undef WEIGH

/* In this order, NaN passes. */
INLINE vec in_f16_range(vec x)
{
    return lesser(broadcast(F16_GREATEST), greater(broadcast(-F16_GREATEST), x));
}

static void to_f16(const float *in, uint16_t *out, uint32_t n)
{
    float padded[WIDTH] = {0};
    uint16_t last[WIDTH];
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store_f16(out + i, in_f16_range(load(in + i)));
    if (i == n)
        return;
    memcpy(padded, in + i, (n - i) * sizeof *in);
    store_f16(last, in_f16_range(load(padded)));
    memcpy(out + i, last, (n - i) * sizeof *out);
}

/* A whole block, as kv_code.c's encode_block: the greatest of a set and single operations depend on no order. */
INLINE void encode_block(roco_kv_type type, const float *in, uint8_t *codes, uint16_t *scale, uint16_t *least)
{
    vec x[ROCO_KV_BLOCK / WIDTH], high = broadcast(-F16_GREATEST), low = high, nan = zero();
    UNROLL
    for (uint32_t i = 0; i < ROCO_KV_BLOCK / WIDTH; i++) {
        x[i] = in_f16_range(load(in + i * WIDTH));
        nan = fused(x[i], zero(), nan);
        high = greater(high, x[i]);
        low = greater(low, subtract(zero(), x[i])); /* minus the least */
    }
    const float top = greatest_of_lanes(high), bottom = greatest_of_lanes(low);
    const float most = type == ROCO_KV_Q8 ? 127 : 15, fewest = type == ROCO_KV_Q8 ? -127 : 0;
    const float reach = type == ROCO_KV_Q8 ? (top > bottom ? top : bottom) : top + bottom;
    *scale = roco_f16_from_f32(reach / most + sum_of_lanes(nan));
    const float rounded = roco_f16_to_f32(*scale);
    vec base = zero(), inverse = broadcast(rounded > 0 ? 1.0f / rounded : 0);
    if (type == ROCO_KV_Q4) {
        *least = roco_f16_from_f32(-bottom);
        base = broadcast(roco_f16_to_f32(*least));
    }
    UNROLL
    for (uint32_t i = 0; i < ROCO_KV_BLOCK / WIDTH; i++) {
        vec y = multiply(subtract(x[i], base), inverse);
        store_codes(codes + i * WIDTH, lesser(broadcast(most), greater(broadcast(fewest), y)));
    }
}

static void encode(roco_kv_type type, const float *in, uint32_t n, uint8_t *codes, uint16_t *scales, uint16_t *leasts)
{
    const uint32_t n_whole = n / ROCO_KV_BLOCK;
    for (uint32_t b = 0; b < n_whole; b++)
        if (type == ROCO_KV_Q8)
            encode_block(ROCO_KV_Q8, in + b * ROCO_KV_BLOCK, codes + b * ROCO_KV_BLOCK, scales + b, NULL);
        else
            encode_block(ROCO_KV_Q4, in + b * ROCO_KV_BLOCK, codes + b * ROCO_KV_BLOCK, scales + b, leasts + b);
    const uint32_t done = n_whole * ROCO_KV_BLOCK;
    roco_kv_encode(type, in + done, n - done, codes + done, scales + n_whole,
                   type == ROCO_KV_Q4 ? leasts + n_whole : NULL);
}

#define ROCO_ATTENTION_KERNELS                                                                                         \
    {                                                                                                                  \
        .scores = {scores_f16, scores_f32, scores_q8, scores_q4}, .softmax = softmax, .statistics = statistics,        \
        .weigh = {weigh_f16, weigh_f32, weigh_q8, weigh_q4}, .to_f16 = to_f16, .encode = encode,                       \
    }

#endif
