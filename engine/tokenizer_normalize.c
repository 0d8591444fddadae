/* Steps over a section of text before it is cut: composing (utf8proc), replacing, putting in front. Any thread. */
#include "engine/tokenizer_parts.h"

#include "config/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_TEXT = 1 << 28 }; /* a step may lengthen a text; what comes in is bounded by the caller */

bool roco_normalizer_add(roco_normalizer *normalizer, roco_step_kind kind, roco_text from, roco_text to)
{
    roco_normalizer_step *step = &normalizer->steps[normalizer->n];
    if (normalizer->n == ROCO_MAX_STEPS || from.size > sizeof step->from || to.size > sizeof step->to)
        return false;
    *step = (roco_normalizer_step){.kind = kind, .from_size = (uint8_t)from.size, .to_size = (uint8_t)to.size};
    if (from.size)
        memcpy(step->from, from.data, from.size);
    if (to.size)
        memcpy(step->to, to.data, to.size);
    normalizer->n++;
    return true;
}

/* --- Unicode's normal forms --- */

static bool is_ascii(roco_text text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < text.size; i++)
        all |= (unsigned char)text.data[i];
    return all < 0x80;
}

static utf8proc_option_t form_of(roco_step_kind kind)
{
    switch (kind) {
    case ROCO_STEP_NFD: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case ROCO_STEP_NFKC: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case ROCO_STEP_NFKD: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    default: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    }
}

/* End of the stretch of valid UTF-8 at `at` that is composed at once. Ordering the marks of one character takes the
 * square of their number, so a run of more than MAX_MARKS is cut: no writing has it, a hostile text may. */
static size_t stretch_end(roco_text text, size_t at)
{
    enum { MAX_MARKS = 256 };
    unsigned n_marks = 0;
    uint32_t code;
    for (size_t size; (size = roco_utf8_next(text.data + at, text.size - at, &code)); at += size) {
        bool mark = code >= 0x300 && utf8proc_get_property((utf8proc_int32_t)code)->combining_class != 0;
        n_marks = mark ? n_marks + 1 : 0;
        if (n_marks > MAX_MARKS)
            break;
    }
    return at;
}

static roco_status compose(roco_step_kind kind, roco_text text, roco_buffer *out)
{
    roco_status status = ROCO_OK;
    for (size_t at = 0; at < text.size && !status;) {
        size_t valid = stretch_end(text, at) - at;
        if (valid == 0) {
            status = roco_buffer_append(out, text.data + at++, 1);
            continue;
        }
        utf8proc_uint8_t *made = NULL;
        utf8proc_ssize_t size =
            utf8proc_map((const utf8proc_uint8_t *)text.data + at, (utf8proc_ssize_t)valid, &made, form_of(kind));
        status = size < 0 ? ROCO_NO_MEMORY : roco_buffer_append(out, made, (size_t)size);
        status = status ? status : out->size > MAX_TEXT ? ROCO_TOO_LARGE : ROCO_OK;
        free(made);
        at += valid;
    }
    return status;
}

/* --- the others --- */

/* By the first byte: memmem under AddressSanitizer looks at the whole rest of the text for each place found. */
static const char *find_from(const roco_normalizer_step *step, roco_text text, size_t at)
{
    while (step->from_size && text.size - at >= step->from_size) {
        const char *found = memchr(text.data + at, step->from[0], text.size - at - step->from_size + 1);
        if (found == NULL || memcmp(found, step->from, step->from_size) == 0)
            return found;
        at = (size_t)(found - text.data) + 1;
    }
    return NULL;
}

/* What replacing comes to is known before any of it is made: a step may put a long text for every byte. */
static bool replacement_fits(const roco_normalizer_step *step, roco_text text)
{
    size_t size = text.size;
    for (const char *found = find_from(step, text, 0); found && size <= MAX_TEXT;
         found = find_from(step, text, (size_t)(found - text.data) + step->from_size))
        size = size - step->from_size + step->to_size;
    return size <= MAX_TEXT;
}

