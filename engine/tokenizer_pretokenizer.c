/* Pre-tokenizers: how text is cut into the words that byte-pair merging never crosses, by PCRE2.
 *
 * Compiled at open, then only read, by any thread; match data belongs to one encoding. The expressions are those of the
 * original tokenizers (the ByteLevel expression of GPT-2; the Split expressions in the tokenizer.json of Llama 3 and
 * Qwen 2; SmolLM cuts digits off before GPT-2's; o200k_base of OpenAI's tiktoken, and Mistral's Tekken after it;
 * DeepSeek's cut one after the other), and their order of alternatives is part of them. White space is listed by hand:
 * PCRE2's \s takes U+180E as well, theirs does not.
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
#define LLAMA3     GPT4_LIKE("\\p{N}{1,3}")
#define QWEN2      GPT4_LIKE("\\p{N}")
#define TEKKEN     BY_CASE("", "\\p{N}")
#define GPT4O      BY_CASE("(?i:" CONTRACTION ")?", "\\p{N}{1,3}")
/* Scripts of East Asia, as DeepSeek's first models list them, and as the third does. */
#define EAST_ASIAN "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define HAN_KANA   "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define MARK_WORDS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3  MARK_WORDS "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" RUNS
/* Letters with case, as the first model lists them: Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee and others. */
#define CASED                                                                                                          \
    "[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"  \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"     \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"       \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"                  \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"                  \
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}" \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}"                  \
    "\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}" \
    "\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}" \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{"    \
    "FB06}"                                                                                                            \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"              \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"
#define DEEPSEEK1_MARKS "[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"

const char roco_gpt2_expression[] = GPT2;

typedef struct row {
    const char *name; /* as tokenizer.ggml.pre spells it */
    bool ignore_merges, add_bos, nfc;
    const char *expressions[7]; /* one after the other, up to a NULL */
} row;

/* Of names that mean the same the file of a family picks one: refact is Granite's, dbrx that of OLMo 2 and Phi-4. */
static const row rows[] = {
    {"gpt-2", false, false, false, {GPT2}},
    {"gpt2", false, false, false, {GPT2}},
    {"smollm", false, false, false, {SMOLLM}},
    {"llama-bpe", true, true, false, {LLAMA3}},
    {"llama3", true, true, false, {LLAMA3}},
    {"llama-v3", true, true, false, {LLAMA3}},
    {"qwen2", false, false, true, {QWEN2}},
    {"deepseek-r1-qwen", false, false, true, {QWEN2}},
    {"tekken", true, true, false, {TEKKEN}},
    {"gpt-4o", false, false, false, {GPT4O}},
    {"dbrx", false, false, false, {LLAMA3}},
    {"olmo", false, false, true, {GPT2}},
    {"stablelm2", false, false, false, {QWEN2}},
    {"starcoder", false, false, false, {SMOLLM}},
    {"refact", false, false, false, {SMOLLM}},
    {"command-r", false, false, true, {SMOLLM}},
    {"deepseek-llm",
     false,
     false,
     false,
     {"[\\r\\n]", SPACE "?" CASED, SPACE "?" DEEPSEEK1_MARKS, SPACE "+$", EAST_ASIAN, "\\p{N}+"}},
    {"deepseek-coder", false, false, false, {"[\\r\\n]", SPACE "?\\p{L}+", SPACE "?\\p{P}+", EAST_ASIAN, "\\p{N}"}},
    {"deepseek-v3", false, false, false, {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3}},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static roco_status fail_unknown(roco_text name, roco_error *error)
{
    char shown[41], known[320] = "";
    roco_text_print(name, shown, sizeof shown);
    for (size_t i = 0, at = 0; i < N_ROWS && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", rows[i].name);
    return roco_fail(error, ROCO_UNSUPPORTED, "tokenizer.ggml.pre", "pre-tokenizer \"%s\" is not supported; known: %s",
                     shown, known);
}

roco_status roco_pretokenizer_add(roco_pretokenizer *pre, const char *expression, roco_split_behavior behavior,
                                  bool invert, roco_error *error)
{
    int code;
    PCRE2_SIZE at;
    if (pre->n_splits == ROCO_MAX_SPLITS) {
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer", "a pre-tokenizer of over %d expressions",
                         ROCO_MAX_SPLITS);
    }
    if (!pre->limits) {
        pre->limits = pcre2_match_context_create(NULL);
        if (!pre->limits)
            return roco_fail(error, ROCO_NO_MEMORY, NULL, "no memory for a pre-tokenizer");
        /* The default limit counts steps back, and a run of ten million spaces takes as many. */
        pcre2_set_match_limit(pre->limits, 1u << 28);
    }
    /* ^ and $ are the ends of lines in Oniguruma, whose expressions these are. */
    roco_split split = {.code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                                              &at, NULL),
                        .behavior = behavior,
                        .invert = invert};
    if (!split.code) {
        PCRE2_UCHAR reason[120] = "";
        pcre2_get_error_message(code, reason, sizeof reason);
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer",
                         "an expression of the pre-tokenizer does not compile: %s, at byte %zu", (const char *)reason,
                         (size_t)at);
    }
    /* A system without executable memory has no JIT: the interpreter then gives the same words, slower. */
    (void)pcre2_jit_compile(split.code, PCRE2_JIT_COMPLETE);
    pre->splits[pre->n_splits++] = split;
    return ROCO_OK;
}

