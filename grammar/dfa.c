/* Automata over code points: made from lengths and words, put together, trimmed. */
#include "grammar/dfa.h"

#include "config/utf8.h"
#include "grammar/number_sets.h"

#include <stdlib.h>
#include <string.h>

/* States times letters: what one table may hold. */
enum { MAX_STATES = 20000, MAX_CELLS = 2000000 };

void roco_dfa_close(roco_dfa *dfa)
{
    if (!dfa)
        return;
    free(dfa->starts);
    free(dfa->next);
    free(dfa->accepts);
    free(dfa);
}

static roco_dfa *out_of_memory(roco_grammar *g, roco_dfa *dfa)
{
    roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
    roco_dfa_close(dfa);
    return NULL;
}

roco_dfa *roco_dfa_open(roco_grammar *g, uint32_t n_letters)
{
    roco_dfa *dfa = calloc(1, sizeof *dfa);
    if (!dfa || !(dfa->starts = calloc(n_letters, sizeof *dfa->starts)))
        return out_of_memory(g, dfa);
    dfa->n_letters = n_letters;
    return dfa;
}

uint32_t roco_dfa_add(roco_grammar *g, roco_dfa *dfa, bool accepts)
{
    const uint32_t n = dfa->n_states;
    if (!roco_grammar_tick(g))
        return ROCO_DFA_DEAD;
    if (n >= MAX_STATES || (size_t)n * dfa->n_letters > MAX_CELLS) {
        roco_grammar_fail(g, ROCO_TOO_LARGE, "its conditions on one string make an automaton that is too large");
        return ROCO_DFA_DEAD;
    }
    if ((n & (n - 1)) == 0) { /* arrays of a power of two */
        const size_t room = n ? 2 * (size_t)n : 1;
        uint32_t *next = realloc(dfa->next, room * dfa->n_letters * sizeof *next);
        dfa->next = next ? next : dfa->next;
        bool *flags = next ? realloc(dfa->accepts, room * sizeof *flags) : NULL;
        dfa->accepts = flags ? flags : dfa->accepts;
        if (!flags) {
            roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
            return ROCO_DFA_DEAD;
        }
    }
    memset(dfa->next + (size_t)n * dfa->n_letters, 0xFF, dfa->n_letters * sizeof *dfa->next);
    dfa->accepts[n] = accepts;
    return dfa->n_states++;
}

bool roco_dfa_is_empty(const roco_dfa *dfa)
{
    for (uint32_t i = 0; i < dfa->n_states; i++)
        if (dfa->accepts[i])
            return false;
    return true;
}