static roco_status replace(const roco_normalizer_step *step, roco_text text, roco_buffer *out)
{
    size_t at = 0;
    roco_status status = replacement_fits(step, text) ? ROCO_OK : ROCO_TOO_LARGE;
    while (!status) {
        const char *found = find_from(step, text, at);
        size_t end = found ? (size_t)(found - text.data) : text.size;
        status = roco_buffer_append(out, text.data + at, end - at);
        if (!found)
            break;
        status = status ? status : roco_buffer_append(out, step->to, step->to_size);
        at = end + step->from_size;
    }
    return status;
}

static roco_status prepend(const roco_normalizer_step *step, roco_text text, roco_buffer *out)
{
    bool there = text.size >= step->to_size && memcmp(text.data, step->to, step->to_size) == 0;
    roco_status status = ROCO_OK;
    if (text.size && !(step->kind == ROCO_STEP_PREPEND_ONCE && there))
        status = roco_buffer_append(out, step->to, step->to_size);
    return status ? status : roco_buffer_append(out, text.data, text.size);
}

static bool is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

size_t roco_space_before(roco_text text, size_t end)
{
    while (end > 0) {
        size_t start = end - 1;
        uint32_t code;
        while (start > 0 && end - start < 4 && ((unsigned char)text.data[start] & 0xC0) == 0x80)
            start--;
        if (roco_utf8_next(text.data + start, end - start, &code) != end - start || !is_space(code))
            break;
        end = start;
    }
    return end;
}

size_t roco_space_behind(roco_text text, size_t at)
{
    uint32_t code;
    size_t size;
    while ((size = roco_utf8_next(text.data + at, text.size - at, &code)) && is_space(code))
        at += size;
    return at;
}

bool roco_word_at(roco_text text, size_t at)
{
    uint32_t code;
    if (!roco_utf8_next(text.data + at, text.size - at, &code))
        return false;
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_PC);
}

static roco_status strip(const roco_normalizer_step *step, roco_text text, roco_buffer *out)
{
    size_t from = 0, to = text.size;
    if (step->kind == ROCO_STEP_STRIP_LEFT)
        from = roco_space_behind(text, 0);
    else
        to = roco_space_before(text, to);
    return roco_buffer_append(out, text.data + from, to - from);
}

static roco_status run_step(const roco_normalizer_step *step, roco_text text, roco_buffer *out)
{
    switch (step->kind) {
    case ROCO_STEP_REPLACE: return replace(step, text, out);
    case ROCO_STEP_PREPEND:
    case ROCO_STEP_PREPEND_ONCE: return prepend(step, text, out);
    case ROCO_STEP_STRIP_LEFT:
    case ROCO_STEP_STRIP_RIGHT: return strip(step, text, out);
    default: return compose(step->kind, text, out);
    }
}

/* Most steps leave most texts as they are: those cost no copy. */
static bool changes(const roco_normalizer_step *step, bool first, roco_text text)
{
    if (text.size == 0 || (step->first_only && !first))
        return false;
    switch (step->kind) {
    case ROCO_STEP_REPLACE: return find_from(step, text, 0) != NULL;
    case ROCO_STEP_PREPEND:
    case ROCO_STEP_PREPEND_ONCE:
    case ROCO_STEP_STRIP_LEFT:
    case ROCO_STEP_STRIP_RIGHT: return true;
    default: return !is_ascii(text);
    }
}

roco_status roco_normalizer_run(const roco_normalizer *normalizer, bool first, roco_text *text, roco_buffer *out)
{
    for (size_t i = 0; i < normalizer->n; i++) {
        if (!changes(&normalizer->steps[i], first, *text))
            continue;
        roco_buffer made = {0};
        roco_status status = run_step(&normalizer->steps[i], *text, &made);
        status = status ? status : made.size > MAX_TEXT ? ROCO_TOO_LARGE : ROCO_OK;
        if (status) {
            roco_buffer_free(&made);
            return status;
        }
        roco_buffer_free(out);
        *out = made;
        *text = (roco_text){made.data ? made.data : "", made.size};
    }
    return ROCO_OK;
}
