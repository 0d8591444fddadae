/* See constraints.h. The known constraints are few, so they are looked through one by one, under a lock that is never
 * held while one is compiled. */
#include "server/constraints.h"

#include "server/schema_value.h"
#include "server/tool_grammar.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KNOWN = 32, MAX_KEY_BYTES = 256 * 1024 };

typedef struct known {
    char *key; /* owned; NULL: free */
    roco_constraint *constraint;
    uint64_t used;
} known;

struct roco_constraints {
    roco_vocabulary *vocabulary;
    const roco_tokenizer *tokenizer; /* borrowed */
    pthread_mutex_t mutex;
    known known[MAX_KNOWN];
    uint64_t clock;
};

static roco_token_kind kind_of(const roco_tokenizer *tokenizer, int32_t id)
{
    if (roco_tokenizer_is_end(tokenizer, id))
        return ROCO_TOKEN_END;
    return roco_tokenizer_is_control(tokenizer, id) ? ROCO_TOKEN_CONTROL : ROCO_TOKEN_TEXT;
}

roco_status roco_constraints_open(const roco_tokenizer *tokenizer, uint32_t n_vocab, roco_constraints **out,
                                  roco_error *error)
{
    roco_constraints *c = calloc(1, sizeof *c);
    roco_token *tokens = calloc(n_vocab, sizeof *tokens);
    roco_status status = c && tokens ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    for (uint32_t id = 0; !status && id < n_vocab; id++) {
        const roco_text piece = roco_tokenizer_piece(tokenizer, (int32_t)id, false);
        tokens[id] = (roco_token){kind_of(tokenizer, (int32_t)id), piece.data, piece.size};
    }
    if (!status)
        status = roco_vocabulary_open(tokens, n_vocab, &c->vocabulary, error);
    free(tokens);
    if (status) {
        free(c);
        return status;
    }
    c->tokenizer = tokenizer;
    ROCO_CHECK(pthread_mutex_init(&c->mutex, NULL) == 0);
    *out = c;
    return ROCO_OK;
}

void roco_constraints_close(roco_constraints *c)
{
    if (!c)
        return;
    for (unsigned i = 0; i < MAX_KNOWN; i++) {
        free(c->known[i].key);
        roco_constraint_release(c->known[i].constraint);
    }
    pthread_mutex_destroy(&c->mutex);
    roco_vocabulary_close(c->vocabulary);
    free(c);
}

const roco_vocabulary *roco_constraints_vocabulary(const roco_constraints *c)
{
    return c->vocabulary;
}

/* --- compiling --- */

roco_status roco_schema_expr(roco_grammar *grammar, const char *field, const cJSON *schema, roco_expr *out,
                             roco_error *error)
{
    const roco_json_value *value = roco_schema_value(schema);
    if (!value)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_status status = roco_grammar_schema(grammar, field, value, out, error);
    roco_schema_value_free(value);
    return status;
}

static roco_expr choice_of(roco_grammar *grammar, const cJSON *array)
{
    const size_t n = (size_t)cJSON_GetArraySize(array);
    roco_expr *list = malloc((n + 1) * sizeof *list), expr;
    if (!list)
        return roco_grammar_nothing(grammar);
    size_t i = 0;
    for (const cJSON *item = array->child; item; item = item->next)
        list[i++] = roco_grammar_text(grammar, item->valuestring, strlen(item->valuestring));
    expr = roco_grammar_choice(grammar, list, n);
    free(list);
    return expr;
}

static roco_status build(const roco_constraints *c, roco_grammar *g, const roco_constraint_field *asked, bool loose,
                         roco_expr *out, roco_error *error);

static roco_status build_tools(const roco_constraints *c, roco_grammar *g, const cJSON *source, bool loose,
                               roco_expr *out, roco_error *error)
{
    roco_constraint_field content;
    roco_expr text;
    bool formed = roco_tools_content(source, &content);
    roco_status status = formed ? build(c, g, &content, false, &text, error) : ROCO_OK;
    return status ? status : roco_tools_expr(g, source, c->tokenizer, loose, formed ? &text : NULL, out, error);
}

