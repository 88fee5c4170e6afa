/* Calls: arguments bound to a row's parameters, macros, and everything else that can be called. Contracts in
 * jinja_run.h.
 */
#include "base/num.h"
#include "chat/jinja_run.h"

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* The next word of "a b? c?"; false at the end. */
static bool next_param(const char **at, struct str *name, bool *optional)
{
    const char *p = *at + strspn(*at, " ");
    *name = (struct str){p, strcspn(p, " ?")};
    *optional = p[name->n] == '?';
    *at = p + name->n + *optional;
    return name->n > 0;
}

static int param_index(const char *params, struct str wanted)
{
    struct str name;
    bool       optional;
    for (int i = 0; next_param(&params, &name, &optional); i++)
        if (str_eq(name, wanted))
            return i;
    return -1;
}

/* Fills c->arg from c->args as Python binds a call. */
static bool bind_params(struct jinja_run *r, struct jinja_call *c)
{
    const char *params = c->row->params + (*c->row->params == '/');
    struct str  name;
    bool        optional;
    size_t      n = 0;
    if (params != c->row->params && c->args->n_keywords) {
        jinja_fail(r, "%s() takes no keyword arguments", c->row->name);
        return false;
    }
    for (size_t i = 0; i < c->args->n_keywords; i++) {
        const struct jinja_keyword *k = &c->args->keywords[i];
        int                         at = param_index(params, k->name);
        if (at < 0 || (size_t)at < c->args->n) {
            jinja_fail(r,
                       at < 0 ? "%s() got an unexpected keyword argument '" STR_FMT "'"
                              : "%s() got multiple values for argument '" STR_FMT "'",
                       c->row->name, STR_ARG(k->name));
            return false;
        }
        c->arg[at] = k->value;
    }
    for (; next_param(&params, &name, &optional); n++) {
        if (n < c->args->n)
            c->arg[n] = c->args->v[n];
        else if (c->arg[n].type == VALUE_ABSENT && !optional) {
            jinja_fail(r, "%s() missing 1 required positional argument: '" STR_FMT "'", c->row->name, STR_ARG(name));
            return false;
        }
    }
    if (c->args->n > n) {
        jinja_fail(r, "%s() takes %zu positional arguments but %zu were given", c->row->name, n, c->args->n);
        return false;
    }
    return true;
}

/* The arguments are kept: they are bound now and used when the iterator is walked. */
static struct value lazy_iterator(struct jinja_run *r, struct value source, const struct jinja_call *c)
{
    struct value       v = jinja_iterator(r, NULL);
    struct jinja_call *make = jinja_alloc(r, sizeof *make);
    struct jinja_args *args = jinja_alloc(r, sizeof *args);
    if (r->status)
        return value_none();
    *args = *c->args;
    *make = *c;
    make->args = args;
    v.u.iterator->make = make;
    v.u.iterator->source = source;
    return v;
}

struct value jinja_call_row(struct jinja_run *r, const struct jinja_row *row, struct value self,
                            const struct jinja_args *args)
{
    struct jinja_call c = {.row = row, .args = args};
    struct value      v = value_none();
    if (r->status || !jinja_enter(r))
        return v;
    if (str_is(str_of(row->params), "*") || bind_params(r, &c))
        v = row->lazy ? lazy_iterator(r, self, &c) : row->fn(r, self, &c);
    jinja_leave(r);
    return r->status ? value_none() : v;
}

int64_t jinja_arg_int(struct jinja_run *r, struct value v, int64_t fallback)
{
    if (v.type == VALUE_ABSENT || v.type == VALUE_NONE)
        return fallback;
    if (!value_is_integral(v)) {
        jinja_fail_type(r, "expected an integer", v);
        return fallback;
    }
    return MIN(MAX(value_integral(v), -ARG_INT_MAX), ARG_INT_MAX);
}

struct str jinja_arg_str(struct jinja_run *r, struct value v, struct str fallback)
{
    if (v.type == VALUE_ABSENT)
        return fallback;
    if (v.type != VALUE_STRING) {
        jinja_fail_type(r, "expected a string", v);
        return fallback;
    }
    return v.u.s;
}

/* --- macros ------------------------------------------------------------------------------------------------------ */

static const struct jinja_keyword *keyword(const struct jinja_args *args, struct str name)
{
    for (size_t i = 0; i < args->n_keywords; i++)
        if (str_eq(args->keywords[i].name, name))
            return &args->keywords[i];
    return NULL;
}

static struct value missing_param(struct jinja_run *r, struct str name)
{
    struct buf b;
    jinja_buf_init(r, &b);
    buf_printf(&b, "parameter '" STR_FMT "' was not provided", STR_ARG(name));
    return jinja_undefined_hint(r, jinja_take(r, &b).u.s);
}

/* Binds the parameters in order, so that a default may use those before it. Returns how many positional ones were used.
 */
static size_t bind_macro_params(struct jinja_run *r, struct macro *m, struct scope *s, const struct jinja_args *args)
{
    size_t n = 0;
    for (const struct param *p = m->node->params; p && jinja_spend(r, args->n_keywords / 4); p = p->next) {
        const struct jinja_keyword *k = keyword(args, p->name);
        struct value                v;
        if (n < args->n)
            v = args->v[n++];
        else if (k)
            v = k->value;
        else
            v = p->fallback ? jinja_eval(r, s, p->fallback) : missing_param(r, p->name);
        jinja_bind(r, s, p->name, v);
    }
    return n;
}

