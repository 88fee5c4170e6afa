/* Expressions. Binding, loosest first: if-else, or, and, not, comparisons and in, + -, ~, * / // %, **, then unary signs,
 * postfix (.name, [i], (args)) and filters and tests, which apply to the operand right before them.
 */
#include "chat/jinja_parse.h"
#include "chat/jinja_rows.h"

enum level { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_ADD, LEVEL_CONCAT, LEVEL_MUL, LEVEL_POW, LEVEL_UNARY };

static struct node *parse_unary(struct parser *p, bool with_filter);
static struct node *parse_level(struct parser *p, enum level level);

/* Appends to a sequence and moves its end. */
static void append(struct node ***end, struct node *n)
{
    if (n) {
        **end = n;
        *end = &n->next;
    }
}

static bool is_word(const struct token *t, const char *word)
{
    return t->type == TOKEN_NAME && str_is(t->text, word);
}

/* Takes a binary operator of this level; TOKEN_EOF when there is none. */
static enum token_type take_operator(struct parser *p, enum level level)
{
    enum token_type type = p->t->type;
    switch (level) {
    case LEVEL_COMPARE:
        if (parse_skip_word(p, "in"))
            return TOKEN_IN;
        if (parse_at_word(p, "not") && is_word(p->t + 1, "in")) {
            p->t += 2;
            return TOKEN_NOT_IN;
        }
        if (type == TOKEN_EQ || type == TOKEN_NE || type == TOKEN_LT || type == TOKEN_LE || type == TOKEN_GT ||
            type == TOKEN_GE)
            break;
        return TOKEN_EOF;
    case LEVEL_ADD:
        if (type == TOKEN_ADD || type == TOKEN_SUB)
            break;
        return TOKEN_EOF;
    case LEVEL_MUL:
        if (type == TOKEN_MUL || type == TOKEN_DIV || type == TOKEN_FLOORDIV || type == TOKEN_MOD)
            break;
        return TOKEN_EOF;
    case LEVEL_POW:
        if (type == TOKEN_POW)
            break;
        return TOKEN_EOF;
    default:
        return TOKEN_EOF;
    }
    p->t++;
    return type;
}

static struct node *binary(struct parser *p, enum node_kind kind, const struct token *at, struct node *a,
                           struct node *b)
{
    struct node *n = parse_node(p, kind, at);
    if (n) {
        n->a = a;
        n->b = b;
    }
    return n;
}

/* a or b, a and b: left associative. */
static struct node *parse_logic(struct parser *p, enum level level)
{
    struct node *a = parse_level(p, level + 1);
    for (const struct token *at = p->t; parse_skip_word(p, level == LEVEL_OR ? "or" : "and"); at = p->t)
        a = binary(p, level == LEVEL_OR ? NODE_OR : NODE_AND, at, a, parse_level(p, level + 1));
    return a;
}

static struct node *parse_not(struct parser *p)
{
    const struct token *at = p->t;
    if (!parse_at_word(p, "not"))
        return parse_level(p, LEVEL_COMPARE);
    if (!parse_enter(p))
        return NULL;
    p->t++;
    struct node *n = binary(p, NODE_NOT, at, parse_not(p), NULL);
    parse_leave(p);
    return n;
}

static struct node *parse_compare(struct parser *p)
{
    struct node  *a = parse_level(p, LEVEL_ADD), *n = NULL, **end = NULL;
    for (;;) {
        const struct token *at = p->t;
        enum token_type     op = take_operator(p, LEVEL_COMPARE);
        if (op == TOKEN_EOF)
            return n ? n : a;
        if (!n) {
            if (!(n = binary(p, NODE_COMPARE, at, a, NULL)))
                return NULL;
            end = &n->first;
        }
        struct node *operand = binary(p, NODE_OPERAND, at, parse_level(p, LEVEL_ADD), NULL);
        if (operand)
            operand->op = (uint8_t)op;
        append(&end, operand);
    }
}

static struct node *parse_concat(struct parser *p)
{
    const struct token *at = p->t;
    struct node        *a = parse_level(p, LEVEL_MUL);
    if (!parse_at(p, TOKEN_TILDE))
        return a;
    struct node *n = parse_node(p, NODE_CONCAT, at);
    if (!n)
        return NULL;
    struct node **end = &n->first;
    append(&end, a);
    while (parse_skip(p, TOKEN_TILDE))
        append(&end, parse_level(p, LEVEL_MUL));
    return n;
}

static struct node *parse_arithmetic(struct parser *p, enum level level)
{
    struct node *a = parse_level(p, level + 1);
    for (;;) {
        const struct token *at = p->t;
        enum token_type     op = take_operator(p, level);
        if (op == TOKEN_EOF)
            return a;
        a = binary(p, NODE_BINARY, at, a, parse_level(p, level + 1));
        if (a)
            a->op = (uint8_t)op;
    }
}

