/* From an expression over characters to an automaton: states that wait for one character each, then sets of them. */
#include "grammar/dfa.h"

#include "grammar/number_sets.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PLACES = 20000, MAX_ROW_BYTES = 32 << 20, PLACES_OF_A_TICK = 64 };

/* A place in the expression: a character of `set` leads on to `next`, or the place is passed to both ways. */
typedef struct place {
    uint32_t set; /* row of `rows`; PASS: none */
    uint32_t next, other;
} place;

#define PASS    UINT32_MAX
#define NOWHERE UINT32_MAX

typedef struct maker {
    roco_grammar *grammar;
    place *places; /* place 0 is the end */
    uint32_t n_places, places_capacity;
    uint32_t *cuts; /* where letters begin; sorted once all are known */
    uint32_t n_cuts, cuts_capacity;
    bool *rows; /* [n_sets, n_letters] */
    roco_range *ranges;
    uint32_t n_ranges, ranges_capacity;
    uint32_t *sets; /* [n_sets + 1] first of its ranges */
    uint32_t n_sets, sets_capacity;
    uint32_t *stack;
    uint32_t n_stack, stack_capacity;
    uint32_t *marks; /* [n_places] the last set a place was put into */
    uint32_t mark;
} maker;

static void out_of_memory(maker *m)
{
    roco_grammar_fail(m->grammar, ROCO_NO_MEMORY, "out of memory");
}

static uint32_t add_place(maker *m, uint32_t set, uint32_t next, uint32_t other)
{
    if (!roco_grammar_tick(m->grammar))
        return NOWHERE;
    if (m->n_places >= MAX_PLACES) {
        roco_grammar_fail(m->grammar, ROCO_TOO_LARGE, "its pattern is too large together with other conditions");
        return NOWHERE;
    }
    if (!roco_grow(&m->places, m->n_places, &m->places_capacity, sizeof *m->places)) {
        out_of_memory(m);
        return NOWHERE;
    }
    m->places[m->n_places] = (place){set, next, other};
    return m->n_places++;
}

static void add_cut(maker *m, uint32_t code)
{
    if (code > ROCO_MAX_CODE)
        return;
    if (roco_grow(&m->cuts, m->n_cuts, &m->cuts_capacity, sizeof *m->cuts))
        m->cuts[m->n_cuts++] = code;
    else
        out_of_memory(m);
}

static void add_range(maker *m, uint32_t low, uint32_t high)
{
    add_cut(m, low);
    add_cut(m, high + 1);
    if (roco_grow(&m->ranges, m->n_ranges, &m->ranges_capacity, sizeof *m->ranges))
        m->ranges[m->n_ranges++] = (roco_range){low, high};
    else
        out_of_memory(m);
}

/* Ends the set whose ranges were added; equal sets in a row are one. */
static uint32_t end_set(maker *m, uint32_t first)
{
    const uint32_t n = m->n_ranges - first;
    if (m->n_sets > 0 && first - m->sets[m->n_sets - 1] == n &&
        memcmp(m->ranges + m->sets[m->n_sets - 1], m->ranges + first, n * sizeof *m->ranges) == 0) {
        m->n_ranges = first;
        return m->n_sets - 1;
    }
    if (!roco_grow(&m->sets, m->n_sets, &m->sets_capacity, sizeof *m->sets)) {
        out_of_memory(m);
        return 0;
    }
    m->sets[m->n_sets] = first;
    return m->n_sets++;
}

/* The place in front of `next`; NOWHERE: it cannot be. */
static uint32_t make(maker *m, roco_expr expr, uint32_t next)
{
    roco_grammar *g = m->grammar;
    const roco_expr_node e = g->exprs[expr];
    uint32_t at = next, first = m->n_ranges;
    if (next == NOWHERE || g->status)
        return NOWHERE;
    switch ((roco_expr_kind)e.kind) {
    case ROCO_EXPR_EMPTY: return next;
    case ROCO_EXPR_CHARS:
        for (uint32_t i = 0; i < e.b; i++)
            add_range(m, g->ranges[e.a + i].low, g->ranges[e.a + i].high);
        return add_place(m, end_set(m, first), next, NOWHERE);
    case ROCO_EXPR_SEQUENCE:
        for (uint32_t i = e.b; i-- > 0;)
            at = make(m, g->lists[e.a + i], at);
        return at;
    case ROCO_EXPR_CHOICE:
        at = NOWHERE;
        for (uint32_t i = 0; i < e.b; i++)
            at = add_place(m, PASS, make(m, g->lists[e.a + i], next), at);
        return at;
    case ROCO_EXPR_REPEAT:
        if (e.c == ROCO_UNLIMITED) {
            at = add_place(m, PASS, NOWHERE, next);
            const uint32_t body = make(m, e.a, at);
            if (!g->status)
                m->places[at].next = body;
        }
        for (uint32_t i = e.c == ROCO_UNLIMITED ? e.b : e.c; i-- > 0 && !g->status;) {
            at = make(m, e.a, at);
            at = i >= e.b ? add_place(m, PASS, at, next) : at;
        }
        return at;
    default: return NOWHERE;
    }
}

/* --- letters --- */

