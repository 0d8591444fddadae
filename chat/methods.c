/* Methods of strings, dicts, lists and loops. Those that would change their object fail: nothing a request brought
 * in can be changed, as in the sandbox chat templates are written for. */
#include "chat/string_parts.h"

#include <string.h>

typedef roco_value call_method(roco_run *run, roco_value self, const roco_arguments *arguments);

typedef struct method_row {
    roco_value_kind kind;
    const char *name;
    call_method *call;
} method_row;

typedef struct method {
    roco_value self;
    const method_row *row;
} method;

/* --- strings --- */

static roco_value call_strip(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_strip(run, self.string, roco_string_argument(run, arguments, 0, "chars"), 3);
}

static roco_value call_lstrip(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_strip(run, self.string, roco_string_argument(run, arguments, 0, "chars"), 1);
}

static roco_value call_rstrip(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_strip(run, self.string, roco_string_argument(run, arguments, 0, "chars"), 2);
}

static roco_value call_split(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_list_value(roco_split(run, self.string, roco_string_argument(run, arguments, 0, "sep"),
                                      roco_int_argument(run, arguments, 1, "maxsplit", -1)));
}

/* The last `most` cuts: all cuts, then the first parts joined again. */
static roco_value call_rsplit(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *separator = roco_string_argument(run, arguments, 0, "sep");
    int64_t most = roco_int_argument(run, arguments, 1, "maxsplit", -1);
    roco_list *parts = roco_split(run, self.string, separator, -1), *out = roco_new_list(run, 0);
    size_t joined = most >= 0 && parts->size > (size_t)most + 1 ? parts->size - (size_t)most : 1;
    if (parts->size == 0)
        return roco_list_value(parts);
    const roco_string *first = parts->items[0].string, *last = parts->items[joined - 1].string;
    size_t start = (size_t)(first->data - self.string->data);
    roco_list_add(run->region, out,
                  roco_string_part(run, self.string, start, (size_t)(last->data - first->data) + last->size));
    for (size_t i = joined; i < parts->size; i++)
        roco_list_add(run->region, out, parts->items[i]);
    return roco_list_value(out);
}

static roco_value call_splitlines(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_list_value(roco_split_lines(run, self.string, roco_bool_argument(arguments, 0, "keepends", false)));
}

/* One string, or a tuple of them any of which will do. */
static bool touches(roco_run *run, const roco_string *s, const roco_arguments *arguments, bool end)
{
    if (arguments->n < 1)
        roco_run_fail(run, ROCO_INVALID, "a string to compare with is missing");
    roco_value what = arguments->values[0];
    const roco_list *list = what.kind == ROCO_VALUE_LIST ? what.list : NULL;
    for (size_t i = 0; i < (list ? list->size : 1); i++) {
        roco_value item = list ? list->items[i] : what;
        if (item.kind != ROCO_VALUE_STRING)
            roco_run_fail(run, ROCO_INVALID, "a string does not begin or end with %s", roco_value_kind_name(item));
        size_t size = item.string->size;
        if (size <= s->size && memcmp(end ? s->data + s->size - size : s->data, item.string->data, size) == 0)
            return true;
    }
    return false;
}

static roco_value call_startswith(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(touches(run, self.string, arguments, false));
}

static roco_value call_endswith(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(touches(run, self.string, arguments, true));
}

static roco_value call_removeprefix(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *s = self.string;
    size_t cut = touches(run, s, arguments, false) ? arguments->values[0].string->size : 0;
    return roco_string_part(run, s, cut, s->size - cut);
}

static roco_value call_removesuffix(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *s = self.string;
    size_t cut = touches(run, s, arguments, true) ? arguments->values[0].string->size : 0;
    return roco_string_part(run, s, 0, s->size - cut);
}

static const roco_string *needle(roco_run *run, const roco_arguments *arguments)
{
    const roco_string *string = roco_string_argument(run, arguments, 0, "sub");
    if (!string)
        roco_run_fail(run, ROCO_INVALID, "a string to look for is missing");
    return string;
}

static roco_value call_replace(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *to = roco_string_argument(run, arguments, 1, "new");
    if (!to)
        roco_run_fail(run, ROCO_INVALID, "a string to put in is missing");
    return roco_replace(run, self.string, needle(run, arguments), to,
                        roco_int_argument(run, arguments, 2, "count", -1));
}

static int64_t character_at(roco_run *run, const roco_string *s, size_t at)
{
    return at == SIZE_MAX ? -1 : roco_length(run, roco_string_part(run, s, 0, at));
}

