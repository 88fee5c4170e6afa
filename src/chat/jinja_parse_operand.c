/* Expressions: operands. A literal, name, or expression in brackets, then signs before it and postfixes, filters and
 * tests behind it. Contracts in jinja_parse.h.
 */
#include "chat/jinja_big.h"
#include "chat/jinja_parse.h"
#include "chat/jinja_rows.h"

static void note_use(struct parser *p, struct str name)
{
    p->uses |= str_is(name, "caller")    ? USES_CALLER
               : str_is(name, "varargs") ? USES_VARARGS
               : str_is(name, "kwargs")  ? USES_KWARGS
                                         : 0;
}

static struct node *parse_word(struct parser *p, bool namespaces)
{
    static const struct {
        const char  *word;
        struct value value;
    } constants[] = {
        {"true", {.type = VALUE_BOOL, .u.b = true}},
        {"True", {.type = VALUE_BOOL, .u.b = true}},
        {"false", {.type = VALUE_BOOL, .u.b = false}},
        {"False", {.type = VALUE_BOOL, .u.b = false}},
        {"none", {.type = VALUE_NONE}},
        {"None", {.type = VALUE_NONE}},
    };
    const struct token *at = p->t++;
    struct node        *n = parse_node(p, NODE_NAME, at);
    if (!n)
        return NULL;
    n->name = at->text;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (str_is(at->text, constants[i].word)) {
            n->kind = NODE_CONST;
            n->value = constants[i].value;
            return n;
        }
    note_use(p, at->text);
    if (namespaces && parse_skip(p, TOKEN_DOT)) {
        struct node *attribute = parse_pair(p, NODE_ATTRIBUTE, at, n, NULL);
        if (attribute)
            parse_name(p, &attribute->name);
        return attribute;
    }
    return n;
}

/* Adjacent literals are one string. */
static struct node *parse_string(struct parser *p)
{
    struct node        *n = parse_node(p, NODE_CONST, p->t);
    struct str          s = p->t->text;
    size_t              total = 0;
    const struct token *first = p->t;
    for (; parse_at(p, TOKEN_STRING); p->t++)
        total += p->t->text.n;
    if (p->t - first > 1) {
        char *joined = parse_alloc(p, total + 1);
        if (!joined)
            return NULL;
        s = (struct str){joined, 0};
        for (; first < p->t; first++) {
            if (first->text.n)
                memcpy(joined + s.n, first->text.p, first->text.n);
            s.n += first->text.n;
        }
    }
    if (n)
        n->value = value_str(s);
    return n;
}

static struct node *parse_number(struct parser *p)
{
    const struct token *at = p->t++;
    struct node        *n = parse_node(p, NODE_CONST, at);
    int64_t             i;
    if (!n)
        return NULL;
    n->value = value_float(at->d);
    if (at->type != TOKEN_INT)
        return n;
    struct big *big = big_parse(&p->j->arena, at->text, (unsigned)at->i);
    if (!big)
        parse_fault_memory(p);
    else if (big_fits(big, &i))
        n->value = value_int(i);
    else
        n->value = (struct value){.type = VALUE_BIG, .u.big = big};
    return n;
}

static struct node *parse_list(struct parser *p)
{
    struct node *n = parse_node(p, NODE_LIST, p->t++);
    if (!n)
        return NULL;
    for (struct node **end = &n->first; !p->status && !parse_at(p, TOKEN_RBRACKET);) {
        if (n->first && (!parse_expect(p, TOKEN_COMMA) || parse_at(p, TOKEN_RBRACKET)))
            break;
        parse_append(&end, parse_expression(p));
    }
    parse_expect(p, TOKEN_RBRACKET);
    return n;
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = parse_node(p, NODE_DICT, p->t++);
    if (!n)
        return NULL;
    for (struct node **end = &n->first; !p->status && !parse_at(p, TOKEN_RBRACE);) {
        if (n->first && (!parse_expect(p, TOKEN_COMMA) || parse_at(p, TOKEN_RBRACE)))
            break;
        parse_append(&end, parse_expression(p));
        parse_expect(p, TOKEN_COLON);
        parse_append(&end, parse_expression(p));
    }
    parse_expect(p, TOKEN_RBRACE);
    return n;
}

