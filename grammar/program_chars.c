/* One character of a set as edges over bytes: UTF-8, or the spelling of a JSON string.
 *
 * A range of code points is cut where the length of UTF-8 changes and where continuation bytes are not full ranges, so
 * that each piece is one range for each of its bytes (the way of R. Cox, "Regular Expression Matching in the Wild").
 * Pieces share the nodes that read the same bytes and go to the same place.
 */
#include "grammar/program.h"

#include <stdlib.h>
#include <string.h>

/* Nodes of one character that may be shared: all with a single edge. */
typedef struct chars {
    roco_builder *builder;
    uint32_t first_node; /* those made before are another character's */
    roco_edge *leads;    /* the edges of the node that all starts with */
    uint32_t n, capacity;
} chars;

static void lead(chars *c, uint32_t to, uint8_t low, uint8_t high)
{
    if (!roco_grow(&c->leads, c->n, &c->capacity, sizeof *c->leads))
        roco_grammar_fail(c->builder->grammar, ROCO_NO_MEMORY, "out of memory");
    else
        c->leads[c->n++] = (roco_edge){.to = to, .low = low, .high = high};
}

/* A node that reads low..high and goes to `to`, perhaps one that is there already. */
static uint32_t single(chars *c, uint32_t to, uint8_t low, uint8_t high)
{
    const roco_program *p = c->builder->program;
    enum { LOOK_BACK = 24 };
    for (uint32_t i = p->n_nodes, n = 0; i-- > c->first_node && n < LOOK_BACK; n++) {
        const roco_edge *edge = &p->edges[p->nodes[i].first];
        if (p->nodes[i].kind == ROCO_NODE_BYTES && p->nodes[i].n == 1 && edge->to == to && edge->low == low &&
            edge->high == high)
            return i;
    }
    const uint32_t first = p->n_edges;
    roco_builder_edge(c->builder, to, low, high);
    return roco_builder_node(c->builder, ROCO_NODE_BYTES, first, 1);
}

static unsigned encode(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    const unsigned n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (unsigned i = n; i-- > 1; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)(code | (0xF00u >> n & 0xFFu));
    return n;
}

/* Both ends have the same length, and all between is a range for each byte. */
static void add_piece(chars *c, uint32_t low, uint32_t high, uint32_t next)
{
    uint8_t from[4], to[4];
    const unsigned n = encode(low, from);
    encode(high, to);
    for (unsigned i = n; i-- > 1;)
        next = single(c, next, from[i], to[i]);
    lead(c, next, from[0], to[0]);
}

static void add_range(chars *c, uint32_t low, uint32_t high, uint32_t next)
{
    static const uint32_t ends[] = {0x7F, 0x7FF, 0xFFFF};
    while (low <= high && !c->builder->grammar->status) {
        uint32_t end = high;
        for (unsigned i = 0; i < 3; i++)
            if (low <= ends[i] && end > ends[i])
                end = ends[i];
        /* Below a multiple of 64, 4096, ... all continuation bytes must start at the lowest or end at the highest. */
        for (unsigned bits = 6; end >= 0x80 && bits <= 18; bits += 6) {
            const uint32_t mask = (1u << bits) - 1;
            if ((low & ~mask) == (end & ~mask))
                break;
            if (low & mask)
                end = low | mask;
            else if ((end & mask) != mask)
                end = (end & ~mask) - 1;
        }
        add_piece(c, low, end, next);
        low = end + 1;
    }
}

/* --- as JSON spells them --- */

static const char short_escapes[] = "\"\\\b\f\n\r\t", short_letters[] = "\"\\bfnrt";

/* \u00XX for a control character, both cases of the digit. */
static uint32_t control(chars *c, uint32_t code, uint32_t next)
{
    static const char digits[] = "0123456789abcdef";
    const char digit = digits[code & 15];
    uint32_t at = single(c, next, (uint8_t)digit, (uint8_t)digit);
    if (digit >= 'a') {
        const uint32_t first = c->builder->program->n_edges;
        roco_builder_edge(c->builder, next, (uint8_t)(digit - 32), (uint8_t)(digit - 32));
        roco_builder_edge(c->builder, next, (uint8_t)digit, (uint8_t)digit);
        at = roco_builder_node(c->builder, ROCO_NODE_BYTES, first, 2);
    }
    at = single(c, at, code < 16 ? '0' : '1', code < 16 ? '0' : '1');
    return single(c, single(c, at, '0', '0'), '0', '0');
}

static bool in_ranges(const roco_range *ranges, uint32_t n, uint32_t code)
{
    for (uint32_t i = 0; i < n && ranges[i].low <= code; i++)
        if (code <= ranges[i].high)
            return true;
    return false;
}

/* What follows a backslash. */
static void add_escapes(chars *c, const roco_range *ranges, uint32_t n, uint32_t next)
{
    roco_edge edges[40];
    uint32_t n_edges = 0;
    for (size_t i = 0; short_escapes[i]; i++)
        if (in_ranges(ranges, n, (uint8_t)short_escapes[i]))
            edges[n_edges++] =
                (roco_edge){.to = next, .low = (uint8_t)short_letters[i], .high = (uint8_t)short_letters[i]};
    for (uint32_t code = 1; code < 0x20; code++)
        if (!strchr(short_escapes, (char)code) && in_ranges(ranges, n, code))
            edges[n_edges++] = (roco_edge){.to = control(c, code, next), .low = 'u', .high = 'u'};
    if (n_edges == 0)
        return;
    const uint32_t first = c->builder->program->n_edges;
    for (uint32_t i = 0; i < n_edges; i++)
        roco_builder_edge(c->builder, edges[i].to, edges[i].low, edges[i].high);
    lead(c, roco_builder_node(c->builder, ROCO_NODE_BYTES, first, n_edges), '\\', '\\');
}

/* What stands for itself: all but controls, quote and backslash. */
static void add_plain(chars *c, roco_range range, uint32_t next)
{
    static const roco_range plain[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, ROCO_MAX_CODE}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const uint32_t low = range.low > plain[i].low ? range.low : plain[i].low;
        const uint32_t high = range.high < plain[i].high ? range.high : plain[i].high;
        if (low <= high)
            add_range(c, low, high, next);
    }
}

uint32_t roco_builder_chars(roco_builder *b, const roco_range *ranges, uint32_t n, bool json, uint32_t next)
{
    chars c = {.builder = b, .first_node = b->program->n_nodes};
    for (uint32_t i = 0; i < n; i++) {
        if (json)
            add_plain(&c, ranges[i], next);
        else
            add_range(&c, ranges[i].low, ranges[i].high, next);
    }
    if (json)
        add_escapes(&c, ranges, n, next);
    const uint32_t first = b->program->n_edges;
    for (uint32_t i = 0; i < c.n; i++)
        roco_builder_edge(b, c.leads[i].to, c.leads[i].low, c.leads[i].high);
    const uint32_t node = roco_builder_node(b, ROCO_NODE_BYTES, first, c.n);
    free(c.leads);
    return node;
}
