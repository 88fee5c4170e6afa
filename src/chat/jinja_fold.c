/* One consequence of jinja2's constant folding. It replaces constant expressions by their values before it writes Python,
 * and in Python a sign binds weaker than a power: where a constant is negative, (-2) ** x becomes -(2 ** x). The parser
 * marks such powers, the evaluator asks for the sign. (Folding for speed would not pay: chat templates hold next to no
 * constant operations.)
 */
#include "chat/jinja_parse.h"

static bool constant_items(const struct node *n)
{
    for (; n; n = n->next)
        if (!jinja_constant(n))
            return false;
    return true;
}

static bool constant_args(const struct arg *a)
{
    for (; a; a = a->next)
        if (!jinja_constant(a->value))
            return false;
    return true;
}

/* Filters that jinja2 does not fold, because they see the rendering's state. */
static bool needs_state(struct str name)
{
    static const char *const names[] = {"map", "random", "reject", "rejectattr", "select", "selectattr"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}

bool jinja_constant(const struct node *n)
{
    if (!n)
        return true;
    switch (n->kind) {
    case NODE_CONST:
        return true;
    case NODE_BINARY:
        return n->constant; /* known since it was parsed, so that chains take no time */
    case NODE_LIST:
    case NODE_TUPLE:
    case NODE_DICT:
    case NODE_CONCAT:
        return constant_items(n->first);
    case NODE_COMPARE:
        for (const struct node *operand = n->first; operand; operand = operand->next)
            if (!jinja_constant(operand->a))
                return false;
        return jinja_constant(n->a);
    case NODE_NOT:
    case NODE_NEGATE:
    case NODE_PLUS:
    case NODE_ATTRIBUTE:
        return jinja_constant(n->a);
    case NODE_AND:
    case NODE_OR:
    case NODE_ITEM:
        return jinja_constant(n->a) && jinja_constant(n->b);
    case NODE_SLICE:
    case NODE_CHOICE:
        return jinja_constant(n->test) && jinja_constant(n->a) && jinja_constant(n->b);
    case NODE_FILTER:
    case NODE_TEST:
        return n->row && !needs_state(n->name) && jinja_constant(n->a) && constant_args(n->args);
    default:
        return false;
    }
}

void jinja_mark_binary(struct node *n)
{
    bool left = jinja_constant(n->a), right = jinja_constant(n->b);
    n->constant = left && right;
    n->folded = n->op == TOKEN_POW && left && !right;
}
