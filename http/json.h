/* JSON in and out: strict reading of request bodies on top of cJSON, and a small writer for replies.
 *
 * config/json_scan.h looks at every byte before cJSON sees one. No function here keeps state: any thread.
 */
#ifndef ROCO_HTTP_JSON_H
#define ROCO_HTTP_JSON_H

#include "config/buffer.h"
#include "config/json_scan.h"
#include "config/status.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of a body, keys counted too. */
#define ROCO_JSON_MAX_VALUES (1u << 20)

/* Scans, then parses exactly one value. Returns owned (cJSON_Delete). ROCO_INVALID, ROCO_NO_MEMORY. */
roco_status roco_json_parse(const char *text, size_t size, cJSON **out, roco_error *error);

/* True when the value is a whole number within +-ROCO_JSON_MAX_INTEGER. */
bool roco_json_integer(const cJSON *value, int64_t *out);

/* Is the text one of an array's strings? False for what is no array, and for NULL. */
bool roco_json_lists(const cJSON *array, const char *text);

/* A reply under construction. Init with {0}; failed: memory ran out, the buffer is not to be sent. */
typedef struct roco_json_out {
    roco_buffer buffer;
    bool failed;
} roco_json_out;

void roco_json_raw(roco_json_out *out, const char *text);
void roco_json_format(roco_json_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Quoted and escaped; the bytes must be UTF-8. */
void roco_json_string(roco_json_out *out, const char *data, size_t size);
void roco_json_out_free(roco_json_out *out);

#endif
