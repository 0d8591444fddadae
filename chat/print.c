/* Values as text: Python's str() and repr(), and JSON as json.dumps writes it. */
#include "chat/run.h"

#include "config/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_any(roco_run *run, roco_builder *out, roco_value value, bool quoted);

/* The shortest digits that read back to the same number, in Python's layout. */
static void print_float(roco_run *run, roco_builder *out, double number)
{
    char text[40], digits[40];
    if (!isfinite(number)) {
        roco_builder_text(run, out, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, number);
    while (strtod(digits, NULL) != number && ++precision <= 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= 16 || exponent < -4)
        snprintf(text, sizeof text, "%.*e", precision - 1, number);
    else
        snprintf(text, sizeof text, "%.*f", precision - 1 > exponent ? precision - 1 - exponent : 1, number);
    roco_builder_text(run, out, text);
}

static void print_int(roco_run *run, roco_builder *out, int64_t integer)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)integer);
    roco_builder_text(run, out, text);
}

static bool is_printable(uint32_t code)
{
    return code >= 0x20 && code != 0x7f && !(code >= 0x80 && code <= 0xa0) && code != 0xad &&
           !(code >= 0x200b && code <= 0x200f) && !(code >= 0x2028 && code <= 0x202e) &&
           !(code >= 0x2060 && code <= 0x206f) && code != 0xfeff && code != 0x3000 &&
           !(code >= 0x2000 && code <= 0x200a) && !(code >= 0xe000 && code <= 0xf8ff);
}

