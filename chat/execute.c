/* Statements: output, branches, loops, names, macros. */
#include "chat/run.h"

static roco_flow execute_node(roco_run *run, const roco_node *node);

/* --- assignment --- */

static void assign_attribute(roco_run *run, const roco_node *target, roco_value value)
{
    const roco_value *space = roco_lookup(run, target->a->name);
    if (!space || space->kind != ROCO_VALUE_NAMESPACE)
        roco_run_fail(run, ROCO_INVALID, "only attributes of a namespace can be set");
    roco_value key = {.kind = ROCO_VALUE_STRING, .string = target->name};
    roco_dict_put(run->region, space->dict, key, value);
}

static void assign(roco_run *run, const roco_node *target, roco_value value)
{
    if (target->kind == ROCO_NODE_NAME) {
        roco_assign(run, target->name, value);
        return;
    }
    if (target->kind == ROCO_NODE_ATTRIBUTE) {
        assign_attribute(run, target, value);
        return;
    }
    const roco_list *items = roco_iterate(run, value);
    if (items->size != target->n)
        roco_run_fail(run, ROCO_INVALID, "%zu values for %u names", items->size, target->n);
    for (uint32_t i = 0; i < target->n; i++)
        assign(run, target->items[i], items->items[i]);
}

/* --- bodies --- */

/* What a body writes, as a string. Its scope is open already. */
static roco_value capture(roco_run *run, const roco_node *body)
{
    roco_builder out = {0}, *outer = run->out;
    run->out = &out;
    roco_execute(run, body);
    run->out = outer;
    return roco_builder_value(run, &out);
}

static roco_value capture_scoped(roco_run *run, const roco_node *body)
{
    roco_scope *outer = run->scope;
    roco_open_scope(run, outer);
    roco_value text = capture(run, body);
    run->scope = outer;
    return text;
}

/* --- loops --- */

/* The items the loop's own `if` lets through. */
static const roco_list *filtered(roco_run *run, const roco_node *node, const roco_list *items)
{
    if (!node->items[1])
        return items;
    roco_scope *outer = run->scope;
    roco_list *kept = roco_new_list(run, 0);
    for (size_t i = 0; i < items->size; i++) {
        roco_open_scope(run, outer);
        assign(run, node->items[0], items->items[i]);
        if (roco_value_true(roco_evaluate(run, node->items[1])))
            roco_list_add(run->region, kept, items->items[i]);
    }
    run->scope = outer;
    return kept;
}

static roco_flow execute_for(roco_run *run, const roco_node *node)
{
    static const roco_string name = {.data = "loop", .size = 4};
    const roco_list *items = filtered(run, node, roco_iterate(run, roco_evaluate(run, node->a)));
    roco_scope *outer = run->scope;
    roco_flow flow = ROCO_FLOW_ON;
    if (items->size == 0) {
        if (node->c) {
            roco_open_scope(run, outer);
            flow = roco_execute(run, node->c);
        }
        run->scope = outer;
        return flow;
    }
    roco_loop *loop = roco_region_alloc(run->region, 1, sizeof *loop);
    loop->items = items;
    for (; loop->at < items->size && flow != ROCO_FLOW_BREAK; loop->at++) {
        roco_run_charge(run, 1);
        roco_open_scope(run, outer); /* what one round sets the next does not see */
        roco_assign(run, &name, (roco_value){.kind = ROCO_VALUE_LOOP, .other = loop});
        assign(run, node->items[0], items->items[loop->at]);
        flow = roco_execute(run, node->b);
    }
    run->scope = outer;
    return ROCO_FLOW_ON;
}

/* --- macros --- */

static roco_value rest_of_values(roco_run *run, const roco_arguments *arguments, size_t from)
{
    roco_list *list = roco_new_list(run, 0);
    list->tuple = true;
    for (size_t i = from; i < arguments->n; i++)
        roco_list_add(run->region, list, arguments->values[i]);
    return roco_list_value(list);
}

/* Named arguments that are no parameters; `caller` comes with a call block. */
static void bind_named(roco_run *run, const roco_node *node, const roco_arguments *arguments)
{
    static const roco_string kwargs = {.data = "kwargs", .size = 6};
    roco_value rest;
    roco_value_dict(run->region, 0, &rest);
    for (size_t i = 0; i < arguments->n_named; i++) {
        const roco_string *name = arguments->names[i];
        bool known = false;
        for (uint32_t k = 0; k < node->n && !known; k++)
            known = roco_value_equal((roco_value){.kind = ROCO_VALUE_STRING, .string = node->items[k]->name},
                                     (roco_value){.kind = ROCO_VALUE_STRING, .string = name});
        if (roco_string_is(name, "caller"))
            roco_assign(run, name, arguments->named[i]);
        else if (!known)
            roco_dict_put(run->region, rest.dict, (roco_value){.kind = ROCO_VALUE_STRING, .string = name},
                          arguments->named[i]);
    }
    roco_assign(run, &kwargs, rest);
}

