/* The reader of a pattern's structure by recursive descent: alternatives, what follows one another, quantifiers. Groups,
 * escapes and classes are read by the files next to this one. Contracts in pattern.h and pattern_int.h. */
#include "text/pattern.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/pattern_int.h"
#include "text/property.h"

#define STRUCTURE_MAX ((size_t)1 << 20)
#define TREE_MAX ((size_t)2816 << 10)
#define QUANTIFIERS_MAX 16 /* on one another: they nest */
#define REPEATS_MAX 65535u /* PCRE2's bound; Oniguruma's is 100000 */

/* --- the reader's tools ------------------------------------------------------------------------------------------- */

void *pattern_refuse(struct reader *r, int code, const char *fmt, ...)
{
    size_t  n = MIN(r->source.n, (size_t)300);
    char    what[200];
    va_list va;
    if (r->status)
        return NULL;
    while (n < r->source.n && n && ((unsigned char)r->source.p[n] & 0xc0) == 0x80)
        n--;
    va_start(va, fmt);
    vsnprintf(what, sizeof what, fmt, va);
    va_end(va);
    r->status = error_set(r->e, code, NULL, "the regular expression '%.*s'%s %s", (int)n, r->source.p,
                          n < r->source.n ? " (cut)" : "", what);
    return NULL;
}

void *pattern_unsupported(struct reader *r, const char *what)
{
    return pattern_refuse(r, ERR_UNSUPPORTED, "uses %s, which is not supported", what);
}

static void *no_memory(struct reader *r)
{
    if (!r->status && r->arena.full)
        return pattern_refuse(r, ERR_LIMIT, "is too complex");
    if (!r->status)
        r->status = error_nomem(r->e, "a regular expression");
    return NULL;
}

struct node *pattern_node(struct reader *r, enum node_kind kind)
{
    struct node *n = r->status ? NULL : arena_calloc(&r->arena, 1, sizeof *n);
    if (!n)
        return no_memory(r);
    n->kind = kind;
    return n;
}

struct node *pattern_text_node(struct reader *r, enum node_kind kind, const char *text)
{
    struct node *n = pattern_node(r, kind);
    if (n && !(n->text = arena_strdup(&r->arena, text, strlen(text))))
        return no_memory(r);
    return n;
}

struct node *pattern_char_node(struct reader *r, uint32_t cp)
{
    struct node *n = pattern_node(r, NODE_CHAR);
    if (n) {
        n->cp = cp;
        n->fold = r->options & OPTION_FOLD;
    }
    return n;
}

void pattern_append(struct node *parent, struct node *child)
{
    struct node *first = child, *last = child;
    if (parent->kind == NODE_LIST && child->kind == NODE_LIST) {
        first = child->child;
        last = child->last;
        if (!first)
            return;
    }
    if (parent->last)
        parent->last->next = first;
    else
        parent->child = first;
    parent->last = last;
}

static bool same_set(const struct charset *a, const struct charset *b)
{
    return a->n == b->n && (!a->n || memcmp(a->v, b->v, a->n * sizeof *a->v) == 0);
}

bool pattern_put_set(struct reader *r, struct charset *s, size_t *number)
{
    struct pattern *out = r->out;
    size_t          i = 0;
    charset_sort(s);
    if (s->failed)
        no_memory(r);
    while (!r->status && i < out->n_sets && !same_set(&out->sets[i], s))
        i++;
    if (i == PATTERN_SETS_MAX)
        pattern_refuse(r, ERR_LIMIT, "has more than %d different characters and classes", PATTERN_SETS_MAX);
    *number = i;
    if (r->status || i < out->n_sets)
        charset_deinit(s);
    else
        out->sets[out->n_sets++] = *s;
    *s = (struct charset){0};
    return !r->status;
}

struct node *pattern_set_node(struct reader *r, struct charset *s)
{
    size_t       number;
    struct node *n = pattern_put_set(r, s, &number) ? pattern_node(r, NODE_SET) : NULL;
    if (n)
        n->set = number;
    return n;
}

bool pattern_at(const struct reader *r, const char *z)
{
    size_t n = strlen(z);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, z, n) == 0;
}

bool pattern_accept(struct reader *r, const char *z)
{
    bool yes = pattern_at(r, z);
    if (yes)
        r->p += strlen(z);
    return yes;
}

/* --- quantifiers -------------------------------------------------------------------------------------------------- */

struct quantifier {
    uint32_t    min, max;
    enum manner manner;
};

/* Digits as a number, which stops growing where it is too great for either engine. */
static uint32_t read_number(struct reader *r)
{
    uint32_t n = 0;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
        n = MIN(n * 10 + (uint32_t)(*r->p - '0'), (uint32_t)1000000);
    return n;
}

