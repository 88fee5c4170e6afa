/* Which names may mean a variable of the caller: a pass over the finished tree.
 *
 * Jinja decides per scope, before anything runs, where a name lives. A name that a scope assigns before it reads it is
 * the scope's own from the beginning: where an inner scope reads it earlier than the assignment runs, it is undefined,
 * whatever the caller passed under that name. In every other respect looking scopes up at run time gives the same, so
 * this pass only finds those reads and marks them `hidden`.
 *
 * The names of a scope are collected, statements in order; then it is walked again to mark its reads and to go into the
 * scopes inside.
 */
#include "chat/jinja_names.h"

#define BUCKETS 256
#define DEPTH_MAX 1500 /* deeper expressions fail when they run; their names stay visible */

struct ref {
    struct ref *next;  /* in the bucket */
    struct ref *below; /* the addition before */
    struct str  name;
    bool        hidden;
    bool        outer; /* an outer scope has it */
};

struct table {
    const struct table *outer;
    struct ref         *log; /* the latest addition first */
    struct ref         *bucket[BUCKETS];
};

struct names {
    struct arena *arena;
    bool          failed;
    int           depth;
};

static void collect(struct names *s, struct table *t, const struct node *n);
static void mark(struct names *s, const struct table *t, struct node *n);

static size_t bucket_of(struct str name)
{
    size_t h = name.n;
    for (size_t i = 0; i < name.n; i++)
        h = h * 31 + (unsigned char)name.p[i];
    return h % BUCKETS;
}

static struct ref *find_in(const struct table *t, struct str name)
{
    for (struct ref *r = t->bucket[bucket_of(name)]; r; r = r->next)
        if (str_eq(r->name, name))
            return r;
    return NULL;
}

static struct ref *find(const struct table *t, struct str name)
{
    struct ref *r = NULL;
    for (; t && !r; t = t->outer)
        r = find_in(t, name);
    return r;
}

static void add(struct names *s, struct table *t, struct str name, bool hidden, bool outer)
{
    struct ref **bucket = &t->bucket[bucket_of(name)], *r = arena_alloc(s->arena, sizeof *r);
    if (!r) {
        s->failed = true;
        return;
    }
    *r = (struct ref){.next = *bucket, .below = t->log, .name = name, .hidden = hidden, .outer = outer};
    *bucket = t->log = r;
}

static void load(struct names *s, struct table *t, struct str name)
{
    if (!find(t, name))
        add(s, t, name, false, false);
}

static void store(struct names *s, struct table *t, struct str name)
{
    const struct ref *outer = find_in(t, name) ? NULL : find(t->outer, name);
    if (outer || !find_in(t, name))
        add(s, t, name, outer ? outer->hidden : true, outer != NULL);
}

/* --- collecting ------------------------------------------------------------------------------------------------- */

static void collect_target(struct names *s, struct table *t, const struct node *target)
{
    if (target->kind == NODE_TUPLE)
        for (const struct node *n = target->first; n; n = n->next)
            collect_target(s, t, n);
    else if (target->kind == NODE_ATTRIBUTE)
        load(s, t, target->a->name);
    else
        store(s, t, target->name);
}

static void collect_all(struct names *s, struct table *t, const struct node *first)
{
    for (; first && !s->failed; first = first->next)
        collect(s, t, first);
}

/* What branches add may still be the caller's: they need not run. */
static void collect_if(struct names *s, struct table *t, const struct node *n)
{
    const struct ref *from = t->log;
    for (const struct node *b = n->first; b; b = b->next) {
        collect(s, t, b->test);
        collect_all(s, t, b->body);
    }
    for (struct ref *r = t->log; r != from; r = r->below)
        r->hidden = r->hidden && r->outer;
}

static void collect_args(struct names *s, struct table *t, const struct arg *arg)
{
    for (; arg && !s->failed; arg = arg->next)
        collect(s, t, arg->value);
}

static void collect_expression(struct names *s, struct table *t, const struct node *n)
{
    if (n->kind == NODE_NAME)
        load(s, t, n->name);
    collect(s, t, n->test);
    collect(s, t, n->a);
    collect(s, t, n->b);
    collect_all(s, t, n->first);
    if (n->kind == NODE_CALL || n->kind == NODE_FILTER || n->kind == NODE_TEST)
        collect_args(s, t, n->args);
}

/* What a statement does to the names of the scope it stands in; not what happens in scopes of its own. */
static void collect_kind(struct names *s, struct table *t, const struct node *n)
{
    switch (n->kind) {
    case NODE_IF:
        collect_if(s, t, n);
        break;
    case NODE_SET:
        collect(s, t, n->a);
        collect_target(s, t, n->target);
        break;
    case NODE_SET_BLOCK:
        collect_target(s, t, n->target);
        break;
    case NODE_MACRO:
        store(s, t, n->name);
        break;
    case NODE_FOR:
    case NODE_CALL_BLOCK:
    case NODE_FILTER_BLOCK:
        collect(s, t, n->a);
        break;
    case NODE_WITH:
        for (const struct param *p = n->params; p; p = p->next)
            collect(s, t, p->fallback);
        break;
    case NODE_TEXT:
    case NODE_BLOCK:
    case NODE_SCOPE:
    case NODE_AUTOESCAPE:
        break;
    default:
        collect_expression(s, t, n);
    }
}