static struct node *parse_level(struct parser *p, enum level level)
{
    switch (level) {
    case LEVEL_OR:
    case LEVEL_AND:
        return parse_logic(p, level);
    case LEVEL_NOT:
        return parse_not(p);
    case LEVEL_COMPARE:
        return parse_compare(p);
    case LEVEL_CONCAT:
        return parse_concat(p);
    case LEVEL_UNARY:
        return parse_unary(p, true);
    default:
        return parse_arithmetic(p, level);
    }
}

/* An expression; with its `if`, unless that belongs to the statement around it. */
static struct node *parse_choice(struct parser *p, bool no_choice)
{
    if (!parse_enter(p))
        return NULL;
    const struct node  *unknown = p->unknown;
    const struct token *at = p->t;
    struct node        *a = parse_level(p, LEVEL_OR);
    while (!no_choice && parse_skip_word(p, "if")) {
        struct node *n = binary(p, NODE_CHOICE, at, a, NULL);
        if (!n)
            break;
        n->test = parse_level(p, LEVEL_OR);
        n->b = parse_skip_word(p, "else") ? parse_choice(p, false) : NULL;
        a = n;
        at = p->t;
        p->unknown = unknown; /* a filter that only a branch needs may be unknown until it runs */
    }
    parse_leave(p);
    return a;
}

struct node *parse_expression(struct parser *p)
{
    return parse_choice(p, false);
}

/* --- operands ----------------------------------------------------------------------------------------------------------- */

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
        {"true", {.type = VALUE_BOOL, .u.b = true}},   {"True", {.type = VALUE_BOOL, .u.b = true}},
        {"false", {.type = VALUE_BOOL, .u.b = false}}, {"False", {.type = VALUE_BOOL, .u.b = false}},
        {"none", {.type = VALUE_NONE}},                {"None", {.type = VALUE_NONE}},
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
        struct node *attribute = binary(p, NODE_ATTRIBUTE, at, n, NULL);
        if (attribute)
            parse_name(p, &attribute->name);
        return attribute;
    }
    return n;
}

/* Adjacent literals are one string. */
static struct node *parse_string(struct parser *p)
{
    struct node *n = parse_node(p, NODE_CONST, p->t);
    struct str   s = p->t->text;
    size_t       total = 0;
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
    if (n)
        n->value = at->type == TOKEN_INT ? value_int(at->i) : value_float(at->d);
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
        append(&end, parse_expression(p));
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
        append(&end, parse_expression(p));
        parse_expect(p, TOKEN_COLON);
        append(&end, parse_expression(p));
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
        append(&end, rule.simple ? parse_primary(p, rule.namespaces) : parse_choice(p, rule.no_choice));
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

/* --- postfix ------------------------------------------------------------------------------------------------------------ */

/* One part of a subscript: an expression or from:to:step. */
static struct node *parse_subscribed(struct parser *p)
{
    const struct token *at = p->t;
    struct node        *part[3] = {NULL, NULL, NULL};
    int                 i = 0;
    for (; !p->status && !parse_at(p, TOKEN_RBRACKET) && !parse_at(p, TOKEN_COMMA);) {
        if (!parse_at(p, TOKEN_COLON))
            part[i] = parse_expression(p);
        if (i == 2 || !parse_skip(p, TOKEN_COLON))
            break;
        i++;
    }
    if (i == 0)
        return part[0];
    struct node *n = binary(p, NODE_SLICE, at, part[1], part[2]);
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
            return binary(p, NODE_ITEM, at, object, parse_number(p));
        if ((n = binary(p, NODE_ATTRIBUTE, at, object, NULL)))
            parse_name(p, &n->name);
        return n;
    }
    while (!p->status && !parse_at(p, TOKEN_RBRACKET)) {
        if (first && !parse_expect(p, TOKEN_COMMA))
            break;
        append(&end, parse_subscribed(p));
    }
    parse_expect(p, TOKEN_RBRACKET);
    if (!first || first->next) {
        if ((n = parse_node(p, NODE_TUPLE, at)))
            n->first = first;
        first = n;
    }
    return binary(p, NODE_ITEM, at, object, first);
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
        a->kind = parse_skip(p, TOKEN_MUL)   ? ARG_STAR
                  : parse_skip(p, TOKEN_POW) ? ARG_DOUBLE_STAR
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
    struct node *n = binary(p, NODE_CALL, p->t, callee, NULL);
    struct arg  *args = parse_args(p);
    if (n)
        n->args = args;
    return n;
}

/* A filter's or test's name, which may have dots, and its row. */
static struct node *parse_row(struct parser *p, enum node_kind kind, struct node *object)
{
    struct node *n = binary(p, kind, p->t, object, NULL);
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
    return negated ? binary(p, NODE_NOT, at, n, NULL) : n;
}

static struct node *parse_unary(struct parser *p, bool with_filter)
{
    const struct token *at = p->t;
    struct node        *n;
    if (!parse_enter(p))
        return NULL;
    if (parse_skip(p, TOKEN_SUB))
        n = binary(p, NODE_NEGATE, at, parse_unary(p, false), NULL);
    else if (parse_skip(p, TOKEN_ADD))
        n = binary(p, NODE_PLUS, at, parse_unary(p, false), NULL);
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