/* After a '{': the bounds, or false where this is not the form of a quantifier, and then the place is kept. */
static bool read_interval(struct reader *r, struct quantifier *q, bool *exact)
{
    const char *from = r->p, *at;
    q->min = read_number(r);
    bool low = r->p != from;
    *exact = !pattern_accept(r, ",");
    at = r->p;
    q->max = *exact ? q->min : read_number(r);
    if (!*exact && r->p == at)
        q->max = PATTERN_UNBOUNDED;
    if (!pattern_accept(r, "}") || (!low && (*exact || q->max == PATTERN_UNBOUNDED))) {
        r->p = from;
        return false;
    }
    return true;
}

/* A quantifier, if there is one at this place. */
static bool read_quantifier(struct reader *r, struct quantifier *q)
{
    const char *from = r->p;
    bool        exact = false, interval = pattern_accept(r, "{");
    *q = (struct quantifier){0, PATTERN_UNBOUNDED, GREEDY};
    if (interval) {
        if (!read_interval(r, q, &exact)) {
            r->p = from;
            return false;
        }
    } else if (pattern_accept(r, "?"))
        q->max = 1;
    else if (pattern_accept(r, "+"))
        q->min = 1;
    else if (!pattern_accept(r, "*"))
        return false;
    if (q->min > q->max) {
        *q = (struct quantifier){q->max, q->min, POSSESSIVE};
        return true;
    }
    if (!exact && pattern_accept(r, "?"))
        q->manner = LAZY;
    else if (!interval && pattern_accept(r, "+"))
        q->manner = POSSESSIVE;
    return true;
}

/* Which of ? * + ?? *? +? a quantifier is, or -1. */
static int simple_quantifier(uint32_t min, uint32_t max, enum manner manner)
{
    int kind = min == 0 && max == 1                   ? 0
               : min == 0 && max == PATTERN_UNBOUNDED ? 1
               : min == 1 && max == PATTERN_UNBOUNDED ? 2
                                                      : -1;
    return kind < 0 || manner == POSSESSIVE ? -1 : kind + (manner == LAZY ? 3 : 0);
}

/* Oniguruma joins two of these directly on one another, which spares it many a long search. Row: the inner one, column:
 * the outer one, both in the order ? * + ?? *? +?. Result: k the inner one stays, * + L (*?) q (??) this instead of
 * both, x the inner becomes + and the outer ??, . both stay. */
static const char joined[6][7] = {"k**qL.", "kkkxxk", "**k.xk", "kLLkLL", "kkkkkk", ".*+LLk"};

/* Joins q to the repetition n; false where both must stay. */
static bool join_quantifiers(struct node *n, struct quantifier *q)
{
    int inner = simple_quantifier(n->min, n->max, n->manner), outer = simple_quantifier(q->min, q->max, q->manner);
    if (inner < 0 || outer < 0)
        return false;
    char how = joined[inner][outer];
    if (how == '.' || how == 'k')
        return how == 'k';
    if (how == 'x') {
        *q = (struct quantifier){0, 1, LAZY};
        n->min = 1;
        n->max = PATTERN_UNBOUNDED;
        n->manner = GREEDY;
        return false;
    }
    n->min = how == '+';
    n->max = how == 'q' ? 1 : PATTERN_UNBOUNDED;
    n->manner = how == 'L' || how == 'q' ? LAZY : GREEDY;
    return true;
}

static bool repeatable(const struct node *n)
{
    if (n->kind == NODE_ASSERT || n->kind == NODE_LOOK)
        return false;
    for (const struct node *c = n->kind == NODE_CHOICE ? n->child : NULL; c; c = c->next)
        if (!repeatable(c))
            return false;
    return true;
}

static struct node *repeat(struct reader *r, struct node *n, struct quantifier q)
{
    struct node *out;
    if (q.min > 100000 || (q.max > 100000 && q.max != PATTERN_UNBOUNDED))
        return pattern_refuse(r, ERR_FORMAT, "repeats something more than 100000 times");
    if (q.min > REPEATS_MAX || (q.max > REPEATS_MAX && q.max != PATTERN_UNBOUNDED))
        return pattern_refuse(r, ERR_LIMIT, "repeats something more than %u times", REPEATS_MAX);
    if (!repeatable(n))
        return pattern_refuse(r, ERR_FORMAT, "repeats an assertion");
    if (n->kind == NODE_REPEAT && join_quantifiers(n, &q))
        return n;
    if ((out = pattern_node(r, NODE_REPEAT)) != NULL) {
        pattern_append(out, n);
        out->min = q.min;
        out->max = q.max;
        out->manner = q.manner;
    }
    return out;
}

/* --- the structure ------------------------------------------------------------------------------------------------ */

/* Passes comments and, in the extended form, white space. */
static bool skip_blank(struct reader *r)
{
    for (uint32_t cp; r->p < r->end;) {
        if (pattern_accept(r, "(?#")) {
            while (r->p < r->end && *r->p != ')')
                r->p += *r->p == '\\' && r->p + 1 < r->end ? 2 : 1;
            if (!pattern_accept(r, ")"))
                return pattern_refuse(r, ERR_FORMAT, "has a comment without an end");
            continue;
        }
        int len = utf8_decode(r->p, (size_t)(r->end - r->p), &cp);
        if (!(r->options & OPTION_EXTENDED) || (*r->p != '#' && !(unicode_class(cp) & UNICODE_SPACE)))
            break;
        if (*r->p != '#')
            r->p += len;
        else
            while (r->p < r->end && *r->p++ != '\n')
                ;
    }
    return true;
}

