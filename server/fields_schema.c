/* The field tables as JSON Schema, for /openapi.json. */
#include "server/fields.h"

#include <string.h>

static const char *harmless_values(roco_harmless harmless)
{
    switch (harmless) {
    case ROCO_HARMLESS_NULL: return "null";
    case ROCO_HARMLESS_FALSE: return "null,false";
    case ROCO_HARMLESS_TRUE: return "null,true";
    case ROCO_HARMLESS_ZERO: return "null,0";
    case ROCO_HARMLESS_ONE: return "null,1";
    case ROCO_HARMLESS_EMPTY: return "null,\"\",[],{}";
    case ROCO_HARMLESS_NONE: return "null,\"none\"";
    case ROCO_HARMLESS_TEXT: return "null,{\"type\":\"text\"}";
    }
    return "null";
}

static bool is_required(const roco_field *f)
{
    return f->fallback && strcmp(f->fallback, "required") == 0;
}

/* What tables hold is written with ' for ". */
static void write_quoted(roco_json_out *out, const char *schema)
{
    for (; *schema; schema++)
        roco_json_format(out, "%c", *schema == '\'' ? '"' : *schema);
}

static void write_bound(roco_json_out *out, const char *name, double bound)
{
    roco_json_format(out, ",\"%s\":%.16g", name, bound);
}

/* The members that say which values are taken; null always is, unless the field must be there. */
static void write_values(roco_json_out *out, const roco_field *f)
{
    switch (f->kind) {
    case ROCO_FIELD_BOOLEAN: roco_json_raw(out, "\"type\":[\"boolean\",\"null\"]"); return;
    case ROCO_FIELD_INTEGER:
    case ROCO_FIELD_NUMBER:
        roco_json_format(out, "\"type\":[\"%s\",\"null\"]", f->kind == ROCO_FIELD_INTEGER ? "integer" : "number");
        write_bound(out, "minimum", f->low);
        write_bound(out, "maximum", f->high);
        return;
    case ROCO_FIELD_CUSTOM:
        roco_json_raw(out, "\"anyOf\":[");
        write_quoted(out, f->schema ? f->schema : "{}");
        roco_json_raw(out, is_required(f) ? "]" : ",{\"type\":\"null\"}]");
        return;
    case ROCO_FIELD_REFUSED: roco_json_format(out, "\"enum\":[%s]", harmless_values(f->harmless)); return;
    case ROCO_FIELD_IGNORED:
        roco_json_raw(out, "\"type\":[\"null\",\"boolean\",\"number\",\"string\",\"array\",\"object\"]");
        return;
    }
}

static void write_description(roco_json_out *out, const roco_field *f)
{
    roco_buffer text = {0};
    roco_status status = roco_buffer_append_text(&text, f->help ? f->help : "not supported by this server");
    if (!status && f->fallback && !is_required(f))
        status = roco_buffer_append_format(&text, ". Default: %s", f->fallback);
    if (!status && f->original)
        status = roco_buffer_append_format(&text, ". The original's: %s", f->original);
    if (status)
        out->failed = true;
    roco_json_raw(out, ",\"description\":");
    roco_json_string(out, text.data, text.size);
    roco_buffer_free(&text);
}

/* Whether a row stands behind another of its name. */
static bool is_hidden(const roco_field *first, const roco_field *f)
{
    for (; first; first = first->more)
        for (; first->name; first++)
            if (strcmp(first->name, f->name) == 0)
                return first != f;
    return false;
}

void roco_fields_schema(const roco_field *fields, roco_json_out *out)
{
    const char *separator = "";
    roco_json_raw(out, "{\"type\":\"object\",\"properties\":{");
    for (const roco_field *f = fields; f; f = f->more)
        for (; f->name; f++) {
            if (is_hidden(fields, f))
                continue;
            roco_json_format(out, "%s\"%s\":{", separator, f->name);
            write_values(out, f);
            write_description(out, f);
            roco_json_raw(out, "}");
            separator = ",";
        }
    roco_json_raw(out, "},\"required\":[");
    separator = "";
    for (const roco_field *f = fields; f; f = f->more)
        for (; f->name; f++)
            if (is_required(f) && !is_hidden(fields, f)) {
                roco_json_format(out, "%s\"%s\"", separator, f->name);
                separator = ",";
            }
    roco_json_raw(out, "]}");
}