static uint32_t letter_of(const roco_dfa *dfa, uint32_t code)
{
    uint32_t low = 0, high = dfa->n_letters;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (dfa->starts[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bool roco_dfa_accepts(const roco_dfa *dfa, const char *text)
{
    uint32_t state = 0, code = 0;
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        n = roco_utf8_next(text, left, &code);
        if (n == 0)
            return false;
        state = dfa->next[(size_t)state * dfa->n_letters + letter_of(dfa, code)];
        if (state == ROCO_DFA_DEAD)
            return false;
    }
    return dfa->accepts[state];
}

/* Drops states that cannot come to an end, after those before could be reached: the order of states stays. */
void roco_dfa_trim(roco_grammar *g, roco_dfa *dfa)
{
    bool *alive = malloc(dfa->n_states * sizeof *alive);
    uint32_t *numbers = malloc(dfa->n_states * sizeof *numbers);
    if (!alive || !numbers) {
        roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
        free(alive);
        free(numbers);
        return;
    }
    memcpy(alive, dfa->accepts, dfa->n_states * sizeof *alive);
    for (bool changed = true; changed && roco_grammar_tick(g);) {
        changed = false;
        for (uint32_t s = dfa->n_states; s-- > 0;) /* most ways lead to higher numbers */
            for (uint32_t i = 0; i < dfa->n_letters && !alive[s]; i++) {
                const uint32_t to = dfa->next[(size_t)s * dfa->n_letters + i];
                if (to != ROCO_DFA_DEAD && alive[to])
                    alive[s] = changed = true;
            }
    }
    uint32_t n = 0;
    for (uint32_t s = 0; s < dfa->n_states; s++)
        numbers[s] = alive[s] || s == 0 ? n++ : ROCO_DFA_DEAD;
    for (uint32_t s = 0; s < dfa->n_states; s++) {
        if (numbers[s] == ROCO_DFA_DEAD)
            continue;
        for (uint32_t i = 0; i < dfa->n_letters; i++) {
            const uint32_t to = dfa->next[(size_t)s * dfa->n_letters + i];
            dfa->next[(size_t)numbers[s] * dfa->n_letters + i] =
                to == ROCO_DFA_DEAD || !alive[to] ? ROCO_DFA_DEAD : numbers[to];
        }
        dfa->accepts[numbers[s]] = dfa->accepts[s];
    }
    dfa->n_states = n;
    free(alive);
    free(numbers);
}

/* --- made from little --- */

roco_dfa *roco_dfa_any(roco_grammar *g)
{
    roco_dfa *dfa = roco_dfa_open(g, 2);
    if (!dfa || roco_dfa_add(g, dfa, true) == ROCO_DFA_DEAD) {
        roco_dfa_close(dfa);
        return NULL;
    }
    dfa->starts[1] = 1;
    dfa->next[1] = 0;
    return dfa;
}

roco_dfa *roco_dfa_length(roco_grammar *g, uint32_t min, uint32_t max)
{
    roco_dfa *dfa = roco_dfa_open(g, 1);
    if (!dfa)
        return NULL;
    const uint32_t last = max == ROCO_UNLIMITED ? min : max;
    for (uint32_t i = 0; i <= last; i++)
        if (roco_dfa_add(g, dfa, i >= min) == ROCO_DFA_DEAD) {
            roco_dfa_close(dfa);
            return NULL;
        }
    for (uint32_t i = 0; i < last; i++)
        dfa->next[i] = i + 1;
    if (max == ROCO_UNLIMITED)
        dfa->next[last] = last;
    return dfa;
}

/* An alphabet in which all code points of the words are letters of their own. */
static int by_first(const void *left, const void *right)
{
    const uint32_t a = ((const roco_range *)left)->low, b = ((const roco_range *)right)->low;
    return (a > b) - (a < b);
}

/* Sorted, each once. Not roco_charset_sort, which would join neighbours. */
static void sort_cuts(roco_charset *cuts)
{
    uint32_t n = 0;
    qsort(cuts->data, cuts->n, sizeof *cuts->data, by_first);
    for (uint32_t i = 0; i < cuts->n; i++)
        if (i == 0 || cuts->data[i].low != cuts->data[i - 1].low)
            cuts->data[n++] = cuts->data[i];
    cuts->n = n;
}

static roco_dfa *open_for_words(roco_grammar *g, const char *const *words, uint32_t n)
{
    roco_charset cuts = {0};
    roco_charset_add(&cuts, 0, 0);
    for (uint32_t i = 0; i < n; i++)
        for (size_t at = 0, left = strlen(words[i]), size; at < left; at += size) {
            uint32_t code = 0;
            size = roco_utf8_next(words[i] + at, left - at, &code);
            if (size == 0 || !roco_grammar_tick(g))
                break;
            roco_charset_add(&cuts, code, code);
            if (code < ROCO_MAX_CODE)
                roco_charset_add(&cuts, code + 1, code + 1);
        }
    roco_dfa *dfa = NULL;
    if (cuts.failed) {
        out_of_memory(g, NULL);
    } else if (!g->status) {
        sort_cuts(&cuts);
        dfa = roco_dfa_open(g, cuts.n);
    }
    for (uint32_t i = 0; dfa && i < cuts.n; i++)
        dfa->starts[i] = cuts.data[i].low;
    roco_charset_free(&cuts);
    return dfa;
}

roco_dfa *roco_dfa_words(roco_grammar *g, const char *const *words, uint32_t n)
{
    roco_dfa *dfa = open_for_words(g, words, n);
    if (!dfa)
        return NULL;
    roco_dfa_add(g, dfa, false);
    for (uint32_t i = 0; i < n && !g->status; i++) {
        uint32_t state = 0;
        for (size_t at = 0, left = strlen(words[i]), size; at < left && !g->status; at += size) {
            uint32_t code = 0;
            size = roco_utf8_next(words[i] + at, left - at, &code);
            if (size == 0)
                break;
            const size_t cell = (size_t)state * dfa->n_letters + letter_of(dfa, code);
            uint32_t to = dfa->next[cell];
            if (to == ROCO_DFA_DEAD) {
                to = roco_dfa_add(g, dfa, false); /* moves the table */
                dfa->next[cell] = to;
            }
            state = to;
        }
        if (!g->status)
            dfa->accepts[state] = true;
    }
    if (!g->status)
        return dfa;
    roco_dfa_close(dfa);
    return NULL;
}

/* State 0: nothing yet; 1: a sign; 2 + r: digits so far, whose number leaves r. */
roco_dfa *roco_dfa_multiples(roco_grammar *g, uint32_t m)
{
    roco_dfa *dfa = roco_dfa_open(g, 14);
    for (uint32_t i = 0; dfa && i < m + 2u && !g->status; i++)
        roco_dfa_add(g, dfa, i == 2);
    if (!dfa || g->status) {
        roco_dfa_close(dfa);
        return NULL;
    }
    const uint32_t minus = 1, first_digit = 3;
    dfa->starts[minus] = '-';
    dfa->starts[minus + 1] = '-' + 1;
    for (uint32_t digit = 0; digit <= 10; digit++)
        dfa->starts[first_digit + digit] = '0' + digit;
    dfa->next[minus] = 1;
    for (uint32_t state = 0; state < m + 2; state++)
        for (uint32_t digit = 0; digit < 10; digit++) {
            const uint32_t rest = state < 2 ? 0 : state - 2;
            dfa->next[(size_t)state * dfa->n_letters + first_digit + digit] = 2 + (rest * 10 + digit) % m;
        }
    return dfa;
}

/* --- put together --- */

/* The letters of both alphabets: where either begins a new one. */
static roco_dfa *open_for_both(roco_grammar *g, const roco_dfa *a, const roco_dfa *b, uint32_t **letters)
{
    roco_dfa *dfa = roco_dfa_open(g, a->n_letters + b->n_letters);
    *letters = malloc(2 * (size_t)(a->n_letters + b->n_letters) * sizeof **letters);
    if (!dfa || !*letters)
        return out_of_memory(g, dfa);
    uint32_t n = 0, i = 0, k = 0;
    while (i < a->n_letters || k < b->n_letters) {
        const uint32_t at_a = i < a->n_letters ? a->starts[i] : UINT32_MAX;
        const uint32_t at_b = k < b->n_letters ? b->starts[k] : UINT32_MAX;
        const uint32_t start = at_a < at_b ? at_a : at_b;
        i += at_a == start;
        k += at_b == start;
        dfa->starts[n] = start;
        (*letters)[2 * n] = i - 1; /* both begin at 0, so both have been counted once */
        (*letters)[2 * n + 1] = k - 1;
        n++;
    }
    dfa->n_letters = n;
    return dfa;
}

/* Pairs of states; in the second place ROCO_DFA_DEAD stands for "b is out", where `minus` lets a go on. */
static roco_dfa *combine(roco_grammar *g, const roco_dfa *a, const roco_dfa *b, bool minus)
{
    if (g->status || !a || !b)
        return NULL;
    uint32_t *letters = NULL, pair[2] = {0, 0}, n;
    roco_number_sets pairs = {0};
    roco_dfa *dfa = open_for_both(g, a, b, &letters);
    if (dfa)
        roco_number_sets_index(g, &pairs, pair, 2);
    for (uint32_t s = 0; dfa && s < pairs.n && !g->status; s++) {
        memcpy(pair, roco_number_sets_get(&pairs, s, &n), sizeof pair);
        const bool in_b = pair[1] != ROCO_DFA_DEAD && b->accepts[pair[1]];
        if (roco_dfa_add(g, dfa, a->accepts[pair[0]] && in_b != minus) == ROCO_DFA_DEAD)
            break;
        for (uint32_t i = 0; i < dfa->n_letters && !g->status; i++) {
            uint32_t to[2] = {a->next[(size_t)pair[0] * a->n_letters + letters[2 * i]], ROCO_DFA_DEAD};
            if (pair[1] != ROCO_DFA_DEAD)
                to[1] = b->next[(size_t)pair[1] * b->n_letters + letters[2 * i + 1]];
            if (to[0] != ROCO_DFA_DEAD && (minus || to[1] != ROCO_DFA_DEAD))
                dfa->next[(size_t)s * dfa->n_letters + i] = roco_number_sets_index(g, &pairs, to, 2);
        }
    }
    roco_number_sets_free(&pairs);
    free(letters);
    if (dfa && !g->status)
        roco_dfa_trim(g, dfa);
    if (!g->status)
        return dfa;
    roco_dfa_close(dfa);
    return NULL;
}

roco_dfa *roco_dfa_both(roco_grammar *g, const roco_dfa *a, const roco_dfa *b)
{
    return combine(g, a, b, false);
}

roco_dfa *roco_dfa_minus(roco_grammar *g, const roco_dfa *a, const roco_dfa *b)
{
    return combine(g, a, b, true);
}
