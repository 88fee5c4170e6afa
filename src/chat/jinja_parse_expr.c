/* Expressions. Binding, loosest first: if-else, or, and, not, comparisons and in, + -, ~, * / // %, **, then unary
 * signs, postfix (.name, [i], (args)) and filters and tests, which apply to the operand right before them.
 */
#include "chat/jinja_parse.h"
#include "chat/jinja_rows.h"

enum level {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_CONCAT,
    LEVEL_MUL,
    LEVEL_POW,
    LEVEL_UNARY
};

static struct node *parse_level(struct parser *p, enum level level);

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

/* a or b, a and b: left associative. */
static struct node *parse_logic(struct parser *p, enum level level)
{
    struct node *a = parse_level(p, level + 1);
    for (const struct token *at = p->t; parse_skip_word(p, level == LEVEL_OR ? "or" : "and"); at = p->t)
        a = parse_pair(p, level == LEVEL_OR ? NODE_OR : NODE_AND, at, a, parse_level(p, level + 1));
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
    struct node *n = parse_pair(p, NODE_NOT, at, parse_not(p), NULL);
    parse_leave(p);
    return n;
}

static struct node *parse_compare(struct parser *p)
{
    struct node *a = parse_level(p, LEVEL_ADD), *n = NULL, **end = NULL;
    for (;;) {
        const struct token *at = p->t;
        enum token_type     op = take_operator(p, LEVEL_COMPARE);
        if (op == TOKEN_EOF)
            return n ? n : a;
        if (!n) {
            if (!(n = parse_pair(p, NODE_COMPARE, at, a, NULL)))
                return NULL;
            end = &n->first;
        }
        struct node *operand = parse_pair(p, NODE_OPERAND, at, parse_level(p, LEVEL_ADD), NULL);
        if (operand)
            operand->op = (uint8_t)op;
        parse_append(&end, operand);
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
    parse_append(&end, a);
    while (parse_skip(p, TOKEN_TILDE))
        parse_append(&end, parse_level(p, LEVEL_MUL));
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
        if (!(a = parse_pair(p, NODE_BINARY, at, a, parse_level(p, level + 1))))
            return NULL;
        a->op = (uint8_t)op;
        jinja_mark_binary(a);
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
struct node *parse_choice(struct parser *p, bool no_choice)
{
    if (!parse_enter(p))
        return NULL;
    const struct node  *unknown = p->unknown;
    const struct token *at = p->t;
    struct node        *a = parse_level(p, LEVEL_OR);
    while (!no_choice && parse_skip_word(p, "if")) {
        struct node *n = parse_pair(p, NODE_CHOICE, at, a, NULL);
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
