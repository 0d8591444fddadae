/* The small vocabulary and the texts of tests/golden/tokenizer, for tests. Failing to read them aborts. */
#ifndef ROCO_TESTS_SUPPORT_TOKENIZER_H
#define ROCO_TESTS_SUPPORT_TOKENIZER_H

#include "engine/tokenizer_parts.h"

typedef struct tiny_vocab {
    roco_text file; /* backs the texts below */
    roco_text *pieces, *merges;
    int32_t *types;
    size_t n_pieces, n_merges;
} tiny_vocab;

/* The whole file, NUL-terminated; free() its data. */
roco_text read_golden(const char *name);
/* The line at *at without its newline, *at moved behind it; false at the end. */
bool next_line(roco_text file, size_t *at, roco_text *line);
/* Takes the escapes of corpus.txt off, in place. */
roco_text unescape(roco_text line);

void tiny_open(tiny_vocab *tiny);
void tiny_close(tiny_vocab *tiny);
/* Everything but the pre-tokenizer filled in; ids and flags absent. Borrows from `tiny`. */
roco_tokenizer_source tiny_source(const tiny_vocab *tiny, const char *pre);
/* Id of a piece by its text; -1: none. */
int32_t tiny_find(const tiny_vocab *tiny, const char *piece);

#endif