struct node *parse_primary(struct parser *p, bool namespaces)
{
    struct node *n;
    switch (p->t->type) {
    case TOKEN_NAME:
        return parse_word(p, namespaces);
    case TOKEN_STRING:
        return parse_string(p);
    case TOKEN_INT:
    case TOKEN_FLOAT:
        return parse_number(p);
    case TOKEN_LPAREN:
        p->t++;
        n = parse_tuple(p, (struct tuple_rule){.parens = true});
        parse_expect(p, TOKEN_RPAREN);
        return n;
    case TOKEN_LBRACKET:
        return parse_list(p);
    case TOKEN_LBRACE:
        return parse_dict(p);
    default:
        parse_fault(p, p->t, "unexpected %s", jinja_token_name(p->t));
        return NULL;
    }
}

static bool tuple_ends(const struct parser *p, struct tuple_rule rule)
{
    return parse_at(p, TOKEN_VARIABLE_END) || parse_at(p, TOKEN_BLOCK_END) || parse_at(p, TOKEN_RPAREN) ||
           parse_at(p, TOKEN_EOF) || (rule.end && parse_at_word(p, rule.end));
}

struct node *parse_tuple(struct parser *p, struct tuple_rule rule)
{
    const struct token *at = p->t;
    struct node        *first = NULL, **end = &first, *n;
    bool                tuple = false;
    while (!p->status) {
        if (first && !parse_expect(p, TOKEN_COMMA))
            break;
        if (tuple_ends(p, rule))
            break;
        parse_append(&end, rule.simple ? parse_primary(p, rule.namespaces) : parse_choice(p, rule.no_choice));
        if (!parse_at(p, TOKEN_COMMA))
            break;
        tuple = true;
    }
    if (!tuple && first)
        return first;
    if (!tuple && !rule.parens) {
        parse_fault(p, p->t, "expected an expression, got %s", jinja_token_name(p->t));
        return NULL;
    }
    if ((n = parse_node(p, NODE_TUPLE, at)))
        n->first = first;
    return n;
}

/* --- postfix ----------------------------------------------------------------------------------------------------- */

/* One part of a subscript: an expression or from:to:step. */
static struct node *parse_subscribed(struct parser *p)
{
    const struct token *at = p->t;
    struct node        *part[3] = {NULL, NULL, NULL};
    if (!parse_at(p, TOKEN_COLON))
        part[0] = parse_expression(p);
    if (!parse_at(p, TOKEN_COLON))
        return part[0];
    for (int i = 1; i < 3 && parse_skip(p, TOKEN_COLON); i++)
        if (!parse_at(p, TOKEN_COLON) && !parse_at(p, TOKEN_RBRACKET) && !parse_at(p, TOKEN_COMMA))
            part[i] = parse_expression(p);
    struct node *n = parse_pair(p, NODE_SLICE, at, part[1], part[2]);
    if (n)
        n->test = part[0];
    return n;
}

static struct node *parse_subscript(struct parser *p, struct node *object)
{
    const struct token *at = p->t++;
    struct node        *first = NULL, **end = &first, *n;
    if (at->type == TOKEN_DOT) {
        if (parse_at(p, TOKEN_INT))
            return parse_pair(p, NODE_ITEM, at, object, parse_number(p));
        if ((n = parse_pair(p, NODE_ATTRIBUTE, at, object, NULL)))
            parse_name(p, &n->name);
        return n;
    }
    while (!p->status && !parse_at(p, TOKEN_RBRACKET)) {
        if (first && !parse_expect(p, TOKEN_COMMA))
            break;
        parse_append(&end, parse_subscribed(p));
    }
    parse_expect(p, TOKEN_RBRACKET);
    if (!first || first->next) {
        if ((n = parse_node(p, NODE_TUPLE, at)))
            n->first = first;
        first = n;
    }
    return parse_pair(p, NODE_ITEM, at, object, first);
}

/* Positional arguments, then keywords; *list may stand before keywords, **dict at the end. */
static struct arg *parse_args(struct parser *p)
{
    const struct token *open = p->t;
    struct arg         *first = NULL, **end = &first;
    enum arg_kind       latest = ARG_POSITIONAL;
    bool                starred = false;
    parse_expect(p, TOKEN_LPAREN);
    while (!p->status && !parse_at(p, TOKEN_RPAREN)) {
        if (first && (!parse_expect(p, TOKEN_COMMA) || parse_at(p, TOKEN_RPAREN)))
            break;
        struct arg *a = parse_alloc(p, sizeof *a);
        if (!a)
            return NULL;
        a->kind = parse_skip(p, TOKEN_MUL)                                  ? ARG_STAR
                  : parse_skip(p, TOKEN_POW)                                ? ARG_DOUBLE_STAR
                  : parse_at(p, TOKEN_NAME) && p->t[1].type == TOKEN_ASSIGN ? ARG_KEYWORD
                                                                            : ARG_POSITIONAL;
        if (latest == ARG_DOUBLE_STAR || (a->kind == ARG_STAR && starred) ||
            (a->kind == ARG_POSITIONAL && (starred || latest != ARG_POSITIONAL)))
            parse_fault(p, open, "invalid syntax for function call expression");
        if (a->kind == ARG_KEYWORD) {
            a->name = p->t->text;
            p->t += 2;
        }
        latest = a->kind;
        starred |= a->kind == ARG_STAR;
        a->value = parse_expression(p);
        *end = a;
        end = &a->next;
    }
    parse_expect(p, TOKEN_RPAREN);
    return first;
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *n = parse_pair(p, NODE_CALL, p->t, callee, NULL);
    struct arg  *args = parse_args(p);
    if (n)
        n->args = args;
    return n;
}