static roco_value call_find(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_int(character_at(run, self.string, roco_string_find(run, self.string, needle(run, arguments), 0)));
}

static size_t find_last(roco_run *run, const roco_string *s, const roco_string *part)
{
    size_t last = SIZE_MAX, at = 0;
    while ((at = roco_string_find(run, s, part, at)) != SIZE_MAX) {
        roco_run_charge(run, 1);
        last = at++;
    }
    return last;
}

static roco_value call_rfind(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_int(character_at(run, self.string, find_last(run, self.string, needle(run, arguments))));
}

static roco_value call_index(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    roco_value at = call_find(run, self, arguments);
    if (at.integer < 0)
        roco_run_fail(run, ROCO_INVALID, "index: not found");
    return at;
}

static roco_value call_count(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *part = needle(run, arguments);
    if (part->size == 0)
        return roco_int(roco_length(run, self) + 1);
    int64_t count = 0;
    for (size_t at = 0; (at = roco_string_find(run, self.string, part, at)) != SIZE_MAX; at += part->size, count++)
        roco_run_charge(run, 1);
    return roco_int(count);
}

/* The three parts around a separator at `at`. */
static roco_value partition(roco_run *run, const roco_string *s, size_t at, size_t size, bool last)
{
    roco_list *parts = roco_new_list(run, 3);
    parts->tuple = true;
    bool found = at != SIZE_MAX;
    size_t before = found ? at : last ? 0 : s->size, after = found ? at + size : before;
    roco_list_add(run->region, parts, roco_string_part(run, s, 0, before));
    roco_list_add(run->region, parts, roco_string_part(run, s, before, after - before));
    roco_list_add(run->region, parts, roco_string_part(run, s, after, s->size - after));
    return roco_list_value(parts);
}

static roco_value call_partition(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *part = needle(run, arguments);
    return partition(run, self.string, roco_string_find(run, self.string, part, 0), part->size, false);
}

static roco_value call_rpartition(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_string *part = needle(run, arguments);
    return partition(run, self.string, find_last(run, self.string, part), part->size, true);
}

static roco_value call_upper(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_change_case(run, self.string, 'u');
}

static roco_value call_lower(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_change_case(run, self.string, 'l');
}

static roco_value call_title(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_change_case(run, self.string, 't');
}

static roco_value call_capitalize(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_change_case(run, self.string, 'c');
}

static roco_value call_join(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    const roco_list *items = roco_iterate(run, arguments->n ? arguments->values[0] : roco_none());
    for (size_t i = 0; i < items->size; i++)
        if (items->items[i].kind != ROCO_VALUE_STRING)
            roco_run_fail(run, ROCO_INVALID, "join wants strings, not %s", roco_value_kind_name(items->items[i]));
    return roco_join(run, self.string, items);
}

static roco_value call_format(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_format_braces(run, self.string, arguments);
}

static bool all_characters(const roco_string *s, bool (*fits)(const roco_string *s, size_t at))
{
    for (size_t at = 0; at < s->size; at += roco_string_step(s, at))
        if (!fits(s, at))
            return false;
    return s->size > 0;
}

static bool fits_digit(const roco_string *s, size_t at)
{
    return s->data[at] >= '0' && s->data[at] <= '9';
}

static bool fits_alpha(const roco_string *s, size_t at)
{
    size_t size;
    unsigned char c = (unsigned char)s->data[at];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0xc3 && !roco_is_space(s, at, &size));
}

static bool fits_alnum(const roco_string *s, size_t at)
{
    return fits_digit(s, at) || fits_alpha(s, at);
}

static bool fits_space(const roco_string *s, size_t at)
{
    size_t size;
    return roco_is_space(s, at, &size);
}

static roco_value call_isdigit(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(all_characters(self.string, fits_digit));
}

static roco_value call_isalpha(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(all_characters(self.string, fits_alpha));
}

static roco_value call_isalnum(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(all_characters(self.string, fits_alnum));
}

static roco_value call_isspace(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(all_characters(self.string, fits_space));
}

static roco_value call_isupper(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(roco_apply_test(run, roco_text_value(run, "upper").string, self, arguments));
}

static roco_value call_islower(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_bool(roco_apply_test(run, roco_text_value(run, "lower").string, self, arguments));
}

/* --- dicts --- */

static roco_value call_get(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    if (arguments->n < 1)
        roco_run_fail(run, ROCO_INVALID, "get wants a key");
    const roco_value *value = roco_dict_get(self.dict, arguments->values[0]);
    const roco_value *other = roco_argument(arguments, 1, "default");
    return value ? *value : other ? *other : roco_none();
}

