/* Places in a schema: from a JSON pointer to a value, and from a value to its pointer for errors. */
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const roco_json_value *roco_schema_member(const roco_json_value *object, const char *name)
{
    if (object->kind != ROCO_JSON_OBJECT)
        return NULL;
    for (const roco_json_value *member = object->child; member; member = member->next)
        if (strcmp(member->name, name) == 0)
            return member;
    return NULL;
}

/* --- from pointer to value (RFC 6901, as the fragment of a URI) --- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The next token of a pointer behind its slash, without escapes, in out[size]; false when it is too long. */
static bool next_token(const char **at, char *out, size_t size)
{
    size_t n = 0;
    const char *c = *at;
    for (; *c && *c != '/'; c++) {
        char byte = *c;
        if (byte == '%' && hex_digit(c[1]) >= 0 && hex_digit(c[2]) >= 0) {
            byte = (char)(hex_digit(c[1]) << 4 | hex_digit(c[2]));
            c += 2;
        }
        if (byte == '~' && (c[1] == '0' || c[1] == '1'))
            byte = *++c == '0' ? '~' : '/';
        if (n + 1 >= size)
            return false;
        out[n++] = byte;
    }
    out[n] = '\0';
    *at = c;
    return true;
}

static const roco_json_value *item_at(const roco_json_value *array, const char *index)
{
    char *end;
    unsigned long n = strtoul(index, &end, 10);
    if (*end || end == index)
        return NULL;
    const roco_json_value *item = array->child;
    for (; item && n > 0; n--)
        item = item->next;
    return item;
}

const roco_json_value *roco_schema_resolve(const roco_json_value *root, const char *reference)
{
    char token[1024];
    const roco_json_value *value = root;
    const char *at = reference + 1;
    while (value && *at == '/') {
        at++;
        if (!next_token(&at, token, sizeof token))
            return NULL;
        value = value->kind == ROCO_JSON_ARRAY ? item_at(value, token) : roco_schema_member(value, token);
    }
    return *at ? NULL : value;
}

/* --- from value to pointer --- */

typedef struct place {
    char *out;
    size_t size, used;
} place;

static void put(place *p, const char *text)
{
    for (; *text && p->used + 4 < p->size; text++) {
        const char c = *text;
        if (c == '~' || c == '/') {
            p->out[p->used++] = '~';
            p->out[p->used++] = c == '~' ? '0' : '1';
        } else {
            p->out[p->used++] = c >= ' ' && c < 0x7F ? c : '?'; /* keys are the user's bytes */
        }
    }
}

/* The tree is as deep as JSON may be, which its reader has bounded. */
static bool find(place *p, const roco_json_value *at, const roco_json_value *wanted)
{
    if (at == wanted)
        return true;
    const size_t used = p->used;
    size_t index = 0;
    for (const roco_json_value *child = at->child; child; child = child->next, index++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", index);
        if (p->used + 4 < p->size)
            p->out[p->used++] = '/';
        put(p, at->kind == ROCO_JSON_OBJECT ? child->name : number);
        if (find(p, child, wanted))
            return true;
        p->used = used;
    }
    return false;
}

void roco_schema_place(const roco_json_value *root, const roco_json_value *value, const char *keyword, char *out,
                       size_t size)
{
    place p = {out, size, 0};
    p.out[p.used++] = '#';
    find(&p, root, value);
    if (*keyword) {
        p.out[p.used++] = '/';
        put(&p, keyword);
    }
    p.out[p.used] = '\0';
}
