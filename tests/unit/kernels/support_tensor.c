#include "support_tensor.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* PCG-XSH-RR (O'Neill 2014). */
uint32_t support_random_bits(support_random *random)
{
    uint64_t old = random->state;
    random->state = old * 6364136223846793005u + 1442695040888963407u;
    uint32_t shifted = (uint32_t)(((old >> 18u) ^ old) >> 27u), turn = (uint32_t)(old >> 59u);
    return shifted >> turn | shifted << (-turn & 31u);
}

float support_random_float(support_random *random)
{
    return (float)(support_random_bits(random) >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

void support_random_fill(support_random *random, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = support_random_float(random);
}

const roco_tensor_type support_types[] = {
    ROCO_TYPE_F32,  ROCO_TYPE_F16,  ROCO_TYPE_BF16, ROCO_TYPE_Q4_0, ROCO_TYPE_Q4_1, ROCO_TYPE_Q5_0,   ROCO_TYPE_Q5_1,
    ROCO_TYPE_Q8_0, ROCO_TYPE_Q4_K, ROCO_TYPE_Q5_K, ROCO_TYPE_Q6_K, ROCO_TYPE_Q3_K, ROCO_TYPE_IQ4_NL, ROCO_TYPE_IQ4_XS};
const uint32_t support_n_types = sizeof(support_types) / sizeof(support_types[0]);

static void put_f16(support_random *random, uint8_t *to)
{
    uint16_t bits = roco_f16_from_f32(support_random_float(random) * 0.02f);
    memcpy(to, &bits, 2);
}

/* Random bits are a valid block but for the half floats in it, which must be finite. */
static void fill_block(support_random *random, roco_tensor_type type, uint8_t *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        block[i] = (uint8_t)support_random_bits(random);
    float value = support_random_float(random);
    uint32_t word;
    memcpy(&word, &value, 4);
    switch (type) {
    case ROCO_TYPE_F32: memcpy(block, &value, 4); break;
    case ROCO_TYPE_BF16: block[0] = (uint8_t)(word >> 16), block[1] = (uint8_t)(word >> 24); break;
    case ROCO_TYPE_F16:
    case ROCO_TYPE_Q4_0:
    case ROCO_TYPE_Q5_0:
    case ROCO_TYPE_IQ4_NL:
    case ROCO_TYPE_IQ4_XS:
    case ROCO_TYPE_Q8_0: put_f16(random, block); break;
    case ROCO_TYPE_Q2_K:
        put_f16(random, block + 80);
        put_f16(random, block + 82);
        break;
    case ROCO_TYPE_Q3_K: put_f16(random, block + 108); break;
    case ROCO_TYPE_Q6_K: put_f16(random, block + 208); break;
    default: put_f16(random, block); put_f16(random, block + 2);
    }
}

roco_tensor_view support_tensor_open(support_random *random, roco_tensor_type type, uint32_t n_rows, uint32_t n_cols)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)type);
    assert_non_null(traits);
    assert_int_equal(n_cols % traits->block_values, 0);
    size_t n_blocks = (size_t)n_rows * n_cols / traits->block_values;
    uint8_t *data = malloc(n_blocks * traits->block_bytes);
    assert_non_null(data);
    for (size_t i = 0; i < n_blocks; i++)
        fill_block(random, type, data + i * traits->block_bytes, traits->block_bytes);
    return (roco_tensor_view){.name = traits->name, .type = type, .n_rows = n_rows, .n_cols = n_cols, .data = data};
}

float *support_tensor_floats(const roco_tensor_view *view)
{
    size_t n = (size_t)view->n_rows * view->n_cols;
    float *out = malloc(n * sizeof(*out));
    assert_non_null(out);
    roco_type_find((uint32_t)view->type)->dequantize(view->data, out, n);
    return out;
}

bool support_has_isa(const char *isa)
{
    roco_isa found;
    return roco_isa_choose(isa, &found, NULL) == ROCO_OK;
}

roco_backend *support_backend_open(const char *isa, uint32_t threads, uint32_t max_rows, roco_precision precision)
{
    roco_backend_config config = {.threads = threads,
                                  .max_rows = max_rows,
                                  .max_width = 1536,
                                  .max_slots = 64,
                                  .stride = 32,
                                  .max_group = 2,
                                  .layout = roco_kv_layout_make(ROCO_KV_F32, 32, 32),
                                  .precision = precision,
                                  .isa = isa};
    roco_backend *backend = NULL;
    roco_error error = {.status = ROCO_OK};
    if (roco_backend_open("cpu", &config, &backend, &error) != ROCO_OK)
        fail_msg("%s", error.message);
    return backend;
}

float support_distance(const float *a, const float *b, size_t n)
{
    float distance = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i]))
            return INFINITY;
        distance = fmaxf(distance, fabsf(a[i] - b[i]));
        largest = fmaxf(largest, fabsf(b[i]));
    }
    return largest > 0 ? distance / largest : distance;
}
