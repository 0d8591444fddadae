/* From cJSON to the values that the schema front end of grammar/ reads. Any thread. */
#ifndef ROCO_SERVER_SCHEMA_VALUE_H
#define ROCO_SERVER_SCHEMA_VALUE_H

#include "grammar/value.h"
#include "http/json.h"

/* The same tree. Borrows the strings of `json`, which must stay as it is until roco_schema_value_free. NULL when out of
 * memory. Returns owned. */
const roco_json_value *roco_schema_value(const cJSON *json);
void roco_schema_value_free(const roco_json_value *value);

#endif
