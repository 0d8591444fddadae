/* The steps of a tokenizer.json: normalizer, pre_tokenizer, decoder, post_processor. Each is an object with a type, or
 * a Sequence of such. Names and meanings are those of Hugging Face's tokenizers (its Rust sources and documentation).
 */
#include "engine/tokenizer_json.h"

#include <string.h>

#define MAX_NESTING 4 /* sequences within sequences */

static const roco_text none = {"", 0}, space = {" ", 1};

static roco_status fail_type(const char *member, const roco_tree *step, roco_error *error)
{
    roco_text type = {"without a type", 14};
    char name[40];
    (void)roco_tree_text(roco_tree_member(step, "type"), &type);
    roco_text_print(type, name, sizeof name);
    return roco_fail(error, ROCO_UNSUPPORTED, member, "tokenizer.json: a %s of type %s is not supported", member, name);
}

static roco_status fail_member(const char *member, const char *what, roco_error *error)
{
    return roco_fail(error, ROCO_FORMAT, member, "tokenizer.json: %s", what);
}

static bool is(const roco_tree *step, const char *type)
{
    return roco_tree_says(roco_tree_member(step, "type"), type);
}

static bool flag(const roco_tree *step, const char *name, bool otherwise)
{
    (void)roco_tree_bool(roco_tree_member(step, name), &otherwise);
    return otherwise;
}

/* Calls `read` for each step, those of sequences one by one. */
typedef roco_status read_step(const roco_tree *step, void *out, roco_error *error);

static roco_status each_step(const roco_tree *tree, const char *member, const char *list, int nesting, read_step *read,
                             void *out, roco_error *error)
{
    if (roco_tree_is_null(tree))
        return ROCO_OK;
    if (!is(tree, "Sequence"))
        return read(tree, out, error);
    if (nesting == MAX_NESTING || !roco_tree_is_array(roco_tree_member(tree, list)))
        return fail_member(member, "a Sequence has no list, or nests too deep", error);
    roco_status status = ROCO_OK;
    const roco_tree *step = roco_tree_first(roco_tree_member(tree, list));
    for (; step && !status; step = roco_tree_next(step))
        status = each_step(step, member, list, nesting + 1, read, out, error);
    return status;
}

/* --- normalizer --- */

static roco_status add(roco_normalizer *normalizer, roco_step_kind kind, roco_text from, roco_text to,
                       roco_error *error)
{
    return roco_normalizer_add(normalizer, kind, from, to)
               ? ROCO_OK
               : roco_fail(error, ROCO_UNSUPPORTED, "normalizer",
                           "tokenizer.json: over %d steps, or a text of over 16 bytes in one", ROCO_MAX_STEPS);
}

static roco_status read_normal(const roco_tree *step, void *context, roco_error *error)
{
    static const struct {
        const char *type;
        roco_step_kind kind;
    } forms[] = {{"NFC", ROCO_STEP_NFC}, {"NFD", ROCO_STEP_NFD}, {"NFKC", ROCO_STEP_NFKC}, {"NFKD", ROCO_STEP_NFKD}};
    roco_normalizer *out = context;
    roco_text from, to;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (is(step, forms[i].type))
            return add(out, forms[i].kind, none, none, error);
    if (is(step, "Prepend") && roco_tree_text(roco_tree_member(step, "prepend"), &to))
        return add(out, ROCO_STEP_PREPEND, none, to, error);
    if (is(step, "Replace") && roco_tree_text(roco_tree_member(step, "content"), &to) &&
        roco_tree_text(roco_tree_member(roco_tree_member(step, "pattern"), "String"), &from))
        return add(out, ROCO_STEP_REPLACE, from, to, error);
    if (is(step, "Strip")) {
        roco_status status = ROCO_OK;
        if (flag(step, "strip_left", true))
            status = add(out, ROCO_STEP_STRIP_LEFT, none, none, error);
        return !status && flag(step, "strip_right", true) ? add(out, ROCO_STEP_STRIP_RIGHT, none, none, error) : status;
    }
    return fail_type("normalizer", step, error);
}

