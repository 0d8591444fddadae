/* Constraints and matchers: who holds what, and the bounds on one token's work. */
#include "grammar/masks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Of one constraint: some ten thousand states. */
#define AUTOMATON_BYTES ((size_t)8 << 20)
/* Nodes passed for one mask or one token: at most some tens of milliseconds, and then only for what is hostile. */
#define TOKEN_WORK      (1u << 19)

struct roco_constraint {
    atomic_uint references;
    const roco_vocabulary *vocabulary;
    roco_program program;
    /* From here on the matchers' thread alone. */
    roco_automaton automaton;
    uint64_t serial; /* names the automaton's states among the masks; 0: there is none yet */
    roco_matcher *matchers;
};

struct roco_matcher {
    roco_constraint *constraint;
    roco_masks *masks;
    uint32_t state;
    roco_status status;            /* why it could not begin */
    roco_matcher *previous, *next; /* of the same constraint */
};

/* --- constraints --- */

/* What cannot even begin within the bounds of one token is refused here, not in the middle of an answer. */
static roco_status check_start(const roco_constraint *c, const char *field, roco_error *error)
{
    roco_closure *closure = roco_closure_open();
    roco_automaton automaton = {0};
    roco_status status = closure ? roco_automaton_init(&automaton, &c->program, AUTOMATON_BYTES) : ROCO_NO_MEMORY;
    automaton.work = TOKEN_WORK;
    if (!status && roco_automaton_start(&automaton, closure) == ROCO_STATE_UNKNOWN)
        status = automaton.status;
    roco_automaton_free(&automaton);
    roco_closure_close(closure);
    if (status == ROCO_TOO_LARGE)
        return roco_fail(error, status, field, "%s has too many ways to begin at once", field);
    return status ? roco_fail(error, status, NULL, "out of memory") : ROCO_OK;
}

roco_status roco_constraint_compile(roco_grammar *grammar, const char *field, roco_expr root,
                                    const roco_vocabulary *vocabulary, roco_constraint **out, roco_error *error)
{
    roco_constraint *c = calloc(1, sizeof *c);
    if (!c)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    atomic_init(&c->references, 1);
    c->vocabulary = vocabulary;
    roco_status status = roco_program_compile(grammar, field, root, &c->program, error);
    if (!status)
        status = check_start(c, field, error);
    if (status)
        roco_constraint_release(c);
    else
        *out = c;
    return status;
}

roco_constraint *roco_constraint_hold(roco_constraint *constraint)
{
    if (constraint)
        atomic_fetch_add_explicit(&constraint->references, 1, memory_order_relaxed);
    return constraint;
}

void roco_constraint_release(roco_constraint *constraint)
{
    if (!constraint || atomic_fetch_sub_explicit(&constraint->references, 1, memory_order_acq_rel) > 1)
        return;
    roco_automaton_free(&constraint->automaton);
    roco_program_free(&constraint->program);
    free(constraint);
}

/* --- matchers --- */

static bool open_automaton(roco_constraint *c, roco_masks *masks)
{
    if (c->serial)
        return true;
    if (roco_automaton_init(&c->automaton, &c->program, AUTOMATON_BYTES)) {
        roco_automaton_free(&c->automaton);
        return false;
    }
    c->serial = ++masks->serial;
    return true;
}

void roco_matcher_close(roco_matcher *m)
{
    if (!m)
        return;
    *(m->previous ? &m->previous->next : &m->constraint->matchers) = m->next;
    if (m->next)
        m->next->previous = m->previous;
    roco_constraint_release(m->constraint);
    free(m);
}

/* Forgets all states but those that answers are in. */
static roco_status shrink(roco_constraint *c, roco_masks *masks)
{
    uint32_t n = 0;
    for (const roco_matcher *m = c->matchers; m; m = m->next)
        n++;
    uint32_t **states = malloc((n ? n : 1) * sizeof *states);
    if (!states)
        return ROCO_NO_MEMORY;
    n = 0;
    for (roco_matcher *m = c->matchers; m; m = m->next)
        states[n++] = &m->state;
    roco_status status = roco_automaton_shrink(&c->automaton, states, n);
    if (!status)
        c->serial = ++masks->serial;
    free(states);
    return status;
}

