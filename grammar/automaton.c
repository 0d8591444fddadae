/* The store of states and stacks, and the step from one state to the next. One thread. */
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256 };

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint32_t fail(roco_automaton *a, roco_status status)
{
    a->status = status;
    return ROCO_STATE_UNKNOWN;
}

/* --- closing over what is passed without a byte --- */

typedef struct item {
    uint32_t node, frame, count; /* count: of a LOOP about to be passed */
} item;

/* What was passed already: an open hash table whose old entries are recognised by their epoch. */
typedef struct seen {
    item item;
    uint32_t epoch;
} seen;

enum { SEEN_SLOTS = 16384, MAX_PASSED = SEEN_SLOTS / 2 };
/* What takes about as long as passing a node. */
enum { EDGES_OF_A_VISIT = 32, FRAMES_OF_A_VISIT = 2 };

struct roco_closure {
    item todo[2 * MAX_PASSED];
    uint32_t n_todo;
    seen seen[SEEN_SLOTS];
    uint32_t n_seen, epoch;
    roco_config found[ROCO_MAX_CONFIGS];
    uint32_t n_found;
    bool accepts;
};

roco_closure *roco_closure_open(void)
{
    return calloc(1, sizeof(roco_closure));
}

void roco_closure_close(roco_closure *closure)
{
    free(closure);
}

static void begin(roco_closure *c)
{
    c->n_todo = c->n_seen = c->n_found = 0;
    c->accepts = false;
    if (++c->epoch == 0) {
        memset(c->seen, 0, sizeof c->seen);
        c->epoch = 1;
    }
}

/* Whether an item was met before. A loop whose body may be empty can at a lower count do all that it can at a higher
 * one; only the lowest is followed, which also ends the iterations over nothing. */
static bool met(roco_automaton *a, roco_closure *c, item it)
{
    const roco_node *node = &a->program->nodes[it.node];
    const bool least = node->kind == ROCO_NODE_LOOP && a->program->loops[node->first].nullable;
    const uint64_t key = (uint64_t)it.node << 32 | it.frame;
    uint32_t slot = (uint32_t)mix(key + (least ? 0 : it.count * 0x9e3779b97f4a7c15u)) & (SEEN_SLOTS - 1);
    for (; c->seen[slot].epoch == c->epoch; slot = (slot + 1) & (SEEN_SLOTS - 1)) {
        item *old = &c->seen[slot].item;
        if (old->node != it.node || old->frame != it.frame || (!least && old->count != it.count))
            continue;
        if (old->count <= it.count)
            return true;
        old->count = it.count;
        return false;
    }
    c->seen[slot] = (seen){it, c->epoch};
    c->n_seen++;
    return false;
}

static bool charge(roco_automaton *a, uint32_t work)
{
    if (a->work < work) {
        a->status = ROCO_TOO_LARGE;
        return false;
    }
    a->work -= work;
    return true;
}

static void visit(roco_automaton *a, roco_closure *c, uint32_t node, uint32_t frame, uint32_t count)
{
    const item it = {node, frame, count};
    if (a->status || met(a, c, it))
        return;
    if (c->n_seen >= MAX_PASSED || c->n_todo >= 2 * MAX_PASSED) {
        a->status = ROCO_TOO_LARGE;
        return;
    }
    if (charge(a, 1))
        c->todo[c->n_todo++] = it;
}

/* --- stacks --- */

static uint32_t *frame_slot(const roco_automaton *a, uint32_t parent, uint32_t node, uint32_t count)
{
    uint32_t at = (uint32_t)mix(((uint64_t)parent << 32 | node) + count * 0x9e3779b97f4a7c15u) & a->frame_mask;
    for (; a->frame_slots[at]; at = (at + 1) & a->frame_mask) {
        const roco_frame *f = &a->frames[a->frame_slots[at]];
        if (f->parent == parent && f->node == node && f->count == count)
            break;
    }
    return &a->frame_slots[at];
}

static bool grow_frame_slots(roco_automaton *a)
{
    const uint32_t n = a->frame_mask ? 2 * (a->frame_mask + 1) : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    free(a->frame_slots);
    a->frame_slots = slots;
    a->frame_mask = n - 1;
    for (uint32_t i = 1; i < a->n_frames; i++)
        *frame_slot(a, a->frames[i].parent, a->frames[i].node, a->frames[i].count) = i;
    return true;
}

static bool over_limit(roco_automaton *a)
{
    if (roco_automaton_bytes(a) <= a->limit_bytes)
        return false;
    a->status = ROCO_TOO_LARGE;
    return true;
}