static void collect(struct names *s, struct table *t, const struct node *n)
{
    if (!n || s->failed || s->depth == DEPTH_MAX)
        return;
    s->depth++;
    collect_kind(s, t, n);
    s->depth--;
}

/* --- marking ---------------------------------------------------------------------------------------------------- */

static void mark_all(struct names *s, const struct table *t, struct node *first)
{
    for (; first && !s->failed; first = first->next)
        mark(s, t, first);
}

/* A scope of its own: `extra` is an expression that is read in it, too. */
static void mark_scope(struct names *s, struct table *t, struct node *body, struct node *extra)
{
    collect(s, t, extra);
    collect_all(s, t, body);
    mark(s, t, extra);
    mark_all(s, t, body);
}

static void mark_for(struct names *s, const struct table *outer, struct node *n)
{
    struct table t = {.outer = outer};
    mark(s, outer, n->a);
    collect_target(s, &t, n->target);
    mark_scope(s, &t, NULL, n->test);
    t = (struct table){.outer = outer};
    collect_target(s, &t, n->target);
    store(s, &t, STR("loop"));
    mark_scope(s, &t, n->body, NULL);
    t = (struct table){.outer = outer};
    mark_scope(s, &t, n->otherwise, NULL);
}

/* A block sees nothing of the scopes around it but the template's own, through the caller's variables. */
static void mark_block(struct names *s, const struct table *outer, struct node *n)
{
    struct table t = {.outer = n->kind == NODE_BLOCK ? NULL : outer};
    mark_scope(s, &t, n->body, n->a);
}

static void mark_function(struct names *s, const struct table *outer, struct node *n)
{
    static const struct str special[] = {{"caller", 6}, {"varargs", 7}, {"kwargs", 6}};
    struct table            t = {.outer = outer};
    for (const struct param *p = n->params; p; p = p->next)
        store(s, &t, p->name);
    for (int i = 0; i < 3; i++)
        if (n->uses & 1 << i)
            store(s, &t, special[i]);
    for (const struct param *p = n->params; p; p = p->next)
        collect(s, &t, p->fallback);
    collect_all(s, &t, n->body);
    for (struct param *p = n->params; p; p = p->next)
        mark(s, &t, p->fallback);
    mark_all(s, &t, n->body);
}

static void mark_with(struct names *s, const struct table *outer, struct node *n)
{
    struct table t = {.outer = outer};
    for (struct param *p = n->params; p; p = p->next) {
        mark(s, outer, p->fallback);
        collect_target(s, &t, p->target);
    }
    mark_scope(s, &t, n->body, NULL);
}

static void mark_expression(struct names *s, const struct table *t, struct node *n)
{
    const struct ref *r = n->kind == NODE_NAME ? find(t, n->name) : NULL;
    if (r)
        n->hidden = r->hidden;
    mark(s, t, n->test);
    mark(s, t, n->a);
    mark(s, t, n->b);
    mark_all(s, t, n->first);
    if (n->kind == NODE_CALL || n->kind == NODE_FILTER || n->kind == NODE_TEST)
        for (struct arg *arg = n->args; arg && !s->failed; arg = arg->next)
            mark(s, t, arg->value);
}

static void mark_kind(struct names *s, const struct table *t, struct node *n)
{
    switch (n->kind) {
    case NODE_IF:
        mark_all(s, t, n->first);
        break;
    case NODE_BRANCH:
        mark(s, t, n->test);
        mark_all(s, t, n->body);
        break;
    case NODE_SET:
        mark(s, t, n->a);
        break;
    case NODE_FOR:
        mark_for(s, t, n);
        break;
    case NODE_CALL_BLOCK:
        mark(s, t, n->a);
        mark_function(s, t, n);
        break;
    case NODE_MACRO:
        mark_function(s, t, n);
        break;
    case NODE_WITH:
        mark_with(s, t, n);
        break;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
    case NODE_AUTOESCAPE:
    case NODE_SCOPE:
    case NODE_BLOCK:
        mark_block(s, t, n);
        break;
    case NODE_TEXT:
        break;
    default:
        mark_expression(s, t, n);
    }
}

static void mark(struct names *s, const struct table *t, struct node *n)
{
    if (!n || s->failed || s->depth == DEPTH_MAX)
        return;
    s->depth++;
    mark_kind(s, t, n);
    s->depth--;
}

bool jinja_hide_names(struct arena *arena, struct node *body)
{
    struct names s = {.arena = arena};
    struct table root = {.outer = NULL};
    mark_scope(&s, &root, body, NULL);
    return !s.failed;
}
