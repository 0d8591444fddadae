/* Expressions to nodes, from the end to the beginning: each is built in front of the node that comes after it. */
#include "grammar/program.h"

#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

/* A repetition of one character up to this often is written out, which needs no counter. */
enum { WRITTEN_OUT = 16 };

uint32_t roco_builder_node(roco_builder *b, roco_node_kind kind, uint32_t first, uint32_t n)
{
    roco_program *p = b->program;
    if (!roco_grammar_tick(b->grammar))
        return ROCO_NO_NODE;
    if (p->n_nodes >= b->grammar->limits.nodes) {
        roco_grammar_fail(b->grammar, ROCO_TOO_LARGE, "it is too large: its automaton has too many nodes");
        return ROCO_NO_NODE;
    }
    if (!roco_grow(&p->nodes, p->n_nodes, &p->nodes_capacity, sizeof *p->nodes)) {
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
        return ROCO_NO_NODE;
    }
    p->nodes[p->n_nodes] = (roco_node){.kind = kind, .first = first, .n = n};
    return p->n_nodes++;
}

void roco_builder_edge(roco_builder *b, uint32_t to, uint8_t low, uint8_t high)
{
    roco_program *p = b->program;
    if (p->n_edges >= 4 * b->grammar->limits.nodes)
        roco_grammar_fail(b->grammar, ROCO_TOO_LARGE, "it is too large: its automaton has too many edges");
    else if (!roco_grow(&p->edges, p->n_edges, &p->edges_capacity, sizeof *p->edges))
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
    else
        p->edges[p->n_edges++] = (roco_edge){.to = to, .low = low, .high = high};
}

/* --- what can be, and what can be empty: by passes over all expressions, which stand in order --- */

static bool any(const roco_grammar *g, const roco_expr_node *node, const bool *flags)
{
    for (uint32_t i = 0; i < node->b; i++)
        if (flags[g->lists[node->a + i]])
            return true;
    return false;
}

static bool all(const roco_grammar *g, const roco_expr_node *node, const bool *flags)
{
    for (uint32_t i = 0; i < node->b; i++)
        if (!flags[g->lists[node->a + i]])
            return false;
    return true;
}

static bool rule_flag(const roco_grammar *g, const roco_expr_node *node, const bool *flags)
{
    const roco_expr body = g->rules[node->a];
    return body != UINT32_MAX && flags[body];
}

static bool is_productive(const roco_builder *b, const roco_expr_node *node)
{
    switch ((roco_expr_kind)node->kind) {
    case ROCO_EXPR_NOTHING: return false;
    case ROCO_EXPR_SEQUENCE: return all(b->grammar, node, b->productive);
    case ROCO_EXPR_CHOICE: return any(b->grammar, node, b->productive);
    case ROCO_EXPR_REPEAT: return node->b == 0 || b->productive[node->a];
    case ROCO_EXPR_RULE: return rule_flag(b->grammar, node, b->productive);
    default: return true;
    }
}

static bool is_nullable(const roco_builder *b, const roco_expr_node *node)
{
    switch ((roco_expr_kind)node->kind) {
    case ROCO_EXPR_EMPTY: return true;
    case ROCO_EXPR_SEQUENCE: return all(b->grammar, node, b->nullable);
    case ROCO_EXPR_CHOICE: return any(b->grammar, node, b->nullable);
    case ROCO_EXPR_REPEAT: return node->b == 0 || b->nullable[node->a];
    case ROCO_EXPR_RULE: return rule_flag(b->grammar, node, b->nullable);
    case ROCO_EXPR_SEARCH: return node->c == 0;
    case ROCO_EXPR_GRAPH: return b->grammar->graphs[node->a]->accepts[0];
    default: return false;
    }
}

static void find_flags(roco_builder *b)
{
    roco_grammar *g = b->grammar;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < g->n_exprs && roco_grammar_tick(g); i++) {
            const bool productive = is_productive(b, &g->exprs[i]), nullable = is_nullable(b, &g->exprs[i]);
            changed = changed || productive != b->productive[i] || nullable != b->nullable[i];
            b->productive[i] = productive;
            b->nullable[i] = nullable;
        }
    }
}

/* --- nodes --- */

static uint32_t build(roco_builder *b, roco_expr expr, uint32_t next);

