#include "support_grammar.h"

#include <stdlib.h>
#include <string.h>

static char bytes[256][1];

fixture fixture_open(const char *const *texts, uint32_t n, size_t mask_bytes)
{
    fixture f = {.n_tokens = 256 + n + 3};
    f.tokens = calloc(f.n_tokens, sizeof *f.tokens);
    ROCO_CHECK(f.tokens);
    for (unsigned i = 0; i < 256; i++) {
        bytes[i][0] = (char)i;
        f.tokens[i] = (roco_token){ROCO_TOKEN_TEXT, bytes[i], 1};
    }
    for (uint32_t i = 0; i < n; i++)
        f.tokens[256 + i] = (roco_token){ROCO_TOKEN_TEXT, texts[i], strlen(texts[i])};
    f.tokens[256 + n].kind = ROCO_TOKEN_CONTROL;
    f.tokens[256 + n + 1].kind = f.tokens[256 + n + 2].kind = ROCO_TOKEN_END;
    ROCO_CHECK(roco_vocabulary_open(f.tokens, f.n_tokens, &f.vocabulary, NULL) == ROCO_OK);
    ROCO_CHECK(roco_masks_open(f.vocabulary, mask_bytes, &f.masks, NULL) == ROCO_OK);
    return f;
}

void fixture_close(fixture *f)
{
    roco_masks_close(f->masks);
    roco_vocabulary_close(f->vocabulary);
    free(f->tokens);
}

roco_status compile(const fixture *f, source_kind kind, const char *source, roco_constraint **out, roco_error *error)
{
    roco_grammar *g = roco_grammar_open(&ROCO_GRAMMAR_LIMITS);
    ROCO_CHECK(g);
    roco_expr root;
    roco_status status = kind == REGEX ? roco_grammar_regex(g, "regex", source, strlen(source), &root, error)
                                       : roco_grammar_gbnf(g, "grammar", source, strlen(source), &root, error);
    if (!status)
        status = roco_constraint_compile(g, "field", root, f->vocabulary, out, error);
    roco_grammar_close(g);
    return status;
}

bool matches(const fixture *f, roco_constraint *constraint, const char *text)
{
    roco_matcher *m = roco_matcher_open(constraint, f->masks);
    ROCO_CHECK(m);
    const bool good = roco_matcher_advance_bytes(m, text, strlen(text)) == ROCO_OK && roco_matcher_may_end(m);
    roco_matcher_close(m);
    return good;
}

/* SplitMix64. */
uint32_t random_below(uint64_t *seed, uint32_t bound)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) % bound);
}
