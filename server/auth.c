/* API keys as fixed-size records.
 *
 * A record is the key, padded with zeros to 255 bytes, and its length in the last byte: equal records mean equal keys,
 * and a comparison touches all 256 bytes of every record whatever it finds. A digest would give the same property at
 * the price of a cryptographic dependency; the keys are in this process' memory either way.
 */
#include "server/auth.h"

#include "config/log.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct key_record {
    unsigned char bytes[ROCO_API_KEY_MAX + 1];
} key_record;

struct roco_api_keys {
    size_t n;
    key_record *records;
};

static bool make_record(const char *key, size_t size, key_record *out)
{
    memset(out, 0, sizeof *out);
    if (size == 0 || size > ROCO_API_KEY_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (key[i] <= ' ' || key[i] > '~')
            return false;
        out->bytes[i] = (unsigned char)key[i];
    }
    out->bytes[ROCO_API_KEY_MAX] = (unsigned char)size;
    return true;
}

static bool records_equal(const key_record *a, const key_record *b)
{
    /* volatile: the compiler may not leave the loop early. */
    volatile unsigned char difference = 0;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        difference |= (unsigned char)(a->bytes[i] ^ b->bytes[i]);
    return difference == 0;
}

static roco_status add_key(roco_api_keys *keys, const char *key, size_t size, roco_error *error)
{
    key_record *grown = realloc(keys->records, (keys->n + 1) * sizeof *grown);
    if (!grown)
        return roco_fail(error, ROCO_NO_MEMORY, "api-key-file", "no memory for the API keys");
    keys->records = grown;
    if (!make_record(key, size, &grown[keys->n])) {
        return roco_fail(error, ROCO_INVALID, "api-key-file",
                         "API key number %zu must be 1 to %d printable ASCII characters without spaces", keys->n + 1,
                         ROCO_API_KEY_MAX);
    }
    keys->n++;
    return ROCO_OK;
}

static void trim(const char **text, size_t *size)
{
    while (*size > 0 && strchr(" \t\r\n", (*text)[*size - 1]) != NULL)
        (*size)--;
    while (*size > 0 && strchr(" \t", **text) != NULL) {
        (*text)++;
        (*size)--;
    }
}

static roco_status read_lines(FILE *file, roco_api_keys *keys, roco_error *error)
{
    char *line = NULL;
    size_t capacity = 0;
    roco_status status = ROCO_OK;
    ssize_t length;
    while (status == ROCO_OK && (length = getline(&line, &capacity, file)) >= 0) {
        const char *key = line;
        size_t size = (size_t)length;
        trim(&key, &size);
        if (size > 0 && *key != '#')
            status = add_key(keys, key, size, error);
    }
    if (line) {
        explicit_bzero(line, capacity);
        free(line);
    }
    if (status == ROCO_OK && ferror(file))
        status = roco_fail(error, ROCO_IO, "api-key-file", "cannot read the API key file: %s", strerror(errno));
    return status;
}

roco_status roco_api_keys_read(const char *path, roco_api_keys **out, roco_error *error)
{
    *out = NULL;
    FILE *file = fopen(path, "re");
    if (!file)
        return roco_fail(error, ROCO_IO, "api-key-file", "cannot open the API key file: %s", strerror(errno));
    struct stat about;
    if (fstat(fileno(file), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH)) != 0)
        roco_log(ROCO_LOG_WARN, "the API key file may be read by others than its owner: chmod 600 it");
    roco_api_keys *keys = calloc(1, sizeof *keys);
    roco_status status = keys ? read_lines(file, keys, error)
                              : roco_fail(error, ROCO_NO_MEMORY, "api-key-file", "no memory for the API keys");
    fclose(file);
    if (status == ROCO_OK && keys->n == 0)
        status = roco_fail(error, ROCO_INVALID, "api-key-file", "the API key file holds no key (one key a line)");
    if (status != ROCO_OK) {
        roco_api_keys_free(keys);
        return status;
    }
    *out = keys;
    return ROCO_OK;
}

void roco_api_keys_free(roco_api_keys *keys)
{
    if (!keys)
        return;
    if (keys->records)
        explicit_bzero(keys->records, keys->n * sizeof *keys->records);
    free(keys->records);
    free(keys);
}

size_t roco_api_keys_count(const roco_api_keys *keys)
{
    return keys->n;
}

bool roco_api_keys_accept(const roco_api_keys *keys, const char *header)
{
    static const char scheme[] = "Bearer ";
    if (!header || strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *key = header + sizeof scheme - 1;
    size_t size = strlen(key);
    trim(&key, &size);
    key_record presented;
    bool well_formed = make_record(key, size, &presented);
    bool known = false;
    for (size_t i = 0; i < keys->n; i++)
        known |= records_equal(&presented, &keys->records[i]);
    explicit_bzero(&presented, sizeof presented);
    return well_formed && known;
}