static uint32_t build_text(roco_builder *b, const roco_expr_node *e, uint32_t next)
{
    for (uint32_t i = e->b; i-- > 0;) {
        const uint8_t byte = (uint8_t)b->grammar->bytes.data[e->a + i];
        const uint32_t first = b->program->n_edges;
        roco_builder_edge(b, next, byte, byte);
        next = roco_builder_node(b, ROCO_NODE_BYTES, first, 1);
    }
    return next;
}

static bool is_words(const roco_grammar *g, const roco_expr_node *choice)
{
    for (uint32_t i = 0; i < choice->b; i++)
        if (g->exprs[g->lists[choice->a + i]].kind != ROCO_EXPR_TEXT)
            return false;
    return choice->b > 1;
}

/* Edges of one node stand together, so the alternatives come first. */
static uint32_t build_choice(roco_builder *b, const roco_expr_node *e, uint32_t next)
{
    if (is_words(b->grammar, e))
        return roco_builder_words(b, e, next);
    roco_expr_list starts = {0};
    for (uint32_t i = 0; i < e->b && !b->grammar->status; i++) {
        const roco_expr child = b->grammar->lists[e->a + i];
        if (b->productive[child])
            roco_expr_push(b->grammar, &starts, build(b, child, next));
    }
    const uint32_t first = b->program->n_edges, n = starts.n;
    for (uint32_t i = 0; i < n; i++)
        roco_builder_edge(b, starts.data[i], 0, 0);
    roco_expr_list_free(&starts);
    return roco_builder_node(b, ROCO_NODE_SPLIT, first, n);
}

/* A node that may be gone past: either `body` or `next`. */
static uint32_t build_split(roco_builder *b, uint32_t body, uint32_t next)
{
    const uint32_t first = b->program->n_edges;
    roco_builder_edge(b, body, 0, 0);
    roco_builder_edge(b, next, 0, 0);
    return roco_builder_node(b, ROCO_NODE_SPLIT, first, 2);
}

static uint32_t build_star(roco_builder *b, roco_expr body, uint32_t next)
{
    const uint32_t loop = build_split(b, 0, next);
    const uint32_t start = build(b, body, loop);
    if (!b->grammar->status)
        b->program->edges[b->program->nodes[loop].first].to = start;
    return loop;
}

static uint32_t build_counted(roco_builder *b, const roco_expr_node *e, uint32_t next)
{
    roco_program *p = b->program;
    const uint32_t body = build(b, e->a, 0);
    if (!roco_grow(&p->loops, p->n_loops, &p->loops_capacity, sizeof *p->loops)) {
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
        return ROCO_NO_NODE;
    }
    p->loops[p->n_loops] =
        (roco_loop){.body = body, .next = next, .min = e->b, .max = e->c, .nullable = b->nullable[e->a]};
    return roco_builder_node(b, ROCO_NODE_LOOP, p->n_loops++, 0);
}

static uint32_t build_repeat(roco_builder *b, const roco_expr_node *e, uint32_t next)
{
    if (!b->productive[e->a])
        return next; /* none of it, or the whole would not be built */
    if (e->b == 0 && e->c == ROCO_UNLIMITED)
        return build_star(b, e->a, next);
    if (e->b == 0 && e->c == 1)
        return build_split(b, build(b, e->a, next), next);
    const uint8_t kind = b->grammar->exprs[e->a].kind;
    const uint32_t most = e->c == ROCO_UNLIMITED ? e->b : e->c;
    if ((kind != ROCO_EXPR_CHARS && kind != ROCO_EXPR_RULE) || most > WRITTEN_OUT)
        return build_counted(b, e, next);
    uint32_t at = e->c == ROCO_UNLIMITED ? build_star(b, e->a, next) : next;
    for (uint32_t i = most; i-- > 0;) {
        at = build(b, e->a, at);
        if (i >= e->b)
            at = build_split(b, at, next);
    }
    return at;
}

