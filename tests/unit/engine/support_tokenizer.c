/* Reads tests/golden/tokenizer. One thread; no part of the product. */
#include "support_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

roco_text read_golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/tokenizer/%s", ROCO_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    ROCO_CHECK(file);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(size + 1);
    ROCO_CHECK(data && fread(data, 1, size, file) == size);
    data[size] = '\0';
    fclose(file);
    return (roco_text){data, size};
}

bool next_line(roco_text file, size_t *at, roco_text *line)
{
    if (*at >= file.size) {
        return false;
    }
    const char *start = file.data + *at;
    const char *end = memchr(start, '\n', file.size - *at);
    ROCO_CHECK(end);
    *line = (roco_text){start, (size_t)(end - start)};
    *at += line->size + 1;
    return true;
}

static char unescape_one(const char *escape, size_t *length)
{
    *length = 2;
    switch (escape[1]) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': *length = 4; return (char)strtoul((char[]){escape[2], escape[3], '\0'}, NULL, 16);
    default: return escape[1];
    }
}

roco_text unescape(roco_text line)
{
    char *out = (char *)(uintptr_t)line.data;
    size_t n = 0;
    for (size_t at = 0, length; at < line.size; at += length) {
        length = 1;
        out[n++] = line.data[at] == '\\' ? unescape_one(line.data + at, &length) : line.data[at];
    }
    return (roco_text){out, n};
}

void tiny_open(tiny_vocab *tiny)
{
    tiny->file = read_golden("tiny_vocab.txt");
    size_t n = 0;
    for (size_t i = 0; i < tiny->file.size; i++) {
        n += tiny->file.data[i] == '\n';
    }
    tiny->pieces = calloc(n, sizeof *tiny->pieces);
    tiny->merges = calloc(n, sizeof *tiny->merges);
    tiny->types = calloc(n, sizeof *tiny->types);
    ROCO_CHECK(tiny->pieces && tiny->merges && tiny->types);
    tiny->n_pieces = tiny->n_merges = 0;
    size_t at = 0;
    for (roco_text line; next_line(tiny->file, &at, &line);) {
        if (line.data[0] == 'T') { /* "T 1 piece" */
            tiny->types[tiny->n_pieces] = line.data[2] - '0';
            tiny->pieces[tiny->n_pieces++] = unescape((roco_text){line.data + 4, line.size - 4});
        } else { /* "M left right" */
            tiny->merges[tiny->n_merges++] = (roco_text){line.data + 2, line.size - 2};
        }
    }
}

void tiny_close(tiny_vocab *tiny)
{
    free((void *)(uintptr_t)tiny->file.data);
    free(tiny->pieces);
    free(tiny->merges);
    free(tiny->types);
}

roco_tokenizer_source tiny_source(const tiny_vocab *tiny, const char *pre)
{
    return (roco_tokenizer_source){
        .pieces = tiny->pieces,
        .types = tiny->types,
        .n_vocab = tiny->n_pieces,
        .merges = tiny->merges,
        .n_merges = tiny->n_merges,
        .pre = {pre, strlen(pre)},
        .bos = -1,
        .eos = -1,
        .eot = -1,
    };
}

int32_t tiny_find(const tiny_vocab *tiny, const char *piece)
{
    for (size_t i = 0; i < tiny->n_pieces; i++) {
        if (tiny->pieces[i].size == strlen(piece) && memcmp(tiny->pieces[i].data, piece, strlen(piece)) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}