static int by_value(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* The first letter that starts at `low`, which is a cut. */
static uint32_t letter_at(const maker *m, uint32_t n, uint32_t low)
{
    uint32_t from = 0;
    while (from < n) {
        const uint32_t middle = from + (n - from) / 2;
        if (m->cuts[middle] < low)
            from = middle + 1;
        else
            n = middle;
    }
    return from;
}

static roco_dfa *make_letters(maker *m)
{
    uint32_t n = 0;
    add_cut(m, 0);
    if (m->grammar->status)
        return NULL;
    qsort(m->cuts, m->n_cuts, sizeof *m->cuts, by_value);
    for (uint32_t i = 0; i < m->n_cuts; i++)
        if (i == 0 || m->cuts[i] != m->cuts[i - 1])
            m->cuts[n++] = m->cuts[i];
    if ((size_t)(m->n_sets + 1) * n > MAX_ROW_BYTES) {
        roco_grammar_fail(m->grammar, ROCO_TOO_LARGE, "it has too many classes of too many characters");
        return NULL;
    }
    roco_dfa *dfa = roco_dfa_open(m->grammar, n);
    m->rows = calloc((size_t)(m->n_sets + 1) * n, sizeof *m->rows);
    if (!dfa || !m->rows) {
        out_of_memory(m);
        return dfa;
    }
    memcpy(dfa->starts, m->cuts, n * sizeof *m->cuts);
    for (uint32_t set = 0; set < m->n_sets; set++) {
        const uint32_t end = set + 1 < m->n_sets ? m->sets[set + 1] : m->n_ranges;
        for (uint32_t i = m->sets[set]; i < end; i++)
            for (uint32_t letter = letter_at(m, n, m->ranges[i].low);
                 letter < n && m->cuts[letter] <= m->ranges[i].high; letter++)
                m->rows[(size_t)set * n + letter] = true;
    }
    return dfa;
}

/* --- sets of places --- */

static void reach(maker *m, uint32_t at)
{
    if (at == NOWHERE || m->marks[at] == m->mark)
        return;
    m->marks[at] = m->mark;
    if (roco_grow(&m->stack, m->n_stack, &m->stack_capacity, sizeof *m->stack))
        m->stack[m->n_stack++] = at;
    else
        out_of_memory(m);
}

/* The index of the set of places that wait, or end, behind those that were reached: `found` grows in place of the
 * stack. */
static uint32_t close_set(maker *m, roco_number_sets *sets)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_stack && roco_grammar_tick(m->grammar); i++) {
        const uint32_t at = m->stack[i];
        const place p = m->places[at];
        if (at == 0 || p.set != PASS) {
            m->stack[n++] = at; /* n <= i: read already */
            continue;
        }
        reach(m, p.next);
        reach(m, p.other);
    }
    if (m->grammar->status)
        return ROCO_DFA_DEAD;
    if (n > 1)
        qsort(m->stack, n, sizeof *m->stack, by_value);
    return n ? roco_number_sets_index(m->grammar, sets, m->stack, n) : ROCO_DFA_DEAD;
}

static void make_states(maker *m, roco_dfa *dfa, uint32_t start)
{
    roco_number_sets sets = {0};
    m->mark = 1;
    reach(m, start);
    if (close_set(m, &sets) == ROCO_DFA_DEAD && !m->grammar->status)
        roco_dfa_add(m->grammar, dfa, false); /* the automaton of nothing */
    for (uint32_t s = 0; s < sets.n && !m->grammar->status; s++) {
        uint32_t n;
        const uint32_t *list = roco_number_sets_get(&sets, s, &n);
        if (roco_dfa_add(m->grammar, dfa, list[0] == 0) == ROCO_DFA_DEAD)
            break;
        for (uint32_t letter = 0; letter < dfa->n_letters && !m->grammar->status; letter++) {
            list = roco_number_sets_get(&sets, s, &n);
            for (uint32_t i = 0; i < n / PLACES_OF_A_TICK && roco_grammar_tick(m->grammar); i++)
                ;
            m->n_stack = 0;
            m->mark++;
            for (uint32_t i = 0; i < n; i++) {
                const place p = m->places[list[i]];
                if (list[i] != 0 && m->rows[(size_t)p.set * dfa->n_letters + letter])
                    reach(m, p.next);
            }
            dfa->next[(size_t)s * dfa->n_letters + letter] = close_set(m, &sets);
        }
    }
    roco_number_sets_free(&sets);
}

roco_dfa *roco_dfa_from_expr(roco_grammar *grammar, roco_expr expr)
{
    maker m = {.grammar = grammar};
    add_place(&m, PASS, NOWHERE, NOWHERE);
    const uint32_t start = grammar->status ? NOWHERE : make(&m, expr, 0);
    roco_dfa *dfa = grammar->status ? NULL : make_letters(&m);
    m.marks = calloc(m.n_places + 1u, sizeof *m.marks);
    if (!m.marks)
        out_of_memory(&m);
    if (!grammar->status)
        make_states(&m, dfa, start);
    if (!grammar->status)
        roco_dfa_trim(grammar, dfa);
    free(m.places);
    free(m.cuts);
    free(m.rows);
    free(m.ranges);
    free(m.sets);
    free(m.stack);
    free(m.marks);
    if (!grammar->status)
        return dfa;
    roco_dfa_close(dfa);
    return NULL;
}
