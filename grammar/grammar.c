/* A grammar under construction: its arrays, its limits, its expressions. Ids grow from children to parents, so that
 * passes over all expressions need no recursion. */
#include "grammar/parts.h"

#include "config/clock.h"
#include "grammar/dfa.h"
#include "grammar/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool roco_grow(void *data, uint32_t n, uint32_t *capacity, size_t size)
{
    if (n < *capacity)
        return true;
    if (*capacity > UINT32_MAX / 4)
        return false;
    uint32_t wanted = *capacity ? *capacity * 2 : 16;
    void *old, *grown;
    memcpy(&old, data, sizeof old);
    grown = realloc(old, wanted * size);
    if (!grown)
        return false;
    memcpy(data, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

roco_grammar *roco_grammar_open(const roco_grammar_limits *limits)
{
    roco_grammar *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->limits = *limits;
    g->deadline_ns = roco_thread_ns() + limits->time_ns;
    roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_NOTHING});
    roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_EMPTY});
    if (!g->status)
        return g;
    roco_grammar_close(g);
    return NULL;
}

void roco_grammar_close(roco_grammar *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->n_graphs; i++)
        roco_dfa_close(g->graphs[i]);
    free(g->graphs);
    free(g->exprs);
    free(g->lists);
    free(g->ranges);
    free(g->rules);
    free(g->json);
    roco_buffer_free(&g->bytes);
    free(g);
}

roco_status roco_grammar_status(const roco_grammar *g, roco_error *error)
{
    return g->status ? roco_grammar_report(g, NULL, error) : ROCO_OK;
}

roco_status roco_grammar_report(const roco_grammar *g, const char *field, roco_error *error)
{
    return roco_fail(error, g->status, field, "%s%s%s", field ? field : "", field ? ": " : "", g->message);
}

roco_expr roco_grammar_fail(roco_grammar *g, roco_status status, const char *message)
{
    if (!g->status) {
        g->status = status;
        snprintf(g->message, sizeof g->message, "%s", message);
    }
    return 0;
}

static roco_expr out_of_memory(roco_grammar *g)
{
    return roco_grammar_fail(g, ROCO_NO_MEMORY, "out of memory");
}

bool roco_grammar_tick(roco_grammar *g)
{
    if (!g->status && (++g->work & 255u) == 0 && roco_thread_ns() > g->deadline_ns)
        roco_grammar_fail(g, ROCO_TOO_LARGE, "compiling it takes longer than the limit");
    return !g->status;
}

/* --- adding --- */

static uint32_t child_depth(const roco_grammar *g, const roco_expr_node *node)
{
    if (node->kind == ROCO_EXPR_REPEAT)
        return g->exprs[node->a].depth;
    uint32_t depth = 0;
    if (node->kind == ROCO_EXPR_SEQUENCE || node->kind == ROCO_EXPR_CHOICE)
        for (uint32_t i = 0; i < node->b; i++) {
            const uint32_t child = g->exprs[g->lists[node->a + i]].depth;
            depth = child > depth ? child : depth;
        }
    return depth;
}

roco_expr roco_grammar_add(roco_grammar *g, roco_expr_node node)
{
    if (!roco_grammar_tick(g))
        return 0;
    if (g->n_exprs >= g->limits.expressions)
        return roco_grammar_fail(g, ROCO_TOO_LARGE, "it is too large: too many expressions");
    uint32_t depth = child_depth(g, &node) + 1;
    /* Every level of a text makes at most four of expressions. */
    if (depth > 4 * g->limits.depth + 16)
        return roco_grammar_fail(g, ROCO_TOO_LARGE, "it is nested too deeply");
    if (!roco_grow(&g->exprs, g->n_exprs, &g->exprs_capacity, sizeof *g->exprs))
        return out_of_memory(g);
    node.depth = (uint16_t)depth;
    g->exprs[g->n_exprs] = node;
    return g->n_exprs++;
}

