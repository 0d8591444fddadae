/* Expressions, by recursive descent in Jinja's order: if-else, or, and, not, comparison, + -, ~, * / // %, **, sign,
 * then what follows an operand: attributes, items, calls, filters, tests. */
#include "chat/parser.h"

#include <string.h>

static roco_node *parse_unary(roco_parser *p, bool filters);

static roco_node *binary(roco_parser *p, roco_node_kind kind, uint16_t op, roco_node *a, roco_node *b)
{
    roco_node *node = roco_parser_node(p, kind);
    node->op = op;
    node->a = a;
    node->b = b;
    return node;
}

/* --- operands --- */

static roco_node *parse_list(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_LIST);
    while (!roco_parser_take_op(p, ROCO_OP1(']'))) {
        if (node->n) {
            roco_parser_want_op(p, ',');
            if (roco_parser_take_op(p, ROCO_OP1(']')))
                break;
        }
        roco_parser_add(p, node, roco_parse_expression(p));
    }
    return node;
}

static roco_node *parse_dict(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_DICT);
    while (!roco_parser_take_op(p, ROCO_OP1('}'))) {
        if (node->n) {
            roco_parser_want_op(p, ',');
            if (roco_parser_take_op(p, ROCO_OP1('}')))
                break;
        }
        roco_parser_add(p, node, roco_parse_expression(p));
        roco_parser_want_op(p, ':');
        roco_parser_add(p, node, roco_parse_expression(p));
    }
    return node;
}

static roco_node *parse_brackets(roco_parser *p)
{
    if (roco_parser_take_op(p, ROCO_OP1(')')))
        return roco_parser_node(p, ROCO_NODE_TUPLE);
    roco_node *node = roco_parse_tuple(p, true);
    roco_parser_want_op(p, ')');
    return node;
}

/* Strings side by side are one. */
static roco_node *parse_string(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_CONSTANT);
    node->value = p->at++->value;
    while (p->at->kind == ROCO_TOKEN_STRING) {
        const roco_string *a = node->value.string, *b = p->at++->value.string;
        char *data = roco_region_alloc(p->source->region, a->size + b->size + 1, 1);
        memcpy(data, a->data, a->size);
        memcpy(data + a->size, b->data, b->size);
        roco_value_string(p->source->region, data, a->size + b->size, false, &node->value);
    }
    return node;
}

