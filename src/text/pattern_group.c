/* Groups of a pattern: plain and named ones, assertions, atomic ones, options. Contracts in pattern_int.h. */
#include <string.h>

#include "base/num.h"
#include "text/pattern_int.h"

#define DEPTH_MAX 64

/* Alternatives under other options, which end with them. */
static struct node *under_options(struct reader *r, unsigned options)
{
    struct node *n;
    unsigned     before = r->options;
    if (r->depth == DEPTH_MAX)
        return pattern_refuse(r, ERR_LIMIT, "nests groups deeper than %d levels", DEPTH_MAX);
    r->depth++;
    r->options = options;
    n = pattern_alternatives(r);
    r->options = before;
    r->depth--;
    return n;
}

/* The rest of a group, up to and with its ')'. */
static struct node *group_body(struct reader *r, unsigned options)
{
    struct node *n = under_options(r, options);
    if (n && !pattern_accept(r, ")"))
        return pattern_refuse(r, ERR_FORMAT, "has a group without an end");
    return n;
}

static struct node *wrapped(struct reader *r, enum node_kind kind, const char *opening)
{
    struct node *n = pattern_text_node(r, kind, opening), *body;
    if (!n)
        return NULL;
    n->behind = opening[2] == '<';
    r->behind += n->behind;
    r->looks += kind == NODE_LOOK;
    body = group_body(r, r->options);
    r->looks -= kind == NODE_LOOK;
    r->behind -= n->behind;
    if (!body)
        return NULL;
    pattern_append(n, body);
    return n;
}

static struct node *capture(struct reader *r)
{
    struct node *n = pattern_node(r, NODE_GROUP), *body;
    if (!n)
        return NULL;
    if (r->n_groups == PATTERN_GROUPS_MAX)
        return pattern_refuse(r, ERR_LIMIT, "has more than %u groups", PATTERN_GROUPS_MAX);
    n->group = ++r->n_groups;
    r->open[n->group] = true;
    body = group_body(r, r->options);
    r->open[n->group] = false;
    if (!body)
        return NULL;
    pattern_append(n, body);
    return n;
}

/* After "(?<" or "(?'". */
static struct node *named_group(struct reader *r, char close)
{
    const char *end = memchr(r->p, close, (size_t)(r->end - r->p));
    struct str  name = {r->p, end ? (size_t)(end - r->p) : 0};
    if (!end || !name.n || strchr("0123456789-+", *name.p) || memchr(name.p, ')', name.n))
        return pattern_refuse(r, ERR_FORMAT, "has a group with a malformed name");
    if (r->n_names == PATTERN_GROUPS_MAX)
        return pattern_refuse(r, ERR_LIMIT, "has more than %u groups", PATTERN_GROUPS_MAX);
    r->names[r->n_names++] = (struct group_name){name, r->n_groups + 1};
    r->p = end + 1;
    return capture(r);
}

static unsigned option_of(char c)
{
    switch (c) {
    case 'i':
        return OPTION_FOLD;
    case 'm':
        return OPTION_DOT_ALL;
    case 'x':
        return OPTION_EXTENDED;
    case 'W':
        return OPTION_ASCII_WORD;
    case 'D':
        return OPTION_ASCII_DIGIT;
    case 'S':
        return OPTION_ASCII_SPACE;
    case 'P':
        return OPTION_ASCII_POSIX | OPTION_ASCII_WORD | OPTION_ASCII_DIGIT | OPTION_ASCII_SPACE;
    default:
        return 0;
    }
}

/* After "(?": options with a ')', for the rest of the group around, or with a ':' and a group of their own. */
static struct node *options_group(struct reader *r, bool *rest)
{
    unsigned options = r->options;
    bool     off = false;
    if (pattern_accept(r, ":"))
        return group_body(r, options);
    for (; r->p < r->end && *r->p != ')' && *r->p != ':'; r->p++) {
        unsigned one = option_of(*r->p);
        if (*r->p == '-')
            off = true;
        else if (strchr("yCIL", *r->p) && *r->p)
            return pattern_unsupported(r, "one of the options C, I, L and y");
        else if (!one)
            return pattern_refuse(r, ERR_FORMAT, "has an unknown kind of group or option");
        else
            options = off ? options & ~one : options | one;
    }
    /* A node of its own, of number 0: unlike an assertion in it, it may be repeated. */
    struct node *n = pattern_node(r, NODE_GROUP), *body;
    *rest = !pattern_at(r, ":");
    if (!pattern_accept(r, *rest ? ")" : ":"))
        return pattern_refuse(r, ERR_FORMAT, "has a group without an end");
    body = *rest ? under_options(r, options) : group_body(r, options);
    if (!n || !body)
        return NULL;
    pattern_append(n, body);
    return n;
}

struct node *pattern_group(struct reader *r, bool *rest)
{
    static const struct {
        const char    *opening;
        enum node_kind kind;
    } kinds[] = {{"?=", NODE_LOOK}, {"?!", NODE_LOOK}, {"?<=", NODE_LOOK}, {"?<!", NODE_LOOK}, {"?>", NODE_ATOMIC}};
    static const struct {
        const char *opening, *name;
    } others[] = {
        {"?~", "an absent operator (?~"}, {"?(", "a condition (?("}, {"?{", "a callout (?{"}, {"*", "a callout (*"}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (pattern_accept(r, kinds[i].opening)) {
            char opening[5] = "(";
            return wrapped(r, kinds[i].kind, strcat(opening, kinds[i].opening));
        }
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (pattern_at(r, others[i].opening))
            return pattern_unsupported(r, others[i].name);
    if (pattern_accept(r, "?<"))
        return named_group(r, '>');
    if (pattern_accept(r, "?'"))
        return named_group(r, '\'');
    return pattern_accept(r, "?") ? options_group(r, rest) : capture(r);
}
