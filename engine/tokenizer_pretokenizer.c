/* Pre-tokenizers: how text is cut into the words that byte-pair merging never crosses, by PCRE2.
 *
 * Compiled at open, then only read, by any thread; match data belongs to one encoding. The expressions are those of the
 * original tokenizers (the ByteLevel expression of GPT-2; the Split expressions in the tokenizer.json of Llama 3 and
 * Qwen 2; SmolLM cuts digits off before GPT-2's; o200k_base of OpenAI's tiktoken, and Mistral's Tekken after it), and
 * their order of alternatives is part of them. White space is listed by hand: PCRE2's \s takes U+180E as well, theirs
 * does not.
 */
#include "engine/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

#define SPACES      "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define SPACE       "[" SPACES "]"
#define NOT_SPACE   "[^" SPACES "]"
#define OTHER       "[^" SPACES "\\p{L}\\p{N}]"
#define CONTRACTION "'(?:[sdmt]|re|ve|ll)"
/* Every run of spaces but its last one, which goes to the word behind; the whole run where no word follows. */
#define RUNS        SPACE "+(?!" NOT_SPACE ")|" SPACE "+"

#define GPT2   CONTRACTION "| ?\\p{L}+| ?\\p{N}+| ?" OTHER "+|" RUNS
/* Each number is a text of its own, so a run of spaces before one is at the end of its text. */
#define SMOLLM CONTRACTION "| ?\\p{L}+|\\p{N}| ?" OTHER "+|" SPACE "+(?![^" SPACES "\\p{N}])|" SPACE "+"
#define GPT4_LIKE(numbers)                                                                                             \
    "(?i:" CONTRACTION ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?" OTHER "+[\\r\\n]*|" SPACE "*[\\r\\n]+|" RUNS
/* Words end where case rises again: upper case, if any, then lower; marks and letters without case are both. */
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define BY_CASE(tail, numbers)                                                                                         \
    BEFORE_WORD UPPER "*" LOWER "+" tail "|" BEFORE_WORD UPPER "+" LOWER "*" tail "|" numbers "| ?" OTHER              \
                      "+[\\r\\n/]*|" SPACE "*[\\r\\n]+|" RUNS
#define LLAMA3 GPT4_LIKE("\\p{N}{1,3}")
#define QWEN2  GPT4_LIKE("\\p{N}")
#define TEKKEN BY_CASE("", "\\p{N}")
#define GPT4O  BY_CASE("(?i:" CONTRACTION ")?", "\\p{N}{1,3}")

typedef struct row {
    const char *name; /* as tokenizer.ggml.pre spells it */
    const char *expression;
    bool ignore_merges, add_bos;
} row;

/* Of names that mean the same the file of a family picks one: refact is Granite's, dbrx that of OLMo 2 and Phi-4. */
static const row rows[] = {
    {"gpt-2", GPT2, false, false},       {"gpt2", GPT2, false, false},     {"smollm", SMOLLM, false, false},
    {"llama-bpe", LLAMA3, true, true},   {"llama3", LLAMA3, true, true},   {"llama-v3", LLAMA3, true, true},
    {"qwen2", QWEN2, false, false},      {"tekken", TEKKEN, true, true},   {"gpt-4o", GPT4O, false, false},
    {"dbrx", LLAMA3, false, false},      {"olmo", GPT2, false, false},     {"stablelm2", QWEN2, false, false},
    {"starcoder", SMOLLM, false, false}, {"refact", SMOLLM, false, false}, {"command-r", SMOLLM, false, false},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static roco_status fail_unknown(roco_text name, roco_error *error)
{
    char shown[41], known[256] = "";
    size_t n = name.size < sizeof shown - 1 ? name.size : sizeof shown - 1;
    for (size_t i = 0; i < n; i++) {
        shown[i] = name.data[i] >= ' ' && name.data[i] <= '~' ? name.data[i] : '?';
    }
    shown[n] = '\0';
    for (size_t i = 0, at = 0; i < N_ROWS && at < sizeof known; i++) {
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", rows[i].name);
    }
    return roco_fail(error, ROCO_UNSUPPORTED, "tokenizer.ggml.pre", "pre-tokenizer \"%s\" is not supported; known: %s",
                     shown, known);
}

roco_status roco_pretokenizer_init(roco_pretokenizer *pre, roco_text name, roco_error *error)
{
    const row *found = NULL;
    for (size_t i = 0; i < N_ROWS && !found; i++) {
        bool same = strlen(rows[i].name) == name.size && memcmp(rows[i].name, name.data, name.size) == 0;
        found = same ? &rows[i] : NULL;
    }
    if (!found) {
        return fail_unknown(name, error);
    }
    int code;
    PCRE2_SIZE at;
    pre->code = pcre2_compile((PCRE2_SPTR)found->expression, PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
    pre->limits = pcre2_match_context_create(NULL);
    if (!pre->code || !pre->limits) {
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "the expression of pre-tokenizer %s does not compile (PCRE2 %d)",
                         found->name, pre->code ? PCRE2_ERROR_NOMEMORY : code);
    }
    /* A system without executable memory has no JIT: the interpreter then gives the same words, slower. */
    (void)pcre2_jit_compile(pre->code, PCRE2_JIT_COMPLETE);
    /* The default limit counts steps back, and a run of ten million spaces takes as many. */
    pcre2_set_match_limit(pre->limits, UINT32_MAX);
    pre->ignore_merges = found->ignore_merges;
    pre->add_bos = found->add_bos;
    return ROCO_OK;
}

void roco_pretokenizer_free(roco_pretokenizer *pre)
{
    pcre2_code_free(pre->code);
    pcre2_match_context_free(pre->limits);
    *pre = (roco_pretokenizer){0};
}

size_t roco_pretokenizer_next(const roco_pretokenizer *pre, roco_text text, size_t at, pcre2_match_data *match)
{
    int found = pcre2_match(pre->code, (PCRE2_SPTR)text.data, text.size, at, PCRE2_NO_UTF_CHECK, match, pre->limits);
    if (found == PCRE2_ERROR_NOMEMORY || found == PCRE2_ERROR_HEAPLIMIT) {
        return 0;
    }
    /* The alternatives cover every character: letters, numbers, spaces, and the rest. */
    ROCO_CHECK(found > 0);
    return pcre2_get_ovector_pointer(match)[1];
}