roco_value roco_call_macro(roco_run *run, const roco_macro *macro, const roco_arguments *arguments)
{
    static const roco_string varargs = {.data = "varargs", .size = 7};
    const roco_node *node = macro->node;
    roco_scope *caller = run->scope;
    roco_run_down(run);
    roco_open_scope(run, macro->scope);
    bind_named(run, node, arguments);
    for (uint32_t i = 0; i < node->n; i++) {
        const roco_string *name = node->items[i]->name;
        const roco_value *given = NULL;
        if (i < arguments->n)
            given = &arguments->values[i];
        for (size_t k = 0; k < arguments->n_named && !given; k++)
            if (roco_value_equal((roco_value){.kind = ROCO_VALUE_STRING, .string = arguments->names[k]},
                                 (roco_value){.kind = ROCO_VALUE_STRING, .string = name}))
                given = &arguments->named[k];
        roco_value value = roco_undefined(run, name);
        if (given)
            value = *given;
        else if (node->items[i]->a)
            value = roco_evaluate(run, node->items[i]->a);
        roco_assign(run, name, value);
    }
    roco_assign(run, &varargs, rest_of_values(run, arguments, node->n));
    roco_value text = capture(run, node->b);
    run->scope = caller;
    roco_run_up(run);
    return text;
}

static roco_value new_macro(roco_run *run, const roco_node *node)
{
    roco_macro *macro = roco_region_alloc(run->region, 1, sizeof *macro);
    *macro = (roco_macro){node, run->scope};
    return (roco_value){.kind = ROCO_VALUE_MACRO, .other = macro};
}

static void execute_call_block(roco_run *run, const roco_node *node)
{
    roco_value callee = roco_evaluate(run, node->a->a);
    roco_arguments arguments = roco_evaluate_arguments(run, node->a);
    arguments.names[arguments.n_named] = node->b->name; /* there is room for one more */
    arguments.named[arguments.n_named++] = new_macro(run, node->b);
    roco_print(run, run->out, roco_call(run, callee, &arguments));
}

/* --- statements --- */

static roco_flow execute_if(roco_run *run, const roco_node *node)
{
    for (; node; node = node->c) {
        if (node->kind != ROCO_NODE_IF)
            return roco_execute(run, node);
        if (roco_value_true(roco_evaluate(run, node->a)))
            return roco_execute(run, node->b);
    }
    return ROCO_FLOW_ON;
}

static void execute_set_block(roco_run *run, const roco_node *node)
{
    roco_value text = capture_scoped(run, node->b);
    assign(run, node->a, node->c ? roco_apply_filters(run, node->c, text) : text);
}

static roco_flow execute_with(roco_run *run, const roco_node *node)
{
    roco_scope *outer = run->scope;
    roco_value *values = roco_region_alloc(run->region, node->n + 1, sizeof *values);
    for (uint32_t i = 0; i < node->n; i++)
        values[i] = roco_evaluate(run, node->items[i]->a);
    roco_open_scope(run, outer);
    for (uint32_t i = 0; i < node->n; i++)
        roco_assign(run, node->items[i]->name, values[i]);
    roco_flow flow = roco_execute(run, node->b);
    run->scope = outer;
    return flow;
}

static roco_flow execute_node(roco_run *run, const roco_node *node)
{
    run->line = node->line;
    switch ((roco_node_kind)node->kind) {
    case ROCO_NODE_DATA: roco_builder_add(run, run->out, node->value.string); break;
    case ROCO_NODE_PRINT: roco_print(run, run->out, roco_evaluate(run, node->a)); break;
    case ROCO_NODE_IF: return execute_if(run, node);
    case ROCO_NODE_FOR: return execute_for(run, node);
    case ROCO_NODE_SET: assign(run, node->a, roco_evaluate(run, node->b)); break;
    case ROCO_NODE_SET_BLOCK: execute_set_block(run, node); break;
    case ROCO_NODE_MACRO: roco_assign(run, node->name, new_macro(run, node)); break;
    case ROCO_NODE_CALL_BLOCK: execute_call_block(run, node); break;
    case ROCO_NODE_FILTERED:
        roco_print(run, run->out, roco_apply_filters(run, node->a, capture_scoped(run, node->b)));
        break;
    case ROCO_NODE_WITH:
    case ROCO_NODE_SCOPE: return execute_with(run, node);
    case ROCO_NODE_BREAK: return ROCO_FLOW_BREAK;
    case ROCO_NODE_CONTINUE: return ROCO_FLOW_CONTINUE;
    default: roco_run_fail(run, ROCO_INVALID, "this is no statement");
    }
    return ROCO_FLOW_ON;
}

roco_flow roco_execute(roco_run *run, const roco_node *body)
{
    roco_flow flow = ROCO_FLOW_ON;
    roco_run_down(run);
    for (uint32_t i = 0; i < body->n && flow == ROCO_FLOW_ON; i++) {
        roco_run_charge(run, 1);
        flow = execute_node(run, body->items[i]);
    }
    roco_run_up(run);
    return flow;
}
