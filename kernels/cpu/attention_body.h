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

/* WIDTH elements from the index-th on, of an array of f16 or float. */
INLINE vec load_kv(bool half, const void *array, size_t index)
{
    return half ? load_f16((const uint16_t *)array + index) : load((const float *)array + index);
}

/* n rows by 2 vectors of a page's slots. */
INLINE void score_tile(bool half, uint32_t n, const float *q, uint32_t q_stride, uint32_t dim, const void *keys,
                       uint32_t slot, float *s, size_t s_stride)
{
    vec sum[SCORE_ROWS][2];
    UNROLL
    for (uint32_t r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = zero();
    for (uint32_t d = 0; d < dim; d++) {
        vec k0 = load_kv(half, keys, d * SLOTS + slot), k1 = load_kv(half, keys, d * SLOTS + slot + WIDTH);
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

INLINE void score_page(bool half, uint32_t n, const float *q, uint32_t q_stride, uint32_t dim, const void *keys,
                       float *s, size_t s_stride)
{
    for (uint32_t slot = 0; slot < SLOTS; slot += 2 * WIDTH)
        score_tile(half, n, q, q_stride, dim, keys, slot, s, s_stride);
}

INLINE void scores(bool half, const float *q, uint32_t n_rows, uint32_t dim, const void *keys, float *s,
                   size_t s_stride)
{
    for (uint32_t r = 0; r < n_rows; r += SCORE_ROWS) {
        uint32_t n = n_rows - r < SCORE_ROWS ? n_rows - r : SCORE_ROWS;
        float *row = s + r * s_stride;
#define CASE(count)                                                                                                    \
    case count: score_page(half, count, q + r, n_rows, dim, keys, row, s_stride); break;
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

static void scores_f16(const float *q, uint32_t n_rows, uint32_t dim, const void *keys, float *s, size_t s_stride)
{
    scores(true, q, n_rows, dim, keys, s, s_stride);
}

static void scores_f32(const float *q, uint32_t n_rows, uint32_t dim, const void *keys, float *s, size_t s_stride)
{
    scores(false, q, n_rows, dim, keys, s, s_stride);
}

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

/* n rows by n_vecs vectors of components. */
INLINE void weigh_tile(bool half, uint32_t n, uint32_t n_vecs, const float *p, size_t p_stride, uint32_t dim,
                       const void *values, uint32_t component, uint32_t n_slots, float *out, size_t out_stride)
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
            v[i] = load_kv(half, values, (size_t)j * dim + component + i * WIDTH);
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

INLINE void weigh_page(bool half, uint32_t n, const float *p, size_t p_stride, uint32_t dim, const void *values,
                       uint32_t n_slots, float *out, size_t out_stride)
{
    uint32_t c = 0;
    for (; c + WEIGH_VECS * WIDTH <= dim; c += WEIGH_VECS * WIDTH)
        weigh_tile(half, n, WEIGH_VECS, p, p_stride, dim, values, c, n_slots, out, out_stride);
    for (; c < dim; c += WIDTH)
        weigh_tile(half, n, 1, p, p_stride, dim, values, c, n_slots, out, out_stride);
}

INLINE void weigh(bool half, const float *p, size_t p_stride, uint32_t n_rows, uint32_t dim, const void *values,
                  uint32_t n_slots, float *out, size_t out_stride)
{
    for (uint32_t r = 0; r < n_rows; r += WEIGH_ROWS) {
        uint32_t n = n_rows - r < WEIGH_ROWS ? n_rows - r : WEIGH_ROWS;
        const float *row = p + r * p_stride;
        float *to = out + r * out_stride;
#define CASE(count)                                                                                                    \
    case count: weigh_page(half, count, row, p_stride, dim, values, n_slots, to, out_stride); break;
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

static void weigh_f16(const float *p, size_t p_stride, uint32_t n_rows, uint32_t dim, const void *values,
                      uint32_t n_slots, float *out, size_t out_stride)
{
    weigh(true, p, p_stride, n_rows, dim, values, n_slots, out, out_stride);
}

static void weigh_f32(const float *p, size_t p_stride, uint32_t n_rows, uint32_t dim, const void *values,
                      uint32_t n_slots, float *out, size_t out_stride)
{
    weigh(false, p, p_stride, n_rows, dim, values, n_slots, out, out_stride);
}

static void to_f16(const float *in, uint16_t *out, uint32_t n)
{
    float padded[WIDTH] = {0};
    uint16_t last[WIDTH];
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store_f16(out + i, lesser(broadcast(F16_GREATEST), greater(broadcast(-F16_GREATEST), load(in + i))));
    if (i == n)
        return;
    memcpy(padded, in + i, (n - i) * sizeof *in);
    store_f16(last, lesser(broadcast(F16_GREATEST), greater(broadcast(-F16_GREATEST), load(padded))));
    memcpy(out + i, last, (n - i) * sizeof *out);
}

#define ROCO_ATTENTION_KERNELS                                                                                         \
    {                                                                                                                  \
        .scores = {scores_f16, scores_f32}, .softmax = softmax, .statistics = statistics,                              \
        .weigh = {weigh_f16, weigh_f32}, .to_f16 = to_f16,                                                             \
    }

#endif
