/* Expressions: one function per kind of node, dispatched by jinja_eval. Contracts in jinja_run.h. */
#include <math.h>

#include "chat/jinja_run.h"

static struct value eval_items(struct jinja_run *r, struct scope *s, const struct node *n)
{
    size_t       count = 0, i = 0;
    struct list *list;
    for (const struct node *item = n->first; item; item = item->next)
        count++;
    if (!(list = jinja_list(r, count)))
        return value_none();
    for (const struct node *item = n->first; item && !r->status; item = item->next)
        list->v[i++] = jinja_eval(r, s, item);
    return r->status ? value_none() : n->kind == NODE_LIST ? value_list(list) : value_tuple(list);
}

static struct value eval_dict(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct dict *d = jinja_dict(r);
    for (const struct node *key = n->first; key && key->next && !r->status; key = key->next->next) {
        struct value k = jinja_eval(r, s, key);
        jinja_dict_set(r, d, k, jinja_eval(r, s, key->next));
    }
    return value_dict(d);
}

static struct value eval_sign(struct jinja_run *r, struct value v, bool negate)
{
    if (v.type == VALUE_FLOAT)
        return value_float(negate ? -v.u.d : v.u.d);
    if (!value_is_int(v))
        return jinja_fail_type(r, negate ? "bad operand type for unary -" : "bad operand type for unary +", v);
    return jinja_arithmetic(r, negate ? TOKEN_SUB : TOKEN_ADD, value_int(0), v);
}

static struct value eval_concat(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct buf b;
    jinja_buf_init(r, &b);
    for (const struct node *item = n->first; item && !r->status; item = item->next) {
        struct value v = jinja_eval(r, s, item);
        if (r->autoescape) {
            struct str escaped = jinja_escaped(r, v);
            buf_put(&b, escaped.p, escaped.n);
        } else
            jinja_put_str(r, &b, v);
    }
    struct value v = jinja_take(r, &b);
    v.markup = r->autoescape;
    return v;
}

/* a < b < c: each operand is evaluated once, up to the first that is false. */
static struct value eval_compare(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct value left = jinja_eval(r, s, n->a);
    for (const struct node *operand = n->first; operand && !r->status; operand = operand->next) {
        struct value right = jinja_eval(r, s, operand->a);
        if (r->status || !jinja_compare(r, (enum token_type)operand->op, left, right))
            return value_bool(false);
        left = right;
    }
    return value_bool(true);
}

static bool is_negative(struct value v)
{
    return v.type == VALUE_FLOAT ? signbit(v.u.d) && !isnan(v.u.d) : value_is_int(v) && value_number(v) < 0;
}

static struct value eval_binary(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct value a = jinja_eval(r, s, n->a), b = r->status ? value_none() : jinja_eval(r, s, n->b);
    if (r->status)
        return value_none();
    if (n->folded && is_negative(a))
        return eval_sign(r, jinja_arithmetic(r, TOKEN_POW, eval_sign(r, a, true), b), true);
    return jinja_arithmetic(r, (enum token_type)n->op, a, b);
}

static struct value eval_choice(struct jinja_run *r, struct scope *s, const struct node *n)
{
    bool yes = value_truth(jinja_eval(r, s, n->test));
    if (r->status)
        return value_none();
    if (yes)
        return jinja_eval(r, s, n->a);
    return n->b ? jinja_eval(r, s, n->b)
                : jinja_undefined_hint(
                      r, STR("the inline if-expression evaluated to false and no else section was defined."));
}