/* Whether what failed may be tried again: there is room, since states were forgotten. */
static bool may_retry(roco_matcher *m, roco_status *status)
{
    roco_automaton *a = &m->constraint->automaton;
    *status = a->status;
    if (*status != ROCO_TOO_LARGE || roco_automaton_bytes(a) < AUTOMATON_BYTES / 2)
        return false;
    *status = shrink(m->constraint, m->masks);
    a->work = TOKEN_WORK; /* all of it: who filled the store was perhaps another answer */
    return *status == ROCO_OK;
}

roco_matcher *roco_matcher_open(roco_constraint *constraint, roco_masks *masks)
{
    roco_matcher *m = calloc(1, sizeof *m);
    if (!m || !open_automaton(constraint, masks)) {
        free(m);
        return NULL;
    }
    m->constraint = roco_constraint_hold(constraint);
    m->masks = masks;
    m->next = constraint->matchers;
    if (m->next)
        m->next->previous = m;
    constraint->matchers = m;
    constraint->automaton.work = TOKEN_WORK;
    uint32_t start = roco_automaton_start(&constraint->automaton, masks->closure);
    if (start == ROCO_STATE_UNKNOWN && may_retry(m, &m->status))
        start = roco_automaton_start(&constraint->automaton, masks->closure);
    if (start == ROCO_STATE_UNKNOWN)
        m->status = constraint->automaton.status;
    else
        m->state = start;
    return m;
}

roco_status roco_matcher_mask(roco_matcher *m, uint32_t *mask)
{
    roco_constraint *c = m->constraint;
    const uint32_t n = m->masks->n_words;
    roco_status status = m->status;
    if (status)
        return status;
    c->automaton.work = TOKEN_WORK;
    const uint32_t *found = roco_masks_get(m->masks, &c->automaton, c->serial, m->state);
    if (!found && may_retry(m, &status))
        found = roco_masks_get(m->masks, &c->automaton, c->serial, m->state);
    if (!found)
        return status ? status : c->automaton.status;
    memcpy(mask, found, n * sizeof *mask);
    uint32_t some = 0;
    for (uint32_t i = 0; i < n; i++) {
        mask[i] |= roco_matcher_may_end(m) ? c->vocabulary->ends[i] : 0;
        some |= mask[i];
    }
    return some ? ROCO_OK : ROCO_INVALID;
}

static uint32_t run(const roco_matcher *m, const char *data, size_t size)
{
    roco_automaton *a = &m->constraint->automaton;
    uint32_t state = m->state;
    for (size_t i = 0; i < size && state != ROCO_STATE_DEAD && state != ROCO_STATE_UNKNOWN; i++)
        state = roco_automaton_next(a, m->masks->closure, state, (uint8_t)data[i]);
    return state;
}

roco_status roco_matcher_advance_bytes(roco_matcher *m, const char *data, size_t size)
{
    roco_automaton *a = &m->constraint->automaton;
    roco_status status = m->status;
    if (status)
        return status;
    a->work = TOKEN_WORK;
    uint32_t state = run(m, data, size);
    if (state == ROCO_STATE_UNKNOWN && may_retry(m, &status))
        state = run(m, data, size);
    if (state == ROCO_STATE_UNKNOWN)
        return status ? status : a->status;
    if (state == ROCO_STATE_DEAD)
        return ROCO_INVALID;
    m->state = state;
    return ROCO_OK;
}

roco_status roco_matcher_advance(roco_matcher *m, int32_t token)
{
    const roco_vocabulary *v = m->constraint->vocabulary;
    if (token < 0 || (uint32_t)token >= v->n_tokens)
        return ROCO_INVALID;
    const uint32_t first = v->offsets[token], size = v->offsets[token + 1] - first;
    return size ? roco_matcher_advance_bytes(m, v->bytes + first, size) : ROCO_INVALID;
}

bool roco_matcher_may_end(const roco_matcher *m)
{
    return m->constraint->automaton.states[m->state].accepts;
}
