/* The reader and printer behind the field tables. */
#include "server/fields.h"

#include <math.h>
#include <string.h>

enum { MAX_FIELDS = 192 };

/* Linear: tables are short and requests shorter. *index counts through the tables that go on from one another. */
static const roco_field *find(const roco_field *fields, const char *name, size_t *index)
{
    for (*index = 0; fields; fields = fields->more)
        for (; fields->name; fields++, ++*index)
            if (strcmp(fields->name, name) == 0)
                return fields;
    return NULL;
}

roco_status roco_field_not_integer(roco_error *error, const char *field, double low, double high)
{
    return roco_fail(error, ROCO_INVALID, field, "%s must be an integer from %.0f to %.0f", field, low, high);
}

static roco_status read_integer(const roco_field *field, const cJSON *value, char *out, roco_error *error)
{
    int64_t integer;
    if (!roco_json_integer(value, &integer) || (double)integer < field->low || (double)integer > field->high)
        return roco_field_not_integer(error, field->name, field->low, field->high);
    memcpy(out + field->offset, &integer, sizeof integer);
    return ROCO_OK;
}

static roco_status read_number(const roco_field *field, const cJSON *value, char *out, roco_error *error)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(number >= field->low && number <= field->high))
        return roco_fail(error, ROCO_INVALID, field->name, "%s must be a number from %g to %g", field->name, field->low,
                         field->high);
    memcpy(out + field->offset, &number, sizeof number);
    return ROCO_OK;
}

static roco_status read_boolean(const roco_field *field, const cJSON *value, char *out, roco_error *error)
{
    if (!cJSON_IsBool(value))
        return roco_fail(error, ROCO_INVALID, field->name, "%s must be true or false", field->name);
    bool boolean = cJSON_IsTrue(value);
    memcpy(out + field->offset, &boolean, sizeof boolean);
    return ROCO_OK;
}

static bool is_harmless(roco_harmless harmless, const cJSON *value)
{
    switch (harmless) {
    case ROCO_HARMLESS_NULL: return false;
    case ROCO_HARMLESS_FALSE: return cJSON_IsFalse(value);
    case ROCO_HARMLESS_TRUE: return cJSON_IsTrue(value);
    case ROCO_HARMLESS_ZERO: return cJSON_IsNumber(value) && value->valuedouble == 0;
    case ROCO_HARMLESS_ONE: return cJSON_IsNumber(value) && value->valuedouble == 1;
    case ROCO_HARMLESS_EMPTY:
        if (cJSON_IsString(value))
            return value->valuestring[0] == '\0';
        return (cJSON_IsArray(value) || cJSON_IsObject(value)) && !value->child;
    case ROCO_HARMLESS_NONE: return cJSON_IsString(value) && strcmp(value->valuestring, "none") == 0;
    case ROCO_HARMLESS_TEXT: {
        const cJSON *type = cJSON_IsObject(value) ? value->child : NULL;
        return type && !type->next && strcmp(type->string, "type") == 0 && cJSON_IsString(type) &&
               strcmp(type->valuestring, "text") == 0;
    }
    }
    return false;
}

static roco_status read_field(const roco_field *field, const cJSON *value, void *out, roco_error *error)
{
    switch (field->kind) {
    case ROCO_FIELD_BOOLEAN: return read_boolean(field, value, out, error);
    case ROCO_FIELD_INTEGER: return read_integer(field, value, out, error);
    case ROCO_FIELD_NUMBER: return read_number(field, value, out, error);
    case ROCO_FIELD_CUSTOM: return field->read(value, out, error);
    case ROCO_FIELD_REFUSED:
        if (is_harmless(field->harmless, value))
            return ROCO_OK;
        return roco_fail(error, ROCO_UNSUPPORTED, field->name, "%s is not supported by this server", field->name);
    case ROCO_FIELD_IGNORED: return ROCO_OK;
    }
    return ROCO_OK;
}

roco_status roco_fields_read(const roco_field *fields, const cJSON *object, void *out, roco_error *error)
{
    if (!cJSON_IsObject(object))
        return roco_fail(error, ROCO_INVALID, NULL, "the body must be a JSON object");
    bool seen[MAX_FIELDS] = {false};
    for (const cJSON *value = object->child; value; value = value->next) {
        size_t index = 0;
        const roco_field *field = find(fields, value->string, &index);
        if (!field)
            continue;
        ROCO_CHECK(index < MAX_FIELDS);
        /* Parsers disagree on which of two wins, so neither is guessed. */
        if (seen[index])
            return roco_fail(error, ROCO_INVALID, field->name, "%s is given twice", field->name);
        seen[index] = true;
        roco_status status = cJSON_IsNull(value) ? ROCO_OK : read_field(field, value, out, error);
        if (status)
            return status;
    }
    return ROCO_OK;
}

static const char *harmless_text(roco_harmless harmless)
{
    switch (harmless) {
    case ROCO_HARMLESS_NULL: return "null";
    case ROCO_HARMLESS_FALSE: return "null or false";
    case ROCO_HARMLESS_TRUE: return "null or true";
    case ROCO_HARMLESS_ZERO: return "null or 0";
    case ROCO_HARMLESS_ONE: return "null or 1";
    case ROCO_HARMLESS_EMPTY: return "null or empty";
    case ROCO_HARMLESS_NONE: return "null or \"none\"";
    case ROCO_HARMLESS_TEXT: return "null or type text";
    }
    return "null";
}

static void print_row(const roco_field *f, FILE *out)
{
    fprintf(out, "| `%s` | ", f->name);
    switch (f->kind) {
    case ROCO_FIELD_BOOLEAN: fputs("true or false", out); break;
    case ROCO_FIELD_INTEGER: fprintf(out, "integer %.0f..%.0f", f->low, f->high); break;
    case ROCO_FIELD_NUMBER: fprintf(out, "number %g..%g", f->low, f->high); break;
    case ROCO_FIELD_CUSTOM: fputs(f->type, out); break;
    case ROCO_FIELD_REFUSED: fprintf(out, "refused unless %s", harmless_text(f->harmless)); break;
    case ROCO_FIELD_IGNORED: fputs("anything", out); break;
    }
    const char *original = f->kind == ROCO_FIELD_REFUSED ? "refused" : f->kind == ROCO_FIELD_IGNORED ? "ignored" : "";
    fprintf(out, " | %s | %s | %s |\n", f->fallback ? f->fallback : "", f->help ? f->help : "",
            f->original ? f->original : original);
}

void roco_fields_print(const roco_field *fields, FILE *out)
{
    fputs("| field | value | default | what it does | original |\n|---|---|---|---|---|\n", out);
    for (; fields->name; fields++)
        print_row(fields, out);
}