static void escape_quoted(char *text, size_t size, uint32_t code)
{
    const char *simple = code == '\n'   ? "\\n"
                         : code == '\r' ? "\\r"
                         : code == '\t' ? "\\t"
                         : code == '\\' ? "\\\\"
                                        : NULL;
    if (simple)
        snprintf(text, size, "%s", simple);
    else if (code == '\'')
        snprintf(text, size, "\\'");
    else
        snprintf(text, size, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
}

static void print_quoted_string(roco_run *run, roco_builder *out, const roco_string *s)
{
    bool apostrophe = s->size && memchr(s->data, '\'', s->size), quote = s->size && memchr(s->data, '"', s->size);
    const char *around = apostrophe && !quote ? "\"" : "'";
    roco_builder_text(run, out, around);
    for (size_t at = 0, size; at < s->size; at += size) {
        uint32_t code = 0;
        size = roco_utf8_next(s->data + at, s->size - at, &code);
        size = size ? size : 1;
        roco_string part = {s->data + at, size, s->marks ? s->marks + at : NULL, s->foreign};
        char text[16];
        if (!is_printable(code) || code == '\\' || (code == '\'' && quote)) {
            escape_quoted(text, sizeof text, code);
            roco_builder_bytes(run, out, text, strlen(text), roco_string_mark(s, at));
        } else {
            roco_builder_add(run, out, &part);
        }
    }
    roco_builder_text(run, out, around);
}

static void print_list(roco_run *run, roco_builder *out, const roco_list *list)
{
    roco_builder_text(run, out, list->tuple ? "(" : "[");
    for (size_t i = 0; i < list->size; i++) {
        if (i)
            roco_builder_text(run, out, ", ");
        print_any(run, out, list->items[i], true);
    }
    roco_builder_text(run, out, list->tuple ? list->size == 1 ? ",)" : ")" : "]");
}

static void print_dict(roco_run *run, roco_builder *out, const roco_dict *dict)
{
    roco_builder_text(run, out, "{");
    for (size_t i = 0; i < dict->size; i++) {
        if (i)
            roco_builder_text(run, out, ", ");
        print_any(run, out, dict->entries[i].key, true);
        roco_builder_text(run, out, ": ");
        print_any(run, out, dict->entries[i].value, true);
    }
    roco_builder_text(run, out, "}");
}

static void print_any(roco_run *run, roco_builder *out, roco_value value, bool quoted)
{
    roco_run_down(run);
    roco_run_charge(run, 1);
    switch (value.kind) {
    case ROCO_VALUE_UNDEFINED: roco_builder_text(run, out, quoted ? "Undefined" : ""); break;
    case ROCO_VALUE_NONE: roco_builder_text(run, out, "None"); break;
    case ROCO_VALUE_BOOL: roco_builder_text(run, out, value.boolean ? "True" : "False"); break;
    case ROCO_VALUE_INT: print_int(run, out, value.integer); break;
    case ROCO_VALUE_FLOAT: print_float(run, out, value.number); break;
    case ROCO_VALUE_STRING:
        if (quoted)
            print_quoted_string(run, out, value.string);
        else
            roco_builder_add(run, out, value.string);
        break;
    case ROCO_VALUE_LIST: print_list(run, out, value.list); break;
    case ROCO_VALUE_DICT: print_dict(run, out, value.dict); break;
    default:
        roco_builder_text(run, out, "<");
        roco_builder_text(run, out, roco_value_kind_name(value) + 2);
        roco_builder_text(run, out, ">");
    }
    roco_run_up(run);
}

void roco_print(roco_run *run, roco_builder *out, roco_value value)
{
    print_any(run, out, value, false);
}

void roco_print_quoted(roco_run *run, roco_builder *out, roco_value value)
{
    print_any(run, out, value, true);
}

roco_value roco_to_text(roco_run *run, roco_value value)
{
    if (value.kind == ROCO_VALUE_STRING)
        return value;
    roco_builder out = {0};
    roco_print(run, &out, value);
    return roco_builder_value(run, &out);
}

const roco_string *roco_to_string(roco_run *run, roco_value value)
{
    return roco_to_text(run, value).string;
}

/* --- JSON --- */

typedef struct json {
    roco_run *run;
    roco_builder *out;
    const roco_json_style *style;
    unsigned level;
} json;

static void json_value(json *j, roco_value value);

static void json_escape(char *text, size_t size, uint32_t code, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    const char *simple = code && code < 0x80 ? strchr(from, (int)code) : NULL;
    if (simple)
        snprintf(text, size, "\\%c", to[simple - from]);
    else if (code < 0x10000 && (code < 0x20 || (ascii && code > 0x7e)))
        snprintf(text, size, "\\u%04x", code);
    else if (ascii && code >= 0x10000)
        snprintf(text, size, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    else
        text[0] = '\0';
}

static void json_string(json *j, const roco_string *s)
{
    roco_builder_text(j->run, j->out, "\"");
    size_t start = 0;
    for (size_t at = 0, size; at <= s->size; at += size) {
        uint32_t code = 0;
        char text[16] = "";
        size = at < s->size ? roco_utf8_next(s->data + at, s->size - at, &code) : 1;
        size = size ? size : 1;
        if (at < s->size)
            json_escape(text, sizeof text, code, j->style->ascii);
        if (at < s->size && !text[0])
            continue;
        roco_string part = {s->data + start, at - start, s->marks ? s->marks + start : NULL, s->foreign};
        roco_builder_add(j->run, j->out, &part);
        if (at < s->size)
            roco_builder_bytes(j->run, j->out, text, strlen(text), roco_string_mark(s, at));
        start = at + size;
    }
    roco_builder_text(j->run, j->out, "\"");
}

static void json_line(json *j)
{
    if (!j->style->indent)
        return;
    roco_builder_text(j->run, j->out, "\n");
    for (unsigned i = 0; i < j->level; i++)
        roco_builder_add(j->run, j->out, j->style->indent);
}

static void json_between(json *j, bool first)
{
    if (!first && j->style->item_separator)
        roco_builder_add(j->run, j->out, j->style->item_separator);
    else if (!first)
        roco_builder_text(j->run, j->out, j->style->indent ? "," : ", ");
    json_line(j);
}

static void json_list(json *j, const roco_list *list)
{
    roco_builder_text(j->run, j->out, "[");
    j->level++;
    for (size_t i = 0; i < list->size; i++) {
        json_between(j, i == 0);
        json_value(j, list->items[i]);
    }
    j->level--;
    if (list->size)
        json_line(j);
    roco_builder_text(j->run, j->out, "]");
}

static const roco_dict_entry *json_entries(json *j, const roco_dict *dict)
{
    if (!j->style->sort)
        return dict->entries;
    roco_dict_entry *entries = roco_region_alloc(j->run->region, dict->size + 1, sizeof *entries);
    memcpy(entries, dict->entries, dict->size * sizeof *entries);
    roco_sort_entries(j->run, entries, dict->size, false);
    return entries;
}

static void json_key(json *j, roco_value key)
{
    if (key.kind == ROCO_VALUE_STRING) {
        json_string(j, key.string);
        return;
    }
    if (key.kind > ROCO_VALUE_FLOAT || key.kind == ROCO_VALUE_UNDEFINED)
        roco_run_fail(j->run, ROCO_INVALID, "tojson: %s cannot be a key", roco_value_kind_name(key));
    roco_builder_text(j->run, j->out, "\"");
    json_value(j, key);
    roco_builder_text(j->run, j->out, "\"");
}

static void json_dict(json *j, const roco_dict *dict)
{
    roco_builder_text(j->run, j->out, "{");
    j->level++;
    const roco_dict_entry *entries = json_entries(j, dict);
    for (size_t i = 0; i < dict->size; i++) {
        json_between(j, i == 0);
        json_key(j, entries[i].key);
        if (j->style->key_separator)
            roco_builder_add(j->run, j->out, j->style->key_separator);
        else
            roco_builder_text(j->run, j->out, ": ");
        json_value(j, entries[i].value);
    }
    j->level--;
    if (dict->size)
        json_line(j);
    roco_builder_text(j->run, j->out, "}");
}

static void json_value(json *j, roco_value value)
{
    roco_run_down(j->run);
    roco_run_charge(j->run, 1);
    switch (value.kind) {
    case ROCO_VALUE_NONE: roco_builder_text(j->run, j->out, "null"); break;
    case ROCO_VALUE_BOOL: roco_builder_text(j->run, j->out, value.boolean ? "true" : "false"); break;
    case ROCO_VALUE_INT: print_int(j->run, j->out, value.integer); break;
    case ROCO_VALUE_FLOAT:
        if (isfinite(value.number))
            print_float(j->run, j->out, value.number);
        else
            roco_builder_text(j->run, j->out,
                              isnan(value.number) ? "NaN"
                              : value.number > 0  ? "Infinity"
                                                  : "-Infinity");
        break;
    case ROCO_VALUE_STRING: json_string(j, value.string); break;
    case ROCO_VALUE_LIST: json_list(j, value.list); break;
    case ROCO_VALUE_DICT: json_dict(j, value.dict); break;
    default: roco_run_fail(j->run, ROCO_INVALID, "tojson: %s is no JSON", roco_value_kind_name(value));
    }
    roco_run_up(j->run);
}

void roco_print_json(roco_run *run, roco_builder *out, roco_value value, const roco_json_style *style)
{
    json j = {run, out, style, 0};
    json_value(&j, value);
}