/* The frame on top of `parent`; 0 when it cannot be had: nested too deeply, or status is set. */
static uint32_t push(roco_automaton *a, uint32_t parent, uint32_t node, uint32_t count)
{
    const uint32_t depth = a->frames[parent].depth + 1;
    if (depth > ROCO_MAX_STACK)
        return 0;
    const uint32_t known = *frame_slot(a, parent, node, count);
    if (known)
        return known;
    if (over_limit(a))
        return 0;
    if (!roco_grow(&a->frames, a->n_frames, &a->frames_capacity, sizeof *a->frames) ||
        (a->n_frames > a->frame_mask / 2 && !grow_frame_slots(a))) {
        a->status = ROCO_NO_MEMORY;
        return 0;
    }
    a->frames[a->n_frames] = (roco_frame){
        .parent = parent,
        .node = node,
        .count = count,
        .depth = depth,
        .counted = count != ROCO_NO_COUNT || a->frames[parent].counted,
    };
    *frame_slot(a, parent, node, count) = a->n_frames;
    return a->n_frames++;
}

/* --- passing nodes --- */

static void pass_return(roco_automaton *a, roco_closure *c, uint32_t frame)
{
    if (frame == 0) {
        c->accepts = true;
        return;
    }
    const roco_frame f = a->frames[frame];
    visit(a, c, f.node, f.parent, f.count == ROCO_NO_COUNT ? 0 : f.count + 1); /* a call may return to a LOOP, too */
}

static void pass_loop(roco_automaton *a, roco_closure *c, const roco_node *node, uint32_t self, item it)
{
    const roco_loop *loop = &a->program->loops[node->first];
    /* Without a maximum, more than the minimum is all the same. */
    const uint32_t count = loop->max == ROCO_UNLIMITED && it.count > loop->min ? loop->min : it.count;
    if (count >= loop->min || loop->nullable)
        visit(a, c, loop->next, it.frame, 0);
    if (loop->max != ROCO_UNLIMITED && count >= loop->max)
        return;
    const uint32_t frame = push(a, it.frame, self, count);
    if (frame)
        visit(a, c, loop->body, frame, 0);
}

static void pass_call(roco_automaton *a, roco_closure *c, const roco_node *node, uint32_t frame)
{
    /* Nothing comes behind the call: its return is the caller's own. */
    const uint32_t inner = node->n == 0 ? frame : push(a, frame, node->n, ROCO_NO_COUNT);
    if (inner || node->n == 0)
        visit(a, c, node->first, inner, 0);
}

static void find(roco_automaton *a, roco_closure *c, item it)
{
    if (c->n_found >= ROCO_MAX_CONFIGS) {
        a->status = ROCO_TOO_LARGE;
        return;
    }
    c->found[c->n_found++] = (roco_config){it.node, it.frame};
}

static void close_over(roco_automaton *a, roco_closure *c)
{
    const roco_program *p = a->program;
    while (c->n_todo && !a->status) {
        const item it = c->todo[--c->n_todo];
        const roco_node node = p->nodes[it.node];
        switch ((roco_node_kind)node.kind) {
        case ROCO_NODE_BYTES: find(a, c, it); break;
        case ROCO_NODE_RETURN: pass_return(a, c, it.frame); break;
        case ROCO_NODE_CALL: pass_call(a, c, &node, it.frame); break;
        case ROCO_NODE_LOOP: pass_loop(a, c, &node, it.node, it); break;
        case ROCO_NODE_SPLIT:
            for (uint32_t i = 0; i < node.n; i++)
                visit(a, c, p->edges[node.first + i].to, it.frame, 0);
            break;
        }
    }
}

/* --- states --- */

static int by_config(const void *left, const void *right)
{
    const roco_config *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

static uint32_t hash_state(const roco_config *configs, uint32_t n, bool accepts)
{
    uint64_t hash = n * 2u + accepts;
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash + ((uint64_t)configs[i].node << 32 | configs[i].frame) + 0x9e3779b97f4a7c15u);
    return (uint32_t)hash;
}

static uint32_t *state_slot(const roco_automaton *a, const roco_config *configs, uint32_t n, bool accepts)
{
    uint32_t at = hash_state(configs, n, accepts) & a->state_mask;
    for (; a->state_slots[at] != ROCO_STATE_UNKNOWN; at = (at + 1) & a->state_mask) {
        const roco_state *s = &a->states[a->state_slots[at]];
        if (s->n == n && s->accepts == accepts &&
            (n == 0 || memcmp(a->configs + s->first, configs, n * sizeof *configs) == 0))
            break;
    }
    return &a->state_slots[at];
}