roco_status roco_pretokenizer_init(roco_pretokenizer *pre, roco_text name, roco_error *error)
{
    const row *found = NULL;
    for (size_t i = 0; i < N_ROWS && !found; i++)
        found = roco_text_is(name, rows[i].name) ? &rows[i] : NULL;
    if (!found)
        return fail_unknown(name, error);
    roco_status status = ROCO_OK;
    for (size_t i = 0; found->expressions[i] && !status; i++)
        status = roco_pretokenizer_add(pre, found->expressions[i], ROCO_SPLIT_ISOLATED, false, error);
    pre->ignore_merges = found->ignore_merges;
    pre->add_bos = found->add_bos;
    pre->nfc = found->nfc;
    return status;
}

void roco_pretokenizer_free(roco_pretokenizer *pre)
{
    for (size_t i = 0; i < pre->n_splits; i++)
        pcre2_code_free(pre->splits[i].code);
    pcre2_match_context_free(pre->limits);
    *pre = (roco_pretokenizer){0};
}

/* --- cutting --- */

typedef struct cutter {
    const roco_pretokenizer *pre;
    pcre2_match_data *match;
    roco_word_taker *word;
    void *context;
} cutter;

/* A part that waits until it is known whether the next one joins it. */
typedef struct pending {
    size_t from, to;
    bool matched, there;
} pending;

static roco_status cut(const cutter *c, size_t stage, roco_text text);

static roco_status flush(const cutter *c, size_t stage, roco_text text, pending *p)
{
    if (!p->there || p->from == p->to)
        return ROCO_OK;
    p->there = false;
    return cut(c, stage + 1, (roco_text){text.data + p->from, p->to - p->from});
}

static bool joins(roco_split_behavior behavior, const pending *p, bool matched)
{
    switch (behavior) {
    case ROCO_SPLIT_CONTIGUOUS: return p->matched == matched;
    case ROCO_SPLIT_MERGED_WITH_PREVIOUS: return matched && !p->matched;
    case ROCO_SPLIT_MERGED_WITH_NEXT: return p->matched && !matched;
    default: return false;
    }
}

/* The next part of a stage's text, a match or what lies before one. */
static roco_status take_part(const cutter *c, size_t stage, roco_text text, pending *p, size_t from, size_t to,
                             bool matched)
{
    const roco_split *split = &c->pre->splits[stage];
    matched = matched != split->invert;
    if (from == to || (matched && split->behavior == ROCO_SPLIT_REMOVED))
        return ROCO_OK;
    if (p->there && joins(split->behavior, p, matched)) {
        p->to = to;
        p->matched = matched;
        return ROCO_OK;
    }
    roco_status status = flush(c, stage, text, p);
    *p = (pending){from, to, matched, true};
    return status;
}

/* The JIT's stack is small; what needs more goes to the interpreter. */
static int find(const cutter *c, size_t stage, roco_text text, size_t at)
{
    const pcre2_code *code = c->pre->splits[stage].code;
    const PCRE2_SPTR subject = (PCRE2_SPTR)text.data;
    int found = pcre2_match(code, subject, text.size, at, PCRE2_NO_UTF_CHECK, c->match, c->pre->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, subject, text.size, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match, c->pre->limits);
    return found;
}

/* As deep as there are stages. The match data is read before anything deeper uses it. */
static roco_status cut(const cutter *c, size_t stage, roco_text text)
{
    if (stage == c->pre->n_splits)
        return c->word(c->context, text);
    pending p = {0};
    size_t at = 0, search = 0;
    roco_status status = ROCO_OK;
    while (search < text.size && !status) {
        int found = find(c, stage, text, search);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0)
            return ROCO_NO_MEMORY; /* or over a limit: a file's expression asked for too much */
        size_t from = pcre2_get_ovector_pointer(c->match)[0], to = pcre2_get_ovector_pointer(c->match)[1];
        if (to <= at || from == to) { /* an empty match cuts nothing */
            search = (to > search ? to : search) + 1;
            while (search < text.size && ((unsigned char)text.data[search] & 0xC0) == 0x80)
                search++;
            continue;
        }
        status = take_part(c, stage, text, &p, at, from, false);
        status = status ? status : take_part(c, stage, text, &p, from, to, true);
        at = search = to;
    }
    status = status ? status : take_part(c, stage, text, &p, at, text.size, false);
    return status ? status : flush(c, stage, text, &p);
}

roco_status roco_pretokenizer_run(const roco_pretokenizer *pre, roco_text text, pcre2_match_data *match,
                                  roco_word_taker *word, void *context)
{
    const cutter c = {pre, match, word, context};
    return text.size ? cut(&c, 0, text) : ROCO_OK;
}