/* Whether a parameter behind the first `used` ones has the name. */
static bool is_param(struct jinja_run *r, const struct node *n, struct str name, size_t used)
{
    size_t seen = 0;
    bool   found = false;
    for (const struct param *p = n->params; p && !found; p = p->next)
        found = seen++ >= used && str_eq(p->name, name);
    return jinja_spend(r, seen / 4) && found;
}

/* What no parameter took: caller, varargs, kwargs where the body mentions them, else a fault. */
static void bind_macro_rest(struct jinja_run *r, struct macro *m, struct scope *s, const struct jinja_args *args,
                            size_t used)
{
    const struct node *n = m->node;
    struct builder     rest = {0};
    struct dict       *named = jinja_dict(r);
    struct value       caller = {.type = VALUE_ABSENT};
    for (size_t i = used; i < args->n; i++)
        builder_add(r, &rest, args->v[i]);
    for (size_t i = 0; i < args->n_keywords && !r->status; i++) {
        const struct jinja_keyword *k = &args->keywords[i];
        if (is_param(r, n, k->name, used)) /* a name given twice is one too many, for kwargs */
            continue;
        if (str_is(k->name, "caller") && n->uses & USES_CALLER)
            caller = k->value;
        else if (n->uses & USES_KWARGS)
            jinja_dict_set(r, named, value_str(k->name), k->value);
        else
            jinja_fail(r, "macro '" STR_FMT "' takes no keyword argument '" STR_FMT "'", STR_ARG(n->name),
                       STR_ARG(k->name));
    }
    if (n->uses & USES_CALLER && !is_param(r, n, STR("caller"), 0))
        jinja_bind(r, s, STR("caller"),
                   caller.type != VALUE_ABSENT ? caller : jinja_undefined_hint(r, STR("No caller defined")));
    if (n->uses & USES_KWARGS)
        jinja_bind(r, s, STR("kwargs"), value_dict(named));
    if (n->uses & USES_VARARGS)
        jinja_bind(r, s, STR("varargs"), value_tuple(builder_list(r, &rest)));
    else if (rest.list)
        jinja_fail(r, "macro '" STR_FMT "' takes not more than %zu argument(s)", STR_ARG(n->name), used);
}

struct value jinja_call_macro(struct jinja_run *r, struct macro *m, const struct jinja_args *args)
{
    struct scope *s = jinja_scope(r, m->scope);
    enum flow     flow;
    if (!s)
        return value_none();
    size_t used = bind_macro_params(r, m, s, args);
    bind_macro_rest(r, m, s, args, used);
    struct value v = r->status ? value_none() : jinja_capture(r, s, m->node->body, &flow);
    jinja_scope_end(r, s);
    return v;
}

/* --- everything that can be called ------------------------------------------------------------------------------- */

bool jinja_callable(struct value v)
{
    return v.type == VALUE_FUNCTION || v.type == VALUE_MACRO || v.type == VALUE_BLOCK || v.type == VALUE_LOOP ||
           v.type == VALUE_JOINER || v.type == VALUE_UNDEFINED;
}

/* loop(items) inside a recursive loop: its output for other items. */
static struct value call_loop(struct jinja_run *r, struct loop *l, const struct jinja_args *args)
{
    struct capture c;
    if (!l->node->recursive)
        return jinja_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_keywords)
        return jinja_fail(r, "loop() takes one argument");
    jinja_capture_begin(r, &c);
    jinja_exec_for(r, l->scope, l->node, args->v[0], l->depth + 1);
    return jinja_capture_end(r, &c);
}

static struct value call_joiner(struct jinja_run *r, struct joiner *j, const struct jinja_args *args)
{
    if (args->n || args->n_keywords)
        return jinja_fail(r, "a joiner takes no arguments");
    struct value v = j->used ? j->separator : value_str(STR(""));
    j->used = true;
    return v;
}

struct value jinja_call_value(struct jinja_run *r, struct value callee, const struct jinja_args *args)
{
    struct value v = value_none();
    enum flow    flow;
    if (r->status || !jinja_enter(r))
        return v;
    switch (callee.type) {
    case VALUE_FUNCTION:
        v = jinja_call_row(r, callee.u.function->row, callee.u.function->self, args);
        break;
    case VALUE_MACRO:
        v = jinja_call_macro(r, callee.u.macro, args);
        break;
    case VALUE_BLOCK:
        v = jinja_capture(r, jinja_scope(r, r->root), callee.u.block->body, &flow);
        break;
    case VALUE_LOOP:
        v = call_loop(r, callee.u.loop, args);
        break;
    case VALUE_JOINER:
        v = call_joiner(r, callee.u.joiner, args);
        break;
    case VALUE_UNDEFINED:
        v = jinja_fail_undefined(r, callee);
        break;
    default:
        v = jinja_fail(r, "'%s' object is not callable", value_type_name(callee.type));
    }
    jinja_leave(r);
    return v;
}