/* A filter's or test's name, which may have dots, and its row. */
static struct node *parse_row(struct parser *p, enum node_kind kind, struct node *object)
{
    struct node *n = parse_pair(p, kind, p->t, object, NULL);
    struct str   name, more;
    if (!n || !parse_name(p, &name))
        return NULL;
    while (parse_skip(p, TOKEN_DOT) && parse_name(p, &more)) {
        char *joined = parse_alloc(p, name.n + 1 + more.n);
        if (!joined)
            return NULL;
        memcpy(joined, name.p, name.n);
        joined[name.n] = '.';
        memcpy(joined + name.n + 1, more.p, more.n);
        name = (struct str){joined, name.n + 1 + more.n};
    }
    n->name = name;
    n->row = kind == NODE_FILTER ? jinja_filter_row(name) : jinja_test_row(name);
    if (!n->row && !p->unknown)
        p->unknown = n;
    return n;
}

struct node *parse_filter_chain(struct parser *p, struct node *object, bool bare)
{
    while (bare || parse_skip(p, TOKEN_PIPE)) {
        bare = false;
        if (!(object = parse_row(p, NODE_FILTER, object)))
            return NULL;
        if (parse_at(p, TOKEN_LPAREN))
            object->args = parse_args(p);
    }
    return object;
}

static bool argument_follows(const struct parser *p)
{
    switch (p->t->type) {
    case TOKEN_NAME:
        return !parse_at_word(p, "else") && !parse_at_word(p, "or") && !parse_at_word(p, "and");
    case TOKEN_STRING:
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
    while (!p->status && (parse_at(p, TOKEN_DOT) || parse_at(p, TOKEN_LBRACKET) || parse_at(p, TOKEN_LPAREN)))
        n = parse_at(p, TOKEN_LPAREN) ? parse_call(p, n) : parse_subscript(p, n);
    return n;
}

/* The cursor is behind `is`. A test takes arguments in parentheses or one operand without. */
static struct node *parse_test(struct parser *p, struct node *object)
{
    const struct token *at = p->t;
    bool                negated = parse_skip_word(p, "not");
    struct node        *n = parse_row(p, NODE_TEST, object);
    if (!n)
        return NULL;
    if (parse_at(p, TOKEN_LPAREN))
        n->args = parse_args(p);
    else if (parse_at_word(p, "is"))
        parse_fault(p, p->t, "You cannot chain multiple tests with is");
    else if (argument_follows(p)) {
        if ((n->args = parse_alloc(p, sizeof *n->args)))
            n->args->value = parse_postfix(p, parse_primary(p, false));
    }
    return negated ? parse_pair(p, NODE_NOT, at, n, NULL) : n;
}

struct node *parse_unary(struct parser *p, bool with_filter)
{
    const struct token *at = p->t;
    struct node        *n;
    if (!parse_enter(p))
        return NULL;
    if (parse_skip(p, TOKEN_SUB))
        n = parse_pair(p, NODE_NEGATE, at, parse_unary(p, false), NULL);
    else if (parse_skip(p, TOKEN_ADD))
        n = parse_pair(p, NODE_PLUS, at, parse_unary(p, false), NULL);
    else
        n = parse_primary(p, false);
    n = parse_postfix(p, n);
    while (with_filter && !p->status) {
        if (parse_at(p, TOKEN_PIPE))
            n = parse_filter_chain(p, n, false);
        else if (parse_skip_word(p, "is"))
            n = parse_test(p, n);
        else if (parse_at(p, TOKEN_LPAREN))
            n = parse_call(p, n);
        else
            break;
    }
    parse_leave(p);
    return n;
}