roco_status roco_steps_read_normalizer(const roco_tree *tree, roco_normalizer *out, roco_error *error)
{
    return each_step(tree, "normalizer", "normalizers", 0, read_normal, out, error);
}

/* --- pre_tokenizer --- */

typedef struct cutting {
    roco_pretokenizer *out;
    bool byte_level, cut; /* something has been cut already */
} cutting;

static bool read_behavior(const roco_tree *step, roco_split_behavior *out)
{
    static const struct {
        const char *name;
        roco_split_behavior behavior;
    } known[] = {{"Isolated", ROCO_SPLIT_ISOLATED},
                 {"Removed", ROCO_SPLIT_REMOVED},
                 {"MergedWithPrevious", ROCO_SPLIT_MERGED_WITH_PREVIOUS},
                 {"MergedWithNext", ROCO_SPLIT_MERGED_WITH_NEXT},
                 {"Contiguous", ROCO_SPLIT_CONTIGUOUS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (roco_tree_says(roco_tree_member(step, "behavior"), known[i].name)) {
            *out = known[i].behavior;
            return true;
        }
    }
    return false;
}

static roco_status read_split(const roco_tree *step, cutting *c, roco_error *error)
{
    const roco_tree *pattern = roco_tree_member(step, "pattern");
    roco_text text;
    roco_split_behavior behavior;
    bool literal = roco_tree_text(roco_tree_member(pattern, "String"), &text);
    if (!literal && !roco_tree_text(roco_tree_member(pattern, "Regex"), &text))
        return fail_member("pre_tokenizer", "a Split has no pattern", error);
    if (!read_behavior(step, &behavior))
        return fail_member("pre_tokenizer", "a Split has no behavior", error);
    return roco_pretokenizer_add_foreign(c->out, text, literal, behavior, flag(step, "invert", false), error);
}

/* A space is put in front of a section before it is cut; what was cut before would get one for each part. */
static roco_status add_prefix(cutting *c, roco_text prefix, bool first_only, roco_error *error)
{
    if (c->cut) {
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer",
                         "tokenizer.json: a prefix for words that are cut already is not supported");
    }
    roco_normalizer *before = &c->out->before;
    roco_status status = add(before, ROCO_STEP_PREPEND_ONCE, none, prefix, error);
    if (!status)
        before->steps[before->n - 1].first_only = first_only;
    return status;
}

static roco_status read_byte_level(const roco_tree *step, cutting *c, roco_error *error)
{
    roco_status status = flag(step, "add_prefix_space", true) ? add_prefix(c, space, false, error) : ROCO_OK;
    if (!status && flag(step, "use_regex", true))
        status = roco_pretokenizer_add(c->out, roco_gpt2_expression, ROCO_SPLIT_ISOLATED, false, error);
    c->byte_level = true;
    return status;
}

static roco_status read_metaspace(const roco_tree *step, cutting *c, roco_error *error)
{
    roco_text symbol = {ROCO_SP_SPACE, sizeof ROCO_SP_SPACE - 1};
    const roco_tree *scheme = roco_tree_member(step, "prepend_scheme");
    (void)roco_tree_text(roco_tree_member(step, "replacement"), &symbol);
    const bool never = scheme ? roco_tree_says(scheme, "never") : !flag(step, "add_prefix_space", true);
    if (c->cut) {
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer",
                         "tokenizer.json: a Metaspace behind other steps is not supported");
    }
    roco_status status = add(&c->out->before, ROCO_STEP_REPLACE, space, symbol, error);
    if (!status && !never)
        status = add_prefix(c, symbol, roco_tree_says(scheme, "first"), error);
    if (!status && flag(step, "split", true))
        status = roco_pretokenizer_add_foreign(c->out, symbol, true, ROCO_SPLIT_MERGED_WITH_NEXT, false, error);
    return status;
}