roco_expr roco_grammar_empty(roco_grammar *g)
{
    return g->status ? 0 : 1;
}

roco_expr roco_grammar_nothing(roco_grammar *g)
{
    return 0;
}

static uint32_t add_bytes(roco_grammar *g, const char *data, size_t size)
{
    const size_t at = g->bytes.size;
    if (at + size > UINT32_MAX / 2 || roco_buffer_append(&g->bytes, data, size))
        out_of_memory(g);
    return (uint32_t)at;
}

roco_expr roco_grammar_text(roco_grammar *g, const char *data, size_t size)
{
    if (size == 0)
        return roco_grammar_empty(g);
    const uint32_t at = add_bytes(g, data, size);
    return roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_TEXT, .a = at, .b = (uint32_t)size});
}

roco_expr roco_grammar_word(roco_grammar *g, const char *text)
{
    return roco_grammar_text(g, text, strlen(text));
}

/* The spelling of vocabulary.c, under which the trie holds control tokens. */
roco_expr roco_grammar_token(roco_grammar *g, int32_t id)
{
    const char spelling[] = {(char)0xFF, (char)(id >> 16), (char)(id >> 8), (char)id};
    return roco_grammar_text(g, spelling, sizeof spelling);
}

roco_expr roco_grammar_chars(roco_grammar *g, const roco_charset *set, bool json)
{
    if (set->failed)
        return out_of_memory(g);
    if (set->n == 0)
        return 0;
    const uint32_t first = g->n_ranges;
    for (uint32_t i = 0; i < set->n; i++) {
        roco_range range = set->data[i];
        if (json && range.low == 0) /* NUL is never written into JSON: too much behind would end there */
            range.low = 1;
        if (range.low > range.high)
            continue;
        if (!roco_grow(&g->ranges, g->n_ranges, &g->ranges_capacity, sizeof *g->ranges))
            return out_of_memory(g);
        g->ranges[g->n_ranges++] = range;
    }
    const uint32_t n = g->n_ranges - first;
    return n ? roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_CHARS, .json = json, .a = first, .b = n}) : 0;
}

static roco_expr add_list(roco_grammar *g, roco_expr_kind kind, const roco_expr *list, size_t n)
{
    const uint32_t first = g->n_lists;
    for (size_t i = 0; i < n; i++) {
        if (!roco_grow(&g->lists, g->n_lists, &g->lists_capacity, sizeof *g->lists))
            return out_of_memory(g);
        g->lists[g->n_lists++] = list[i];
    }
    return roco_grammar_add(g, (roco_expr_node){.kind = (uint8_t)kind, .a = first, .b = (uint32_t)n});
}

roco_expr roco_grammar_sequence(roco_grammar *g, const roco_expr *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == 0)
            return 0;
    if (n < 2)
        return n ? list[0] : roco_grammar_empty(g);
    return add_list(g, ROCO_EXPR_SEQUENCE, list, n);
}

roco_expr roco_grammar_pair(roco_grammar *g, roco_expr first, roco_expr second)
{
    return roco_grammar_sequence(g, (const roco_expr[]){first, second}, 2);
}

roco_expr roco_grammar_choice(roco_grammar *g, const roco_expr *list, size_t n)
{
    if (n < 2)
        return n ? list[0] : 0;
    return add_list(g, ROCO_EXPR_CHOICE, list, n);
}

roco_expr roco_grammar_optional(roco_grammar *g, roco_expr body)
{
    return roco_grammar_choice(g, (const roco_expr[]){body, roco_grammar_empty(g)}, 2);
}

