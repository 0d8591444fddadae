/* What the fuzzers of both formats do with a model that opens: its shape must hold together, it is loaded into an
 * engine, and a few tokens are run through it, whatever the weights are; its tokenizer encodes a text.
 */
#ifndef ROCO_TESTS_FUZZ_MODEL_H
#define ROCO_TESTS_FUZZ_MODEL_H

#include "engine/engine.h"
#include "engine/model.h"
#include "engine/policies.h"
#include "engine/tokenizer.h"

#include <stdlib.h>

static inline void fuzz_run(roco_engine *engine)
{
    static const int32_t tokens[3] = {0};
    static const roco_sampling greedy = {.top_p = 1};
    const roco_engine_info *info = roco_engine_describe(engine);
    const roco_cache_spec spec = {.policy = roco_policy_find("roco"), .budget = 2, .length = 4, .stride = 2};
    if (info->n_context < spec.length)
        return;
    const uint32_t n_pages = roco_cache_pages(engine, &spec);
    ROCO_CHECK(n_pages <= info->n_pages);
    uint32_t *pages = calloc(n_pages, sizeof *pages);
    ROCO_CHECK(pages);
    for (uint32_t i = 0; i < n_pages; i++)
        pages[i] = i;
    roco_cache *cache;
    ROCO_CHECK(roco_cache_open(engine, &spec, pages, &cache, NULL) == ROCO_OK);
    for (unsigned decode = 0; decode < 2; decode++) {
        roco_step_item item = {
            .cache = cache, .tokens = tokens, .n_tokens = decode ? 1 : 3, .decode = decode, .sampling = &greedy};
        ROCO_CHECK(roco_engine_step(engine, &item, 1, NULL) == ROCO_OK);
        ROCO_CHECK(item.status == ROCO_NUMERIC || (item.token >= 0 && (uint32_t)item.token < info->n_vocab));
        roco_cache_check(engine, cache);
    }
    roco_cache_close(engine, cache);
    free(pages);
}

static inline void fuzz_model(const roco_source *source)
{
    const roco_model_family *family;
    roco_shape shape;
    roco_error error;
    roco_engine *engine;
    if (roco_model_family_find(source, &family, &error) || family->read_shape(source, &shape, &error))
        return;
    ROCO_CHECK(shape.n_layers > 0 && shape.n_kv_heads > 0 && shape.key_dim > 0 && shape.value_dim > 0 &&
               shape.rope_dim <= shape.key_dim);
    const roco_engine_config config = {.source = source,
                                       .backend = "cpu",
                                       .precision = "auto",
                                       .threads = 1,
                                       .context = shape.n_context < 8 ? 0 : 8,
                                       .kv_type = ROCO_KV_F16,
                                       .kv_pool_tokens = 8,
                                       .stride = 2,
                                       .step_tokens = 4};
    if (roco_engine_open(&config, &engine, &error))
        return;
    fuzz_run(engine);
    roco_engine_close(engine);
}

/* Closes the tokenizer. */
static inline void fuzz_encode(roco_tokenizer *tokenizer)
{
    static const char text[] = "a  b1 \xC3\xA9\xE2\x96\x81<s>'s\n\n x\xFF\xE4\xB8\xAD";
    roco_error error;
    for (unsigned flags = 0; flags < 4; flags++) {
        roco_ids ids = {0};
        (void)roco_tokenizer_encode(tokenizer, text, sizeof text - 1, flags, 1000, &ids, &error);
        for (size_t i = 0; i < ids.size; i++) {
            ROCO_CHECK(ids.data[i] >= 0 && (uint32_t)ids.data[i] < roco_tokenizer_n_vocab(tokenizer));
            (void)roco_tokenizer_piece(tokenizer, ids.data[i], true);
        }
        roco_ids_free(&ids);
    }
    roco_tokenizer_close(tokenizer);
}

#endif
