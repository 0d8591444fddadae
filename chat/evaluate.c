/* Expressions: walks the tree, one function per kind of node that is more than a line. */
#include "chat/run.h"

#include <string.h>

/* --- names --- */

void roco_open_scope(roco_run *run, roco_scope *outer)
{
    roco_scope *scope = roco_region_alloc(run->region, 1, sizeof *scope);
    scope->outer = outer;
    run->scope = scope;
}

static bool same(const roco_string *a, const roco_string *b)
{
    return a == b || (a->size == b->size && memcmp(a->data, b->data, a->size) == 0);
}

const roco_value *roco_lookup(roco_run *run, const roco_string *name)
{
    uint64_t looks = 0;
    for (const roco_scope *scope = run->scope; scope; scope = scope->outer) {
        for (const roco_variable *v = scope->variables; v; v = v->next, looks++) {
            if (same(v->name, name)) {
                roco_run_charge(run, looks / 16);
                return &v->value;
            }
        }
    }
    roco_run_charge(run, looks / 16);
    return roco_dict_find(run->globals, name->data, name->size);
}

void roco_assign(roco_run *run, const roco_string *name, roco_value value)
{
    uint64_t looks = 0;
    for (roco_variable *v = run->scope->variables; v; v = v->next, looks++) {
        if (same(v->name, name)) {
            v->value = value;
            return;
        }
    }
    roco_run_charge(run, looks / 16);
    roco_variable *v = roco_region_alloc(run->region, 1, sizeof *v);
    *v = (roco_variable){name, value, run->scope->variables};
    run->scope->variables = v;
}

static roco_value evaluate_name(roco_run *run, const roco_node *node)
{
    const roco_value *value = roco_lookup(run, node->name);
    if (value)
        return *value;
    roco_value function = roco_find_function(node->name);
    return function.kind == ROCO_VALUE_UNDEFINED ? roco_undefined(run, node->name) : function;
}

/* --- literals --- */

static roco_value evaluate_list(roco_run *run, const roco_node *node)
{
    roco_list *list = roco_new_list(run, node->n);
    list->tuple = node->kind == ROCO_NODE_TUPLE;
    for (uint32_t i = 0; i < node->n; i++)
        roco_list_add(run->region, list, roco_evaluate(run, node->items[i]));
    return roco_list_value(list);
}

static roco_value evaluate_dict(roco_run *run, const roco_node *node)
{
    roco_value value;
    roco_value_dict(run->region, node->n / 2, &value);
    for (uint32_t i = 0; i < node->n; i += 2) {
        roco_value key = roco_evaluate(run, node->items[i]);
        if (key.kind > ROCO_VALUE_STRING && !(key.kind == ROCO_VALUE_LIST && key.list->tuple))
            roco_run_fail(run, ROCO_INVALID, "%s cannot be a key", roco_value_kind_name(key));
        roco_dict_put(run->region, value.dict, key, roco_evaluate(run, node->items[i + 1]));
    }
    return value;
}

static roco_value evaluate_concat(roco_run *run, const roco_node *node)
{
    roco_builder out = {0};
    for (uint32_t i = 0; i < node->n; i++)
        roco_print(run, &out, roco_evaluate(run, node->items[i]));
    return roco_builder_value(run, &out);
}

/* --- operators --- */

static roco_value evaluate_item(roco_run *run, const roco_node *node)
{
    roco_value value = roco_evaluate(run, node->a);
    if (node->b->kind != ROCO_NODE_SLICE)
        return roco_get_item(run, value, roco_evaluate(run, node->b));
    roco_value bounds[3];
    for (int i = 0; i < 3; i++)
        bounds[i] = node->b->items[i] ? roco_evaluate(run, node->b->items[i]) : roco_none();
    return roco_get_slice(run, value, bounds);
}

static roco_value evaluate_compare(roco_run *run, const roco_node *node)
{
    roco_value left = roco_evaluate(run, node->a);
    for (uint32_t i = 0; i < node->n; i++) {
        roco_value right = roco_evaluate(run, node->items[i]->a);
        run->line = node->line;
        if (!roco_compare(run, node->items[i]->op, left, right))
            return roco_bool(false);
        left = right;
    }
    return roco_bool(true);
}

static roco_value evaluate_unary(roco_run *run, const roco_node *node)
{
    roco_value value = roco_evaluate(run, node->a);
    if (node->op == '!')
        return roco_bool(!roco_value_true(value));
    roco_value negative = roco_negate(run, value);
    return node->op == '-' ? negative : value;
}

static roco_value evaluate_condition(roco_run *run, const roco_node *node)
{
    if (roco_value_true(roco_evaluate(run, node->a)))
        return roco_evaluate(run, node->b);
    return node->c ? roco_evaluate(run, node->c) : roco_undefined(run, NULL);
}

/* --- calls --- */