static bool grow_state_slots(roco_automaton *a)
{
    const uint32_t n = a->state_mask ? 2 * (a->state_mask + 1) : FIRST_SLOTS;
    uint32_t *slots = malloc(n * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0xFF, n * sizeof *slots);
    free(a->state_slots);
    a->state_slots = slots;
    a->state_mask = n - 1;
    for (uint32_t i = 0; i < a->n_states; i++)
        *state_slot(a, a->configs + a->states[i].first, a->states[i].n, a->states[i].accepts) = i;
    return true;
}

static bool grow_states(roco_automaton *a, uint32_t n_configs)
{
    const uint32_t n_classes = a->program->n_classes;
    if (a->n_states == a->states_capacity) {
        if (!roco_grow(&a->states, a->n_states, &a->states_capacity, sizeof *a->states))
            return false;
        uint32_t *next = realloc(a->next, (size_t)a->states_capacity * n_classes * sizeof *next);
        if (!next) {
            a->states_capacity = a->n_states; /* what both arrays hold */
            return false;
        }
        a->next = next;
    }
    while (a->n_configs + n_configs > a->configs_capacity)
        if (!roco_grow(&a->configs, a->configs_capacity, &a->configs_capacity, sizeof *a->configs))
            return false;
    return a->n_states <= a->state_mask / 2 || grow_state_slots(a);
}

/* The number of the state with what the closure found. */
static uint32_t intern(roco_automaton *a, roco_closure *c)
{
    if (a->status)
        return ROCO_STATE_UNKNOWN;
    if (c->n_found > 1)
        qsort(c->found, c->n_found, sizeof *c->found, by_config);
    const uint32_t known = *state_slot(a, c->found, c->n_found, c->accepts);
    if (known != ROCO_STATE_UNKNOWN)
        return known;
    if (over_limit(a))
        return ROCO_STATE_UNKNOWN;
    if (!grow_states(a, c->n_found))
        return fail(a, ROCO_NO_MEMORY);
    roco_state state = {.first = a->n_configs, .n = c->n_found, .accepts = c->accepts};
    for (uint32_t i = 0; i < c->n_found && !state.counted; i++)
        state.counted = a->frames[c->found[i].frame].counted;
    memcpy(a->configs + a->n_configs, c->found, c->n_found * sizeof *c->found);
    a->n_configs += c->n_found;
    a->states[a->n_states] = state;
    memset(a->next + (size_t)a->n_states * a->program->n_classes, 0xFF, a->program->n_classes * sizeof *a->next);
    *state_slot(a, c->found, c->n_found, c->accepts) = a->n_states;
    return a->n_states++;
}

uint32_t roco_automaton_start(roco_automaton *a, roco_closure *c)
{
    a->status = ROCO_OK;
    begin(c);
    visit(a, c, a->program->start, 0, 0);
    close_over(a, c);
    return intern(a, c);
}

uint32_t roco_automaton_make(roco_automaton *a, roco_closure *c, uint32_t state, uint8_t byte)
{
    const roco_program *p = a->program;
    a->status = ROCO_OK;
    begin(c);
    for (uint32_t i = 0; i < a->states[state].n && !a->status; i++) {
        const roco_config config = a->configs[a->states[state].first + i];
        const roco_node node = p->nodes[config.node];
        if (!charge(a, node.n / EDGES_OF_A_VISIT)) /* edges that do not match cost time, too */
            break;
        for (uint32_t e = 0; e < node.n; e++) {
            const roco_edge edge = p->edges[node.first + e];
            if (byte >= edge.low && byte <= edge.high)
                visit(a, c, edge.to, config.frame, 0);
        }
    }
    close_over(a, c);
    const uint32_t to = intern(a, c);
    if (to != ROCO_STATE_UNKNOWN)
        a->next[(size_t)state * p->n_classes + p->byte_class[byte]] = to;
    return to;
}

/* --- counts --- */

/* Where a count may be moved to without a change in what the next iterations allow: as far as possible before the
 * minimum, or just behind it. */
static uint32_t free_count(const roco_loop *loop, uint32_t count, uint32_t *distance)
{
    const bool before = count < loop->min && !loop->nullable;
    uint32_t left = UINT32_MAX;
    if (before)
        left = loop->min - count;
    else if (loop->max != ROCO_UNLIMITED)
        left = loop->max - count;
    *distance = left < *distance ? left : *distance;
    return before || loop->nullable ? 0 : loop->min;
}