/* A node in front of `next`. Only what is productive is built. */
static uint32_t build(roco_builder *b, roco_expr expr, uint32_t next)
{
    roco_grammar *g = b->grammar;
    if (g->status)
        return ROCO_NO_NODE;
    const roco_expr_node e = g->exprs[expr];
    switch ((roco_expr_kind)e.kind) {
    case ROCO_EXPR_NOTHING: break;
    case ROCO_EXPR_EMPTY: return next;
    case ROCO_EXPR_TEXT: return build_text(b, &e, next);
    case ROCO_EXPR_CHARS: return roco_builder_chars(b, g->ranges + e.a, e.b, e.json, next);
    case ROCO_EXPR_SEQUENCE:
        for (uint32_t i = e.b; i-- > 0;)
            next = build(b, g->lists[e.a + i], next);
        return next;
    case ROCO_EXPR_CHOICE: return build_choice(b, &e, next);
    case ROCO_EXPR_REPEAT: return build_repeat(b, &e, next);
    case ROCO_EXPR_RULE: return roco_builder_node(b, ROCO_NODE_CALL, e.a, next);
    case ROCO_EXPR_GRAPH: return roco_builder_graph(b, g->graphs[e.a], e.json, next);
    case ROCO_EXPR_SEARCH: return roco_builder_search(b, g->bytes.data + e.a, e.b, e.c, next);
    }
    return roco_builder_node(b, ROCO_NODE_SPLIT, 0, 0);
}

/* Rules are built as calls are met; then calls learn where their rules start. */
static void build_rules(roco_builder *b)
{
    roco_program *p = b->program;
    for (uint32_t i = 0; i < p->n_nodes && !b->grammar->status; i++) {
        if (p->nodes[i].kind != ROCO_NODE_CALL)
            continue;
        const uint32_t rule = p->nodes[i].first;
        if (b->rule_starts[rule] == ROCO_NO_NODE)
            b->rule_starts[rule] = build(b, b->grammar->rules[rule], 0);
        p->nodes[i].first = b->rule_starts[rule];
    }
}

/* --- rules that refer to themselves at their own beginning --- */

/* Who calls whom before any byte is read: callers and callees are nodes that rules and bodies of loops start with. */
typedef struct calls {
    uint32_t *data; /* [2 * n] caller, callee */
    uint32_t n, capacity;
    uint32_t *stack;
    uint32_t n_stack, stack_capacity;
    uint32_t *seen;    /* [n_nodes] the last caller from which a node was passed, plus one */
    uint32_t *waiting; /* [n_nodes] callers of a start that are not known to be free of cycles */
    bool *empties;     /* [n_nodes] the rule that starts here may be empty */
    bool *starts;      /* [n_nodes] */
} calls;

static void visit(roco_builder *b, calls *c, uint32_t node)
{
    if (!roco_grow(&c->stack, c->n_stack, &c->stack_capacity, sizeof *c->stack))
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
    else
        c->stack[c->n_stack++] = node;
}

static void add_call(roco_builder *b, calls *c, uint32_t caller, uint32_t callee)
{
    if (!roco_grow(&c->data, 2 * c->n + 1, &c->capacity, sizeof *c->data)) {
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
        return;
    }
    c->data[2 * c->n] = caller;
    c->data[2 * c->n++ + 1] = callee;
    c->waiting[callee]++;
}

/* Follows what `caller` passes without a byte. */
static void find_calls(roco_builder *b, calls *c, uint32_t caller)
{
    const roco_program *p = b->program;
    visit(b, c, caller);
    while (c->n_stack && roco_grammar_tick(b->grammar)) {
        const uint32_t at = c->stack[--c->n_stack];
        const roco_node node = p->nodes[at];
        if (c->seen[at] == caller + 1)
            continue;
        c->seen[at] = caller + 1;
        if (node.kind == ROCO_NODE_SPLIT) {
            for (uint32_t i = 0; i < node.n; i++)
                visit(b, c, p->edges[node.first + i].to);
        } else if (node.kind == ROCO_NODE_CALL) {
            add_call(b, c, caller, node.first);
            if (c->empties[node.first])
                visit(b, c, node.n);
        } else if (node.kind == ROCO_NODE_LOOP) {
            add_call(b, c, caller, p->loops[node.first].body);
            if (p->loops[node.first].min == 0 || p->loops[node.first].nullable)
                visit(b, c, p->loops[node.first].next);
        }
    }
}

