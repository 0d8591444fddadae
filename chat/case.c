/* Upper, lower, title and capitalised case of ASCII, Latin, Greek and Cyrillic letters. */
#include "chat/run.h"

#include "config/utf8.h"

/* Pairs of an upper-case letter and the one after it. */
static bool is_pair(uint32_t code, bool *upper)
{
    bool even = (code >= 0x100 && code <= 0x12f) || (code >= 0x132 && code <= 0x137) ||
                (code >= 0x14a && code <= 0x177) || (code >= 0x460 && code <= 0x481) ||
                (code >= 0x1e00 && code <= 0x1e95);
    bool odd = (code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17e);
    *upper = even ? code % 2 == 0 : code % 2 == 1;
    return even || odd;
}

static uint32_t to_upper(uint32_t c)
{
    bool upper;
    if ((c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) ||
        (c >= 0x430 && c <= 0x44f))
        return c - 0x20;
    if (c >= 0x450 && c <= 0x45f)
        return c - 0x50;
    if (is_pair(c, &upper))
        return upper ? c : c - 1;
    return c == 0xff ? 0x178 : c == 0xb5 ? 0x39c : c == 0x3c2 ? 0x3a3 : c;
}

static uint32_t to_lower(uint32_t c)
{
    bool upper;
    if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) ||
        (c >= 0x410 && c <= 0x42f))
        return c + 0x20;
    if (c >= 0x400 && c <= 0x40f)
        return c + 0x50;
    if (is_pair(c, &upper))
        return upper ? c + 1 : c;
    return c == 0x178 ? 0xff : c;
}

static size_t put(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* how: 'u'pper, 'l'ower, 'c'apitalised (the first character), 't'itle (the first of each run of letters). */
roco_value roco_change_case(roco_run *run, const roco_string *string, char how)
{
    roco_builder out = {0};
    bool inside = false; /* a run of letters goes on */
    roco_run_charge(run, string->size / 16);
    for (size_t at = 0, size; at < string->size; at += size) {
        uint32_t code = 0;
        size = roco_string_step(string, at);
        roco_utf8_next(string->data + at, size, &code);
        bool raise = how == 'u' || (how == 'c' && at == 0) || (how == 't' && !inside);
        uint32_t changed = raise ? to_upper(code) : to_lower(code);
        inside = to_upper(code) != to_lower(code) || code == 0xdf;
        char text[4];
        if (code == 0xdf && raise)
            roco_builder_bytes(run, &out, how == 'u' ? "SS" : "Ss", 2, roco_string_mark(string, at));
        else if (changed == code)
            roco_builder_bytes(run, &out, string->data + at, size, roco_string_mark(string, at));
        else
            roco_builder_bytes(run, &out, text, put(text, changed), roco_string_mark(string, at));
    }
    return roco_builder_value(run, &out);
}