/* The same stack with free counts. 0: it cannot be had. */
static uint32_t uncount_stack(roco_automaton *a, uint32_t frame, uint32_t *distance)
{
    uint32_t chain[ROCO_MAX_STACK], n = 0;
    for (; frame; frame = a->frames[frame].parent)
        chain[n++] = frame;
    if (!charge(a, n / FRAMES_OF_A_VISIT))
        return 0;
    uint32_t top = 0;
    while (n-- > 0) {
        const roco_frame f = a->frames[chain[n]];
        const uint32_t loop = a->program->nodes[f.node].first;
        const uint32_t count =
            f.count == ROCO_NO_COUNT ? f.count : free_count(&a->program->loops[loop], f.count, distance);
        top = push(a, top, f.node, count);
        if (!top)
            return 0;
    }
    return top;
}

uint32_t roco_automaton_uncount(roco_automaton *a, roco_closure *c, uint32_t state, uint32_t *distance)
{
    a->status = ROCO_OK;
    *distance = UINT32_MAX;
    begin(c);
    c->accepts = a->states[state].accepts;
    for (uint32_t i = 0; i < a->states[state].n && !a->status; i++) {
        const roco_config config = a->configs[a->states[state].first + i];
        const uint32_t frame = config.frame ? uncount_stack(a, config.frame, distance) : 0;
        const item it = {config.node, frame, 0};
        if (!a->status && (frame || !config.frame) && !met(a, c, it))
            find(a, c, it);
    }
    return intern(a, c);
}

/* --- the store --- */

roco_status roco_automaton_init(roco_automaton *a, const roco_program *program, size_t limit_bytes)
{
    *a = (roco_automaton){.program = program, .limit_bytes = limit_bytes};
    if (!grow_frame_slots(a) || !grow_state_slots(a) || !grow_states(a, 1) ||
        !roco_grow(&a->frames, 0, &a->frames_capacity, sizeof *a->frames))
        return ROCO_NO_MEMORY;
    a->frames[a->n_frames++] = (roco_frame){0};
    a->states[a->n_states] = (roco_state){0};
    memset(a->next, 0, program->n_classes * sizeof *a->next);
    *state_slot(a, NULL, 0, false) = a->n_states++;
    return ROCO_OK;
}

void roco_automaton_free(roco_automaton *a)
{
    free(a->frames);
    free(a->frame_slots);
    free(a->configs);
    free(a->states);
    free(a->state_slots);
    free(a->next);
    *a = (roco_automaton){0};
}

size_t roco_automaton_bytes(const roco_automaton *a)
{
    return a->n_frames * (sizeof *a->frames + 2 * sizeof *a->frame_slots) + a->n_configs * sizeof *a->configs +
           a->n_states * (sizeof *a->states + 2 * sizeof *a->state_slots + a->program->n_classes * sizeof *a->next);
}

/* Copies a stack into another automaton. */
static uint32_t copy_stack(const roco_automaton *from, roco_automaton *to, uint32_t frame)
{
    uint32_t chain[ROCO_MAX_STACK], n = 0, top = 0;
    for (; frame; frame = from->frames[frame].parent)
        chain[n++] = frame;
    while (n-- > 0 && !to->status) {
        const roco_frame *f = &from->frames[chain[n]];
        top = push(to, top, f->node, f->count);
    }
    return top;
}

roco_status roco_automaton_shrink(roco_automaton *a, uint32_t **states, uint32_t n)
{
    roco_automaton fresh;
    roco_closure *c = roco_closure_open();
    roco_status status = c ? roco_automaton_init(&fresh, a->program, a->limit_bytes) : ROCO_NO_MEMORY;
    uint32_t *numbers = malloc((n ? n : 1) * sizeof *numbers);
    status = numbers ? status : ROCO_NO_MEMORY;
    for (uint32_t i = 0; i < n && !status; i++) {
        const roco_state *state = &a->states[*states[i]];
        begin(c);
        c->accepts = state->accepts;
        for (uint32_t k = 0; k < state->n; k++) {
            const roco_config config = a->configs[state->first + k];
            c->found[c->n_found++] = (roco_config){config.node, copy_stack(a, &fresh, config.frame)};
        }
        numbers[i] = intern(&fresh, c);
        status = fresh.status;
    }
    for (uint32_t i = 0; i < n && !status; i++)
        *states[i] = numbers[i];
    if (!status) {
        fresh.work = a->work;
        roco_automaton_free(a);
        *a = fresh;
    } else if (c) {
        roco_automaton_free(&fresh);
    }
    free(numbers);
    roco_closure_close(c);
    return status;
}