static roco_node *parse_name(roco_parser *p)
{
    static const struct {
        const char *name;
        roco_value value;
    } constants[] = {
        {"true", {.kind = ROCO_VALUE_BOOL, .boolean = true}},
        {"True", {.kind = ROCO_VALUE_BOOL, .boolean = true}},
        {"false", {.kind = ROCO_VALUE_BOOL}},
        {"False", {.kind = ROCO_VALUE_BOOL}},
        {"none", {.kind = ROCO_VALUE_NONE}},
        {"None", {.kind = ROCO_VALUE_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (roco_parser_is_name(p, constants[i].name)) {
            roco_node *node = roco_parser_node(p, ROCO_NODE_CONSTANT);
            node->value = constants[i].value;
            p->at++;
            return node;
        }
    }
    roco_node *node = roco_parser_node(p, ROCO_NODE_NAME);
    node->name = p->at++->value.string;
    return node;
}

static roco_node *parse_primary(roco_parser *p)
{
    switch (p->at->kind) {
    case ROCO_TOKEN_NAME: return parse_name(p);
    case ROCO_TOKEN_STRING: return parse_string(p);
    case ROCO_TOKEN_INT:
    case ROCO_TOKEN_FLOAT: {
        roco_node *node = roco_parser_node(p, ROCO_NODE_CONSTANT);
        node->value = p->at++->value;
        return node;
    }
    default: break;
    }
    if (roco_parser_take_op(p, ROCO_OP1('(')))
        return parse_brackets(p);
    if (roco_parser_take_op(p, ROCO_OP1('[')))
        return parse_list(p);
    if (roco_parser_take_op(p, ROCO_OP1('{')))
        return parse_dict(p);
    roco_parser_unexpected(p, "a value");
}

/* --- what follows an operand --- */

/* After '('. */
static void parse_arguments(roco_parser *p, roco_node *node)
{
    bool first = true, named = false;
    while (!roco_parser_take_op(p, ROCO_OP1(')'))) {
        if (!first) {
            roco_parser_want_op(p, ',');
            if (roco_parser_take_op(p, ROCO_OP1(')')))
                return;
        }
        first = false;
        if (p->at->kind == ROCO_TOKEN_NAME && p->at[1].kind == ROCO_TOKEN_OPERATOR && p->at[1].op == '=') {
            roco_node *keyword = roco_parser_node(p, ROCO_NODE_KEYWORD);
            keyword->name = roco_parser_want_name(p);
            p->at++;
            keyword->a = roco_parse_expression(p);
            roco_parser_add(p, node, keyword);
            named = true;
            continue;
        }
        if (named)
            roco_parser_unexpected(p, "name=value: named arguments come last");
        roco_parser_add(p, node, roco_parse_expression(p));
    }
}

/* After '[': an index, a tuple of them, or a slice. */
static roco_node *parse_subscript(roco_parser *p)
{
    roco_node *parts[3] = {NULL}, *node;
    uint32_t line = p->at->line, n = 0;
    bool slice = false;
    for (;;) {
        if (roco_parser_take_op(p, ROCO_OP1(':'))) {
            slice = true;
            if (++n == 3)
                roco_parser_unexpected(p, "]");
        } else if (roco_parser_take_op(p, ROCO_OP1(']'))) {
            break;
        } else if (parts[n]) {
            roco_parser_unexpected(p, "]");
        } else {
            parts[n] = roco_parse_tuple(p, true);
        }
    }
    if (!slice) {
        if (!parts[0])
            roco_source_fail(p->source, line, "an index is missing");
        return parts[0];
    }
    node = roco_parser_node(p, ROCO_NODE_SLICE);
    for (n = 0; n < 3; n++)
        roco_parser_add(p, node, parts[n]);
    return node;
}

static roco_node *parse_dot(roco_parser *p, roco_node *subject)
{
    if (p->at->kind == ROCO_TOKEN_INT) {
        roco_node *index = roco_parser_node(p, ROCO_NODE_CONSTANT);
        index->value = p->at++->value;
        return binary(p, ROCO_NODE_ITEM, 0, subject, index);
    }
    roco_node *node = binary(p, ROCO_NODE_ATTRIBUTE, 0, subject, NULL);
    node->name = roco_parser_want_name(p);
    return node;
}

static roco_node *parse_call(roco_parser *p, roco_node *subject)
{
    roco_node *node = binary(p, ROCO_NODE_CALL, 0, subject, NULL);
    parse_arguments(p, node);
    return node;
}

static roco_node *parse_postfix(roco_parser *p, roco_node *node)
{
    for (;;) {
        if (roco_parser_take_op(p, ROCO_OP1('.')))
            node = parse_dot(p, node);
        else if (roco_parser_take_op(p, ROCO_OP1('[')))
            node = binary(p, ROCO_NODE_ITEM, 0, node, parse_subscript(p));
        else if (roco_parser_take_op(p, ROCO_OP1('(')))
            node = parse_call(p, node);
        else
            return node;
    }
}

static roco_node *parse_filter(roco_parser *p, roco_node *subject)
{
    roco_node *node = binary(p, ROCO_NODE_FILTER, 0, subject, NULL);
    node->name = roco_parser_want_name(p);
    if (roco_parser_take_op(p, ROCO_OP1('(')))
        parse_arguments(p, node);
    return node;
}

roco_node *roco_parse_filters(roco_parser *p, roco_node *subject)
{
    do
        subject = parse_filter(p, subject);
    while (roco_parser_take_op(p, ROCO_OP1('|')));
    return subject;
}

/* Can the next token begin the one argument that a test may have without brackets? */
static bool begins_argument(const roco_parser *p)
{
    static const char *const words[] = {"else", "or", "and", "if", "in", "not", "is"};
    switch (p->at->kind) {
    case ROCO_TOKEN_NAME:
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (roco_parser_is_name(p, words[i]))
                return false;
        return true;
    case ROCO_TOKEN_STRING:
    case ROCO_TOKEN_INT:
    case ROCO_TOKEN_FLOAT: return true;
    case ROCO_TOKEN_OPERATOR: return p->at->op == '(' || p->at->op == '[' || p->at->op == '{';
    default: return false;
    }
}

static roco_node *parse_test(roco_parser *p, roco_node *subject)
{
    bool negated = roco_parser_take_name(p, "not");
    roco_node *node = binary(p, ROCO_NODE_TEST, 0, subject, NULL);
    node->name = roco_parser_want_name(p);
    if (roco_parser_take_op(p, ROCO_OP1('(')))
        parse_arguments(p, node);
    else if (begins_argument(p))
        roco_parser_add(p, node, parse_postfix(p, parse_primary(p)));
    return negated ? binary(p, ROCO_NODE_UNARY, ROCO_OP1('!'), node, NULL) : node;
}

static roco_node *parse_after(roco_parser *p, roco_node *node)
{
    for (;;) {
        if (roco_parser_take_op(p, ROCO_OP1('|')))
            node = parse_filter(p, node);
        else if (roco_parser_take_name(p, "is"))
            node = parse_test(p, node);
        else if (roco_parser_take_op(p, ROCO_OP1('(')))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* --- operators --- */

static roco_node *parse_unary(roco_parser *p, bool filters)
{
    roco_node *node;
    roco_parser_down(p);
    if (roco_parser_is_op(p, ROCO_OP1('-')) || roco_parser_is_op(p, ROCO_OP1('+'))) {
        uint16_t op = p->at++->op;
        node = binary(p, ROCO_NODE_UNARY, op, parse_unary(p, false), NULL);
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    node = filters ? parse_after(p, node) : node;
    roco_parser_up(p);
    return node;
}

static roco_node *parse_level(roco_parser *p, unsigned level);

enum { LEVEL_UNARY, LEVEL_POWER, LEVEL_PRODUCT, LEVEL_CONCAT, LEVEL_SUM };

static roco_node *parse_concat(roco_parser *p)
{
    roco_node *node = parse_level(p, LEVEL_PRODUCT);
    if (!roco_parser_is_op(p, ROCO_OP1('~')))
        return node;
    roco_node *joined = roco_parser_node(p, ROCO_NODE_CONCAT);
    roco_parser_add(p, joined, node);
    while (roco_parser_take_op(p, ROCO_OP1('~')))
        roco_parser_add(p, joined, parse_level(p, LEVEL_PRODUCT));
    return joined;
}

/* Operators of one rank, from the left. */
static roco_node *parse_level(roco_parser *p, unsigned level)
{
    static const uint16_t ops[][5] = {
        [LEVEL_POWER] = {ROCO_OP2('*', '*')},
        [LEVEL_PRODUCT] = {ROCO_OP1('*'), ROCO_OP1('/'), ROCO_OP2('/', '/'), ROCO_OP1('%')},
        [LEVEL_SUM] = {ROCO_OP1('+'), ROCO_OP1('-')},
    };
    if (level == LEVEL_UNARY)
        return parse_unary(p, true);
    if (level == LEVEL_CONCAT)
        return parse_concat(p);
    roco_node *node = parse_level(p, level - 1);
    for (size_t i = 0; ops[level][i];) {
        uint16_t op = ops[level][i++];
        if (roco_parser_take_op(p, op)) {
            node = binary(p, ROCO_NODE_BINARY, op, node, parse_level(p, level - 1));
            i = 0;
        }
    }
    return node;
}

/* The comparison in front, or 0: '@' stands for in, '!@' for not in. */
static uint16_t take_comparison(roco_parser *p)
{
    static const uint16_t ops[] = {ROCO_OP2('=', '='), ROCO_OP2('!', '='), ROCO_OP2('<', '='),
                                   ROCO_OP2('>', '='), ROCO_OP1('<'),      ROCO_OP1('>')};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (roco_parser_take_op(p, ops[i]))
            return ops[i];
    if (roco_parser_take_name(p, "in"))
        return ROCO_OP1('@');
    const roco_token *start = p->at;
    if (roco_parser_take_name(p, "not") && roco_parser_take_name(p, "in"))
        return ROCO_OP2('!', '@');
    p->at = start;
    return 0;
}

static roco_node *parse_comparison(roco_parser *p)
{
    roco_node *node = parse_level(p, LEVEL_SUM), *compare = NULL;
    for (uint16_t op; (op = take_comparison(p));) {
        if (!compare)
            compare = binary(p, ROCO_NODE_COMPARE, 0, node, NULL);
        roco_parser_add(p, compare, binary(p, ROCO_NODE_OPERAND, op, parse_level(p, LEVEL_SUM), NULL));
    }
    return compare ? compare : node;
}

static roco_node *parse_not(roco_parser *p)
{
    if (!roco_parser_take_name(p, "not"))
        return parse_comparison(p);
    roco_parser_down(p);
    roco_node *node = binary(p, ROCO_NODE_UNARY, ROCO_OP1('!'), parse_not(p), NULL);
    roco_parser_up(p);
    return node;
}

static roco_node *parse_and(roco_parser *p)
{
    roco_node *node = parse_not(p);
    while (roco_parser_take_name(p, "and"))
        node = binary(p, ROCO_NODE_AND, 0, node, parse_not(p));
    return node;
}

static roco_node *parse_or(roco_parser *p)
{
    roco_node *node = parse_and(p);
    while (roco_parser_take_name(p, "or"))
        node = binary(p, ROCO_NODE_OR, 0, node, parse_and(p));
    return node;
}

roco_node *roco_parse_expression(roco_parser *p)
{
    roco_parser_down(p);
    roco_node *node = parse_or(p);
    while (roco_parser_take_name(p, "if")) {
        roco_node *condition = binary(p, ROCO_NODE_CONDITION, 0, parse_or(p), node);
        condition->c = roco_parser_take_name(p, "else") ? roco_parse_expression(p) : NULL;
        node = condition;
    }
    roco_parser_up(p);
    return node;
}

roco_node *roco_parse_tuple(roco_parser *p, bool condition)
{
    roco_node *first = condition ? roco_parse_expression(p) : parse_or(p);
    if (!roco_parser_is_op(p, ROCO_OP1(',')))
        return first;
    roco_node *node = roco_parser_node(p, ROCO_NODE_TUPLE);
    roco_parser_add(p, node, first);
    while (roco_parser_take_op(p, ROCO_OP1(','))) {
        bool ends = p->at->kind == ROCO_TOKEN_PRINT_END || p->at->kind == ROCO_TOKEN_BLOCK_END ||
                    roco_parser_is_op(p, ROCO_OP1(')')) || roco_parser_is_op(p, ROCO_OP1(']'));
        if (ends)
            break;
        roco_parser_add(p, node, condition ? roco_parse_expression(p) : parse_or(p));
    }
    return node;
}

static roco_node *parse_one_target(roco_parser *p)
{
    if (roco_parser_take_op(p, ROCO_OP1('('))) {
        roco_parser_down(p);
        roco_node *node = roco_parse_target(p);
        roco_parser_up(p);
        roco_parser_want_op(p, ')');
        return node;
    }
    roco_node *node = roco_parser_node(p, ROCO_NODE_NAME);
    node->name = roco_parser_want_name(p);
    if (!roco_parser_take_op(p, ROCO_OP1('.')))
        return node;
    node = binary(p, ROCO_NODE_ATTRIBUTE, 0, node, NULL);
    node->name = roco_parser_want_name(p);
    return node;
}

roco_node *roco_parse_target(roco_parser *p)
{
    roco_node *first = parse_one_target(p);
    if (!roco_parser_is_op(p, ROCO_OP1(',')))
        return first;
    roco_node *node = roco_parser_node(p, ROCO_NODE_TUPLE);
    roco_parser_add(p, node, first);
    while (roco_parser_take_op(p, ROCO_OP1(',')) && !roco_parser_is_name(p, "in"))
        roco_parser_add(p, node, parse_one_target(p));
    return node;
}