static roco_status build(const roco_constraints *c, roco_grammar *g, const roco_constraint_field *asked, bool loose,
                         roco_expr *out, roco_error *error)
{
    const cJSON *source = asked->source;
    switch (asked->kind) {
    case ROCO_CONSTRAINT_NONE: break;
    case ROCO_CONSTRAINT_OBJECT: *out = roco_grammar_json_object(g); return ROCO_OK;
    case ROCO_CONSTRAINT_CHOICE: *out = choice_of(g, source); return ROCO_OK;
    case ROCO_CONSTRAINT_SCHEMA: return roco_schema_expr(g, asked->field, source, out, error);
    case ROCO_CONSTRAINT_TOOLS: return build_tools(c, g, source, loose, out, error);
    case ROCO_CONSTRAINT_REGEX:
        return roco_grammar_regex(g, asked->field, source->valuestring, strlen(source->valuestring), out, error);
    case ROCO_CONSTRAINT_GBNF:
        return roco_grammar_gbnf(g, asked->field, source->valuestring, strlen(source->valuestring), out, error);
    }
    return ROCO_INVALID;
}

static roco_status compile_once(const roco_constraints *c, const roco_constraint_field *asked, bool loose,
                                roco_constraint **out, roco_error *error)
{
    roco_grammar *grammar = roco_grammar_open(&ROCO_GRAMMAR_LIMITS);
    if (!grammar)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_expr root = 0;
    roco_status status = build(c, grammar, asked, loose, &root, error);
    if (!status)
        status = roco_constraint_compile(grammar, asked->field, root, c->vocabulary, out, error);
    roco_grammar_close(grammar);
    return status;
}

/* Tools whose schemas say more than can be kept are called with any object, unless they are strict. */
static roco_status compile(const roco_constraints *c, const roco_constraint_field *asked, roco_constraint **out,
                           roco_error *error)
{
    roco_status status = compile_once(c, asked, false, out, error);
    if (status == ROCO_UNSUPPORTED && asked->kind == ROCO_CONSTRAINT_TOOLS)
        status = compile_once(c, asked, true, out, error);
    return status;
}

/* --- knowing --- */

/* What tells one constraint from another: its kind and its text. Returns owned; NULL: too long, or out of memory. */
static char *make_key(const roco_constraint_field *asked)
{
    char *text = asked->source ? cJSON_PrintUnformatted(asked->source) : strdup("");
    const size_t size = text ? strlen(text) : 0;
    char *key = text && size <= MAX_KEY_BYTES ? malloc(size + 2) : NULL;
    if (key) {
        key[0] = (char)('0' + asked->kind);
        memcpy(key + 1, text, size + 1);
    }
    free(text);
    return key;
}

static roco_constraint *find(roco_constraints *c, const char *key)
{
    roco_constraint *found = NULL;
    pthread_mutex_lock(&c->mutex);
    for (unsigned i = 0; i < MAX_KNOWN && !found; i++)
        if (c->known[i].key && strcmp(c->known[i].key, key) == 0) {
            found = roco_constraint_hold(c->known[i].constraint);
            c->known[i].used = ++c->clock;
        }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

/* Takes the key; the one that was asked for longest ago gives way. */
static void keep(roco_constraints *c, char *key, roco_constraint *constraint)
{
    pthread_mutex_lock(&c->mutex);
    known *oldest = &c->known[0];
    for (unsigned i = 1; i < MAX_KNOWN; i++)
        oldest = c->known[i].used < oldest->used ? &c->known[i] : oldest;
    free(oldest->key);
    roco_constraint_release(oldest->constraint);
    *oldest = (known){key, roco_constraint_hold(constraint), ++c->clock};
    pthread_mutex_unlock(&c->mutex);
}

roco_status roco_constraints_get(roco_constraints *c, const roco_constraint_field *asked, bool may_compile,
                                 roco_constraint **out, roco_error *error)
{
    char *key = make_key(asked);
    *out = key ? find(c, key) : NULL;
    roco_status status = *out || !may_compile ? ROCO_OK : compile(c, asked, out, error);
    if (!status && *out && may_compile && key) {
        roco_constraint *other = find(c, key); /* perhaps another thread was as fast */
        if (!other) {
            keep(c, key, *out);
            return ROCO_OK;
        }
        roco_constraint_release(other);
    }
    free(key);
    return status;
}