struct node *pattern_line_edge(struct reader *r, const char *before, const char *after)
{
    struct charset s = {0};
    size_t         number;
    char           text[80];
    charset_add(&s, '\n', '\n');
    if (!pattern_put_set(r, &s, &number))
        return NULL;
    snprintf(text, sizeof text, "%s%c%zu;%s", before, PATTERN_SET_MARK, number, after);
    return pattern_text_node(r, NODE_ASSERT, text);
}

static struct node *any_char(struct reader *r)
{
    struct charset s = {0};
    if (!(r->options & OPTION_DOT_ALL))
        charset_add(&s, '\n', '\n');
    charset_sort(&s);
    charset_negate(&s);
    return pattern_set_node(r, &s);
}

static struct node *read_element(struct reader *r, bool *rest)
{
    struct quantifier q;
    uint32_t          cp = 0;
    if (read_quantifier(r, &q))
        return pattern_refuse(r, ERR_FORMAT, "has a quantifier with nothing before it");
    switch (*r->p) {
    case '\\':
        r->p++;
        return pattern_escape(r);
    case '[':
        r->p++;
        return pattern_class(r);
    case '(':
        r->p++;
        return pattern_group(r, rest);
    case '.':
        r->p++;
        return any_char(r);
    case '^':
        r->p++;
        return pattern_line_edge(r, "(?:\\A|(?<=", ")(?!\\z))");
    case '$':
        r->p++;
        return pattern_line_edge(r, "(?=", "|\\z)");
    default:
        r->p += utf8_decode(r->p, (size_t)(r->end - r->p), &cp);
        return pattern_char_node(r, cp);
    }
}

/* What follows one another, up to a '|', a ')' or the end. */
static struct node *read_branch(struct reader *r)
{
    struct node      *list = pattern_node(r, NODE_LIST);
    struct quantifier q;
    bool              rest = false;
    while (list && !rest && skip_blank(r) && r->p < r->end && *r->p != '|' && *r->p != ')') {
        struct node *n = read_element(r, &rest);
        for (int i = 0; n && !rest && skip_blank(r) && read_quantifier(r, &q); i++)
            n = i < QUANTIFIERS_MAX ? repeat(r, n, q)
                                    : pattern_refuse(r, ERR_LIMIT, "has too many quantifiers in a row");
        if (n)
            pattern_append(list, n);
        if (r->status)
            return NULL;
    }
    if (r->status)
        return NULL;
    return list->child && !list->child->next ? list->child : list;
}

struct node *pattern_alternatives(struct reader *r)
{
    struct node *first = read_branch(r), *choice, *n;
    if (!first || !pattern_at(r, "|"))
        return first;
    if (!(choice = pattern_node(r, NODE_CHOICE)))
        return NULL;
    pattern_append(choice, first);
    while (pattern_accept(r, "|")) {
        if (!(n = read_branch(r)))
            return NULL;
        pattern_append(choice, n);
    }
    return choice;
}

static void check_references(struct reader *r)
{
    if (r->by_number && r->n_names)
        pattern_refuse(r, ERR_FORMAT, "refers to a group by number although groups have names");
    for (unsigned g = r->n_groups + 1; g <= PATTERN_GROUPS_MAX; g++)
        if (r->wanted[g])
            pattern_refuse(r, ERR_FORMAT, "refers to a group %u that it does not have", g);
}

int pattern_parse(struct pattern *p, struct str source, struct error *e)
{
    struct reader r = {.out = p, .source = source, .p = source.p, .end = source.p + source.n, .e = e};
    struct node  *tree = NULL;
    p->n_sets = 0;
    p->compares = p->atomic = false;
    buf_init(&p->structure, STRUCTURE_MAX);
    arena_init(&r.arena, TREE_MAX);
    if (source.n > PATTERN_SOURCE_MAX)
        pattern_refuse(&r, ERR_LIMIT, "is longer than %zu bytes", PATTERN_SOURCE_MAX);
    else if (utf8_valid_prefix(source.p, source.n) != source.n)
        pattern_refuse(&r, ERR_FORMAT, "is not valid UTF-8");
    else
        tree = pattern_alternatives(&r);
    if (tree && r.p < r.end)
        pattern_refuse(&r, ERR_FORMAT, "closes a group that is not open");
    check_references(&r);
    if (!r.status)
        pattern_write(&r, tree);
    if (!r.status && p->structure.failed)
        p->structure.full ? pattern_refuse(&r, ERR_LIMIT, "is too complex") : no_memory(&r);
    arena_deinit(&r.arena);
    return r.status;
}

void pattern_deinit(struct pattern *p)
{
    for (size_t i = 0; i < p->n_sets; i++)
        charset_deinit(&p->sets[i]);
    p->n_sets = 0;
    buf_deinit(&p->structure);
}