static roco_value call_items(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_apply_filter(run, roco_text_value(run, "items").string, self, &(roco_arguments){0});
}

static roco_value call_keys(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return roco_list_value((roco_list *)roco_iterate(run, self)); /* made anew for a dict */
}

static roco_value call_values(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    roco_list *list = roco_new_list(run, self.dict->size);
    for (size_t i = 0; i < self.dict->size; i++)
        roco_list_add(run->region, list, self.dict->entries[i].value);
    return roco_list_value(list);
}

static roco_value call_copy(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    return self; /* neither can change */
}

/* --- lists and loops --- */

static roco_value call_list_index(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    for (size_t i = 0; arguments->n && i < self.list->size; i++)
        if (roco_equal(run, self.list->items[i], arguments->values[0]))
            return roco_int((int64_t)i);
    roco_run_fail(run, ROCO_INVALID, "index: not found");
}

static roco_value call_list_count(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    int64_t count = 0;
    for (size_t i = 0; arguments->n && i < self.list->size; i++)
        count += roco_equal(run, self.list->items[i], arguments->values[0]);
    return roco_int(count);
}

static roco_value call_cycle(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    if (arguments->n == 0)
        roco_run_fail(run, ROCO_INVALID, "cycle wants values");
    return arguments->values[((const roco_loop *)self.other)->at % arguments->n];
}

static roco_value call_changed(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    roco_loop *loop = (roco_loop *)self.other;
    roco_list *now = roco_new_list(run, arguments->n);
    for (size_t i = 0; i < arguments->n; i++)
        roco_list_add(run->region, now, arguments->values[i]);
    bool changed = !roco_equal(run, loop->changed, roco_list_value(now));
    loop->changed = roco_list_value(now);
    return roco_bool(changed);
}

static roco_value call_forbidden(roco_run *run, roco_value self, const roco_arguments *arguments)
{
    roco_run_fail(run, ROCO_INVALID, "a template may not change %s", roco_value_kind_name(self));
}

#define STRING(name)                                                                                                   \
    {                                                                                                                  \
        ROCO_VALUE_STRING, #name, call_##name                                                                          \
    }
#define DICT(name)                                                                                                     \
    {                                                                                                                  \
        ROCO_VALUE_DICT, #name, call_##name                                                                            \
    }
#define NO_DICT(name)                                                                                                  \
    {                                                                                                                  \
        ROCO_VALUE_DICT, #name, call_forbidden                                                                         \
    }
#define NO_LIST(name)                                                                                                  \
    {                                                                                                                  \
        ROCO_VALUE_LIST, #name, call_forbidden                                                                         \
    }

/* clang-format off */
static const method_row rows[] = {
    STRING(strip), STRING(lstrip), STRING(rstrip), STRING(split), STRING(rsplit), STRING(splitlines),
    STRING(startswith), STRING(endswith), STRING(removeprefix), STRING(removesuffix), STRING(replace), STRING(find),
    STRING(rfind), STRING(index), STRING(count), STRING(partition), STRING(rpartition), STRING(upper), STRING(lower),
    STRING(title), STRING(capitalize), STRING(join), STRING(format), STRING(isdigit), STRING(isalpha),
    STRING(isalnum), STRING(isspace), STRING(isupper), STRING(islower),
    DICT(get), DICT(items), DICT(keys), DICT(values), DICT(copy),
    NO_DICT(clear), NO_DICT(pop), NO_DICT(popitem), NO_DICT(setdefault), NO_DICT(update),
    {ROCO_VALUE_LIST, "index", call_list_index}, {ROCO_VALUE_LIST, "count", call_list_count},
    NO_LIST(append), NO_LIST(extend), NO_LIST(insert), NO_LIST(remove), NO_LIST(pop), NO_LIST(clear),
    NO_LIST(sort), NO_LIST(reverse),
    {ROCO_VALUE_LOOP, "cycle", call_cycle}, {ROCO_VALUE_LOOP, "changed", call_changed},
};
/* clang-format on */

roco_value roco_find_method(roco_run *run, roco_value self, const roco_string *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].kind != self.kind || !roco_string_is(name, rows[i].name))
            continue;
        method *bound = roco_region_alloc(run->region, 1, sizeof *bound);
        *bound = (method){self, &rows[i]};
        return (roco_value){.kind = ROCO_VALUE_METHOD, .other = bound};
    }
    return roco_undefined(run, name);
}

roco_value roco_call_method(roco_run *run, roco_value value, const roco_arguments *arguments)
{
    const method *bound = value.other;
    return bound->row->call(run, bound->self, arguments);
}
