/* Statements. Contracts in jinja_run.h.
 *
 * Scopes as Jinja has them: the body of a for is a new scope in every iteration, so assignments inside never reach out;
 * if opens none; macros see the scope they were defined in, with its values at the time of the call.
 */
#include "chat/jinja_run.h"

/* --- assignment -------------------------------------------------------------------------------------------------- */

static void assign(struct jinja_run *r, struct scope *s, const struct node *target, struct value v);

static void assign_tuple(struct jinja_run *r, struct scope *s, const struct node *target, struct value v)
{
    struct list *items = jinja_items(r, v);
    size_t       wanted = 0, i = 0;
    for (const struct node *t = target->first; t; t = t->next)
        wanted++;
    if (items && items->n != wanted)
        jinja_fail(r,
                   items->n < wanted ? "not enough values to unpack (expected %zu, got %zu)"
                                     : "too many values to unpack (expected %zu, got %zu)",
                   wanted, items->n);
    for (const struct node *t = target->first; t && !r->status; t = t->next)
        assign(r, s, t, items->v[i++]);
}

static void assign_attribute(struct jinja_run *r, struct scope *s, const struct node *target, struct value v)
{
    struct value object = jinja_lookup(r, s, target->a);
    if (r->status)
        return;
    if (object.type != VALUE_NAMESPACE)
        jinja_fail(r, "cannot assign attribute on non-namespace object");
    else if (jinja_private_name(value_str(target->name)))
        jinja_fail_private(r, value_str(target->name));
    else
        jinja_dict_set(r, object.u.dict, value_str(target->name), v);
}

static void assign(struct jinja_run *r, struct scope *s, const struct node *target, struct value v)
{
    if (r->status)
        return;
    if (target->kind == NODE_TUPLE)
        assign_tuple(r, s, target, v);
    else if (target->kind == NODE_ATTRIBUTE)
        assign_attribute(r, s, target, v);
    else
        jinja_bind(r, s, target->name, v);
}

/* Applies a chain of filters, whose innermost has no operand, to v. */
static struct value filter(struct jinja_run *r, struct scope *s, const struct node *chain, struct value v)
{
    struct jinja_args args;
    if (!chain || !jinja_enter(r))
        return v;
    v = filter(r, s, chain->a, v);
    if (!r->status && !chain->row)
        v = jinja_fail(r, "No filter named '" STR_FMT "'.", STR_ARG(chain->name));
    if (!r->status && jinja_eval_args(r, s, chain->args, &args))
        v = jinja_call_row(r, chain->row, v, &args);
    jinja_leave(r);
    return v;
}

/* --- output
 * -------------------------------------------------------------------------------------------------------------------
 */

static void output(struct jinja_run *r, struct value v)
{
    if (r->status)
        return;
    if (v.type == VALUE_STRING && (v.markup || !r->autoescape))
        jinja_write(r, v.u.s);
    else
        jinja_write(r, r->autoescape ? jinja_escaped(r, v) : jinja_text(r, v));
}

static void exec_output(struct jinja_run *r, struct scope *s, const struct node *n)
{
    for (const struct node *item = n->first; item && !r->status; item = item->next)
        output(r, jinja_eval(r, s, item));
}

/* --- control ----------------------------------------------------------------------------------------------------- */

static enum flow exec_if(struct jinja_run *r, struct scope *s, const struct node *n)
{
    for (const struct node *branch = n->first; branch; branch = branch->next) {
        bool yes = !branch->test || value_truth(jinja_eval(r, s, branch->test));
        if (r->status)
            break;
        if (yes)
            return jinja_exec(r, s, branch->body);
    }
    return FLOW_NEXT;
}

/* The items that pass the loop's own `if`; there the loop variable does not exist yet. */
static struct list *chosen_items(struct jinja_run *r, struct scope *s, const struct node *n, struct list *all)
{
    struct builder chosen = {0};
    bool           tuple = n->target->kind == NODE_TUPLE; /* then the items are what was unpacked */
    if (!n->test || !all)
        return all;
    for (size_t i = 0; i < all->n && !r->status; i++) {
        struct scope *inner = jinja_scope(r, s);
        if (!inner)
            return NULL;
        assign(r, inner, n->target, all->v[i]);
        if (!r->status && value_truth(jinja_eval(r, inner, n->test)) && !r->status)
            builder_add(r, &chosen, tuple ? value_tuple(jinja_items(r, all->v[i])) : all->v[i]);
        jinja_scope_end(r, inner);
    }
    return builder_list(r, &chosen);
}

enum flow jinja_exec_for(struct jinja_run *r, struct scope *s, const struct node *n, struct value items, int depth)
{
    struct list *list = chosen_items(r, s, n, jinja_items(r, items));
    struct loop *loop = list && !r->status ? jinja_alloc(r, sizeof *loop) : NULL;
    enum flow    flow = FLOW_NEXT;
    bool         completed = false;
    if (!loop)
        return flow;
    *loop = (struct loop){.node = n, .scope = s, .items = list, .depth = depth};
    if (n->recursive)
        jinja_scope_keep(s);
    for (; loop->at < list->n && flow != FLOW_BREAK && !r->status; loop->at++) {
        struct scope *inner = jinja_scope(r, s);
        if (!inner)
            break;
        jinja_bind(r, inner, STR("loop"), (struct value){.type = VALUE_LOOP, .u.loop = loop});
        assign(r, inner, n->target, list->v[loop->at]);
        if (!r->status)
            flow = jinja_exec(r, inner, n->body);
        completed |= flow == FLOW_NEXT;
        jinja_scope_end(r, inner);
    }
    if (completed || !n->otherwise || r->status) /* as in Jinja, `else` also follows a loop that broke off at once */
        return FLOW_NEXT;
    struct scope *inner = jinja_scope(r, s);
    return inner ? jinja_exec(r, inner, n->otherwise) : FLOW_NEXT;
}