static struct value eval_item(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct value object = jinja_eval(r, s, n->a), from, to, step;
    if (r->status)
        return value_none();
    if (n->b->kind != NODE_SLICE) {
        struct value index = jinja_eval(r, s, n->b);
        return r->status ? value_none() : jinja_item(r, object, index);
    }
    from = n->b->test ? jinja_eval(r, s, n->b->test) : value_none();
    to = n->b->a ? jinja_eval(r, s, n->b->a) : value_none();
    step = n->b->b ? jinja_eval(r, s, n->b->b) : value_none();
    return r->status ? value_none() : jinja_slice(r, object, from, to, step);
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

static bool add_keyword(struct jinja_run *r, struct jinja_args *out, size_t cap, struct str name, struct value v)
{
    if (!jinja_spend(r, out->n_keywords / 4))
        return false;
    for (size_t i = 0; i < out->n_keywords; i++)
        if (str_eq(out->keywords[i].name, name)) {
            jinja_fail(r, "got multiple values for keyword argument '" STR_FMT "'", STR_ARG(name));
            return false;
        }
    if (out->n_keywords < cap)
        out->keywords[out->n_keywords++] = (struct jinja_keyword){name, v};
    return true;
}

/* The members of **dict. */
static void add_keywords(struct jinja_run *r, struct jinja_args *out, size_t cap, struct value v)
{
    if (v.type != VALUE_DICT) {
        jinja_fail_type(r, "argument after ** must be a mapping", v);
        return;
    }
    struct jinja_keyword *wider = jinja_alloc(r, (cap + v.u.dict->n) * sizeof *wider);
    if (!wider)
        return;
    if (out->n_keywords)
        memcpy(wider, out->keywords, out->n_keywords * sizeof *wider);
    out->keywords = wider;
    for (size_t i = 0; i < v.u.dict->n && jinja_spend(r, 1); i++) {
        if (v.u.dict->v[i].key.type != VALUE_STRING)
            jinja_fail(r, "keywords must be strings");
        else
            add_keyword(r, out, cap + v.u.dict->n, v.u.dict->v[i].key.u.s, v.u.dict->v[i].value);
    }
}

bool jinja_eval_args(struct jinja_run *r, struct scope *s, const struct arg *arg, struct jinja_args *out)
{
    struct builder values = {0};
    struct list   *more;
    size_t         n_keywords = 0;
    *out = (struct jinja_args){0};
    for (const struct arg *a = arg; a; a = a->next)
        n_keywords += a->kind == ARG_KEYWORD;
    if (n_keywords && !(out->keywords = jinja_alloc(r, n_keywords * sizeof *out->keywords)))
        return false;
    for (; arg && !r->status; arg = arg->next) {
        struct value v = jinja_eval(r, s, arg->value);
        if (r->status)
            break;
        if (arg->kind == ARG_POSITIONAL)
            builder_add(r, &values, v);
        else if (arg->kind == ARG_KEYWORD)
            add_keyword(r, out, n_keywords, arg->name, v);
        else if (arg->kind == ARG_DOUBLE_STAR)
            add_keywords(r, out, n_keywords, v);
        else if ((more = jinja_items(r, v)))
            for (size_t i = 0; i < more->n && !r->status; i++)
                builder_add(r, &values, more->v[i]);
    }
    if (values.list) {
        out->v = values.list->v;
        out->n = values.list->n;
    }
    return !r->status;
}

static struct value eval_call(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct jinja_args args;
    struct value      callee = jinja_eval(r, s, n->a);
    if (r->status || !jinja_eval_args(r, s, n->args, &args))
        return value_none();
    return jinja_call_value(r, callee, &args);
}

static struct value eval_row(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct jinja_args args;
    struct value      object = jinja_eval(r, s, n->a);
    if (r->status || !jinja_eval_args(r, s, n->args, &args))
        return value_none();
    if (!n->row)
        return jinja_fail(r, "No %s named '" STR_FMT "'.", n->kind == NODE_FILTER ? "filter" : "test",
                          STR_ARG(n->name));
    return jinja_call_row(r, n->row, object, &args);
}

static struct value eval_logic(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct value a = jinja_eval(r, s, n->a);
    if (r->status || value_truth(a) == (n->kind == NODE_OR))
        return a;
    return jinja_eval(r, s, n->b);
}

static struct value eval_kind(struct jinja_run *r, struct scope *s, const struct node *n)
{
    struct value v;
    switch (n->kind) {
    case NODE_CONST:
        return n->value;
    case NODE_NAME:
        return jinja_lookup(r, s, n);
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_items(r, s, n);
    case NODE_DICT:
        return eval_dict(r, s, n);
    case NODE_NOT:
        return value_bool(!value_truth(jinja_eval(r, s, n->a)));
    case NODE_NEGATE:
    case NODE_PLUS:
        v = jinja_eval(r, s, n->a);
        return r->status ? v : eval_sign(r, v, n->kind == NODE_NEGATE);
    case NODE_BINARY:
        return eval_binary(r, s, n);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(r, s, n);
    case NODE_CONCAT:
        return eval_concat(r, s, n);
    case NODE_COMPARE:
        return eval_compare(r, s, n);
    case NODE_CHOICE:
        return eval_choice(r, s, n);
    case NODE_ATTRIBUTE:
        v = jinja_eval(r, s, n->a);
        return r->status ? v : jinja_attribute(r, v, n->name);
    case NODE_ITEM:
        return eval_item(r, s, n);
    case NODE_CALL:
        return eval_call(r, s, n);
    case NODE_FILTER:
    case NODE_TEST:
        return eval_row(r, s, n);
    default:
        return jinja_fail(r, "a slice can only stand alone in brackets");
    }
}

struct value jinja_eval(struct jinja_run *r, struct scope *s, const struct node *n)
{
    const struct node *at = r->at;
    struct value       v = value_none();
    if (!jinja_enter(r))
        return v;
    r->at = n;
    v = eval_kind(r, s, n);
    r->at = at;
    jinja_leave(r);
    return r->status ? value_none() : v;
}
