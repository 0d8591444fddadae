#include "server/pins.h"

#include "server/messages.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ENTRIES 16

uint64_t roco_pins_count(const roco_pins *pins)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < pins->n; i++)
        n += pins->data[i].end - pins->data[i].first;
    return n;
}

static int by_first(const void *left, const void *right)
{
    const uint32_t a = ((const roco_pin *)left)->first, b = ((const roco_pin *)right)->first;
    return (a > b) - (a < b);
}

/* Sorts ranges, and joins those that touch. */
static void join(roco_pins *pins)
{
    uint32_t n = 0;
    qsort(pins->data, pins->n, sizeof *pins->data, by_first);
    for (uint32_t i = 0; i < pins->n; i++) {
        const roco_pin pin = pins->data[i];
        if (n > 0 && pin.first <= pins->data[n - 1].end)
            pins->data[n - 1].end = pin.end > pins->data[n - 1].end ? pin.end : pins->data[n - 1].end;
        else
            pins->data[n++] = pin;
    }
    pins->n = n;
}

static roco_status read_role(const cJSON *value, uint32_t *roles, roco_error *error)
{
    const uint32_t role = roco_role_find(value->valuestring);
    if (role == ROCO_N_ROLES)
        return roco_fail(error, ROCO_INVALID, "kv_pin",
                         "kv_pin: a role must be one of: system, developer, user, assistant, tool");
    *roles |= 1u << role;
    return ROCO_OK;
}

roco_status roco_pins_read(const cJSON *value, roco_pins *pins, uint32_t *roles, roco_error *error)
{
    *pins = (roco_pins){0};
    *roles = 0;
    if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) > MOST_ENTRIES)
        return roco_fail(error, ROCO_INVALID, "kv_pin", "kv_pin must be an array of at most %d ranges and roles",
                         MOST_ENTRIES);
    uint32_t index = 0;
    for (const cJSON *entry = value->child; entry; entry = entry->next, index++) {
        int64_t first, end;
        if (cJSON_IsString(entry)) {
            roco_status status = read_role(entry, roles, error);
            if (status)
                return status;
            continue;
        }
        if (!cJSON_IsArray(entry) || cJSON_GetArraySize(entry) != 2 || !roco_json_integer(entry->child, &first) ||
            !roco_json_integer(entry->child->next, &end) || first < 0 || end <= first || end > INT32_MAX)
            return roco_fail(error, ROCO_INVALID, "kv_pin",
                             "kv_pin: entry %u is neither a role nor [first, end] with 0 <= first < end; prompt tokens "
                             "first to end - 1 are meant",
                             index);
        pins->data[pins->n++] = (roco_pin){(uint32_t)first, (uint32_t)end};
    }
    join(pins);
    return ROCO_OK;
}

/* --- roles --- */

/* Walks over tokens and the bytes they stand for. */
typedef struct walk {
    const roco_tokenizer *tokenizer;
    const roco_rendering *rendering;
    size_t at; /* byte after the tokens so far */
} walk;

/* The bytes of the next token; none for one that stands for no text, as the begin token. The space that some files put
 * in front of a text is in the piece alone. */
static size_t take(walk *w, int32_t id)
{
    const roco_text piece = roco_tokenizer_piece(w->tokenizer, id, true);
    const char *text = w->rendering->text.data + w->at;
    const size_t left = w->rendering->text.size - w->at;
    for (size_t skip = 0; skip <= (piece.size && piece.data[0] == ' '); skip++) {
        const size_t n = piece.size - skip;
        if (n && n <= left && memcmp(text, piece.data + skip, n) == 0)
            return n;
    }
    return 0;
}

/* The role whose message one of these bytes is of; 0: none of `roles`. */
static uint32_t role_in(const walk *w, size_t n_bytes, uint32_t roles)
{
    for (size_t i = w->at; i < w->at + n_bytes; i++) {
        const uint32_t mark = (uint8_t)w->rendering->foreign.data[i] / ROCO_FROM_ROLE;
        if (mark && (roles & 1u << (mark - 1)))
            return mark;
    }
    return 0;
}

roco_status roco_pins_add_roles(roco_pins *pins, uint32_t roles, const roco_tokenizer *tokenizer, const roco_ids *ids,
                                const roco_rendering *rendering, roco_error *error)
{
    walk w = {tokenizer, rendering, 0};
    bool open = false;
    for (uint32_t i = 0; roles && i < ids->size; i++) {
        const size_t n = take(&w, ids->data[i]);
        const bool inside = role_in(&w, n, roles) != 0;
        w.at += n;
        if (inside && !open && pins->n == ROCO_MAX_PINS)
            return roco_fail(error, ROCO_INVALID, "kv_pin", "kv_pin: the roles' messages and the ranges are over %u",
                             ROCO_MAX_PINS);
        if (inside && !open)
            pins->data[pins->n++] = (roco_pin){i, i + 1};
        else if (inside)
            pins->data[pins->n - 1].end = i + 1;
        open = inside;
    }
    join(pins);
    return ROCO_OK;
}
