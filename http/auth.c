/* API keys as fixed-size records.
 *
 * A record is the key, padded with zeros to 255 bytes, and its length in the last byte: equal records mean equal keys,
 * and a comparison touches all 256 bytes of every record whatever it finds. A digest would give the same property at
 * the price of a cryptographic dependency; the keys are in this process' memory either way.
 */
#include "http/auth.h"

#include "config/clock.h"
#include "config/log.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct key_record {
    unsigned char bytes[ROCO_API_KEY_MAX + 1];
    uint32_t account; /* index; NOBODY */
} key_record;

#define NOBODY UINT32_MAX

/* A name of the file. */
typedef struct name_record {
    char name[ROCO_ACCOUNT_NAME_MAX + 1];
    roco_account_limits limits;
    roco_account *account; /* held; NULL until the whole file was right */
} name_record;

struct roco_api_keys {
    size_t n, n_names;
    key_record *records;
    name_record *names;
};

/* --- records --- */

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

/* --- a line --- */

typedef struct line {
    size_t number;
    char name[ROCO_ACCOUNT_NAME_MAX + 1]; /* "": none */
    roco_account_limits limits;
    bool limited;
} line;

static roco_status no_memory(roco_error *error)
{
    return roco_fail(error, ROCO_NO_MEMORY, "api-key-file", "no memory for the API keys");
}

static roco_status read_number(const line *l, const char *word, const char *digits, uint32_t min, uint32_t *out,
                               roco_error *error)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(digits, &end, 10);
    if (!isdigit((unsigned char)*digits) || *end || errno || value < min || value > INT32_MAX)
        return roco_fail(error, ROCO_INVALID, "api-key-file", "API key file, line %zu: %.*s must be %" PRIu32 " to %d",
                         l->number, (int)strcspn(word, "="), word, min, INT32_MAX);
    *out = (uint32_t)value;
    return ROCO_OK;
}

static roco_status read_name(line *l, const char *name, roco_error *error)
{
    size_t size = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (size == 0 || size > ROCO_ACCOUNT_NAME_MAX || name[size])
        return roco_fail(error, ROCO_INVALID, "api-key-file",
                         "API key file, line %zu: name must be 1 to %d characters of A-Z a-z 0-9 . _ -", l->number,
                         ROCO_ACCOUNT_NAME_MAX);
    memcpy(l->name, name, size + 1);
    return ROCO_OK;
}

/* "name=value", a word behind the key. What is not known is not shown: it may be part of a key. */
static roco_status read_word(line *l, const char *word, roco_error *error)
{
    static const struct {
        const char *name;
        uint32_t min;
        size_t offset;
    } numbers[] = {
        {"running=", 1, offsetof(roco_account_limits, running)},
        {"queued=", 0, offsetof(roco_account_limits, queued)},
        {"tokens-per-minute=", 1, offsetof(roco_account_limits, tokens_per_minute)},
    };
    if (strncmp(word, "name=", strlen("name=")) == 0)
        return read_name(l, word + strlen("name="), error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t size = strlen(numbers[i].name);
        if (strncmp(word, numbers[i].name, size) != 0)
            continue;
        l->limited = true;
        uint32_t *value = (uint32_t *)(void *)((char *)&l->limits + numbers[i].offset);
        return read_number(l, word, word + size, numbers[i].min, value, error);
    }
    return roco_fail(error, ROCO_INVALID, "api-key-file",
                     "API key file, line %zu: behind a key may stand name=, running=, queued= and tokens-per-minute=, "
                     "with spaces between",
                     l->number);
}

static roco_status find_name(roco_api_keys *keys, const line *l, uint32_t *index, roco_error *error)
{
    *index = NOBODY;
    if (!*l->name)
        return !l->limited ? ROCO_OK
                           : roco_fail(error, ROCO_INVALID, "api-key-file",
                                       "API key file, line %zu: a key with limits needs a name=", l->number);
    for (size_t i = 0; i < keys->n_names; i++)
        if (strcmp(keys->names[i].name, l->name) == 0)
            *index = (uint32_t)i;
    if (*index != NOBODY)
        return !l->limited ? ROCO_OK
                           : roco_fail(error, ROCO_INVALID, "api-key-file",
                                       "API key file, line %zu: the limits of %s were given on an earlier line",
                                       l->number, l->name);
    if (keys->n_names == ROCO_ACCOUNTS_MAX)
        return roco_fail(error, ROCO_INVALID, "api-key-file", "API key file, line %zu: more than %d names", l->number,
                         ROCO_ACCOUNTS_MAX);
    name_record *grown = realloc(keys->names, (keys->n_names + 1) * sizeof *grown);
    if (!grown)
        return no_memory(error);
    keys->names = grown;
    *index = (uint32_t)keys->n_names;
    name_record *added = &grown[keys->n_names++];
    *added = (name_record){.limits = l->limits};
    memcpy(added->name, l->name, sizeof added->name);
    return ROCO_OK;
}

static roco_status add_key(roco_api_keys *keys, const line *l, const char *key, size_t size, roco_error *error)
{
    key_record *grown = realloc(keys->records, (keys->n + 1) * sizeof *grown);
    if (!grown)
        return no_memory(error);
    keys->records = grown;
    key_record *added = &grown[keys->n];
    if (!make_record(key, size, added))
        return roco_fail(error, ROCO_INVALID, "api-key-file",
                         "API key file, line %zu: the key must be 1 to %d printable ASCII characters without spaces",
                         l->number, ROCO_API_KEY_MAX);
    for (size_t i = 0; i < keys->n; i++)
        if (records_equal(added, &grown[i]))
            return roco_fail(error, ROCO_INVALID, "api-key-file", "API key file, line %zu: the key is there twice",
                             l->number);
    keys->n++;
    return find_name(keys, l, &added->account, error);
}