static roco_status read_cut(const roco_tree *step, void *context, roco_error *error)
{
    /* This one word class, of another library, has the joiners as well. */
    static const char joined[] = "[\\w\\x{200C}\\x{200D}]+|[^\\w\\x{200C}\\x{200D}\\s]+";
    static const roco_text words = {joined, sizeof joined - 1}, spaces = {"\\s", 2};
    cutting *c = context;
    roco_split_behavior behavior = ROCO_SPLIT_ISOLATED;
    roco_status status;
    if (c->byte_level) {
        return roco_fail(error, ROCO_UNSUPPORTED, "pre_tokenizer",
                         "tokenizer.json: a step behind ByteLevel is not supported");
    }
    if (is(step, "Split")) {
        status = read_split(step, c, error);
    } else if (is(step, "ByteLevel")) {
        status = read_byte_level(step, c, error);
    } else if (is(step, "Metaspace")) {
        status = read_metaspace(step, c, error);
    } else if (is(step, "Digits")) {
        behavior = flag(step, "individual_digits", false) ? ROCO_SPLIT_ISOLATED : ROCO_SPLIT_CONTIGUOUS;
        status = roco_pretokenizer_add(c->out, "\\p{N}", behavior, false, error);
    } else if (is(step, "Punctuation")) {
        (void)read_behavior(step, &behavior);
        status = roco_pretokenizer_add(c->out, "[!-/:-@\\[-`{-~\\p{P}]", behavior, false, error);
    } else if (is(step, "Whitespace")) {
        status = roco_pretokenizer_add_foreign(c->out, words, false, ROCO_SPLIT_REMOVED, true, error);
    } else if (is(step, "WhitespaceSplit")) {
        status = roco_pretokenizer_add_foreign(c->out, spaces, false, ROCO_SPLIT_REMOVED, false, error);
    } else {
        status = fail_type("pre_tokenizer", step, error);
    }
    c->cut = true;
    return status;
}

roco_status roco_steps_read_pretokenizer(const roco_tree *tree, roco_pretokenizer *out, bool *byte_level,
                                         roco_error *error)
{
    cutting c = {.out = out};
    roco_status status = each_step(tree, "pre_tokenizer", "pretokenizers", 0, read_cut, &c, error);
    *byte_level = c.byte_level;
    return status;
}

/* --- decoder --- */

/* What takes a space off the front of a whole text is passed over: an answer goes on behind its prompt. */
static roco_status read_decode(const roco_tree *step, void *context, roco_error *error)
{
    static const char *const plain[] = {"ByteLevel", "ByteFallback", "Fuse", "Strip"};
    bool *spaces = context;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (is(step, plain[i]))
            return ROCO_OK;
    const roco_tree *pattern = roco_tree_member(roco_tree_member(step, "pattern"), "String");
    const bool replaces = is(step, "Replace") && roco_tree_says(pattern, ROCO_SP_SPACE) &&
                          roco_tree_says(roco_tree_member(step, "content"), " ");
    if (!replaces && !is(step, "Metaspace"))
        return fail_type("decoder", step, error);
    *spaces = true;
    return ROCO_OK;
}

roco_status roco_steps_read_decoder(const roco_tree *tree, bool *spaces, roco_error *error)
{
    *spaces = false;
    return each_step(tree, "decoder", "decoders", 0, read_decode, spaces, error);
}

/* --- post_processor --- */

bool roco_steps_read_begin(const roco_tree *tree, roco_text *out)
{
    if (is(tree, "Sequence")) {
        const roco_tree *step = roco_tree_first(roco_tree_member(tree, "processors"));
        for (; step; step = roco_tree_next(step))
            if (is(step, "TemplateProcessing"))
                return roco_steps_read_begin(step, out);
        return false;
    }
    const roco_tree *first = roco_tree_first(roco_tree_member(tree, "single"));
    return is(tree, "TemplateProcessing") &&
           roco_tree_text(roco_tree_member(roco_tree_member(first, "SpecialToken"), "id"), out);
}