static int by_caller(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint32_t first_call(const calls *c, uint32_t caller)
{
    uint32_t low = 0, high = c->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->data[2 * middle] < caller)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes away callers that nobody waits for until none is left; what then still waits calls itself. */
static bool has_cycle(roco_builder *b, calls *c)
{
    uint32_t left = 0;
    if (c->n)
        qsort(c->data, c->n, 2 * sizeof *c->data, by_caller);
    c->n_stack = 0;
    for (uint32_t i = 0; i < b->program->n_nodes; i++) {
        left += c->starts[i];
        if (c->starts[i] && c->waiting[i] == 0)
            visit(b, c, i);
    }
    while (c->n_stack && roco_grammar_tick(b->grammar)) {
        const uint32_t caller = c->stack[--c->n_stack];
        left--;
        for (uint32_t i = first_call(c, caller); i < c->n && c->data[2 * i] == caller; i++)
            if (--c->waiting[c->data[2 * i + 1]] == 0)
                visit(b, c, c->data[2 * i + 1]);
    }
    return left > 0;
}

static void find_left_recursion(roco_builder *b)
{
    const uint32_t n = b->program->n_nodes;
    calls c = {
        .seen = calloc(n, sizeof *c.seen),
        .waiting = calloc(n, sizeof *c.waiting),
        .empties = calloc(n, sizeof *c.empties),
        .starts = calloc(n, sizeof *c.starts),
    };
    if (!c.seen || !c.waiting || !c.empties || !c.starts)
        roco_grammar_fail(b->grammar, ROCO_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < b->grammar->n_rules && !b->grammar->status; i++)
        if (b->rule_starts[i] != ROCO_NO_NODE) {
            c.starts[b->rule_starts[i]] = true;
            c.empties[b->rule_starts[i]] |= b->nullable[b->grammar->rules[i]];
        }
    for (uint32_t i = 0; i < b->program->n_loops && !b->grammar->status; i++)
        c.starts[b->program->loops[i].body] = true;
    for (uint32_t i = 0; i < n && !b->grammar->status; i++)
        if (c.starts[i])
            find_calls(b, &c, i);
    if (!b->grammar->status && has_cycle(b, &c) && !b->grammar->status)
        roco_grammar_fail(
            b->grammar, ROCO_INVALID,
            "a rule refers to itself at its own beginning (left recursion); put what it begins with first");
    free(c.data);
    free(c.stack);
    free(c.seen);
    free(c.waiting);
    free(c.empties);
    free(c.starts);
}

/* --- classes of bytes --- */

static void find_classes(roco_program *p)
{
    bool cuts[257] = {[0] = true};
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const roco_node *node = &p->nodes[i];
        for (uint32_t e = 0; node->kind == ROCO_NODE_BYTES && e < node->n; e++) {
            cuts[p->edges[node->first + e].low] = true;
            cuts[p->edges[node->first + e].high + 1] = true;
        }
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        p->n_classes += cuts[byte];
        p->byte_class[byte] = (uint8_t)(p->n_classes - 1);
    }
}

static void compile(roco_builder *b, roco_expr root)
{
    roco_builder_node(b, ROCO_NODE_RETURN, 0, 0);
    find_flags(b);
    if (!b->grammar->status && !b->productive[root])
        roco_grammar_fail(b->grammar, ROCO_INVALID, "no text can satisfy it");
    b->program->start = build(b, root, 0);
    build_rules(b);
    if (!b->grammar->status)
        find_left_recursion(b);
    if (!b->grammar->status)
        find_classes(b->program);
}

roco_status roco_program_compile(roco_grammar *g, const char *field, roco_expr root, roco_program *out,
                                 roco_error *error)
{
    *out = (roco_program){0};
    roco_builder b = {
        .grammar = g,
        .program = out,
        .productive = calloc(g->n_exprs, sizeof *b.productive),
        .nullable = calloc(g->n_exprs, sizeof *b.nullable),
        .rule_starts = malloc((g->n_rules + 1u) * sizeof *b.rule_starts),
    };
    if (!b.productive || !b.nullable || !b.rule_starts)
        roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
    else
        memset(b.rule_starts, 0xFF, (g->n_rules + 1u) * sizeof *b.rule_starts);
    if (!g->status)
        compile(&b, root);
    free(b.productive);
    free(b.nullable);
    free(b.rule_starts);
    return g->status ? roco_grammar_report(g, field, error) : ROCO_OK;
}

void roco_program_free(roco_program *p)
{
    free(p->nodes);
    free(p->edges);
    free(p->loops);
    *p = (roco_program){0};
}
