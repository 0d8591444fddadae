/* What the grammar tests share: a small vocabulary, and constraints made in one call. */
#ifndef TESTS_SUPPORT_GRAMMAR_H
#define TESTS_SUPPORT_GRAMMAR_H

#include "grammar/constraint.h"

typedef struct fixture {
    roco_token *tokens;
    uint32_t n_tokens;
    roco_vocabulary *vocabulary;
    roco_masks *masks;
} fixture;

/* Tokens: all 256 bytes, then texts[n], then one control token and two ends. */
fixture fixture_open(const char *const *texts, uint32_t n, size_t mask_bytes);
void fixture_close(fixture *fixture);

typedef enum source_kind { REGEX, GBNF } source_kind;
/* The status of compiling `source`; the constraint when it is ROCO_OK. */
roco_status compile(const fixture *fixture, source_kind kind, const char *source, roco_constraint **out,
                    roco_error *error);
/* Whether the whole text satisfies the constraint. */
bool matches(const fixture *fixture, roco_constraint *constraint, const char *text);

/* Numbers from a seed, the same everywhere. */
uint32_t random_below(uint64_t *seed, uint32_t bound);

#endif