roco_arguments roco_evaluate_arguments(roco_run *run, const roco_node *node)
{
    roco_arguments arguments = {
        .values = roco_region_alloc(run->region, node->n + 1, sizeof *arguments.values),
        .names = roco_region_alloc(run->region, node->n + 1, sizeof *arguments.names),
        .named = roco_region_alloc(run->region, node->n + 1, sizeof *arguments.named),
    };
    for (uint32_t i = 0; i < node->n; i++) {
        const roco_node *item = node->items[i];
        if (item->kind != ROCO_NODE_KEYWORD) {
            arguments.values[arguments.n++] = roco_evaluate(run, item);
            continue;
        }
        arguments.names[arguments.n_named] = item->name;
        arguments.named[arguments.n_named++] = roco_evaluate(run, item->a);
    }
    return arguments;
}

roco_value roco_call(roco_run *run, roco_value callee, const roco_arguments *arguments)
{
    switch (callee.kind) {
    case ROCO_VALUE_MACRO: return roco_call_macro(run, callee.other, arguments);
    case ROCO_VALUE_FUNCTION: return roco_call_function(run, callee, arguments);
    case ROCO_VALUE_METHOD: return roco_call_method(run, callee, arguments);
    case ROCO_VALUE_UNDEFINED: roco_run_fail_undefined(run, callee);
    default: roco_run_fail(run, ROCO_INVALID, "%s cannot be called", roco_value_kind_name(callee));
    }
}

static roco_value evaluate_call(roco_run *run, const roco_node *node)
{
    roco_value callee = roco_evaluate(run, node->a);
    roco_arguments arguments = roco_evaluate_arguments(run, node);
    run->line = node->line;
    return roco_call(run, callee, &arguments);
}

static roco_value evaluate_filter(roco_run *run, const roco_node *node, const roco_value *subject)
{
    roco_value value;
    if (!node->a)
        value = *subject;
    else if (node->a->kind == ROCO_NODE_FILTER && subject)
        value = roco_apply_filters(run, node->a, *subject);
    else
        value = roco_evaluate(run, node->a);
    roco_arguments arguments = roco_evaluate_arguments(run, node);
    run->line = node->line;
    return roco_apply_filter(run, node->name, value, &arguments);
}

roco_value roco_apply_filters(roco_run *run, const roco_node *chain, roco_value subject)
{
    roco_run_down(run);
    roco_value value = evaluate_filter(run, chain, &subject);
    roco_run_up(run);
    return value;
}

static roco_value evaluate_test(roco_run *run, const roco_node *node)
{
    roco_value value = roco_evaluate(run, node->a);
    roco_arguments arguments = roco_evaluate_arguments(run, node);
    run->line = node->line;
    return roco_bool(roco_apply_test(run, node->name, value, &arguments));
}

static roco_value evaluate_node(roco_run *run, const roco_node *node)
{
    roco_value value;
    switch ((roco_node_kind)node->kind) {
    case ROCO_NODE_CONSTANT: return node->value;
    case ROCO_NODE_NAME: return evaluate_name(run, node);
    case ROCO_NODE_LIST:
    case ROCO_NODE_TUPLE: return evaluate_list(run, node);
    case ROCO_NODE_DICT: return evaluate_dict(run, node);
    case ROCO_NODE_ATTRIBUTE: return roco_get_attribute(run, roco_evaluate(run, node->a), node->name);
    case ROCO_NODE_ITEM: return evaluate_item(run, node);
    case ROCO_NODE_CALL: return evaluate_call(run, node);
    case ROCO_NODE_FILTER: return evaluate_filter(run, node, NULL);
    case ROCO_NODE_TEST: return evaluate_test(run, node);
    case ROCO_NODE_UNARY: return evaluate_unary(run, node);
    case ROCO_NODE_BINARY:
        value = roco_evaluate(run, node->a);
        roco_value right = roco_evaluate(run, node->b);
        run->line = node->line;
        return roco_operate(run, node->op, value, right);
    case ROCO_NODE_AND:
        value = roco_evaluate(run, node->a);
        return roco_value_true(value) ? roco_evaluate(run, node->b) : value;
    case ROCO_NODE_OR:
        value = roco_evaluate(run, node->a);
        return roco_value_true(value) ? value : roco_evaluate(run, node->b);
    case ROCO_NODE_COMPARE: return evaluate_compare(run, node);
    case ROCO_NODE_CONCAT: return evaluate_concat(run, node);
    case ROCO_NODE_CONDITION: return evaluate_condition(run, node);
    default: break;
    }
    roco_run_fail(run, ROCO_INVALID, "this is no expression");
}

roco_value roco_evaluate(roco_run *run, const roco_node *node)
{
    roco_run_down(run);
    roco_run_charge(run, 1);
    run->line = node->line;
    roco_value value = evaluate_node(run, node);
    roco_run_up(run);
    return value;
}