/* `text` has `size` bytes and a NUL behind them, which is not the first when the line holds one itself. */
static roco_status read_line(roco_api_keys *keys, size_t number, char *text, size_t size, roco_error *error)
{
    static const char spaces[] = " \t\r\n";
    line l = {.number = number, .limits = {ROCO_SHARE_UNLIMITED, ROCO_SHARE_UNLIMITED, 0}};
    char *key = text + strspn(text, spaces);
    if (strlen(text) != size)
        return add_key(keys, &l, key, 0, error);
    if (*key == '#' || *key == '\0')
        return ROCO_OK;
    size_t key_size = strcspn(key, spaces);
    char *saved = NULL;
    roco_status status = ROCO_OK;
    for (char *word = strtok_r(key + key_size, spaces, &saved); word && !status; word = strtok_r(NULL, spaces, &saved))
        status = read_word(&l, word, error);
    return status ? status : add_key(keys, &l, key, key_size, error);
}

/* --- the file --- */

static roco_status read_lines(FILE *file, roco_api_keys *keys, roco_error *error)
{
    char *text = NULL;
    size_t capacity = 0;
    roco_status status = ROCO_OK;
    ssize_t length;
    for (size_t number = 1; !status && (length = getline(&text, &capacity, file)) >= 0; number++)
        status = read_line(keys, number, text, (size_t)length, error);
    if (text) {
        explicit_bzero(text, capacity);
        free(text);
    }
    if (status == ROCO_OK && ferror(file))
        status = roco_fail(error, ROCO_IO, "api-key-file", "cannot read the API key file: %s", strerror(errno));
    return status;
}

static roco_account *account_of(const roco_api_keys *keys, const char *name)
{
    for (size_t i = 0; keys && i < keys->n_names; i++)
        if (strcmp(keys->names[i].name, name) == 0)
            return keys->names[i].account;
    return NULL;
}

/* Nothing can fail once the first account of before has its new limits. */
static roco_status open_accounts(roco_api_keys *keys, const roco_api_keys *before, roco_error *error)
{
    uint64_t now = roco_now_ns();
    for (size_t i = 0; i < keys->n_names; i++) {
        name_record *name = &keys->names[i];
        name->account = account_of(before, name->name);
        if (name->account)
            roco_account_hold(name->account);
        else
            name->account = roco_account_open(name->name, &name->limits, now);
        if (!name->account)
            return no_memory(error);
    }
    for (size_t i = 0; i < keys->n_names; i++)
        roco_account_set_limits(keys->names[i].account, &keys->names[i].limits, now);
    return ROCO_OK;
}

roco_status roco_api_keys_read(const char *path, const roco_api_keys *before, roco_api_keys **out, roco_error *error)
{
    *out = NULL;
    FILE *file = fopen(path, "re");
    if (!file)
        return roco_fail(error, ROCO_IO, "api-key-file", "cannot open the API key file: %s", strerror(errno));
    struct stat about;
    if (fstat(fileno(file), &about) == 0 && (about.st_mode & S_IROTH) != 0)
        roco_log(ROCO_LOG_WARN, "the API key file may be read by everyone: chmod 600 it");
    roco_api_keys *keys = calloc(1, sizeof *keys);
    roco_status status = keys ? read_lines(file, keys, error) : no_memory(error);
    fclose(file);
    if (status == ROCO_OK && keys->n == 0)
        status = roco_fail(error, ROCO_INVALID, "api-key-file", "the API key file holds no key (one key a line)");
    if (status == ROCO_OK)
        status = open_accounts(keys, before, error);
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
    for (size_t i = 0; i < keys->n_names; i++)
        roco_account_release(keys->names[i].account);
    free(keys->records);
    free(keys->names);
    free(keys);
}

size_t roco_api_keys_count(const roco_api_keys *keys)
{
    return keys->n;
}

size_t roco_api_keys_count_accounts(const roco_api_keys *keys)
{
    return keys->n_names;
}

const roco_account *roco_api_keys_account(const roco_api_keys *keys, size_t index)
{
    return keys->names[index].account;
}

bool roco_api_keys_accept(const roco_api_keys *keys, const char *header, roco_account **account)
{
    static const char scheme[] = "Bearer ";
    *account = NULL;
    bool bearer = header && strncasecmp(header, scheme, sizeof scheme - 1) == 0;
    return bearer && roco_api_keys_accept_key(keys, header + sizeof scheme - 1, account);
}

bool roco_api_keys_accept_key(const roco_api_keys *keys, const char *key, roco_account **account)
{
    *account = NULL;
    if (!key)
        return false;
    key += strspn(key, " \t");
    size_t size = strlen(key);
    while (size > 0 && strchr(" \t", key[size - 1]))
        size--;
    key_record presented;
    bool well_formed = make_record(key, size, &presented), known = false;
    uint32_t index = NOBODY;
    for (size_t i = 0; i < keys->n; i++) {
        bool equal = records_equal(&presented, &keys->records[i]);
        known |= equal;
        index = equal ? keys->records[i].account : index;
    }
    explicit_bzero(&presented, sizeof presented);
    if (!well_formed || !known)
        return false;
    if (index != NOBODY)
        *account = keys->names[index].account;
    return true;
}
