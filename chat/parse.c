/* Statements: tags that open a body and the ones that close it. */
#include "chat/parser.h"

#include <stdio.h>
#include <string.h>

/* Deep enough for any real template, shallow enough for the stack of a thread of libuv's pool. */
enum { MAX_DEPTH = 200 };

/* --- what both halves use --- */

roco_node *roco_parser_node(roco_parser *p, roco_node_kind kind)
{
    roco_node *node = roco_region_alloc(p->source->region, 1, sizeof *node);
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    return node;
}

void roco_parser_add(roco_parser *p, roco_node *node, roco_node *item)
{
    if ((node->n & (node->n - 1)) == 0) { /* full at each power of two */
        roco_node **items = roco_region_alloc(p->source->region, node->n ? 2 * (size_t)node->n : 1, sizeof *items);
        if (node->n)
            memcpy(items, node->items, node->n * sizeof *items);
        node->items = items;
    }
    node->items[node->n++] = item;
}

void roco_parser_down(roco_parser *p)
{
    if (++p->depth > MAX_DEPTH)
        roco_source_fail(p->source, p->at->line, "more than %d levels inside each other", MAX_DEPTH);
}

void roco_parser_up(roco_parser *p)
{
    p->depth--;
}

static bool is(const roco_string *string, const char *name)
{
    return string->size == strlen(name) && memcmp(string->data, name, string->size) == 0;
}

bool roco_parser_is_name(const roco_parser *p, const char *name)
{
    return p->at->kind == ROCO_TOKEN_NAME && is(p->at->value.string, name);
}

bool roco_parser_is_op(const roco_parser *p, uint16_t op)
{
    return p->at->kind == ROCO_TOKEN_OPERATOR && p->at->op == op;
}

bool roco_parser_take_name(roco_parser *p, const char *name)
{
    bool taken = roco_parser_is_name(p, name);
    p->at += taken;
    return taken;
}

bool roco_parser_take_op(roco_parser *p, uint16_t op)
{
    bool taken = roco_parser_is_op(p, op);
    p->at += taken;
    return taken;
}

void roco_parser_want_op(roco_parser *p, char op)
{
    char wanted[] = {'\'', op, '\'', '\0'};
    if (!roco_parser_take_op(p, ROCO_OP1(op)))
        roco_parser_unexpected(p, wanted);
}

const roco_string *roco_parser_want_name(roco_parser *p)
{
    if (p->at->kind != ROCO_TOKEN_NAME)
        roco_parser_unexpected(p, "a name");
    return p->at++->value.string;
}

void roco_parser_unexpected(roco_parser *p, const char *wanted)
{
    const roco_token *t = p->at;
    char found[64];
    switch (t->kind) {
    case ROCO_TOKEN_END: snprintf(found, sizeof found, "the end of the template"); break;
    case ROCO_TOKEN_PRINT_END:
    case ROCO_TOKEN_BLOCK_END: snprintf(found, sizeof found, "the end of the tag"); break;
    case ROCO_TOKEN_NAME:
        snprintf(found, sizeof found, "'%.*s'", t->value.string->size < 40 ? (int)t->value.string->size : 40,
                 t->value.string->data);
        break;
    case ROCO_TOKEN_OPERATOR:
        snprintf(found, sizeof found, "'%c%.1s'", t->op & 0xff, (char[2]){(char)(t->op >> 8)});
        break;
    default: snprintf(found, sizeof found, "a string, a number or text"); break;
    }
    roco_source_fail(p->source, t->line, "%s was expected, not %s", wanted, found);
}

/* --- bodies --- */

static roco_node *parse_statement(roco_parser *p);

static void end_tag(roco_parser *p)
{
    if (p->at->kind != ROCO_TOKEN_BLOCK_END)
        roco_parser_unexpected(p, "the end of the tag");
    p->at++;
}

static bool opens(const roco_parser *p, const char *const *names)
{
    for (; p->at->kind == ROCO_TOKEN_BLOCK_BEGIN && *names; names++)
        if (p->at[1].kind == ROCO_TOKEN_NAME && is(p->at[1].value.string, *names))
            return true;
    return false;
}

/* Up to one of the tags in `ends` (NULL-terminated), whose "{%" is taken and whose name is next; all of it for none. */
static roco_node *parse_body(roco_parser *p, const char *const *ends)
{
    roco_node *body = roco_parser_node(p, ROCO_NODE_BODY);
    roco_parser_down(p);
    while (!opens(p, ends)) {
        roco_node *node = NULL;
        switch (p->at->kind) {
        case ROCO_TOKEN_DATA:
            node = roco_parser_node(p, ROCO_NODE_DATA);
            node->value = p->at++->value;
            break;
        case ROCO_TOKEN_PRINT_BEGIN:
            p->at++;
            node = roco_parser_node(p, ROCO_NODE_PRINT);
            node->a = roco_parse_tuple(p, true);
            if (p->at->kind != ROCO_TOKEN_PRINT_END)
                roco_parser_unexpected(p, "the end of the tag");
            p->at++;
            break;
        case ROCO_TOKEN_BLOCK_BEGIN:
            p->at++;
            node = parse_statement(p);
            break;
        default:
            if (*ends) { /* the last is the one that must come */
                while (ends[1])
                    ends++;
                roco_parser_unexpected(p, *ends);
            }
            roco_parser_up(p);
            return body;
        }
        roco_parser_add(p, body, node);
    }
    p->at++;
    roco_parser_up(p);
    return body;
}

