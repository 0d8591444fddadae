/* Any bytes as a regular expression, a GBNF text or a JSON Schema (the first byte chooses): each is refused with words
 * or compiled, and then a matcher goes through it within its bounds, by tokens that its own masks allow.
 */
#include "grammar/constraint.h"
#include "server/schema_value.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_TOKENS = 256 + 4, STEPS = 60 };

static roco_vocabulary *vocabulary;
static roco_masks *masks;

static void open_vocabulary(void)
{
    static char bytes[256];
    static const char *const more[] = {"aaaa", "\"}", "],[", "\xc3\xa9\"x"};
    roco_token tokens[N_TOKENS + 1] = {0};
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (roco_token){ROCO_TOKEN_TEXT, &bytes[i], 1};
    }
    for (unsigned i = 256; i < N_TOKENS; i++)
        tokens[i] = (roco_token){ROCO_TOKEN_TEXT, more[i - 256], strlen(more[i - 256])};
    tokens[N_TOKENS].kind = ROCO_TOKEN_END;
    ROCO_CHECK(!roco_vocabulary_open(tokens, N_TOKENS + 1, &vocabulary, NULL) &&
               !roco_masks_open(vocabulary, 1 << 20, &masks, NULL));
}

static roco_status build(roco_grammar *g, uint8_t kind, const char *text, size_t size, roco_expr *root,
                         roco_error *error)
{
    if (kind % 3 == 0)
        return roco_grammar_regex(g, "regex", text, size, root, error);
    if (kind % 3 == 1)
        return roco_grammar_gbnf(g, "grammar", text, size, root, error);
    cJSON *json = NULL;
    roco_status status = roco_json_parse(text, size, &json, error);
    const roco_json_value *value = status ? NULL : roco_schema_value(json);
    if (value)
        status = roco_grammar_schema(g, "schema", value, root, error);
    roco_schema_value_free(value);
    cJSON_Delete(json);
    return status;
}

/* What a mask allows can be taken, and never leads to where nothing can follow. */
static void play(roco_constraint *constraint, uint64_t seed)
{
    uint32_t mask[(N_TOKENS + 32) / 32];
    roco_matcher *m = roco_matcher_open(constraint, masks);
    for (unsigned step = 0; m && step < STEPS; step++) {
        const roco_status status = roco_matcher_mask(m, mask);
        ROCO_CHECK(status == ROCO_OK || status == ROCO_TOO_LARGE);
        ROCO_CHECK(status || (mask[N_TOKENS / 32] >> N_TOKENS % 32 & 1) == roco_matcher_may_end(m));
        int32_t token = -1;
        for (unsigned i = 0, n = 0; !status && i < N_TOKENS; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if ((mask[i / 32] >> i % 32 & 1) && (seed >> 33) % ++n == 0)
                token = (int32_t)i;
        }
        if (token < 0)
            break;
        const roco_status next = roco_matcher_advance(m, token);
        ROCO_CHECK(next == ROCO_OK || next == ROCO_TOO_LARGE);
        if (next)
            break;
    }
    roco_matcher_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!vocabulary)
        open_vocabulary();
    if (size == 0)
        return 0;
    const roco_grammar_limits limits = {
        .source_bytes = 1 << 14, .expressions = 20000, .nodes = 20000, .depth = 60, .time_ns = 500000000};
    roco_grammar *g = roco_grammar_open(&limits);
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    roco_expr root = 0;
    roco_error error = {0};
    roco_constraint *constraint = NULL;
    roco_status status = build(g, data[0], text, size - 1, &root, &error);
    if (!status)
        status = roco_constraint_compile(g, "field", root, vocabulary, &constraint, &error);
    roco_grammar_close(g);
    if (status)
        ROCO_CHECK(error.message[0]);
    else
        play(constraint, size);
    roco_constraint_release(constraint);
    free(text);
    return 0;
}
