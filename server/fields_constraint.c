/* The fields that constrain an answer: readers that find what is meant; constraints.c compiles it. Any thread. */
#include "server/fields_completion.h"

#include <string.h>

/* Only one of them can be kept. */
roco_status roco_constraint_set(roco_completion_params *params, roco_constraint_kind kind, const cJSON *source,
                                const char *field, roco_error *error)
{
    roco_constraint_field *constraint = &params->constraint;
    if (constraint->kind != ROCO_CONSTRAINT_NONE)
        return roco_fail(error, ROCO_INVALID, field, "%s and %s both say what the answer must be; give one of them",
                         constraint->field, field);
    *constraint = (roco_constraint_field){.kind = kind, .source = source, .field = field};
    return ROCO_OK;
}

static roco_status set(void *out, roco_constraint_kind kind, const cJSON *source, const char *field, roco_error *error)
{
    return roco_constraint_set(out, kind, source, field, error);
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static roco_status not_one(roco_error *error, const char *field, const char *what)
{
    return roco_fail(error, ROCO_INVALID, field, "%s must be %s", field, what);
}

/* A schema: an object, or the booleans that stand for any value and none. */
static roco_status set_schema(void *out, const cJSON *value, const char *field, roco_error *error)
{
    if (!cJSON_IsObject(value) && !cJSON_IsBool(value))
        return not_one(error, field, "a JSON Schema, an object");
    return set(out, ROCO_CONSTRAINT_SCHEMA, value, field, error);
}

static roco_status set_text(void *out, roco_constraint_kind kind, const cJSON *value, const char *field,
                            const char *what, roco_error *error)
{
    if (!cJSON_IsString(value))
        return not_one(error, field, what);
    /* An empty text is how clients say "none". */
    return value->valuestring[0] ? set(out, kind, value, field, error) : ROCO_OK;
}

static roco_status set_choice(void *out, const cJSON *value, const char *field, roco_error *error)
{
    bool good = cJSON_IsArray(value);
    for (const cJSON *item = good ? value->child : NULL; item; item = item->next)
        good = good && cJSON_IsString(item);
    if (!good)
        return not_one(error, field, "an array of strings");
    return value->child ? set(out, ROCO_CONSTRAINT_CHOICE, value, field, error) : ROCO_OK;
}

roco_status roco_response_format_read(const cJSON *value, void *out, roco_error *error)
{
    static const char field[] = "response_format";
    const cJSON *type = member(value, "type");
    const char *name = cJSON_IsString(type) ? type->valuestring : "";
    if (!cJSON_IsObject(value))
        return not_one(error, field, "an object");
    if (strcmp(name, "text") == 0)
        return ROCO_OK;
    if (strcmp(name, "json_object") == 0) {
        /* Some servers take a schema here. */
        const cJSON *schema = member(value, "schema");
        return schema ? set_schema(out, schema, "response_format.schema", error)
                      : set(out, ROCO_CONSTRAINT_OBJECT, NULL, field, error);
    }
    if (strcmp(name, "json_schema") != 0)
        return not_one(error, "response_format.type", "\"text\", \"json_object\" or \"json_schema\"");
    const cJSON *wrapped = member(value, "json_schema");
    const cJSON *title = member(wrapped, "name"), *strict = member(wrapped, "strict");
    if (!cJSON_IsObject(wrapped))
        return not_one(error, "response_format.json_schema", "an object with the schema as its member `schema`");
    if (title && !cJSON_IsString(title))
        return not_one(error, "response_format.json_schema.name", "a string");
    if (strict && !cJSON_IsBool(strict) && !cJSON_IsNull(strict))
        return not_one(error, "response_format.json_schema.strict", "true or false");
    return set_schema(out, member(wrapped, "schema"), "response_format.json_schema.schema", error);
}

roco_status roco_grammar_read(const cJSON *value, void *out, roco_error *error)
{
    return set_text(out, ROCO_CONSTRAINT_GBNF, value, "grammar", "a grammar in GBNF, a string", error);
}

roco_status roco_regex_read(const cJSON *value, void *out, roco_error *error)
{
    return set_text(out, ROCO_CONSTRAINT_REGEX, value, "regex", "a regular expression, a string", error);
}

roco_status roco_json_schema_read(const cJSON *value, void *out, roco_error *error)
{
    return set_schema(out, value, "json_schema", error);
}

roco_status roco_guided_json_read(const cJSON *value, void *out, roco_error *error)
{
    return set_schema(out, value, "guided_json", error);
}

roco_status roco_guided_regex_read(const cJSON *value, void *out, roco_error *error)
{
    return set_text(out, ROCO_CONSTRAINT_REGEX, value, "guided_regex", "a regular expression, a string", error);
}

roco_status roco_guided_choice_read(const cJSON *value, void *out, roco_error *error)
{
    return set_choice(out, value, "guided_choice", error);
}

roco_status roco_guided_grammar_read(const cJSON *value, void *out, roco_error *error)
{
    return set_text(out, ROCO_CONSTRAINT_GBNF, value, "guided_grammar", "a grammar in GBNF, a string", error);
}

roco_status roco_structured_outputs_read(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsObject(value))
        return not_one(error, "structured_outputs", "an object");
    roco_status status = ROCO_OK;
    for (const cJSON *item = value->child; item && !status; item = item->next) {
        if (cJSON_IsNull(item))
            continue;
        if (strcmp(item->string, "json") == 0)
            status = set_schema(out, item, "structured_outputs.json", error);
        else if (strcmp(item->string, "regex") == 0)
            status = set_text(out, ROCO_CONSTRAINT_REGEX, item, "structured_outputs.regex", "a string", error);
        else if (strcmp(item->string, "choice") == 0)
            status = set_choice(out, item, "structured_outputs.choice", error);
        else if (strcmp(item->string, "grammar") == 0)
            status = set_text(out, ROCO_CONSTRAINT_GBNF, item, "structured_outputs.grammar", "a string", error);
        else if (strcmp(item->string, "json_object") == 0)
            status = cJSON_IsTrue(item)
                         ? set(out, ROCO_CONSTRAINT_OBJECT, NULL, "structured_outputs.json_object", error)
                         : ROCO_OK;
        else
            status = not_one(error, "structured_outputs", "an object with json, regex, choice, grammar or json_object");
    }
    return status;
}

roco_status roco_constraint_check(const roco_completion_params *params, roco_error *error)
{
    const char *field = params->constraint.field;
    if (params->constraint.kind == ROCO_CONSTRAINT_NONE)
        return ROCO_OK;
    if (params->ignore_eos)
        return roco_fail(error, ROCO_INVALID, "ignore_eos", "ignore_eos and %s ask for opposite things", field);
    return ROCO_OK;
}
