/* A JSON value as the schema front end sees it: a plain tree that whoever parsed the JSON fills in. */
#ifndef ROCO_GRAMMAR_VALUE_H
#define ROCO_GRAMMAR_VALUE_H

typedef enum roco_json_kind {
    ROCO_JSON_NULL,
    ROCO_JSON_FALSE,
    ROCO_JSON_TRUE,
    ROCO_JSON_NUMBER,
    ROCO_JSON_STRING,
    ROCO_JSON_ARRAY,
    ROCO_JSON_OBJECT,
} roco_json_kind;

typedef struct roco_json_value {
    roco_json_kind kind;
    const char *name; /* of an object's member, UTF-8; else NULL */
    const char *text; /* STRING, UTF-8 */
    double number;    /* NUMBER */
    const struct roco_json_value *child, *next;
} roco_json_value;

#endif
