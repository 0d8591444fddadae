/* Request fields: one table row each, which feeds the reader, its errors and the reference in docs/.
 *
 * A row says what a field may be; roco_fields_read turns a JSON object into a struct by the rows. null always means
 * the default. A name without a row is ignored, so clients may send what they like as long as it changes no answer.
 * Any thread: the tables are constant.
 */
#ifndef ROCO_SERVER_FIELDS_H
#define ROCO_SERVER_FIELDS_H

#include "config/status.h"
#include "http/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum roco_field_kind {
    ROCO_FIELD_BOOLEAN, /* bool at offset */
    ROCO_FIELD_INTEGER, /* int64_t at offset, low..high */
    ROCO_FIELD_NUMBER,  /* double at offset, low..high */
    ROCO_FIELD_CUSTOM,  /* `read` does it */
    ROCO_FIELD_REFUSED, /* would change the answer and is not done: only the harmless value is taken */
    ROCO_FIELD_IGNORED, /* known, of no effect */
} roco_field_kind;

/* Besides null, the value of a refused field that asks for nothing. */
typedef enum roco_harmless {
    ROCO_HARMLESS_NULL,
    ROCO_HARMLESS_FALSE,
    ROCO_HARMLESS_TRUE,
    ROCO_HARMLESS_ZERO,
    ROCO_HARMLESS_ONE,
    ROCO_HARMLESS_EMPTY, /* "", [] or {} */
    ROCO_HARMLESS_NONE,  /* "none" */
    ROCO_HARMLESS_TEXT,  /* {"type": "text"} */
} roco_harmless;

typedef struct roco_field {
    const char *name;
    roco_field_kind kind;
    double low, high; /* bounds; shown in errors and docs */
    size_t offset;
    roco_status (*read)(const cJSON *value, void *out, roco_error *error); /* out: the whole struct */
    roco_harmless harmless;
    const char *type;     /* for the docs where the kind does not say it */
    const char *fallback; /* the default in words */
    const char *help;
    const char *original; /* how it stands to the field of that name in the API that the endpoint follows, OpenAI's or
                             Anthropic's: "same", "differs: ..."; NULL: that has none, or the kind says it */
    const char *schema;   /* JSON Schema of a custom field, with ' for "; NULL: any value */
    const struct roco_field *more; /* of the last row: a table that goes on; rows of the same name count no more */
} roco_field;

/* Reads `object` into `out`, which holds the defaults already. `fields` ends with name NULL and has at most 192 rows,
 * those of `more` included. ROCO_INVALID or ROCO_UNSUPPORTED with the field's name; also when a field occurs twice. */
roco_status roco_fields_read(const roco_field *fields, const cJSON *object, void *out, roco_error *error);

/* The rows as a Markdown table, without those of `more`. */
void roco_fields_print(const roco_field *fields, FILE *out);

/* The rows, those of `more` included, as a JSON Schema of the object. A row whose fallback is "required" must be there.
 */
void roco_fields_schema(const roco_field *fields, roco_json_out *out);

/* For custom readers: the messages all rows share. */
roco_status roco_field_not_integer(roco_error *error, const char *field, double low, double high);

#endif