static roco_node *parse_body_to(roco_parser *p, const char *end)
{
    roco_node *body = parse_body(p, (const char *const[]){end, NULL});
    p->at++;
    end_tag(p);
    return body;
}

/* --- statements; the tag's name is taken --- */

static roco_node *parse_if(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_IF), *last = node;
    for (;;) {
        last->a = roco_parse_tuple(p, false);
        end_tag(p);
        last->b = parse_body(p, (const char *const[]){"elif", "else", "endif", NULL});
        if (roco_parser_take_name(p, "elif")) {
            last = last->c = roco_parser_node(p, ROCO_NODE_IF);
            continue;
        }
        if (roco_parser_take_name(p, "else")) {
            end_tag(p);
            last->c = parse_body_to(p, "endif");
        } else {
            p->at++;
            end_tag(p);
        }
        return node;
    }
}

static roco_node *parse_for(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_FOR);
    roco_parser_add(p, node, roco_parse_target(p));
    if (!roco_parser_take_name(p, "in"))
        roco_parser_unexpected(p, "in");
    node->a = roco_parse_tuple(p, false);
    roco_parser_add(p, node, roco_parser_take_name(p, "if") ? roco_parse_expression(p) : NULL);
    if (roco_parser_is_name(p, "recursive"))
        roco_parser_unexpected(p, "a loop that is not recursive");
    end_tag(p);
    node->b = parse_body(p, (const char *const[]){"else", "endfor", NULL});
    if (roco_parser_take_name(p, "else")) {
        end_tag(p);
        node->c = parse_body_to(p, "endfor");
    } else {
        p->at++;
        end_tag(p);
    }
    return node;
}

static roco_node *parse_set(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_SET);
    node->a = roco_parse_target(p);
    if (roco_parser_take_op(p, ROCO_OP1('='))) {
        node->b = roco_parse_tuple(p, true);
        end_tag(p);
        return node;
    }
    node->kind = ROCO_NODE_SET_BLOCK;
    if (roco_parser_take_op(p, ROCO_OP1('|')))
        node->c = roco_parse_filters(p, NULL);
    end_tag(p);
    node->b = parse_body_to(p, "endset");
    return node;
}

/* Parameters in brackets. */
static void parse_parameters(roco_parser *p, roco_node *macro)
{
    roco_parser_want_op(p, '(');
    while (!roco_parser_take_op(p, ROCO_OP1(')'))) {
        if (macro->n)
            roco_parser_want_op(p, ',');
        roco_node *parameter = roco_parser_node(p, ROCO_NODE_KEYWORD);
        parameter->name = roco_parser_want_name(p);
        parameter->a = roco_parser_take_op(p, ROCO_OP1('=')) ? roco_parse_expression(p) : NULL;
        roco_parser_add(p, macro, parameter);
    }
}

static roco_node *parse_macro(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_MACRO);
    node->name = roco_parser_want_name(p);
    parse_parameters(p, node);
    end_tag(p);
    node->b = parse_body_to(p, "endmacro");
    return node;
}

static roco_node *parse_call_block(roco_parser *p)
{
    static const roco_string name = {.data = "caller", .size = 6};
    roco_node *node = roco_parser_node(p, ROCO_NODE_CALL_BLOCK), *caller = roco_parser_node(p, ROCO_NODE_MACRO);
    caller->name = &name;
    if (roco_parser_is_op(p, ROCO_OP1('(')))
        parse_parameters(p, caller);
    node->a = roco_parse_expression(p);
    if (node->a->kind != ROCO_NODE_CALL)
        roco_parser_unexpected(p, "a call");
    end_tag(p);
    caller->b = parse_body_to(p, "endcall");
    node->b = caller;
    return node;
}

static roco_node *parse_filter_block(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_FILTERED);
    node->a = roco_parse_filters(p, NULL);
    end_tag(p);
    node->b = parse_body_to(p, "endfilter");
    return node;
}

static roco_node *parse_with(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_WITH);
    while (p->at->kind != ROCO_TOKEN_BLOCK_END) {
        if (node->n)
            roco_parser_want_op(p, ',');
        roco_node *item = roco_parser_node(p, ROCO_NODE_KEYWORD);
        item->name = roco_parser_want_name(p);
        roco_parser_want_op(p, '=');
        item->a = roco_parse_expression(p);
        roco_parser_add(p, node, item);
    }
    end_tag(p);
    node->b = parse_body_to(p, "endwith");
    return node;
}

/* transformers marks with it what an assistant has said; for what is written it means nothing. */
static roco_node *parse_generation(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_SCOPE);
    end_tag(p);
    node->b = parse_body_to(p, "endgeneration");
    return node;
}

static roco_node *parse_break(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_BREAK);
    end_tag(p);
    return node;
}

static roco_node *parse_continue(roco_parser *p)
{
    roco_node *node = roco_parser_node(p, ROCO_NODE_CONTINUE);
    end_tag(p);
    return node;
}

static roco_node *parse_statement(roco_parser *p)
{
    static const struct {
        const char *name;
        roco_node *(*parse)(roco_parser *p);
    } statements[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"break", parse_break},
        {"continue", parse_continue},
        {"generation", parse_generation},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (roco_parser_take_name(p, statements[i].name))
            return statements[i].parse(p);
    roco_parser_unexpected(p, "a tag roco knows");
}

const roco_node *roco_parse(const roco_source *source)
{
    roco_parser p = {.source = source, .at = roco_lex(source)};
    const roco_node *body = parse_body(&p, (const char *const[]){NULL});
    return body;
}
