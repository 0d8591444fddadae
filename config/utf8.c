/* UTF-8 checks. Pure functions of bytes: no locale, no state, any thread. */
#include "config/utf8.h"

#include <string.h>

/* What a lead byte asks for: the length, and the range of the second byte, which is where overlong forms, surrogates
 * and values above U+10FFFF show. Length 0: no lead byte. */
typedef struct lead {
    size_t length;
    unsigned char low, high;
} lead;

static lead lead_of(unsigned char byte)
{
    if (byte < 0x80) {
        return (lead){1, 0, 0};
    }
    if (byte >= 0xC2 && byte <= 0xDF) {
        return (lead){2, 0x80, 0xBF};
    }
    if (byte >= 0xE0 && byte <= 0xEF) {
        return (lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    }
    if (byte >= 0xF0 && byte <= 0xF4) {
        return (lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    }
    return (lead){0, 0, 0};
}

/* Bytes of the character at the front that are there and in range: its length when it is whole. */
static size_t good_bytes(const unsigned char *data, size_t size, lead want)
{
    size_t n = 1;
    while (n < want.length && n < size) {
        unsigned char low = n == 1 ? want.low : 0x80, high = n == 1 ? want.high : 0xBF;
        if (data[n] < low || data[n] > high) {
            break;
        }
        n++;
    }
    return n;
}

size_t roco_utf8_next(const char *data, size_t size, uint32_t *code)
{
    if (size == 0) {
        return 0;
    }
    const unsigned char *bytes = (const unsigned char *)data;
    lead want = lead_of(bytes[0]);
    if (want.length == 0 || good_bytes(bytes, size, want) < want.length) {
        return 0;
    }
    if (code) {
        static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
        uint32_t value = bytes[0] & mask[want.length];
        for (size_t i = 1; i < want.length; i++) {
            value = value << 6 | (bytes[i] & 0x3Fu);
        }
        *code = value;
    }
    return want.length;
}

size_t roco_utf8_valid_prefix(const char *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        /* Eight ASCII bytes at once: most of most texts. */
        uint64_t word;
        if (size - at >= sizeof word && (memcpy(&word, data + at, sizeof word), !(word & 0x8080808080808080u))) {
            at += sizeof word;
            continue;
        }
        size_t length = roco_utf8_next(data + at, size - at, NULL);
        if (length == 0) {
            break;
        }
        at += length;
    }
    return at;
}

bool roco_utf8_valid(const char *data, size_t size)
{
    return roco_utf8_valid_prefix(data, size) == size;
}

size_t roco_utf8_complete_prefix(const char *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = bytes[size - back];
        if ((byte & 0xC0) == 0x80) {
            continue; /* a continuation byte: its lead byte is further back */
        }
        lead want = lead_of(byte);
        bool unfinished = want.length > back && good_bytes(bytes + size - back, back, want) == back;
        return unfinished ? size - back : size;
    }
    return size;
}