static enum flow exec_for(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct value items = jinja_eval(r, s, n->a);
    return r->status ? FLOW_NEXT : jinja_exec_for(r, s, n, items, 0);
}

/* --- blocks
 * -------------------------------------------------------------------------------------------------------------------
 */

static enum flow exec_captured(struct jinja_run *r, struct scope *s, const struct node *n)
{
    enum flow     flow = FLOW_NEXT;
    struct scope *inner = jinja_scope(r, s);
    struct value  v = inner ? jinja_capture(r, inner, n->body, &flow) : value_none();
    if (r->status || flow != FLOW_NEXT)
        return flow;
    v = filter(r, n->kind == NODE_SET_BLOCK ? s : inner, n->a, v);
    if (n->kind == NODE_SET_BLOCK)
        assign(r, s, n->target, v);
    else if (v.type != VALUE_STRING) /* the result is written as it is */
        jinja_fail_type(r, "the filters of a block must give a string", v);
    else
        jinja_write(r, v.u.s);
    return flow;
}

static void exec_macro(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct macro *m = jinja_alloc(r, sizeof *m);
    if (!m)
        return;
    *m = (struct macro){.node = n, .scope = s};
    jinja_scope_keep(s);
    jinja_bind(r, s, n->name, (struct value){.type = VALUE_MACRO, .u.macro = m});
}

/* {% call(args) f(...) %}: f with its body as the keyword argument `caller`. */
static void exec_call_block(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct macro     *m = jinja_alloc(r, sizeof *m);
    struct jinja_args args;
    struct value      callee = m ? jinja_eval(r, s, n->a->a) : value_none();
    if (r->status || !jinja_eval_args(r, s, n->a->args, &args))
        return;
    *m = (struct macro){.node = n, .scope = s};
    jinja_scope_keep(s);
    struct jinja_keyword *all = jinja_alloc(r, (args.n_keywords + 1) * sizeof *all);
    if (!all)
        return;
    if (args.n_keywords)
        memcpy(all, args.keywords, args.n_keywords * sizeof *all);
    all[args.n_keywords++] = (struct jinja_keyword){STR("caller"), {.type = VALUE_MACRO, .u.macro = m}};
    args.keywords = all;
    output(r, jinja_call_value(r, callee, &args));
}

static enum flow exec_with(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct scope *inner = jinja_scope(r, s);
    for (const struct param *p = n->params; p && inner && !r->status; p = p->next)
        assign(r, inner, p->target, jinja_eval(r, s, p->fallback));
    return r->status ? FLOW_NEXT : jinja_exec(r, inner, n->body);
}

static enum flow exec_autoescape(struct jinja_run *r, struct scope *s, const struct node *n)
{
    bool          before = r->autoescape;
    struct value  v = jinja_eval(r, s, n->a);
    struct scope *inner = jinja_scope(r, s);
    enum flow     flow = FLOW_NEXT;
    r->autoescape = value_truth(v);
    if (!r->status)
        flow = jinja_exec(r, inner, n->body);
    r->autoescape = before;
    return flow;
}

/* The body in a scope of its own, straight to the output. A block sees the template's top level unless it is `scoped`.
 */
static enum flow exec_scope(struct jinja_run *r, struct scope *outer, const struct node *n)
{
    struct scope *inner = jinja_scope(r, outer);
    return inner ? jinja_exec(r, inner, n->body) : FLOW_NEXT;
}

/* Blocks are compiled by themselves and know nothing of an autoescape around them. */
static enum flow exec_block(struct jinja_run *r, struct scope *outer, const struct node *n)
{
    bool before = r->autoescape;
    r->autoescape = false;
    enum flow flow = exec_scope(r, outer, n);
    r->autoescape = before;
    return flow;
}

static enum flow exec_one(struct jinja_run *r, struct scope *s, const struct node *n)
{
    switch (n->kind) {
    case NODE_TEXT:
        jinja_write(r, n->name);
        return FLOW_NEXT;
    case NODE_OUTPUT:
        exec_output(r, s, n);
        return FLOW_NEXT;
    case NODE_IF:
        return exec_if(r, s, n);
    case NODE_FOR:
        return exec_for(r, s, n);
    case NODE_SET:
        assign(r, s, n->target, jinja_eval(r, s, n->a));
        return FLOW_NEXT;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return exec_captured(r, s, n);
    case NODE_MACRO:
        exec_macro(r, s, n);
        return FLOW_NEXT;
    case NODE_CALL_BLOCK:
        exec_call_block(r, s, n);
        return FLOW_NEXT;
    case NODE_WITH:
        return exec_with(r, s, n);
    case NODE_BLOCK:
        return exec_block(r, n->scoped ? s : r->root, n);
    case NODE_SCOPE:
        return exec_scope(r, s, n);
    case NODE_AUTOESCAPE:
        return exec_autoescape(r, s, n);
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        jinja_fail(r, "no loader for this environment specified");
        return FLOW_NEXT;
    }
}

enum flow jinja_exec(struct jinja_run *r, struct scope *s, const struct node *first)
{
    const struct node *at = r->at;
    enum flow          flow = FLOW_NEXT;
    if (!s || !jinja_enter(r))
        return flow;
    for (const struct node *n = first; n && flow == FLOW_NEXT && jinja_spend(r, 1); n = n->next) {
        r->at = n;
        flow = exec_one(r, s, n);
    }
    r->at = at;
    jinja_leave(r);
    return flow;
}
