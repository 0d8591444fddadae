/* Compiles constraints and plays them without a model, for tests/model/test_constraints.py: one JSON object a line in,
 * one out.
 *
 *   grammar VOCABULARY     a GGUF file, or "bytes"
 *   in:  {"kind": "schema" | "regex" | "gbnf" | "object", "source": ..., "samples": n, "seed": n, "most": tokens,
 *         "texts": [...]}
 *   out: {"error": "...", "status": -1} or {"samples": [text, or null when it did not end or holds NUL], "accepts":
 * [...], "compile_ms": ..., "masks": ..., "walks": ..., "mask_ns": ...}
 */
#include "config/clock.h"
#include "engine/tokenizer.h"
#include "grammar/constraint.h"
#include "server/schema_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct player {
    roco_token *tokens;
    uint32_t n_tokens;
    roco_vocabulary *vocabulary;
    roco_masks *masks;
    uint32_t *mask;
    uint64_t seed;
} player;

static uint32_t random_below(player *p, uint32_t bound)
{
    uint64_t x = p->seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) % bound);
}

/* --- vocabularies --- */

static void open_bytes(player *p)
{
    static char bytes[256];
    p->n_tokens = 257;
    p->tokens = calloc(p->n_tokens, sizeof *p->tokens);
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        p->tokens[i] = (roco_token){ROCO_TOKEN_TEXT, &bytes[i], 1};
    }
    p->tokens[256].kind = ROCO_TOKEN_END;
}