/* (X{a,b}){c,d} with a <= 1 is X{ac,bd}: counts that would otherwise multiply into ambiguity. */
static bool join_repeats(const roco_expr_node *inner, uint32_t *min, uint32_t *max)
{
    const bool fixed = inner->b == inner->c && *min == *max;
    if (inner->kind != ROCO_EXPR_REPEAT || (inner->b > 1 && !fixed) || inner->c == 0)
        return false;
    const uint64_t low = (uint64_t)inner->b * *min, high = (uint64_t)inner->c * *max;
    const bool endless = inner->c == ROCO_UNLIMITED || *max == ROCO_UNLIMITED;
    if (low > ROCO_GRAMMAR_MAX_REPEAT || (!endless && high > ROCO_GRAMMAR_MAX_REPEAT))
        return false;
    *min = (uint32_t)low;
    *max = endless ? ROCO_UNLIMITED : (uint32_t)high;
    return true;
}

roco_expr roco_grammar_repeat(roco_grammar *g, roco_expr body, uint32_t min, uint32_t max)
{
    if (g->status)
        return 0;
    if (min > ROCO_GRAMMAR_MAX_REPEAT || (max != ROCO_UNLIMITED && max > ROCO_GRAMMAR_MAX_REPEAT))
        return roco_grammar_fail(g, ROCO_TOO_LARGE, "it repeats something more than 1000000 times");
    if (max == 0 || body == 1)
        return 1;
    if (body == 0 || min > max)
        return min == 0 ? 1 : 0;
    const roco_expr_node inner = g->exprs[body];
    if (join_repeats(&inner, &min, &max))
        body = inner.a;
    if (min == 1 && max == 1)
        return body;
    return roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_REPEAT, .a = body, .b = min, .c = max});
}

static roco_expr add_search(roco_grammar *g, const char *data, size_t size, bool with)
{
    if (size == 0 && with)
        return roco_grammar_empty(g);
    const uint32_t at = add_bytes(g, data, size);
    return roco_grammar_add(
        g, (roco_expr_node){.kind = ROCO_EXPR_SEARCH, .a = at, .b = (uint32_t)size, .c = with ? 1 : 0});
}

roco_expr roco_grammar_until(roco_grammar *g, const char *data, size_t size)
{
    return add_search(g, data, size, true);
}

roco_expr roco_grammar_without(roco_grammar *g, const char *data, size_t size)
{
    return add_search(g, data, size, false);
}

roco_expr roco_grammar_declare(roco_grammar *g)
{
    if (!roco_grow(&g->rules, g->n_rules, &g->rules_capacity, sizeof *g->rules))
        return out_of_memory(g);
    g->rules[g->n_rules] = UINT32_MAX;
    return roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_RULE, .a = g->n_rules++});
}

void roco_grammar_define(roco_grammar *g, roco_expr rule, roco_expr body)
{
    if (g->status)
        return;
    ROCO_CHECK(g->exprs[rule].kind == ROCO_EXPR_RULE && g->rules[g->exprs[rule].a] == UINT32_MAX);
    g->rules[g->exprs[rule].a] = body;
}

roco_expr roco_grammar_graph(roco_grammar *g, struct roco_dfa *dfa, bool json)
{
    if (g->status || roco_dfa_is_empty(dfa)) {
        roco_dfa_close(dfa);
        return 0;
    }
    if (!roco_grow(&g->graphs, g->n_graphs, &g->graphs_capacity, sizeof *g->graphs)) {
        roco_dfa_close(dfa);
        return out_of_memory(g);
    }
    g->graphs[g->n_graphs] = dfa;
    return roco_grammar_add(g, (roco_expr_node){.kind = ROCO_EXPR_GRAPH, .json = json, .a = g->n_graphs++});
}

/* --- lists --- */

void roco_expr_push(roco_grammar *g, roco_expr_list *list, roco_expr expr)
{
    if (roco_grow(&list->data, list->n, &list->capacity, sizeof *list->data))
        list->data[list->n++] = expr;
    else
        out_of_memory(g);
}

void roco_expr_list_free(roco_expr_list *list)
{
    free(list->data);
    *list = (roco_expr_list){0};
}