static void open_file(player *p, const char *path)
{
    roco_error error = {0};
    roco_source *source;
    roco_tokenizer *tokenizer;
    if (roco_source_open(path, &source, &error) || roco_tokenizer_open(source, &tokenizer, &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    p->n_tokens = roco_tokenizer_n_vocab(tokenizer);
    p->tokens = calloc(p->n_tokens, sizeof *p->tokens);
    for (uint32_t i = 0; i < p->n_tokens; i++) {
        const roco_text piece = roco_tokenizer_piece(tokenizer, (int32_t)i, false);
        p->tokens[i] = (roco_token){roco_tokenizer_is_end(tokenizer, (int32_t)i)       ? ROCO_TOKEN_END
                                    : roco_tokenizer_is_control(tokenizer, (int32_t)i) ? ROCO_TOKEN_CONTROL
                                                                                       : ROCO_TOKEN_TEXT,
                                    piece.data, piece.size};
    }
}

/* --- playing --- */

/* A random token of the mask, or of those that bring a text to its end; -1: the end. */
static int32_t choose(player *p)
{
    static const char closers[] = "\"}],";
    uint32_t n = 0, wanted;
    const bool close = random_below(p, 4) == 0;
    int32_t found = -2;
    for (uint32_t pass = 0; pass < 2 && found == -2; pass++) {
        n = 0;
        for (uint32_t i = 0; i < p->n_tokens; i++) {
            const roco_token *t = &p->tokens[i];
            const bool good = pass > 0 || !close || t->kind == ROCO_TOKEN_END ||
                              (t->size == 1 && strchr(closers, t->data[0]) && t->data[0]);
            if (!(p->mask[i / 32] >> i % 32 & 1) || !good)
                continue;
            wanted = random_below(p, ++n);
            if (wanted == 0)
                found = (int32_t)i;
        }
    }
    return p->tokens[found].kind == ROCO_TOKEN_END ? -1 : found;
}

static cJSON *sample(player *p, roco_constraint *constraint, int most)
{
    roco_matcher *m = roco_matcher_open(constraint, p->masks);
    roco_buffer text = {0};
    bool ended = false;
    roco_status status = ROCO_OK;
    roco_buffer_append(&text, "", 0);
    for (int i = 0; i < most && !ended && !status; i++) {
        status = roco_matcher_mask(m, p->mask);
        const int32_t token = status ? -1 : choose(p);
        ended = token < 0;
        if (!ended) {
            roco_buffer_append(&text, p->tokens[token].data, p->tokens[token].size);
            status = roco_matcher_advance(m, token);
        }
    }
    roco_matcher_close(m);
    ended = ended && strlen(text.data) == text.size; /* JSON here is written by cJSON, which ends at NUL */
    cJSON *out = status ? cJSON_CreateNumber(status) : ended ? cJSON_CreateString(text.data) : cJSON_CreateNull();
    roco_buffer_free(&text);
    return out;
}

static bool accepts(player *p, roco_constraint *constraint, const char *text)
{
    roco_matcher *m = roco_matcher_open(constraint, p->masks);
    const bool good = !roco_matcher_advance_bytes(m, text, strlen(text)) && roco_matcher_may_end(m);
    roco_matcher_close(m);
    return good;
}

static roco_status compile(player *p, const cJSON *in, roco_constraint **out, roco_error *error)
{
    const char *kind = cJSON_GetObjectItem(in, "kind")->valuestring;
    const cJSON *source = cJSON_GetObjectItem(in, "source");
    roco_grammar *g = roco_grammar_open(&ROCO_GRAMMAR_LIMITS);
    roco_expr root = 0;
    roco_status status = ROCO_OK;
    if (strcmp(kind, "schema") == 0) {
        const roco_json_value *value = roco_schema_value(source);
        status = roco_grammar_schema(g, "schema", value, &root, error);
        roco_schema_value_free(value);
    } else if (strcmp(kind, "object") == 0) {
        root = roco_grammar_json_object(g);
    } else {
        const char *text = source->valuestring;
        status = strcmp(kind, "regex") == 0 ? roco_grammar_regex(g, "regex", text, strlen(text), &root, error)
                                            : roco_grammar_gbnf(g, "grammar", text, strlen(text), &root, error);
    }
    if (!status)
        status = roco_constraint_compile(g, kind, root, p->vocabulary, out, error);
    roco_grammar_close(g);
    return status;
}

static int integer(const cJSON *in, const char *name, int otherwise)
{
    const cJSON *value = cJSON_GetObjectItem(in, name);
    return value ? value->valueint : otherwise;
}

static cJSON *play(player *p, const cJSON *in)
{
    cJSON *out = cJSON_CreateObject();
    roco_constraint *constraint = NULL;
    roco_error error = {0};
    const uint64_t begin_ns = roco_now_ns();
    const roco_status status = compile(p, in, &constraint, &error);
    cJSON_AddNumberToObject(out, "compile_ms", (double)(roco_now_ns() - begin_ns) / 1e6);
    if (status) {
        cJSON_AddStringToObject(out, "error", error.message);
        cJSON_AddNumberToObject(out, "status", status);
        return out;
    }
    const roco_mask_stats before = roco_masks_stats(p->masks);
    p->seed = (uint64_t)integer(in, "seed", 0);
    cJSON *samples = cJSON_AddArrayToObject(out, "samples"), *accepted = cJSON_AddArrayToObject(out, "accepts");
    for (int i = 0; i < integer(in, "samples", 0); i++)
        cJSON_AddItemToArray(samples, sample(p, constraint, integer(in, "most", 2000)));
    for (const cJSON *text = cJSON_GetObjectItem(in, "texts") ? cJSON_GetObjectItem(in, "texts")->child : NULL; text;
         text = text->next)
        cJSON_AddItemToArray(accepted, cJSON_CreateBool(accepts(p, constraint, text->valuestring)));
    const roco_mask_stats after = roco_masks_stats(p->masks);
    cJSON_AddNumberToObject(out, "masks", (double)(after.masks - before.masks));
    cJSON_AddNumberToObject(out, "walks", (double)(after.walks - before.walks));
    cJSON_AddNumberToObject(out, "mask_ns", (double)(after.ns - before.ns));
    roco_constraint_release(constraint);
    return out;
}

int main(int argc, char **argv)
{
    player p = {0};
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "bytes") == 0)
        open_bytes(&p);
    else
        open_file(&p, argv[1]);
    roco_error error = {0};
    if (roco_vocabulary_open(p.tokens, p.n_tokens, &p.vocabulary, &error) ||
        roco_masks_open(p.vocabulary, 64u << 20, &p.masks, &error))
        return 1;
    p.mask = calloc(roco_mask_words(p.vocabulary), sizeof *p.mask);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        cJSON *in = cJSON_Parse(line), *out = play(&p, in);
        char *text = cJSON_PrintUnformatted(out);
        puts(text);
        fflush(stdout);
        free(text);
        cJSON_Delete(out);
        cJSON_Delete(in);
    }
    free(line);
    free(p.mask);
    roco_masks_close(p.masks);
    roco_vocabulary_close(p.vocabulary);
    free(p.tokens);
    return 0;
}
